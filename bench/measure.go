package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/headrace/headrace/bench/drive"
	"github.com/headrace/headrace/bench/plan"
	"github.com/headrace/headrace/bench/report"
)

// mostFailures is how many runs may fail before the rest is given up.
const mostFailures = 4

// smallestHeap is the name of one more growth: with how little heap Kafka Streams keeps its rate.
const smallestHeap = "heap"

// measurement is one call of bench.
type measurement struct {
	options
	bench *drive.Bench
	out   io.Writer
	say   func(string, ...any)
	began time.Time

	results []plan.Result
	failed  map[string]error // by work and peer: not tried again
	step    int
	steps   int
	perRun  map[string]time.Duration // how long such a run took
}

var errMissed = errors.New("not all targets are met")

func (m *measurement) all(ctx context.Context) error {
	m.failed, m.perRun = make(map[string]error), make(map[string]time.Duration)
	if load := drive.Load(); load > 0.5 {
		m.say("the machine is not quiet: load %.1f before anything runs", load)
	}
	if m.quick {
		m.say("a quick look: outputs are checked, targets are not, and %s is not written", m.page)
		if m.full {
			m.say("with fewer records there are fewer keys than the names of rows say, in proportion")
		}
	}
	if err := m.warm(ctx); err != nil {
		return err
	}
	var judged bool
	var rows []report.Row
	if !m.skipWorks {
		if err := m.measureWorks(ctx); err != nil {
			return err
		}
		targets := plan.Targets
		if m.quick {
			targets = nil
		}
		rows = report.Rows(m.works, "", m.results, targets)
		fmt.Fprintf(m.out, "\n%s\n", report.Text(rows))
		for _, t := range report.Missing(m.works, rows, targets) {
			m.failed[t.Work+" · "+string(t.Peer)] = errors.New("there is no figure for a target")
		}
		judged = !m.quick
		if judged && len(m.failed) == 0 {
			if err := m.write("bench", m.page1(rows)); err != nil {
				return err
			}
		}
	}
	if m.full && ctx.Err() == nil {
		grown, err := m.growths(ctx)
		if err != nil {
			return err
		}
		fmt.Fprintf(m.out, "\n%s\n", report.Text(grown))
		if !m.quick && len(m.failed) == 0 {
			if err := m.write("full", m.page2(grown)); err != nil {
				return err
			}
		}
		rows = append(rows, grown...)
	}
	if len(m.failed) > 0 {
		for _, name := range slices.Sorted(maps.Keys(m.failed)) {
			fmt.Fprintf(m.out, "failed: %s: %v\n", name, m.failed[name])
		}
		return fmt.Errorf("%d peers failed at a work", len(m.failed))
	}
	if judged && !report.AllMet(rows) {
		return errMissed
	}
	if m.quick {
		m.say("a quick look: all outputs were right; targets were not judged")
	} else {
		m.say("all outputs were right and all targets are met")
	}
	return nil
}

// warm has the broker do some of what it will do, so that its Java is not compiled during the first peer's run.
func (m *measurement) warm(ctx context.Context) error {
	works, err := plan.Find("count")
	if err != nil {
		return err
	}
	p := m.params
	p.Records = min(p.Records, 300_000)
	if err := m.bench.Load(ctx, &works[0], p); err != nil {
		return err
	}
	_, err = m.bench.Run(ctx, &works[0], plan.Raw, p)
	m.say("warmed the broker up with a run that does not count")
	return err
}

