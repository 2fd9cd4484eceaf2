//go:build synctests

package simrun_test

import (
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headrace/headrace/internal/simrun"
	"github.com/headrace/headrace/internal/wiretap"
)

const (
	anyKey  = int16(-1)
	produce = int16(kmsg.Produce)
	fetch   = int16(kmsg.Fetch)
	offsets = int16(kmsg.TxnOffsetCommit)
	endTxn  = int16(kmsg.EndTxn)
)

// keyOf is the number of a request by its name in traces.
func keyOf(t *testing.T, name string) int16 {
	t.Helper()
	if name == "" {
		return anyKey
	}
	for k := range int16(kmsg.MaxKey) + 1 {
		if kmsg.NameForKey(k) == name {
			return k
		}
	}
	t.Fatalf("no request is called %q", name)
	return 0
}

// errorOf is Kafka's error by its name in traces.
func errorOf(t *testing.T, name string) *kerr.Error {
	t.Helper()
	for code := int16(-1); code < 200; code++ {
		if e := kerr.TypedErrorForCode(code); e != nil && e.Message == name {
			return e
		}
	}
	t.Fatalf("no error is called %q", name)
	return nil
}

// rule is what befalls the frames of a member.
type rule struct {
	do       string
	key      int16
	response bool // the answers, and not the requests
	both     bool
	until    time.Time
	delay    time.Duration
	left     int // how many more, if it is about a number of them
}

// rules are those of a member, over all its lives.
type rules struct {
	met *met

	mu  sync.Mutex
	all []*rule
}

func (r *rules) add(to *rule) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, to)
}

// end ends them all. Frames that wait go on.
func (r *rules) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = nil
}

// find takes those that a frame falls under.
func (r *rules) find(f wiretap.Frame, response bool) []rule {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []rule
	now := time.Now()
	for _, x := range r.all {
		switch {
		case x.key != anyKey && x.key != f.Key, !x.both && x.response != response:
			continue
		case x.do == simrun.Garble || x.do == simrun.Forge:
			if x.left == 0 {
				continue
			}
			x.left--
		case !now.Before(x.until):
			continue
		}
		out = append(out, *x)
	}
	return out
}

// pass lets a frame through, late, changed, or not at all.
func (r *rules) pass(f wiretap.Frame, response bool) bool {
	for _, x := range r.find(f, response) {
		switch x.do {
		case simrun.Cut:
			r.met.add(simrun.CutConnection)
			return false
		case simrun.Stall:
			from := time.Now()
			heard := r.stall(f, x.until)
			if time.Since(from) > simrun.SessionTimeout {
				r.met.add(simrun.LongStall)
			}
			if !heard {
				return false
			}
		case simrun.Slow:
			f.Stall(x.delay)
		case simrun.Forge:
			r.met.add(simrun.WrongAnswer)
			f.SetError(kerr.UnknownServerError.Code)
		case simrun.Garble:
			r.met.add(simrun.WrongAnswer)
			for i := 4; i < len(f.Bytes); i++ { // behind the correlation id
				f.Bytes[i] = 0xff
			}
		}
	}
	return true
}

// stall waits in steps, so that it ends with its rule, and says whether anybody still waits for the frame.
func (r *rules) stall(f wiretap.Frame, until time.Time) bool {
	for {
		left := time.Until(until)
		r.mu.Lock()
		ended := len(r.all) == 0
		r.mu.Unlock()
		if left <= 0 || ended {
			return true
		}
		step, from := min(left, 500*time.Millisecond), time.Now()
		if f.Stall(step); time.Since(from) < step {
			return false // the client has given the connection up
		}
	}
}
