package oracle

import (
	"fmt"
	"hash/fnv"
	"math"
	"slices"
)

// Sessions are records of a key of which each comes within Size of another; with SessionsBy each record says how far it reaches, at most Size.
const (
	Sessions   = "sessions"
	SessionsBy = "sessions-by"
)

// Joins says whether the node's windows are sessions.
func (n *Node) Joins() bool { return n.Win == Sessions || n.Win == SessionsBy }

// GapOf is the gap that a value has of its own.
func GapOf(v string, most int64) int64 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(v))
	return most * int64(h.Sum32()%5) / 4
}

// session is from its first record to its last, and reaches further. One that changes is another one.
type session struct {
	key                string
	start, last, reach int64
	value              string
	given              []given // results that count
	results            int
	since              int
	stage              int // 1 once it has given an early result, 2 with that on closing, 3 with a correction
}

// given is a result.
type given struct {
	start, last int64
	value       string
	pane        pane
}

// end is what the store sorts it by.
func (s *session) end(n *Node) int64 {
	if n.Win == SessionsBy {
		return s.reach
	}
	return s.last
}

// SessionKey is the key of a session in Result.
func SessionKey(start, end int64, key string) string {
	return fmt.Sprintf("%016x %016x %s", uint64(end), uint64(start), key)
}

func (b *batch) sessionOver(s *session, w, longer int64) bool {
	return w == math.MaxInt64 || w != Unknown && s.reach+longer < w
}

// join takes a record into the session that it makes of those that it touches.
func (b *batch) join(node int, r rec) error {
	n, w := b.node(node), b.w[node]
	gap := n.Size
	if n.Win == SessionsBy {
		gap = GapOf(r.value, n.Size)
	}
	judge := b.judge(node)
	if judge == math.MaxInt64 || judge != Unknown && r.time+n.Size+n.Grace+n.Correct < judge {
		b.saw(SawBeyond, n.Correct > 0)
		b.late(node, r, []int64{r.time}, false)
		return nil
	}
	into := &session{key: r.key, start: r.time, last: r.time, reach: r.time + gap}
	closed := false
	var stay, parts []*session
	for _, s := range b.sessions[node] {
		if s.key != r.key || s.reach < r.time || s.start > r.time+gap {
			stay = append(stay, s)
			continue
		}
		parts = append(parts, s)
		closed = closed || b.sessionOver(s, w, n.Size+n.Grace)
		into.start, into.last, into.reach = min(into.start, s.start), max(into.last, s.last), max(into.reach, s.reach)
	}
	slices.SortFunc(parts, func(x, y *session) int { return int(x.start - y.start) })
	for i, s := range parts {
		if i == 0 {
			into.value = s.value
			continue
		}
		b.saw(SawMerged, true)
		if n.Kind == Total {
			into.value = Plus(into.value, s.value)
			continue
		}
		if err := b.fails(node, s.value); err != nil {
			return err
		}
		into.value = Folded(into.value, s.value)
	}
	if n.Kind == Total || len(parts) > 0 {
		if err := b.fails(node, r.value); err != nil {
			return err
		}
	}
	if n.Kind == Total {
		into.value = Plus(into.value, r.value)
	} else {
		into.value = Folded(into.value, r.value)
	}
	closed = closed || b.sessionOver(into, w, n.Size+n.Grace)
	b.accept(node, "all", r)
	b.saw(SawSession, true)
	b.saw(SawOwnGap, n.Win == SessionsBy)
	b.saw(SawCorrectedSession, closed)
	if closed {
		b.count("late-corrected")
	}
	b.setSessions(node, append(stay, into))
	r.pane = pane{}
	if !n.Closes() {
		for _, s := range parts {
			into.given = append(into.given, given{s.start, s.last, s.value, pane{}})
		}
		timing := ""
		if closed {
			timing = late
		}
		return b.giveSession(node, r, into, timing, 0)
	}
	for _, s := range parts {
		into.results, into.since, into.stage = max(into.results, s.results), into.since+s.since, max(into.stage, s.stage)
		into.given = append(into.given, s.given...)
	}
	into.since++
	switch {
	case closed || into.stage >= 2:
		return b.giveSession(node, r, into, late, 3)
	case n.EarlyCount > 0 && into.since >= n.EarlyCount:
		b.saw(SawEarlyCount, true)
		return b.giveSession(node, r, into, early, 1)
	}
	return nil
}

