package window

import (
	"errors"
	"fmt"
	"time"
)

// Late says what happens to a record that comes for a window already closed, and
// in every case it is counted. [Drop] and [Sideline] leave the window as it was.
// [CorrectWithin] keeps closed windows for a while, in which such a record still
// goes in and the corrected result goes out; it needs one of the others for what
// comes later than that.
//
// The zero Late is not a policy, since what is lost should be chosen and not
// forgotten: Validate refuses it. It is a value, may be compared with ==, and is
// safe for concurrent use.
//
// Kafka Streams always drops.
type Late struct {
	kind    lateKind
	topic   string
	within  time.Duration
	correct bool
	retract bool
	judge   Judge
}

// Judge is by whose watermark a record is found late.
type Judge uint8

const (
	// Operator judges by the watermark of the windows: the smallest over all that feeds them. A record is late only if its window is
	// over, so this loses the least. Which records of several partitions that is depends on how fast each was read.
	Operator Judge = iota
	// Channel judges by the watermark of the input partition that the record came from, as the records before it in that partition
	// made it. What is late is then a function of that partition's records alone, the same in every run, but for a partition that
	// had been idle: the windows do not wait for such, and what is over stays over.
	Channel
)

type lateKind uint8

const (
	lateUnset lateKind = iota
	lateDrop
	lateSideline
	lateNested // Otherwise was given a Late that corrects
)

// Drop counts a late record once for each window it missed, and drops it.
func Drop() Late { return Late{kind: lateDrop} }

// Sideline counts a late record, and writes it to this topic in the same
// transaction as everything else.
//
// What is written is the record that the task read, byte for byte: key, value,
// headers and event time of the record in the task's input topic, not of what the
// operators in front of the window made of it. Behind GroupBy or Repartition that
// is the record of the repartition topic, so the sideline topic is read with the
// serdes that were given there. It is written once, whatever number of windows it
// missed, and to a partition by its key.
//
// These headers come behind its own. Times are Unix milliseconds, numbers are
// decimal text:
//
//	x-late-reason        window-closed
//	x-late-operator      name of the windowed store
//	x-late-watermark     the operator's watermark when the record came
//	x-late-partial       true if some other window took the record, else false
//	x-late-window-start  start of a window that it missed
//	x-late-window-end    end of that window, exclusive
//	x-late-by-ms         watermark - end - grace: how long the window had been closed
//	x-origin-topic       where the task read the record: with GroupBy or Repartition
//	x-origin-partition   in front that is the repartition topic, not the topic that
//	x-origin-offset      the record came from at first
//	x-event-time         event time of the record
//
// The window that a record for sessions missed is the one that it would have made, to a gap behind it; that of a record for sliding windows,
// whose end is inclusive, is the one that ends at it, and each other one that has closed.
//
// The three of a window come as often as there are windows that it missed, in
// order of their start. Where an application reads a topic of this kind and sets a
// record aside again, all headers are there twice, and the last ones are the latest.
//
// Kafka Streams has no such topic.
func Sideline(topic string) Late { return Late{kind: lateSideline, topic: topic} }

// Correction is a policy that still lacks what happens beyond its horizon: see [CorrectWithin].
type Correction struct {
	within  time.Duration
	retract bool
}

// CorrectWithin keeps a window for d after it has closed, its correction horizon,
// as event time goes: it closes at W ≥ end + grace, and is gone at
// W ≥ end + grace + d. A record that comes in between changes its aggregate, and
// the corrected result goes out at once, under the same window and key, with its
// revision. What comes later meets the policy that is given to Otherwise.
//
//	window.CorrectWithin(2*time.Hour).Otherwise(window.Sideline("flights-late"))
//
// A correction replaces the result before it: whoever keeps the last one of each
// window and key has the right one. With Retract it is preceded by a retraction.
//
// Where it is added to an application that has run without it, the windows that
// had closed by then are gone: a late record for one starts it anew.
//
// Flink: allowedLateness.
func CorrectWithin(d time.Duration) Correction { return Correction{within: d} }

// Retract has every correction preceded by a retraction: the result that it
// replaces, once more, marked as one that does not count any longer. Both have the
// same window and key and so come one behind the other in one partition. Whoever
// sums the results subtracts those that are marked, and is right at any time.
func (c Correction) Retract() Correction {
	c.retract = true
	return c
}

// Otherwise completes the policy: what happens to a record that is too late for a
// correction, [Drop] or [Sideline].
func (c Correction) Otherwise(l Late) Late {
	if l.correct {
		l.kind = lateNested
	}
	l.within, l.correct, l.retract = c.within, true, c.retract
	return l
}

// LateBy returns the same policy with another judge of what is late. The default
// is [Operator]. Behind a repartition topic there is no [Channel], since its
// records do not say which task wrote them, and none behind other windows, whose
// results are older than the partition: Build refuses it there.
func (l Late) LateBy(j Judge) Late {
	l.judge = j
	return l
}

// Judge returns what LateBy has set.
func (l Late) Judge() Judge { return l.judge }

// Topic returns the topic of [Sideline]; the bool is false for other policies.
func (l Late) Topic() (string, bool) { return l.topic, l.kind == lateSideline }

// CorrectMillis is the correction horizon in milliseconds: 0 without corrections.
func (l Late) CorrectMillis() int64 { return millis(l.within) }

// Corrects says whether the policy is made by CorrectWithin.
func (l Late) Corrects() bool { return l.correct }

// Retracts says whether a correction is preceded by a retraction.
func (l Late) Retracts() bool { return l.retract }

// Validate reports the zero Late, a Sideline without a topic, a horizon that is
// not a positive number of milliseconds, and corrections inside of corrections.
func (l Late) Validate() error {
	switch {
	case l.kind == lateUnset && l.correct:
		return errors.New("window: CorrectWithin: no policy beyond the horizon: give window.Drop() or window.Sideline(topic) to Otherwise")
	case l.kind == lateNested:
		return errors.New("window: CorrectWithin: Otherwise got a policy that corrects, too: give it window.Drop() or window.Sideline(topic)")
	case l.kind == lateUnset:
		return errors.New("window: no late policy: choose window.Drop(), window.Sideline(topic) or window.CorrectWithin(d).Otherwise(…)")
	case l.kind == lateSideline && l.topic == "":
		return errors.New("window: Sideline: the topic has no name")
	}
	if l.judge > Channel {
		return fmt.Errorf("window: LateBy(%d): give window.Operator or window.Channel", l.judge)
	}
	if l.correct {
		if err := checkMillis("the horizon", l.within, time.Millisecond); err != nil {
			return fmt.Errorf("window: CorrectWithin: %w", err)
		}
	}
	return nil
}

// String returns "drop", "sideline(topic)", or "unset"; "correct(2h0m0s, upsert) else drop".
func (l Late) String() (out string) {
	s := "unset"
	switch l.kind {
	case lateDrop:
		s = "drop"
	case lateSideline:
		s = fmt.Sprintf("sideline(%s)", l.topic)
	}
	if l.judge == Channel {
		defer func() { out += ", late by channel" }()
	}
	if !l.correct {
		return s
	}
	mode := "upsert"
	if l.retract {
		mode = "retract"
	}
	return fmt.Sprintf("correct(%v, %s) else %s", l.within, mode, s)
}
