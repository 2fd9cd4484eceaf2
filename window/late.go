package window

import (
	"errors"
	"fmt"
)

// Late says what happens to a record that comes for a window already closed. In
// no policy does it change the window, and in every one it is counted.
//
// The zero Late is not a policy, since what is lost should be chosen and not
// forgotten: Validate refuses it. It is a value, may be compared with ==, and is
// safe for concurrent use.
//
// Kafka Streams always drops.
type Late struct {
	kind  lateKind
	topic string
}

type lateKind uint8

const (
	lateUnset lateKind = iota
	lateDrop
	lateSideline
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
// The three of a window come as often as there are windows that it missed, in
// order of their start. Where an application reads a topic of this kind and sets a
// record aside again, all headers are there twice, and the last ones are the latest.
//
// Kafka Streams has no such topic.
func Sideline(topic string) Late { return Late{kind: lateSideline, topic: topic} }

// Topic returns the topic of [Sideline]; the bool is false for other policies.
func (l Late) Topic() (string, bool) { return l.topic, l.kind == lateSideline }

// Validate reports the zero Late and a Sideline without a topic.
func (l Late) Validate() error {
	switch {
	case l.kind == lateUnset:
		return errors.New("window: no late policy: choose window.Drop() or window.Sideline(topic)")
	case l.kind == lateSideline && l.topic == "":
		return errors.New("window: Sideline: the topic has no name")
	}
	return nil
}

// String returns "drop", "sideline(topic)" or "unset".
func (l Late) String() string {
	switch l.kind {
	case lateDrop:
		return "drop"
	case lateSideline:
		return fmt.Sprintf("sideline(%s)", l.topic)
	}
	return "unset"
}
