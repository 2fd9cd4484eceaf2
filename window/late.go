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

// Sideline counts as [Drop] does, and writes the record as it came in to this
// topic, in the same transaction as everything else.
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
