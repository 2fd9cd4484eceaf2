package pebblestore

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/state"
)

// The directory that the helper process locks: this test binary, started again.
const lockEnv = "PEBBLESTORE_TEST_LOCK"

func TestHoldLock(t *testing.T) {
	dir := os.Getenv(lockEnv)
	if dir == "" {
		t.Skip("the helper process of TestLock")
	}
	p := In(dir)
	id, err := p.Instance()
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("locked", id)
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n') // until the test ends, or kills
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
}

// A second process is refused with the pid of the first, as long as that one lives, and gets the instance id when it is dead.
func TestLock(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	first := exec.Command(os.Args[0], "-test.run=^TestHoldLock$", "-test.v")
	first.Env = append(os.Environ(), lockEnv+"="+dir)
	stdin, err := first.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := first.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Process.Kill() }()
	id := ""
	for lines := bufio.NewScanner(stdout); id == "" && lines.Scan(); {
		id, _ = strings.CutPrefix(lines.Text(), "locked ")
		if id == lines.Text() {
			id = ""
		}
	}
	if id == "" {
		t.Fatal("the first process has not locked the directory")
	}

	p := provider(t, Config{Dir: dir})
	for range 2 {
		_, err = p.Open(task, specs())
		if err == nil {
			t.Fatal("two processes have the directory")
		}
		for _, s := range []string{dir, fmt.Sprintf("pid %d on ", first.Process.Pid), "only one process"} {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("error %q does not say %q", err, s)
			}
		}
	}
	if _, err := p.Instance(); err == nil {
		t.Error("two processes are the same instance")
	}
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = first.Wait() // killed
	got, err := p.Instance()
	if err != nil || got != id {
		t.Errorf("instance after the death of the first: %q, %v, want %q", got, err, id)
	}
	closeBackend(t, open(t, p, specs()))
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode of the directory: %v, %v", info.Mode(), err)
	}
}

// In one process, too: under another name of the directory, and as long as the first is not closed.
func TestLockInProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	first, second := provider(t, Config{Dir: dir}), provider(t, Config{Dir: link})
	b := open(t, first, specs())
	if _, err := second.Open(task, specs()); err == nil || !strings.Contains(err.Error(), "this very process") {
		t.Errorf("second provider: %v", err)
	}
	if err := first.Close(); err == nil || !strings.Contains(err.Error(), "1 tasks are open") {
		t.Errorf("close with an open task: %v", err)
	}
	closeBackend(t, b)
	if _, err := second.Instance(); err == nil {
		t.Error("the directory is free before the provider was closed")
	}
	for range 2 {
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
	}
	closeBackend(t, open(t, second, specs()))
}

func TestInstance(t *testing.T) {
	t.Parallel()
	mem := vfs.NewCrashableMem()
	p := provider(t, Config{Dir: "state", FS: mem})
	id, err := p.Instance()
	if err != nil || !instanceForm.MatchString(id) {
		t.Fatalf("instance %q, %v", id, err)
	}
	other, err := provider(t, Config{Dir: "other", FS: mem}).Instance()
	if err != nil || other == id {
		t.Errorf("another directory has the id %q, %v; the first has %q", other, err, id)
	}
	crashed := mem.CrashClone(vfs.CrashCloneCfg{})
	again, err := provider(t, Config{Dir: "state", FS: crashed}).Instance()
	if err != nil || again != id {
		t.Errorf("after a crash: %q, %v, want %q", again, err, id)
	}

	crashed = mem.CrashClone(vfs.CrashCloneCfg{})
	if err := writeFile(crashed, "state/instance", "not an id\n"); err != nil {
		t.Fatal(err)
	}
	_, err = provider(t, Config{Dir: "state", FS: crashed}).Instance()
	if err == nil || !strings.Contains(err.Error(), "delete the file") {
		t.Errorf("with a broken file: %v", err)
	}
}

