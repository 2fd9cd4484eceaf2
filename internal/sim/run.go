package sim

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// Run carries out a case and says what it has met. The error says what is not as it should be, if [Differs]; any other is a mistake of the
// simulator, or a case that cannot be run.
func Run(c *Case) (seen Seen, err error) {
	w, err := newWorld(c)
	if err != nil {
		return Seen{}, err
	}
	defer func() {
		if v := recover(); v != nil {
			err = differ("panic: %v", v)
		}
		for _, wk := range w.workers {
			wk.disk.close()
		}
	}()
	w.seen.Jump, w.seen.Idle = c.jumps(), c.idles()
	for i := range c.Ops {
		if err := w.do(&c.Ops[i]); err != nil {
			return w.seen, fmt.Errorf("op %d, %s: %w", i, c.Ops[i].Do, err)
		}
	}
	if err := w.drain(); err != nil {
		return w.seen, err
	}
	err = w.check()
	w.seen.Panics = w.user.panics
	return w.seen, err
}

// Difference is a seed that differs.
type Difference struct {
	Seed uint64
	Err  error
}

// Seeds runs so many seeds from first on, on all processors, and stops early after so many differences.
func Seeds(first uint64, n, limit int) (Coverage, []Difference, error) {
	var (
		next    atomic.Int64
		mu      sync.Mutex // guards what follows
		covered Coverage
		found   []Difference
		failed  error
		wg      sync.WaitGroup
	)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for {
				i := next.Add(1) - 1
				if i >= int64(n) {
					return
				}
				seed := first + uint64(i)
				c, err := Draw(seed)
				var seen Seen
				if err == nil {
					seen, err = Run(c)
				}
				mu.Lock()
				switch {
				case err == nil, Differs(err):
					covered.Add(&seen)
				case failed == nil:
					failed = fmt.Errorf("seed %d: %w", seed, err)
				}
				if Differs(err) {
					found = append(found, Difference{seed, err})
				}
				stop := failed != nil || len(found) >= limit
				mu.Unlock()
				if stop {
					return
				}
			}
		})
	}
	wg.Wait()
	return covered, found, failed
}