// measureWorks runs all peers at all works, round by round, so that what changes on the machine changes for all of them.
func (m *measurement) measureWorks(ctx context.Context) error {
	for i := range m.works {
		m.steps += len(m.works[i].Peers) * m.rounds
	}
	for round := range m.rounds {
		for i := range m.works {
			w := &m.works[i]
			p := m.params.For(w)
			if err := m.bench.Load(ctx, w, p); err != nil {
				return err
			}
			for j := range w.Peers {
				// Nobody is always the first or always behind the same one.
				if err := m.one(ctx, w, w.Peers[(j+round)%len(w.Peers)], p, "", fmt.Sprintf("round %d", round+1)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// one runs a peer once and keeps the result. A failure is told at once; it is an error only if it makes no sense to go on.
func (m *measurement) one(ctx context.Context, w *plan.Work, peer plan.Peer, p plan.Params, variant, round string) error {
	m.step++
	name := w.Name + " · " + string(peer)
	if variant != "" {
		name += " · " + variant
	}
	if m.failed[name] != nil {
		return nil
	}
	began := time.Now()
	r, err := m.bench.Run(ctx, w, peer, p)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		m.say("[%d/%d] %s, %s: FAILED: %v", m.step, m.steps, name, round, err)
		m.failed[name] = err
		if len(m.failed) >= mostFailures {
			return fmt.Errorf("%d runs failed, the last one: %w", len(m.failed), err)
		}
		return nil
	}
	r.Variant = variant
	m.results = append(m.results, r)
	m.perRun[name] = time.Since(began)
	m.say("[%d/%d] %s, %s: %s%s", m.step, m.steps, name, round, figures(r), m.left())
	return nil
}

// figures are a result's, for the progress display.
func figures(r plan.Result) string {
	var parts []string
	for _, m := range []plan.Metric{plan.Rate, plan.P50, plan.P99, plan.Peak, plan.Start, plan.CPU, plan.Allocs, plan.Bytes} {
		if v, ok := r.Values[m]; ok {
			parts = append(parts, fmt.Sprintf("%.4g %s", v, m))
		}
	}
	if n, ok := r.Values[plan.Outputs]; ok {
		parts = append(parts, drive.Thousands(int(n))+" outputs right")
	}
	return strings.Join(parts, ", ")
}

// left tells how long the rest will take, once every run has been seen.
func (m *measurement) left() string {
	rest := m.steps - m.step
	if rest <= 0 || m.step < m.steps/m.rounds || m.rounds == 1 {
		return ""
	}
	var sum time.Duration
	for _, d := range m.perRun {
		sum += d
	}
	mean := sum / time.Duration(len(m.perRun))
	return fmt.Sprintf("; about %.0f min left", (time.Duration(rest) * mean).Minutes())
}

// growths measures how cost grows, once each.
func (m *measurement) growths(ctx context.Context) ([]report.Row, error) {
	wanted := func(name string) bool {
		return m.growth == "" || slices.Contains(strings.Split(m.growth, ","), name)
	}
	m.step, m.steps, m.rounds = 0, 0, 1
	for _, g := range plan.Growths {
		if wanted(g.Name) {
			m.steps += len(g.Points) * len(g.Peers)
		}
	}
	if wanted(smallestHeap) {
		m.steps += len(plan.Heaps) + 3
	}
	if err := m.bench.Unload(ctx); err != nil {
		return nil, err
	}
	var rows []report.Row
	for _, g := range plan.Growths {
		if !wanted(g.Name) {
			continue
		}
		works, err := plan.Find(g.Work)
		if err != nil {
			return nil, err
		}
		w := works[0]
		w.Peers, w.Metrics = g.Peers, g.Metrics
		for _, point := range g.Points {
			p := m.params
			point.Set(&p)
			if err := m.bench.Load(ctx, &w, p); err != nil {
				return nil, err
			}
			for _, peer := range g.Peers {
				if err := m.one(ctx, &w, peer, p, point.Name, g.Name); err != nil {
					return nil, err
				}
			}
			rows = append(rows, report.Rows([]plan.Work{w}, point.Name, m.results, nil)...)
			if err := m.bench.Unload(ctx); err != nil {
				return nil, err
			}
		}
	}
	if wanted(smallestHeap) {
		more, err := m.heap(ctx)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// heap looks for the smallest heap with which Kafka Streams keeps its rate, and judges this project's memory by what it then takes.
func (m *measurement) heap(ctx context.Context) ([]report.Row, error) {
	works, err := plan.Find("count")
	if err != nil {
		return nil, err
	}
	w := works[0]
	if err := m.bench.Load(ctx, &w, m.params); err != nil {
		return nil, err
	}
	const variant = "heap"
	var usual, smallest plan.Result
	m.steps += len(plan.Heaps) // a heap that seems too small is tried twice
	for i, heap := range append([]int{m.params.HeapMB}, plan.Heaps...) {
		p := m.params
		p.HeapMB = heap
		kept := false
		for attempt := 0; attempt < 2 && !kept; attempt++ {
			m.step++
			r, err := m.bench.Run(ctx, &w, plan.Streams, p)
			if err != nil {
				if i == 0 || ctx.Err() != nil {
					return nil, err
				}
				m.say("[%d/%d] Kafka Streams does not do it with %d MiB of heap: %v", m.step, m.steps, heap, err)
				break
			}
			m.say("[%d/%d] Kafka Streams with %d MiB of heap: %s", m.step, m.steps, heap, figures(r))
			if i == 0 {
				usual = r
			}
			if r.Values[plan.Rate] >= plan.KeepRate*usual.Values[plan.Rate] {
				kept, smallest = true, r
				smallest.Variant = fmt.Sprintf("heap of %d MiB", heap)
			}
		}
		if !kept {
			break
		}
	}
	// Two rows of Kafka Streams, and this project's beside the smaller one.
	usual.Variant, smallest.Peer = variant, plan.SmallHeap
	label := smallest.Variant
	smallest.Variant = variant
	m.results = append(m.results, usual, smallest)
	m.say("%d %% of the rate are kept with a %s", int(plan.KeepRate*100), label)
	for _, peer := range []plan.Peer{plan.Memory, plan.Pebble} {
		if err := m.one(ctx, &w, peer, m.params, variant, "beside it"); err != nil {
			return nil, err
		}
	}
	w.Peers, w.Metrics = []plan.Peer{plan.Memory, plan.Pebble, plan.Streams, plan.SmallHeap}, []plan.Metric{plan.Peak, plan.Rate}
	targets := plan.FullTargets
	if m.quick {
		targets = nil
	}
	rows := report.Rows([]plan.Work{w}, variant, m.results, targets)
	for i := range rows {
		if rows[i].Peer == plan.SmallHeap {
			rows[i].Variant = label
		}
	}
	return rows, nil
}

// write puts a section into the page.
func (m *measurement) write(name, text string) error {
	old, err := os.ReadFile(m.page)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	page, err := report.Page(string(old), report.Section{Name: name, Text: text})
	if err != nil {
		return err
	}
	if err := os.WriteFile(m.page, []byte(page), 0o644); err != nil {
		return err
	}
	m.say("wrote %s", m.page)
	return nil
}