func TestDirectoryCannotBeUsed(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		config Config
		says   string
	}{
		"none":             {Config{}, "give Config.Dir"},
		"a file":           {Config{Dir: file}, file},
		"below a file":     {Config{Dir: filepath.Join(file, "x")}, file},
		"forbidden":        {Config{Dir: "x", FS: newForbidden()}, fmt.Sprintf("uid %d", os.Getuid())},
		"tiny budget":      {Config{Dir: "x", MemoryBudget: 1}, "at least 8"},
		"negative flush":   {Config{Dir: "x", FlushBytes: -1}, "FlushBytes"},
		"negative timeout": {Config{Dir: "x", StallTimeout: -1}, "StallTimeout"},
	} {
		p := New(c.config)
		if b, err := p.Open(task, specs()); err == nil {
			_ = b.Close()
			t.Errorf("%s: opened", name)
		} else if !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error %q does not say %q", name, err, c.says)
		} else if errors.Is(err, state.ErrCorrupt) {
			t.Errorf("%s: error %q is no corruption", name, err)
		}
	}
}

type forbidden struct{ vfs.FS }

func newForbidden() vfs.FS { return forbidden{vfs.NewMem()} }

func (forbidden) MkdirAll(dir string, _ os.FileMode) error {
	return &fs.PathError{Op: "mkdir", Path: dir, Err: fs.ErrPermission}
}

// raw opens the task's Pebble without us.
func raw(t *testing.T, mem vfs.FS, use func(db *pebble.DB)) {
	t.Helper()
	db, err := pebble.Open("state/"+task, &pebble.Options{FS: mem, Logger: pebbleSilent{}})
	if err != nil {
		t.Fatal(err)
	}
	use(db)
	if err := errors.Join(db.Flush(), db.Close()); err != nil { // ours knows of no log
		t.Fatal(err)
	}
}

type pebbleSilent struct{}

func (pebbleSilent) Infof(string, ...any)  {}
func (pebbleSilent) Errorf(string, ...any) {}
func (pebbleSilent) Fatalf(string, ...any) {}

func dump(t *testing.T, mem vfs.FS) []string {
	var all []string
	raw(t, mem, func(db *pebble.DB) {
		it, err := db.NewIter(nil)
		if err != nil {
			t.Fatal(err)
		}
		for ok := it.First(); ok; ok = it.Next() {
			prefix, key := it.Key(), []byte{}
			if len(prefix) >= prefixLen {
				prefix, key = prefix[:prefixLen], prefix[prefixLen:]
			}
			all = append(all, fmt.Sprintf("%x %q = %x", prefix, key, it.Value()))
		}
		if err := it.Close(); err != nil {
			t.Fatal(err)
		}
	})
	return all
}

// The layout is a format: these bytes change with its number only. Stores keep their number when specs are ordered anew, and what is
// renamed or of another kind leaves nothing behind.
func TestLayout(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	p := provider(t, Config{Dir: "state", FS: mem})
	b := open(t, p, specs())
	pos := []*state.Position{{TopicID: [16]byte{0xaa, 15: 0xbb}, Offset: 0x0102, LeaderEpoch: -1, AppliedAt: 0x0304}, nil}
	if err := b.Apply(slices.Values([]state.Mutation{put(0, "k", "v"), put(1, "", "empty key"), put(1, "k", "")}), pos); err != nil {
		t.Fatal(err)
	}
	closeBackend(t, b)
	want := []string{
		`00000000 "F" = 00000001`,
		`00000000 "N" = 00000003`,
		`00000000 "P\x00\x00\x00\x01" = aa0000000000000000000000000000bb0000000000000102ffffffff0000000000000304`,
		`00000000 "Sper-hour" = 0000000202`,
		`00000000 "Stotals" = 0000000101`,
		`00000001 "k" = 76`,
		`00000002 "" = ` + hex.EncodeToString([]byte("empty key")),
		`00000002 "k" = `,
	}
	if diff := cmp.Diff(want, dump(t, mem)); diff != "" {
		t.Errorf("on disk (-want +got):\n%s", diff)
	}

	b = open(t, p, []state.Spec{
		{Name: "per-hour", Kind: state.KeyValueKind}, // was a window store
		{Name: "new", Kind: state.KeyValueKind},
		{Name: "totals", Kind: state.KeyValueKind},
	})
	apply(t, b, 7, put(0, "p", "1"), put(1, "n", "2"), put(2, "t", "3"))
	closeBackend(t, b)
	got := dump(t, mem)
	got = slices.DeleteFunc(got, func(s string) bool { return strings.HasPrefix(s, `00000000 "P`) })
	want = []string{
		`00000000 "F" = 00000001`,
		`00000000 "N" = 00000005`,
		`00000000 "Snew" = 0000000401`,
		`00000000 "Sper-hour" = 0000000301`,
		`00000000 "Stotals" = 0000000101`,
		`00000001 "k" = 76`,
		`00000001 "t" = 33`,
		`00000003 "p" = 31`,
		`00000004 "n" = 32`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("on disk with other specs (-want +got):\n%s", diff)
	}
}

