package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/headrace/headrace/bench/drive"
	"github.com/headrace/headrace/bench/plan"
)

// tables are what is shown of which profile.
var tables = []struct{ file, index, sort, title string }{
	{"cpu", "cpu", "-flat", "CPU time, by what spends it"},
	{"cpu", "cpu", "-cum", "CPU time, with all that is called"},
	{"heap", "inuse_space", "-flat", "bytes in use when most were"},
	{"allocs", "alloc_space", "-flat", "bytes allocated"},
	{"allocs", "alloc_objects", "-flat", "objects allocated"},
	{"block", "delay", "-cum", "time blocked, on channels, locks and conditions"},
	{"mutex", "delay", "-cum", "time that others waited for a lock"},
}

// profile runs one peer at one work, with profiles, and shows the top of each.
func profile(ctx context.Context, b *drive.Bench, o options, out io.Writer) error {
	if len(o.works) != 1 {
		return errors.New("give one work to profile: WORK=count")
	}
	if o.peer.Java() {
		return fmt.Errorf("%s has no profiles of Go", o.peer)
	}
	if err := os.MkdirAll(o.profiles, 0o755); err != nil {
		return err
	}
	dir, err := filepath.Abs(o.profiles)
	if err != nil {
		return err
	}
	w := &o.works[0]
	p := o.params.For(w)
	if err := b.Load(ctx, w, p); err != nil {
		return err
	}
	warm := p
	warm.Records = min(p.Records, 300_000)
	if err := b.Load(ctx, w, warm); err != nil {
		return err
	}
	warmer := plan.Raw
	if !slices.Contains(w.Peers, warmer) {
		warmer = o.peer
	}
	if _, err := b.Run(ctx, w, warmer, warm); err != nil {
		return err
	}
	b.Profiles = dir
	r, err := b.Run(ctx, w, o.peer, p)
	if err != nil {
		return err
	}
	b.Say("%s · %s, with profiles: %s", w.Name, o.peer, figures(r))
	self, err := os.Executable()
	if err != nil {
		return err
	}
	top, err := os.Create(filepath.Join(dir, "top.txt"))
	if err != nil {
		return err
	}
	defer top.Close()
	both := io.MultiWriter(out, top)
	for _, t := range tables {
		cmd := exec.CommandContext(ctx, "go", "tool", "pprof", "-top", t.sort, "-nodecount", "30", "-sample_index", t.index, self, filepath.Join(dir, t.file+".pprof"))
		text, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("show %s: %w", t.file, err)
		}
		fmt.Fprintf(both, "\n== %s · %s: %s ==\n%s", w.Name, o.peer, t.title, text)
	}
	fmt.Fprintf(out, "\nprofiles and this table are in %s; go tool pprof -http : %s\n", dir, filepath.Join(dir, "cpu.pprof"))
	return nil
}
