package ops

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/framework"
)

// serving is a handler over a Snapshot that the test makes up.
type serving struct {
	t *testing.T
	h http.Handler
	s framework.Snapshot
}

func serve(t *testing.T, c Config) *serving {
	t.Helper()
	v := &serving{t: t, s: framework.Snapshot{AppID: "words", Workers: []framework.WorkerStatus{{State: framework.Starting}}}}
	h, err := newHandler(c, func() framework.Snapshot { return v.s })
	if err != nil {
		t.Fatal(err)
	}
	v.h = h
	return v
}

func (v *serving) get(path string) *httptest.ResponseRecorder {
	v.t.Helper()
	w := httptest.NewRecorder()
	v.h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

// reasons asks a probe and returns why not, each as "reason worker task".
func (v *serving) reasons(path string) []string {
	v.t.Helper()
	w := v.get(path)
	var r Report
	if err := json.Unmarshal(w.Body.Bytes(), &r); err != nil {
		v.t.Fatalf("%s answers %q: %v", path, w.Body, err)
	}
	if ok := w.Code == http.StatusOK; ok != (r.Status == "ok") || ok != (len(r.Reasons) == 0) || !ok && w.Code != http.StatusServiceUnavailable {
		v.t.Errorf("%s answers %d with %+v", path, w.Code, r)
	}
	if r.App != "words" || w.Header().Get("Content-Type") != "application/json" || w.Header().Get("Cache-Control") != "no-store" {
		v.t.Errorf("%s answers for %q with the headers %v", path, r.App, w.Header())
	}
	var out []string
	for _, why := range r.Reasons {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %d %s", why.Reason, why.Worker, why.Task)))
	}
	return out
}

// expect holds the three probes to what they should say, in the order livez, readyz, startupz.
func (v *serving) expect(what string, live, ready, started []string) {
	v.t.Helper()
	for i, path := range []string{"/livez", "/readyz", "/startupz"} {
		if got, want := v.reasons(path), [][]string{live, ready, started}[i]; !slices.Equal(got, want) {
			v.t.Errorf("%s: %s says %q, want %q", what, path, got, want)
		}
	}
}

// An app from its start to its end, as the probes see it.
func TestProbes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Config{})
		now := time.Now()
		worker := func(i int, state framework.WorkerState, err error) framework.WorkerStatus {
			return framework.WorkerStatus{ID: i, State: state, Since: time.Now(), Err: err}
		}
		v.expect("before Run", nil, []string{"starting 0"}, []string{"starting 0"})

		another := fmt.Errorf("%w (fingerprint 12)", framework.ErrAnotherTopology)
		v.s.Workers = []framework.WorkerStatus{worker(0, framework.Joining, nil), worker(1, framework.Joining, another)}
		v.expect("joining", nil, []string{"joining 0", "another-topology 1"}, []string{"joining 0", "another-topology 1"})

		v.s.Workers = []framework.WorkerStatus{worker(0, framework.Restoring, nil), worker(1, framework.Running, nil)}
		v.s.Restoring = []framework.RestoreStatus{
			{ID: "0_1", Worker: 0, Attempt: 2, Since: now, Err: errors.New("no broker"), Stores: []framework.StoreProgress{
				{Store: "counts", Topic: "words-counts-changelog", Partition: 1, Offset: 40, End: 100, Records: 40, Waiting: true},
			}},
			{ID: "1_0", Worker: 0, Attempt: 1, Since: now},
		}
		v.expect("restoring", nil, []string{"restoring 0 0_1", "restoring 0 1_0"}, nil)
		want := `{"status":"unavailable","app":"words","reasons":[` +
			`{"worker":0,"reason":"restoring","since":"2000-01-01T00:00:00Z","task":"0_1","attempt":2,` +
			`"stores":[{"store":"counts","topic":"words-counts-changelog","partition":1,"offset":40,"end":100,"waiting":true}],"error":"no broker"},` +
			`{"worker":0,"reason":"restoring","since":"2000-01-01T00:00:00Z","task":"1_0","attempt":1}]}`
		if diff := cmp.Diff(want, strings.TrimSpace(v.get("/readyz").Body.String())); diff != "" {
			t.Errorf("readyz (-want +got):\n%s", diff)
		}

		time.Sleep(59 * time.Second) // in a bubble
		v.s.Restoring[0].Stores[0].Records = 41
		v.expect("slow restore", nil, []string{"restoring 0 0_1", "restoring 0 1_0"}, nil)
		time.Sleep(59 * time.Second) // in a bubble
		v.expect("slower restore", nil, []string{"restoring 0 0_1", "restoring 0 1_0"}, nil)
		v.s.Restoring[0].Stores[0].Records = 3 // another try
		time.Sleep(time.Second)                // in a bubble
		v.expect("no progress", nil, []string{"restoring 0 0_1", "restoring 0 1_0"}, []string{"restoring 0 0_1", "restoring 0 1_0"})

		v.s.Restoring, v.s.Workers[0] = nil, worker(0, framework.Running, nil)
		v.expect("running", nil, nil, nil)

		v.s.Workers[0] = worker(0, framework.Joining, nil)
		v.expect("a rebalance later", nil, []string{"joining 0"}, nil)

		v.s.Workers[0] = worker(0, framework.Running, errors.New("broker is away"))
		v.s.Workers[0].FailingSince, v.s.Workers[0].ErrAt = time.Now(), time.Now()
		v.expect("an error just now", nil, nil, nil)
		time.Sleep(29 * time.Second) // in a bubble
		v.s.Workers[0].ErrAt = time.Now()
		v.expect("errors for 29 s", nil, nil, nil)
		time.Sleep(time.Second) // in a bubble
		v.expect("errors for 30 s", nil, []string{"failing 0"}, nil)
		time.Sleep(29 * time.Second) // in a bubble
		v.expect("the last 30 s ago", nil, nil, nil)

		v.s.Workers[0].FailingSince = time.Time{}
		v.s.Workers[1].Stall = &framework.Stall{Worker: 1, Doing: "step", Task: "0_3", Since: time.Now()}
		v.expect("stuck", []string{"stalled 1 0_3"}, []string{"stalled 1 0_3"}, nil)
		v.s.Workers[1].Stall = nil
		v.expect("and on", nil, nil, nil)

		v.s.Workers = []framework.WorkerStatus{worker(0, framework.Stopped, nil), worker(1, framework.Running, nil)}
		v.expect("stopping", nil, []string{"stopped 0"}, nil)
	})
}

// The handler takes no other methods and no other paths.
func TestOnlyWhatIsThere(t *testing.T) {
	t.Parallel()
	v := serve(t, Config{})
	for _, path := range []string{"/", "/metrics/", "/debug/pprof/", "/readyz/x"} {
		if w := v.get(path); w.Code != http.StatusNotFound {
			t.Errorf("GET %s: %d, want 404", path, w.Code)
		}
	}
	for _, path := range []string{"/metrics", "/livez", "/readyz", "/startupz"} {
		w := httptest.NewRecorder()
		v.h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader("x")))
		if w.Code != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: %d, want 405", path, w.Code)
		}
		w = httptest.NewRecorder()
		v.h.ServeHTTP(w, httptest.NewRequest(http.MethodHead, path, nil))
		if w.Code == http.StatusMethodNotAllowed {
			t.Errorf("HEAD %s: %d", path, w.Code)
		}
	}
}