// What a newer version has written is refused, and stays. What no version has written is damage.
func TestFormat(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		key, value []byte
		corrupt    bool
		says       string
	}{
		"newer format":            {keyFormat, []byte{0, 0, 0, 2}, false, "has format 2, this version reads 1 at most"},
		"newer, and unknown size": {keyFormat, []byte{0, 0, 0, 2}, false, "run the version that wrote it"},
		"format of another size":  {keyFormat, []byte{1}, true, "table of stores"},
		"unknown entry":           {[]byte("\x00\x00\x00\x00X"), nil, true, "unknown entry"},
		"store of another size":   {storeKey("totals"), []byte{1}, true, "unknown entry"},
		"number not given":        {storeKey("totals"), encodeStore(99, state.KeyValueKind), true, "number 99"},
		"number given twice":      {storeKey("totals"), encodeStore(2, state.KeyValueKind), true, "both have the number 2"},
		"position cut":            {positionKey(1), []byte{1}, true, "a position has 1 bytes"},
		"short key":               {[]byte{0, 0, 0}, nil, true, "an entry with the key"},
	} {
		mem := vfs.NewMem()
		p := provider(t, Config{Dir: "state", FS: mem})
		b := open(t, p, specs())
		apply(t, b, 1, put(0, "k", "v"))
		closeBackend(t, b)
		raw(t, mem, func(db *pebble.DB) {
			if err := db.Set(c.key, c.value, nil); err != nil {
				t.Fatal(err)
			}
			if name == "newer, and unknown size" {
				if err := db.Set(storeKey("totals"), []byte("whatever"), nil); err != nil {
					t.Fatal(err)
				}
			}
		})
		b2, err := p.Open(task, specs())
		if err == nil {
			_ = b2.Close()
			t.Errorf("%s: opened", name)
			continue
		}
		if !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "state/"+task) || errors.Is(err, state.ErrCorrupt) != c.corrupt {
			t.Errorf("%s: error %q: want it to say %q, corrupt %v", name, err, c.says, c.corrupt)
		}
		if !slices.ContainsFunc(dump(t, mem), func(s string) bool { return s == `00000001 "k" = 76` }) {
			t.Errorf("%s: what was there is gone", name)
		}
	}
}

// A newer Pebble is a newer format.
func TestPebbleFormat(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	p := provider(t, Config{Dir: "state", FS: mem})
	b := open(t, p, specs())
	closeBackend(t, b)
	names, err := mem.List("state/" + task)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, "marker.format-version.") {
			if err := mem.Rename("state/"+task+"/"+name, "state/"+task+"/marker.format-version.000099.999"); err != nil {
				t.Fatal(err)
			}
		}
	}
	_, err = p.Open(task, specs())
	if err == nil || errors.Is(err, state.ErrCorrupt) || !strings.Contains(err.Error(), "run the version that wrote it") {
		t.Errorf("open of a newer Pebble: %v", err)
	}
}

// What lies beside our format number without one is not taken for an empty task.
func TestNoFormat(t *testing.T) {
	t.Parallel()
	mem := vfs.NewMem()
	if err := mem.MkdirAll("state/"+task, 0o700); err != nil {
		t.Fatal(err)
	}
	raw(t, mem, func(db *pebble.DB) {
		if err := db.Set([]byte("key"), nil, nil); err != nil {
			t.Fatal(err)
		}
	})
	if _, err := provider(t, Config{Dir: "state", FS: mem}).Open(task, specs()); !errors.Is(err, state.ErrCorrupt) {
		t.Errorf("open of a Pebble that is not ours: %v", err)
	}
}

