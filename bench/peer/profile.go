package peer

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"runtime/pprof"
	"time"
)

// Profiles are the names of the files that profile writes, each with the ending .pprof. The one of the heap is of when most was in use.
var Profiles = []string{"cpu", "heap", "allocs", "block", "mutex"}

// profile records profiles of the process until the returned func is called, which writes them into dir. An empty dir records none.
func profile(dir string) (func() error, error) {
	if dir == "" {
		return func() error { return nil }, nil
	}
	// Rates at which the recording is lost in the noise.
	runtime.MemProfileRate = 64 << 10
	runtime.SetBlockProfileRate(int(100 * time.Microsecond))
	runtime.SetMutexProfileFraction(10)
	cpu, err := os.Create(filepath.Join(dir, "cpu.pprof"))
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return nil, err
	}
	heap := watchHeap()
	return func() error {
		pprof.StopCPUProfile()
		errs := []error{cpu.Close(), os.WriteFile(filepath.Join(dir, "heap.pprof"), heap(), 0o644)}
		for _, name := range Profiles[2:] {
			errs = append(errs, write(name, filepath.Join(dir, name+".pprof")))
		}
		return errors.Join(errs...)
	}, nil
}

// watchHeap takes a profile of the heap whenever more of it is in use than ever before, until the returned func is called, which
// returns the last one.
func watchHeap() func() []byte {
	var last bytes.Buffer
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		most := uint64(0)
		for {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
			}
			// What the last collection found alive, and not what has been allocated since: that depends on when one looks.
			live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
			metrics.Read(live)
			if n := live[0].Value.Uint64(); n > most+most/20 {
				most = n
				last.Reset()
				_ = pprof.Lookup("heap").WriteTo(&last, 0) // a buffer takes everything
			}
		}
	}()
	return func() []byte {
		close(stop)
		<-done
		return last.Bytes()
	}
}

func write(name, path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := pprof.Lookup(name).WriteTo(f, 0); err != nil {
		return errors.Join(fmt.Errorf("peer: write the profile %s: %w", name, err), f.Close())
	}
	return f.Close()
}
