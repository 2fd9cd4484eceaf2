package topologytest

import "fmt"

// Idle says that partitions of a topic, all if none is named, have had nothing for so long that they hold the watermark back no longer: what
// an application finds out after framework's Config.IdleAfter. It does not matter whether they ever had a record. The next record piped to
// a partition wakes it. In the driver nothing falls idle otherwise, whatever Advance says.
func (d *Driver) Idle(topic string, partitions ...int) {
	d.helper()
	d.each(topic, partitions, func(p *partitionLog) { p.idleAt = len(p.records) + 1 })
	d.auto()
}

// HoldBack says that partitions of a topic, all if none is named, are not fetched for now: tasks know that there is more in them, and do not
// process later records of other inputs meanwhile. Release ends it.
func (d *Driver) HoldBack(topic string, partitions ...int) {
	d.helper()
	d.each(topic, partitions, func(p *partitionLog) { p.heldBack = true })
}

// Release ends HoldBack.
func (d *Driver) Release(topic string, partitions ...int) {
	d.helper()
	d.each(topic, partitions, func(p *partitionLog) { p.heldBack = false })
	d.auto()
}

func (d *Driver) each(topic string, partitions []int, f func(*partitionLog)) {
	d.helper()
	l := d.topics[topicName{Name: topic}]
	if l == nil || !l.read {
		d.fail(fmt.Errorf("topologytest: topic %q: %w", topic, d.unknown(func(l *topicLog) bool { return l.read && !l.name.Repartition })))
	}
	if len(partitions) == 0 {
		for p := range l.partitions {
			partitions = append(partitions, p)
		}
	}
	for _, p := range partitions {
		if p < 0 || p >= len(l.partitions) {
			d.fail(fmt.Errorf("topologytest: %s has partitions 0 to %d, not %d", l.name, len(l.partitions)-1, p))
		}
		f(&l.partitions[p])
	}
}