func (b *batch) setSessions(node int, all []*session) {
	old := b.sessions[node]
	b.sessions[node] = all
	b.undo = append(b.undo, func() { b.sessions[node] = old })
}

// giveSession gives the result of a session, behind what does not count any more: taken back, or a null value for a session that is no more.
func (b *batch) giveSession(node int, r rec, s *session, timing string, stage int) error {
	n := b.node(node)
	result := r
	result.starts, result.value, result.time, result.null = bytesOf(s.last)+bytesOf(s.start), s.value, s.last, false
	result.pane = pane{timing: timing}
	if n.Closes() {
		result.pane.revision = s.results
	}
	was := s.given
	s.given = []given{{s.start, s.last, s.value, result.pane}}
	s.results, s.since, s.stage = s.results+1, 0, stage
	b.saw(SawFinal, n.Final)
	for _, g := range was {
		back := result
		back.starts, back.time = bytesOf(g.last)+bytesOf(g.start), g.last
		same := g.start == s.start && g.last == s.last
		switch {
		case n.TakesBack():
			b.saw(SawTakenBack, timing == late)
			b.saw(SawRetracting, timing != late)
			back.value, back.pane = g.value, g.pane
			back.pane.back = true
		case same && (n.Closes() || s.start == s.last):
			continue
		default:
			back.value, back.null, back.pane = "", true, pane{timing: timing}
			if n.Closes() {
				back.pane.revision = g.pane.revision + 1
			}
		}
		if err := b.next(node, back); err != nil {
			return err
		}
	}
	return b.next(node, result)
}

// inOrder are a node's sessions by end, start and key.
func (b *batch) inOrder(node int) []*session {
	n := b.node(node)
	all := slices.Clone(b.sessions[node])
	slices.SortFunc(all, func(x, y *session) int {
		if SessionKey(x.start, x.end(n), x.key) < SessionKey(y.start, y.end(n), y.key) {
			return -1
		}
		return 1
	})
	return all
}

// closeSessions is close for sessions: those that no record can touch any more that is not late.
func (b *batch) closeSessions(node int) {
	n, w := b.node(node), b.w[node]
	was := b.was[node]
	b.was[node] = w
	for _, s := range b.inOrder(node) {
		if !b.sessionOver(s, w, n.Size+n.Grace) {
			continue
		}
		if n.Closes() && s.stage < 2 && !b.sessionOver(s, was, n.Size+n.Grace) {
			b.unitOf(node, s, "", 2, true)
		}
		if b.sessionOver(s, w, n.Size+n.Grace+n.Correct) {
			if slices.ContainsFunc(b.sessions[node], func(o *session) bool { return o.key == s.key && o.start == s.start }) {
				b.past[node] = append(b.past[node], s)
			}
			b.sessions[node] = slices.DeleteFunc(slices.Clone(b.sessions[node]), func(o *session) bool { return o.key == s.key && o.start == s.start })
		}
	}
	if n.Early > 0 && b.passes(node) {
		for _, s := range b.inOrder(node) {
			if s.since > 0 && !b.sessionOver(s, w, n.Size+n.Grace) {
				b.saw(SawEarly, true)
				b.unitOf(node, s, early, 1, false)
			}
		}
	}
	b.out[node] = w
	if w != math.MaxInt64 {
		b.out[node] = w - 2*n.Size - n.Grace
	}
}

// unitOf gives a result of a session that no record leads to. gone says that the session is, if that fails.
func (b *batch) unitOf(node int, s *session, timing string, stage int, gone bool) {
	now := *s
	b.time = s.last
	good := b.unit(nil, 0, func() error { return b.giveSession(node, rec{key: s.key}, &now, timing, stage) })
	all := slices.Clone(b.sessions[node])
	i := slices.Index(all, s)
	switch {
	case good:
		all[i] = &now
	case gone:
		all = slices.Delete(all, i, i+1)
	default:
		same := *s
		same.since = 0
		all[i] = &same
	}
	b.sessions[node] = all
}
