package peer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"time"
)

// Profiles are the names of the files that profile writes, each with the ending .pprof.
var Profiles = []string{"cpu", "allocs", "block", "mutex"}

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
	return func() error {
		pprof.StopCPUProfile()
		errs := []error{cpu.Close()}
		for _, name := range Profiles[1:] {
			errs = append(errs, write(name, filepath.Join(dir, name+".pprof")))
		}
		return errors.Join(errs...)
	}, nil
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
