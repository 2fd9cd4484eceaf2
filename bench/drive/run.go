package drive

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/headrace/headrace/bench/plan"
)

const (
	// look is how often it is looked where a peer is. A time is known no better.
	look = 20 * time.Millisecond
	// beginPatience is how long a peer may take to begin, and stallPatience how long it may make no progress.
	beginPatience = 2 * time.Minute
	stallPatience = time.Minute
)

// Bench runs peers on one broker.
type Bench struct {
	Broker *Broker
	Java   *Java // nil if no peer needs it
	Dir    string
	Say    func(format string, args ...any)

	Settings map[plan.Peer]string // what the peers said of themselves
	Profiles string               // a directory for profiles of Go peers

	runs   int
	unload int   // how often Unload was called: a topic's name is not used again
	began  int64 // the end of all data, in Unix milliseconds
	loaded map[string]bool
	data   map[string]*plan.Data
}

// New makes a bench whose files are below dir.
func New(b *Broker, java *Java, dir string, say func(string, ...any)) *Bench {
	return &Bench{
		Broker: b, Java: java, Dir: dir, Say: say, Settings: make(map[plan.Peer]string),
		began: time.Now().UnixMilli(), loaded: make(map[string]bool), data: make(map[string]*plan.Data),
	}
}

func (b *Bench) run(w *plan.Work, p plan.Params) plan.Run {
	input := w.Input
	if input == plan.None {
		input = plan.Uniform
	}
	name := fmt.Sprintf("%s-%d-%d", input, p.Records, p.Keys)
	if b.data[name] == nil {
		b.data[name] = plan.NewData(input, p.Records, p.Keys, b.began)
	}
	return plan.Run{Params: p, Data: b.data[name]}
}

func (b *Bench) inputTopic(w *plan.Work, r plan.Run) string {
	return fmt.Sprintf("in%d-%s-%d-%d-%d", b.unload, w.Input, r.Records, r.Keys, r.Partitions)
}

func (b *Bench) tableTopic(r plan.Run) string {
	return fmt.Sprintf("table%d-%d-%d", b.unload, r.Keys, r.Partitions)
}

// Load makes the topics that runs of the work share, if they are not there.
func (b *Bench) Load(ctx context.Context, w *plan.Work, p plan.Params) error {
	r := b.run(w, p)
	if topic := b.inputTopic(w, r); w.Input != plan.None && !b.loaded[topic] {
		began := time.Now()
		if err := b.Broker.loadInput(ctx, topic, r); err != nil {
			return err
		}
		if w.Input == plan.Apiece {
			if err := b.Broker.loadJump(ctx, topic, r); err != nil {
				return err
			}
		}
		b.loaded[topic] = true
		b.Say("loaded %s records into %s in %.1f s", Thousands(r.Records), topic, time.Since(began).Seconds())
	}
	if topic := b.tableTopic(r); w.Table && !b.loaded[topic] {
		if err := b.Broker.loadTable(ctx, topic, r); err != nil {
			return err
		}
		b.loaded[topic] = true
		b.Say("loaded %s rows into %s", Thousands(r.Keys), topic)
	}
	return nil
}

// Unload removes what Load made.
func (b *Bench) Unload(ctx context.Context) error {
	for topic := range b.loaded {
		if err := b.Broker.clean(ctx, "no-app", topic); err != nil {
			return err
		}
	}
	b.unload++
	clear(b.loaded)
	clear(b.data)
	return nil
}

// task is one run under way.
type task struct {
	*Bench
	work   *plan.Work
	peer   plan.Peer
	run    plan.Run
	specs  []plan.Spec // one for each process
	procs  []*process
	values map[plan.Metric]float64
}