// Close ends the reads of others, and waits for them; afterwards their snapshots only fail.
func TestCloseWhileReading(t *testing.T) {
	t.Parallel()
	p := provider(t, Config{Dir: "state", FS: vfs.NewMem()})
	b := open(t, p, specs())
	err := b.Apply(repeat(5000, func(i int) state.Mutation { return put(0, fmt.Sprintf("%05d", i), "v") }), at(2, 1))
	if err != nil {
		t.Fatal(err)
	}
	reading := make(chan struct{})
	var wg sync.WaitGroup
	var snapshots []state.Snapshot
	for i := range 8 {
		s, err := b.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		snapshots = append(snapshots, s)
		wg.Go(func() {
			defer s.Release()
			for first := true; ; {
				if _, _, err := s.Get(0, []byte("00001")); err != nil {
					if !errors.Is(err, errClosed) {
						t.Errorf("get: %v", err)
					}
					return
				}
				for _, err := range s.Scan(0, nil, nil) {
					if err != nil {
						if !errors.Is(err, errClosed) {
							t.Errorf("scan: %v", err)
						}
						return
					}
					if first && i == 0 {
						close(reading)
					}
					first = false
				}
			}
		})
	}
	<-reading
	closeBackend(t, b)
	wg.Wait()
	for _, s := range snapshots {
		s.Release() // once more
		if _, _, err := s.Get(0, []byte("00001")); !errors.Is(err, errClosed) {
			t.Errorf("get after Close: %v", err)
		}
	}
}

// A reader that does not go on holds Close up no longer than StallTimeout.
func TestCloseWithStuckReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Config{Dir: "state", FS: vfs.NewMem(), StallTimeout: 3 * time.Second})
		b := open(t, p, specs())
		apply(t, b, 1, put(0, "a", "1"), put(0, "b", "1"))
		s, err := b.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		let := make(chan struct{})
		var last error
		go func() {
			for _, err := range s.Scan(0, nil, nil) {
				last = err
				<-let
			}
		}()
		synctest.Wait()
		began := time.Now()
		if err := b.Close(); err == nil || !strings.Contains(err.Error(), "a reader does not end") {
			t.Errorf("close: %v", err)
		}
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("Close took %v", took)
		}
		close(let)
		synctest.Wait()
		if !errors.Is(last, errClosed) {
			t.Errorf("the reader saw %v", last)
		}
		b = open(t, p, specs())
		want(t, b, 0, map[string]string{"a": "1", "b": "1"})
		closeBackend(t, b)
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// A snapshot shows whole Applies only, whatever is flushed while it is taken, and goes on to.
func TestSnapshotWhileFlushing(t *testing.T) {
	t.Parallel()
	const keys, applies = 4, 2000
	p := provider(t, Config{Dir: "state", FS: vfs.NewMem()})
	b := open(t, p, specs())
	write := func(n int) {
		t.Helper()
		err := b.Apply(repeat(keys, func(i int) state.Mutation { return put(0, fmt.Sprint(i), fmt.Sprint(n)) }), at(2, int64(n)))
		if err != nil {
			t.Fatal(err)
		}
	}
	write(0)
	stop := make(chan struct{})
	loop := func(do func() error) func() {
		return func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if err := do(); err != nil {
					t.Error(err)
					return
				}
			}
		}
	}
	var wg sync.WaitGroup
	wg.Go(loop(func() error {
		done, err := b.db.AsyncFlush()
		if err == nil {
			<-done
		}
		return err
	}))
	for range 2 {
		wg.Go(loop(func() error {
			s, err := b.Snapshot()
			if err != nil {
				return err
			}
			defer s.Release()
			first := ""
			for range 3 {
				for e, err := range s.Scan(0, nil, nil) {
					if err != nil {
						return err
					}
					if first == "" {
						first = string(e.Value)
					}
					if string(e.Value) != first {
						return fmt.Errorf("one snapshot shows apply %s and apply %s", first, e.Value)
					}
				}
			}
			return nil
		}))
	}
	for n := 1; n < applies && !t.Failed(); n++ {
		write(n)
	}
	close(stop)
	wg.Wait()
}
