package framework

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// hangPatience is how long a task may wait for an open transaction before it can run until the log says so, and hangRepeat how
	// long until it says so again. It is below the default timeout of transactions: who waits that long should know for what.
	hangPatience = 10 * time.Second
	hangRepeat   = time.Minute
	// inputPatience and inputRepeat are those of inputs, in which other programs may have transactions that are long and in order.
	inputPatience = time.Minute
	inputRepeat   = 5 * time.Minute
	// inputLook is how often a worker looks at inputs that bring nothing, and inputTimeout bounds a look.
	inputLook    = 30 * time.Second
	inputTimeout = 10 * time.Second
)

// What is committed can be read up to the first transaction that is open, so a transaction that does not end keeps others waiting: no
// error comes, and nothing is done. The coordinator ends it after its timeout; but brokers can lose the end of a transaction, as when
// the only one is restarted, and then it stays until an operator ends it.

// hang is a transaction that somebody waits for.
type hang struct {
	topicPartition
	start int64 // where it begins in the partition; -1 if nobody knows
	since time.Time
}

// pend says which positions are pending, if any.
func (p *progress) pend(parts []topicPartition) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.positions = slices.DeleteFunc(p.positions, func(h hang) bool { return !slices.Contains(parts, h.topicPartition) })
	for _, tp := range parts {
		p.positions = waits(p.positions, tp, -1)
	}
}

// waits adds a hang, unless it is there.
func waits(hangs []hang, tp topicPartition, start int64) []hang {
	if slices.ContainsFunc(hangs, func(h hang) bool { return h.topicPartition == tp && h.start == start }) {
		return hangs
	}
	return append(without(hangs, tp), hang{tp, start, time.Now()})
}

func without(hangs []hang, tp topicPartition) []hang {
	return slices.DeleteFunc(hangs, func(h hang) bool { return h.topicPartition == tp })
}

// hangs returns what the making of the task waits for: positions, and changelogs.
func (p *progress) hangs() (positions, logs []hang) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.positions), slices.Clone(p.logs)
}

// offsetsTopic is where groups keep their positions.
const offsetsTopic = "__consumer_offsets"

// remarkHangs warns of transactions that tasks wait for.
func (w *worker) remarkHangs(now time.Time) {
	var positions, logs []hang
	for _, id := range w.ids() {
		if b := w.tasks[id].build; b != nil {
			p, l := b.progress.hangs()
			positions, logs = append(positions, p...), append(logs, l...)
		}
	}
	const way = "it ends with its owner, or after its transaction.timeout.ms; if it does not, a broker has lost its end, and only kafka-transactions.sh helps, which drops what it wrote there"
	w.warnHangs(now, "tasks wait for a transaction in which the committed positions of partitions are pending: "+way, positions, hangPatience, hangRepeat)
	w.warnHangs(now, "tasks wait for a transaction that is open in what their stores are restored from: "+way, logs, hangPatience, hangRepeat)
	w.mu.Lock()
	inputs := slices.Clone(w.hanging)
	w.mu.Unlock()
	inputs = slices.DeleteFunc(inputs, func(h hang) bool { // lost, or moved on since the look
		in := w.routes[h.topicPartition]
		return in == nil || in.brought.After(h.since)
	})
	w.warnHangs(now, "input cannot be read further, since a transaction is open in it: "+way, inputs, inputPatience, inputRepeat)
	w.lookForHangs(now)
}

// warnHangs warns of those that have lasted, in one line, now and then.
func (w *worker) warnHangs(now time.Time, msg string, hangs []hang, patience, repeat time.Duration) {
	hangs = slices.DeleteFunc(hangs, func(h hang) bool { return now.Sub(h.since) < patience })
	if said, ok := w.remarks.hangs[msg]; len(hangs) == 0 || ok && now.Sub(said) < repeat {
		return
	}
	if w.remarks.hangs == nil {
		w.remarks.hangs = make(map[string]time.Time)
	}
	w.remarks.hangs[msg] = now
	slices.SortStableFunc(hangs, func(x, y hang) int { return x.since.Compare(y.since) })
	var names []string
	for _, h := range hangs {
		names = append(names, fmt.Sprintf("%s[%d]", h.topic, h.partition))
	}
	first := &hangs[0]
	attrs := []any{"group", w.app.set.AppID, "partitions", names, "since", first.since, "waited", now.Sub(first.since).Round(time.Second)}
	tool := "kafka-transactions.sh --bootstrap-server " + strings.Join(w.app.set.Brokers, ",")
	if first.start < 0 {
		// The tool takes for hanging what is older than that and not known to a coordinator.
		attrs = append(attrs, "find", tool+" find-hanging --max-transaction-timeout 1 --topic "+offsetsTopic,
			"abort", tool+" abort --topic "+offsetsTopic+" --partition <found> --start-offset <found>")
	} else {
		attrs = append(attrs, "find", fmt.Sprintf("%s describe-producers --topic %s --partition %d", tool, first.topic, first.partition),
			"abort", fmt.Sprintf("%s abort --topic %s --partition %d --start-offset %d", tool, first.topic, first.partition, first.start))
	}
	w.log.Warn(msg, attrs...)
}

// lookForHangs looks, now and then and on a goroutine of its own, whether transactions are open in inputs that bring nothing: the
// client does not tell.
func (w *worker) lookForHangs(now time.Time) {
	if now.Sub(w.remarks.inputs) < inputLook || !w.looking.CompareAndSwap(false, true) {
		return
	}
	w.remarks.inputs = now
	var parts []topicPartition
	for _, t := range w.running {
		for _, in := range t.inputs {
			if !in.paused && now.Sub(in.brought) >= inputLook {
				parts = append(parts, in.topicPartition)
			}
		}
	}
	w.aside.Go(func() {
		defer w.looking.Store(false)
		ctx, cancel := context.WithTimeout(w.ctx, inputTimeout)
		defer cancel()
		// The stable end first: one that is taken later may only be further on.
		stable, err := listOffset(ctx, w.app.adm, stableEnd, parts)
		var ends map[topicPartition]int64
		if err == nil {
			ends, err = listOffset(ctx, w.app.adm, logEnd, parts)
		}
		if err != nil {
			w.log.Debug("look for open transactions in inputs", "err", err)
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.hanging = slices.DeleteFunc(w.hanging, func(h hang) bool { return !slices.Contains(parts, h.topicPartition) })
		for _, tp := range parts {
			if stable[tp] < ends[tp] {
				w.hanging = waits(w.hanging, tp, stable[tp])
			} else {
				w.hanging = without(w.hanging, tp)
			}
		}
	})
}