// Run runs a peer once, from its start to its end, and judges what it wrote. Load must have been called.
func (b *Bench) Run(ctx context.Context, w *plan.Work, peer plan.Peer, p plan.Params) (plan.Result, error) {
	b.runs++
	t := &task{Bench: b, work: w, peer: peer, run: b.run(w, p), values: make(map[plan.Metric]float64)}
	app := fmt.Sprintf("%s-%s-%d", w.Name, peer, b.runs)
	spec := plan.Spec{
		Peer: peer, Work: w.Name, App: app, Brokers: b.Broker.Addrs, Input: b.inputTopic(w, t.run), Table: b.tableTopic(t.run),
		Output: "out-" + app, Changelog: app + "-" + w.Store + "-changelog", Profiles: b.Profiles, Params: p,
	}
	topics := []string{spec.Output}
	if w.Input == plan.None {
		spec.Input = "in-" + app
		topics = append(topics, spec.Input)
	}
	for i := range p.Instances {
		spec.Instance = i
		spec.Dir = filepath.Join(b.Dir, app, strconv.Itoa(i))
		if err := os.MkdirAll(spec.Dir, 0o755); err != nil {
			return plan.Result{}, err
		}
		t.specs = append(t.specs, spec)
	}
	err := t.all(ctx)
	for _, p := range t.procs {
		p.kill()
	}
	err = errors.Join(err, b.Broker.clean(context.WithoutCancel(ctx), app, topics...), os.RemoveAll(filepath.Join(b.Dir, app)))
	if err != nil {
		return plan.Result{}, fmt.Errorf("%s · %s: %w", w.Name, peer, err)
	}
	return plan.Result{Work: w.Name, Peer: peer, Values: t.values}, nil
}

func (t *task) all(ctx context.Context) error {
	if err := t.topics(ctx); err != nil {
		return err
	}
	check := t.work.Check(t.run, t.peer)
	for _, s := range t.specs {
		p, err := start(t.Java, s, t.Dir)
		if err != nil {
			return err
		}
		t.procs = append(t.procs, p)
	}
	var err error
	switch t.work.Kind {
	case plan.Throughput:
		err = t.throughput(ctx, t.run.Records, 0)
	case plan.Jump:
		err = t.throughput(ctx, t.run.Records+t.run.Partitions, t.run.Records)
	case plan.Restore:
		err = t.restore(ctx)
	case plan.Latency:
		err = t.latency(ctx)
	}
	if err != nil {
		return err
	}
	if err := t.finish(); err != nil {
		return err
	}
	if t.work.Kind == plan.Restore && t.peer == plan.Raw {
		return t.checkRaw()
	}
	if err := t.Broker.outputs(ctx, t.specs[0].Output, check); err != nil {
		return err
	}
	if err := check.Err(); err != nil {
		return err
	}
	t.values[plan.Outputs] = float64(check.Count())
	return nil
}

// topics makes those of this run alone.
func (t *task) topics(ctx context.Context) error {
	s := &t.specs[0]
	if err := t.Broker.create(ctx, s.Output, t.run.Partitions, false); err != nil {
		return err
	}
	if t.work.Input == plan.None {
		if err := t.Broker.create(ctx, s.Input, t.run.Partitions, false); err != nil {
			return err
		}
	}
	switch {
	case t.work.Kind == plan.Restore:
		return t.Broker.loadCounts(ctx, s.Changelog, t.run)
	case t.work.Store != "" && t.peer == plan.Raw:
		return t.Broker.create(ctx, s.Changelog, t.run.Partitions, true)
	}
	return nil
}

// first is when the first of the processes had its first batch.
func (t *task) first() (at time.Time, ok bool) {
	for _, p := range t.procs {
		if f, has := p.at(plan.First); has && (!ok || f.Before(at)) {
			at, ok = f, true
		}
	}
	return at, ok
}

// throughput waits until the input of so many records is done with, and there are as many outputs or more.
func (t *task) throughput(ctx context.Context, records, outputs int) error {
	s := &t.specs[0]
	began := t.procs[0].started
	var last int64
	moved := time.Now()
	for done := false; !done; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(look):
		}
		for _, p := range t.procs {
			if err := p.ended(); err != nil {
				return err
			}
		}
		if _, started := t.values[plan.Start]; !started {
			_, stable, err := t.Broker.ends(ctx, s.Output)
			if err != nil {
				return err
			}
			if stable > 0 {
				t.values[plan.Start] = time.Since(began).Seconds()
				moved = time.Now()
			} else if time.Since(began) > beginPatience {
				return fmt.Errorf("drive: no output within %v\n%s", beginPatience, t.procs[0].tail())
			}
			continue
		}
		at, err := t.Broker.committed(ctx, s.App, s.Input)
		if err != nil {
			return err
		}
		progress := at
		if at >= int64(records) {
			end, stable, err := t.Broker.ends(ctx, s.Output)
			if err != nil {
				return err
			}
			done = end == stable && stable >= int64(outputs)
			progress += stable
		}
		if progress != last {
			last, moved = progress, time.Now()
		} else if !done && time.Since(moved) > stallPatience {
			return fmt.Errorf("drive: it stands still at %d of %d records\n%s", at, records, t.procs[0].tail())
		}
	}
	end := time.Now()
	first, ok := t.first()
	if !ok {
		return errors.New("drive: the peer has not said when it got its first batch")
	}
	t.values[plan.Rate] = float64(t.run.Records) / end.Sub(first).Seconds() / 1000
	return nil
}

