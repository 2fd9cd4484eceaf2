package topologytest

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/headrace/headrace/internal/engine"
	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/internal/wire"
	"github.com/headrace/headrace/topology"
)

// Driver runs one topology. It belongs to one goroutine.
type Driver struct {
	tb     testing.TB
	trying int
	plan   *graph.Plan
	manual bool
	now    int64

	topics map[topicName]*topicLog
	subs   []*sub
	// tasks are the running ones. There are none at the start and after a crash or an error: the next call that needs them makes
	// them from what is committed.
	tasks    []*task
	sequence uint64 // of transactions
	counts   [graph.NumReasons]int64
}

// Option changes how a Driver works.
type Option func(*options)

type options struct {
	partitions map[string]int
	all        int
	manual     bool
	policy     topology.ErrorPolicy
	start      time.Time
}

// Partitions gives every topic n partitions; the default is 1. Repartition topics follow, as they do in an application.
func Partitions(n int) Option { return func(o *options) { o.all = n } }

// TopicPartitions gives one topic n partitions.
func TopicPartitions(topic string, n int) Option {
	return func(o *options) { o.partitions[topic] = n }
}

// Manual makes Pipe and Advance process nothing: the test calls Step, Run, Commit and Crash.
func Manual() Option { return func(o *options) { o.manual = true } }

// OnError is what the application says of records that cannot be processed. The default is that they fail the test.
func OnError(p topology.ErrorPolicy) Option { return func(o *options) { o.policy = p } }

// StartAt is the wall time at the start. The default is 2020-01-01 00:00 UTC.
func StartAt(t time.Time) Option { return func(o *options) { o.start = t } }

// New returns a driver for the topology; what goes wrong fails the test. In an Example, which has no testing.TB, tb is nil: what
// goes wrong panics.
func New(tb testing.TB, top *topology.Topology, opts ...Option) *Driver {
	if tb != nil {
		tb.Helper()
	}
	d, err := Open(top, opts...)
	if err != nil {
		stop(tb, err)
	}
	d.tb = tb
	return d
}

// Build calls build, which may be the Build of a Builder, and fails the test if that fails. tb may be nil, as in New.
func Build(tb testing.TB, build func() (*topology.Topology, error)) *topology.Topology {
	if tb != nil {
		tb.Helper()
	}
	top, err := build()
	if err != nil {
		stop(tb, err)
	}
	return top
}

// Open is New for a test that wants to see why a topology does not start: topics that must have the same number of partitions and
// have not, a processor whose Init fails. What goes wrong later panics, outside of Try.
func Open(top *topology.Topology, opts ...Option) (*Driver, error) {
	o := options{partitions: map[string]int{}, all: 1, start: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)}
	for _, opt := range opts {
		opt(&o)
	}
	if top == nil {
		return nil, errors.New("topologytest: the topology is nil; did Build fail?")
	}
	d := &Driver{plan: top.Plan().WithPolicy(o.policy.Compiled()), manual: o.manual, now: o.start.UnixMilli(), topics: map[topicName]*topicLog{}}
	if err := d.layout(o); err != nil {
		return nil, err
	}
	// The tasks that run are made when there is something to do, so that tables are read to what was piped before that. These
	// only show what is wrong with them.
	err := d.make()
	d.drop()
	return d, err
}

// failure is how an error gets out of a Try.
type failure struct{ err error }

// fail ends the test, or the Try.
func (d *Driver) fail(err error) {
	if d.trying > 0 {
		panic(failure{err}) // Try recovers it
	}
	if d.tb != nil {
		d.tb.Helper()
	}
	stop(d.tb, err)
}

func stop(tb testing.TB, err error) {
	if tb == nil {
		panic(err) // an Example has no other way to fail
	}
	tb.Helper()
	var r *engine.RecordError
	if errors.As(err, &r) && len(r.Stack) > 0 {
		tb.Fatalf("%v\n%s", err, r.Stack)
	}
	tb.Fatal(err)
}

// Try calls f and returns the error that would have failed the test, nil if there was none. An error while records are processed
// leaves the driver as a crash does: what was not committed is undone, and processed again by the next call.
func (d *Driver) Try(f func()) (err error) {
	d.trying++
	defer func() {
		d.trying--
		if v := recover(); v != nil {
			failed, ok := v.(failure)
			if !ok {
				panic(v) // somebody else's panic goes on
			}
			err = failed.err
		}
	}()
	f()
	return nil
}

// Now returns the wall time.
func (d *Driver) Now() time.Time { return time.UnixMilli(d.now).UTC() }

// Advance moves the wall clock, and then does what that makes due, unless the driver is Manual.
func (d *Driver) Advance(by time.Duration) {
	d.helper()
	if by < 0 {
		d.fail(fmt.Errorf("topologytest: Advance by %v: wall time does not go back", by))
	}
	d.now += by.Milliseconds()
	d.auto()
}

// End says that nothing more comes: what is queued is processed, and then every watermark goes to the end of time. So every window
// closes, through repartition topics as well, and what is piped afterwards is late for all of them. It commits.
func (d *Driver) End() {
	d.helper()
	d.settle()
	d.drop()
	for _, s := range d.subs {
		for i := range s.plan.Sources {
			if s.plan.Sources[i].Repartition {
				continue
			}
			for p := range s.sources[i].partitions {
				pl := &s.sources[i].partitions[p]
				c, err := pl.commit()
				if err != nil {
					d.fail(err)
				}
				c.Source.Watermark, c.Source.Ahead = math.MaxInt64, 0
				pl.metadata = wire.EncodeCommit(c)
			}
		}
	}
	d.settle()
}

// Counts returns how many records went no further, by reason: null-key, null-value, late-dropped, late-sidelined, undecodable,
// bad-timestamp, failed, no-match, future. A reason that did not occur is not in it. What a crash undoes is not counted.
func (d *Driver) Counts() map[string]int64 {
	all := d.counts
	for _, t := range d.tasks {
		st := t.Status()
		for i, n := range st.Total() {
			all[i] += n
		}
	}
	m := map[string]int64{}
	for i, n := range all {
		if n != 0 {
			m[graph.Reason(i).String()] = n
		}
	}
	return m
}

func (d *Driver) helper() {
	if d.tb != nil {
		d.tb.Helper()
	}
}
