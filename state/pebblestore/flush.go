package pebblestore

import (
	"fmt"
	"sync"
	"time"
)

const (
	// entryCost is what an entry takes in a memtable besides its bytes, about.
	entryCost = 64
	// A share is used up by what gathers, what is being flushed, and what gathers meanwhile.
	gatherPart = 3
	minGather  = 512 << 10
	// stopSublevels is how many layers of young files may lie on top of each other before Apply waits for compaction: each is one
	// more place to look for a key.
	stopSublevels = 20
)

// flusher decides when a backend's changes go to disk. One flush runs at a time; what comes in the meantime gathers for the next.
type flusher struct {
	kick    chan struct{} // there is something to look at
	flushed chan struct{} // a flush has ended
	quit    chan struct{}
	ended   chan struct{} // the goroutine has

	bounds  sync.Mutex
	gather  amount // applied since the last flush began
	flight  amount // being flushed
	since   time.Time
	layered bool // compaction lags behind
}

// amount of changes: bytes of keys and values, and what they take in memory.
type amount struct{ bytes, memory int64 }

func newFlusher() flusher {
	return flusher{
		kick: make(chan struct{}, 1), flushed: make(chan struct{}, 1), quit: make(chan struct{}), ended: make(chan struct{}),
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// share is how much memory the task's changes may take, now: what there is, by the number of tasks that are open.
func (b *backend) share() int64 {
	return max(b.set.MemoryBudget/2/max(b.provider.opened.Load(), 1), gatherPart*minGather)
}

// due says whether what gathers must go to disk now. bounds is held.
func (b *backend) due() bool {
	return b.gather.bytes >= b.set.FlushBytes || b.gather.memory >= b.share()/gatherPart
}

// applied counts a batch.
func (b *backend) applied(size, count int) {
	b.bounds.Lock()
	first := b.gather == amount{}
	if first {
		b.since = time.Now()
	}
	b.gather.bytes += int64(size)
	b.gather.memory += int64(size) + int64(count)*entryCost
	wake := first || b.due()
	b.bounds.Unlock()
	if wake {
		signal(b.kick)
	}
}

// waiting is how many bytes are not on disk yet.
func (b *backend) waiting() int64 {
	b.bounds.Lock()
	defer b.bounds.Unlock()
	return b.gather.bytes + b.flight.bytes
}

// room waits until one more batch can be taken. Each flush and each compaction that ends counts as progress.
func (b *backend) room() error {
	if !b.crowded() {
		return nil
	}
	timer := time.NewTimer(b.set.StallTimeout)
	defer timer.Stop()
	for {
		select {
		case <-b.flushed:
		case <-b.compacted:
		case <-b.failed:
			b.told = true
			return b.failureError(b.failure.Load())
		case <-timer.C:
			b.fail(fmt.Errorf("the disk has made no progress for %v while %s wait", b.set.StallTimeout, bytesText(uint64(b.waiting()))), false)
			continue
		}
		if !b.crowded() {
			return nil
		}
		timer.Reset(b.set.StallTimeout)
	}
}

// crowded says whether more waits than there is room for.
func (b *backend) crowded() bool {
	b.bounds.Lock()
	full, layered := b.gather.memory+b.flight.memory >= b.share(), b.layered
	b.bounds.Unlock()
	return full || layered && b.measure()
}

// measure looks at whether compaction lags behind.
func (b *backend) measure() bool {
	layers := b.db.Metrics().Levels[0].Sublevels
	b.bounds.Lock()
	defer b.bounds.Unlock()
	b.layered = layers >= stopSublevels
	return b.layered
}

func (b *backend) startFlusher() {
	go func() { // ends with stopFlusher, which waits for it
		defer close(b.ended)
		b.flushLoop()
	}()
}

func (b *backend) stopFlusher() {
	close(b.quit)
	<-b.ended
}

func (b *backend) flushLoop() {
	timer := time.NewTimer(b.set.FlushInterval)
	defer timer.Stop()
	for {
		select {
		case <-b.quit:
			return
		case <-b.failed:
			b.log.Error("task takes no more changes", "err", b.failureError(b.failure.Load()))
			<-b.quit
			return
		case <-b.kick:
		case <-timer.C:
		}
		b.bounds.Lock()
		if b.gather == (amount{}) {
			b.bounds.Unlock()
			continue // the next change kicks
		}
		if left := b.set.FlushInterval - time.Since(b.since); left > 0 && !b.due() {
			b.bounds.Unlock()
			timer.Reset(left)
			continue
		}
		// Before the flush begins: a batch that comes between is flushed now, and counted as if it were not.
		b.gather, b.flight = amount{}, b.gather
		b.bounds.Unlock()

		done, err := b.db.AsyncFlush()
		if err != nil {
			b.fail(err, false)
			continue
		}
		select {
		case <-done:
		case <-b.failed:
			continue
		case <-b.quit:
			return // Close flushes
		}
		b.bounds.Lock()
		b.flight = amount{}
		b.bounds.Unlock()
		b.measure()
		signal(b.flushed)
		signal(b.kick) // enough may have gathered
	}
}