// restore waits until the peer has its stores, and then has it show them.
func (t *task) restore(ctx context.Context) error {
	p, s := t.procs[0], &t.specs[0]
	if err := p.await(plan.Restored, beginPatience+stallPatience); err != nil {
		return err
	}
	first, ok := t.first()
	restored, is := p.at(plan.Restored)
	if !ok || !is {
		return errors.New("drive: the peer has not said when it got its first batch")
	}
	t.values[plan.Rate] = float64(t.run.Records) / restored.Sub(first).Seconds() / 1000
	if t.peer == plan.Raw {
		return nil
	}
	if err := t.Broker.one(ctx, s.Input, t.run); err != nil {
		return err
	}
	return t.drained(ctx, int64(t.run.Keys))
}

// drained waits until so many records of the input are committed.
func (t *task) drained(ctx context.Context, records int64) error {
	s := &t.specs[0]
	for began := time.Now(); ; {
		at, err := t.Broker.committed(ctx, s.App, s.Input)
		if err != nil {
			return err
		}
		if at >= records {
			end, stable, err := t.Broker.ends(ctx, s.Output)
			if err != nil {
				return err
			}
			if end == stable {
				return nil
			}
		}
		if err := t.procs[0].ended(); err != nil {
			return err
		}
		if time.Since(began) > stallPatience {
			return fmt.Errorf("drive: it stands at %d of %d records after %v\n%s", at, records, stallPatience, t.procs[0].tail())
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(look):
		}
	}
}

// checkRaw judges what the plain consumer of a changelog has read.
func (t *task) checkRaw() error {
	n, _ := t.procs[0].number(plan.Restored, 1)
	sum, _ := t.procs[0].number(plan.Restored, 2)
	want := 0.0
	seen := make([]float64, t.run.Keys)
	for i := range t.run.Records {
		seen[t.run.Key(i)]++
		want += seen[t.run.Key(i)]
	}
	if int(n) != t.run.Records || sum != want {
		return fmt.Errorf("it read %.0f records with the sum %.0f, want %d with the sum %.0f", n, sum, t.run.Records, want)
	}
	return nil
}

// finish ends the processes, and adds up what they used.
func (t *task) finish() error {
	var cpu, peak, objects, bytes float64
	for _, p := range t.procs {
		u, err := p.usage()
		if err != nil {
			return errors.Join(err, p.ended())
		}
		cpu += u.cpu.Seconds()
		peak += u.peak
	}
	for _, p := range t.procs {
		if err := p.stop(); err != nil {
			return err
		}
		n, _ := p.number(plan.Allocd, 0)
		m, _ := p.number(plan.Allocd, 1)
		objects += n
		bytes += m
	}
	if words, ok := t.procs[0].line(plan.Settings); ok && t.Settings[t.peer] == "" {
		t.Settings[t.peer] = strings.Join(words, " ")
	}
	if bytes, ok := t.procs[0].number(plan.Longest, 0); ok {
		gap, _ := t.procs[0].number(plan.Longest, 1)
		t.values[plan.Largest], t.values[plan.LongestGap] = bytes/(1<<20), gap/1e6
	}
	n := float64(t.run.Records)
	t.values[plan.Peak] = peak
	t.values[plan.CPU] = cpu / n * 1e6
	if objects > 0 {
		t.values[plan.Allocs] = objects / n
		t.values[plan.Bytes] = bytes / n
	}
	return nil
}

// Thousands writes a number with commas.
func Thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
