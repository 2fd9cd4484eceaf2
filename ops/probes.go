package ops

import (
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/headrace/headrace/framework"
)

// failingAfter is for how long a worker may meet errors before the app is not ready. An error that was the last is over after the same
// time.
const failingAfter = 30 * time.Second

// restorePatience is for how long a restore may stand still before the app does not count as starting any more.
const restorePatience = time.Minute

// Report is what the probes answer.
type Report struct {
	// Status is ok or unavailable, as the HTTP status 200 or 503.
	Status string `json:"status"`
	App    string `json:"app"`
	// Instance is the name of the process. It is empty before Run has begun.
	Instance string   `json:"instance,omitempty"`
	Reasons  []Reason `json:"reasons,omitempty"`
}

// Reason is one thing that keeps an app from being what was asked for.
type Reason struct {
	Worker int `json:"worker"`
	// Reason is starting, joining, another-topology, restoring, stopped, stalled, failing.
	Reason string `json:"reason"`
	// Since is when it began.
	Since time.Time `json:"since,omitzero"`
	// Task is the task that is restored, or in whose step the worker is stuck.
	Task string `json:"task,omitempty"`
	// Doing is what a worker is stuck in.
	Doing string `json:"doing,omitempty"`
	// Attempt is the number of the try to restore, and Stores are how far it is.
	Attempt int     `json:"attempt,omitempty"`
	Stores  []Store `json:"stores,omitempty"`
	// Error is what was last met.
	Error string `json:"error,omitempty"`
}

// Store is how far the restore of a store is.
type Store struct {
	Store     string `json:"store"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	End       int64  `json:"end"`
	// Waiting says that somebody's open transaction keeps the rest from being read.
	Waiting bool `json:"waiting,omitempty"`
}

// stalled says what is stuck.
func stalled(s *framework.Snapshot) []Reason {
	var out []Reason
	for i := range s.Workers {
		if st := s.Workers[i].Stall; st != nil {
			out = append(out, Reason{Worker: st.Worker, Reason: "stalled", Since: st.Since, Task: st.Task, Doing: st.Doing})
		}
	}
	return out
}

// isFailing says whether a worker has met errors for too long, and still does.
func isFailing(w *framework.WorkerStatus, now time.Time) bool {
	return !w.FailingSince.IsZero() && now.Sub(w.FailingSince) >= failingAfter && now.Sub(w.ErrAt) < failingAfter
}

// unready says what keeps the app from being ready.
func unready(s *framework.Snapshot, now time.Time) []Reason {
	out := stalled(s)
	for i := range s.Workers {
		w := &s.Workers[i]
		r := Reason{Worker: w.ID, Reason: string(w.State), Since: w.Since}
		if w.Err != nil && (w.State != framework.Running || isFailing(w, now)) {
			r.Error = w.Err.Error()
		}
		switch {
		case w.State == framework.Joining && errors.Is(w.Err, framework.ErrAnotherTopology):
			r.Reason = "another-topology"
		case w.State == framework.Restoring && restoring(&out, s, w.ID):
			continue
		case w.State == framework.Running && isFailing(w, now):
			r.Reason, r.Since = "failing", w.FailingSince
		case w.State == framework.Running:
			continue
		}
		out = append(out, r)
	}
	return out
}

// restoring adds what a worker restores, and says whether there was anything.
func restoring(out *[]Reason, s *framework.Snapshot, worker int) bool {
	any := false
	for i := range s.Restoring {
		t := &s.Restoring[i]
		if t.Worker != worker {
			continue
		}
		any = true
		r := Reason{Worker: worker, Reason: string(framework.Restoring), Since: t.Since, Task: t.ID, Attempt: t.Attempt}
		if t.Err != nil {
			r.Error = t.Err.Error()
		}
		for _, st := range t.Stores {
			r.Stores = append(r.Stores, Store{st.Store, st.Topic, st.Partition, st.Offset, st.End, st.Waiting})
		}
		*out = append(*out, r)
	}
	return any
}

// startup remembers whether the app has been up, and how far its restores were when somebody asked before.
type startup struct {
	mu    sync.Mutex
	done  bool
	best  int64 // records restored, and tasks made
	moved time.Time
}

// pending says what keeps the app from counting as started.
func (u *startup) pending(s *framework.Snapshot, now time.Time) []Reason {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.done {
		return nil
	}
	var missing []Reason
	onlyRestores := true
	for _, r := range unready(s, now) {
		switch r.Reason {
		case "stalled", "failing": // it may be up all the same
			continue
		case string(framework.Restoring):
		default:
			onlyRestores = false
		}
		missing = append(missing, r)
	}
	progress := s.Counters.RecordsRestored + s.Counters.TasksBuilt
	for i := range s.Restoring {
		for _, st := range s.Restoring[i].Stores {
			progress += st.Records
		}
	}
	// A try that fails begins anew: only what is further than ever counts.
	if !onlyRestores || progress > u.best || u.moved.IsZero() {
		u.best, u.moved = max(u.best, progress), now
	}
	switch {
	case len(missing) == 0:
		u.done = true
		return nil
	case onlyRestores && now.Sub(u.moved) < restorePatience:
		return nil
	}
	return missing
}

// probe answers with the reasons that find finds.
func probe(snapshot func() framework.Snapshot, find func(*framework.Snapshot, time.Time) []Reason) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		s := snapshot()
		report, status := Report{Status: "ok", App: s.AppID, Instance: s.Instance, Reasons: find(&s, time.Now())}, http.StatusOK
		if len(report.Reasons) > 0 {
			report.Status, status = "unavailable", http.StatusServiceUnavailable
		}
		body, err := json.Marshal(report)
		if err != nil {
			http.Error(w, "ops: encode the report: "+err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write(append(body, '\n')) // whoever asked has gone
	}
}
