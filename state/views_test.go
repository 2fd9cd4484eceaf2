package state_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
)

var (
	counts  = state.KeyValueOf("counts", serde.OrderedInt64(), serde.String())
	perHour = state.WindowsOf("per-hour", serde.String(), serde.Int64(), 90*time.Minute)
)

func newViews(t testing.TB) (host, *state.KeyValueView[int64, string], *state.WindowsView[string, int64]) {
	t.Helper()
	h := newHost(t, counts.Spec(), perHour.Spec())
	kv, err := counts.Open(h)
	if err != nil {
		t.Fatal(err)
	}
	w, err := perHour.Open(h)
	if err != nil {
		t.Fatal(err)
	}
	return h, kv, w
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestSpecs(t *testing.T) {
	t.Parallel()
	want := []state.Spec{{Name: "counts", Kind: state.KeyValueKind}, {Name: "per-hour", Kind: state.WindowKind, Retention: 5_400_000}}
	if diff := cmp.Diff(want, []state.Spec{counts.Spec(), perHour.Spec()}); diff != "" {
		t.Errorf("specs (-want +got):\n%s", diff)
	}
}

func TestKeyValueView(t *testing.T) {
	t.Parallel()
	_, kv, _ := newViews(t)
	if v, ok, err := kv.Get(1); v != "" || ok || err != nil {
		t.Errorf("get of an absent key: %q, %v, %v", v, ok, err)
	}
	must(t, kv.Put(1, "one"), kv.PutAt(-1, "minus one", 77), kv.Put(2, ""), kv.Put(300, "much"))

	type got struct {
		V  string
		At int64
		OK bool
	}
	for k, want := range map[int64]got{1: {"one", hostTime, true}, -1: {"minus one", 77, true}, 2: {"", hostTime, true}, 3: {}} {
		v, at, ok, err := kv.GetAt(k)
		if g := (got{v, at, ok}); g != want || err != nil {
			t.Errorf("get %d: %+v, %v; want %+v", k, g, err, want)
		}
	}

	must(t, kv.Delete(1), kv.Delete(1), kv.Delete(99))
	if _, ok, err := kv.Get(1); ok || err != nil {
		t.Errorf("get of a deleted key: %v, %v", ok, err)
	}
	var items []state.Item[int64, string]
	for it, err := range kv.All() {
		must(t, err)
		items = append(items, it)
	}
	want := []state.Item[int64, string]{{-1, "minus one", 77}, {2, "", hostTime}, {300, "much", hostTime}}
	if diff := cmp.Diff(want, items); diff != "" {
		t.Errorf("all (-want +got):\n%s", diff)
	}
}

// TestKeyValueScan: bounds are half open, and the loop body may use the view for anything, another scan included.
func TestKeyValueScan(t *testing.T) {
	t.Parallel()
	_, kv, _ := newViews(t)
	for k := int64(-3); k <= 3; k++ {
		must(t, kv.Put(k, "x"))
	}
	var got []int64
	for it, err := range kv.Scan(-2, 2) {
		must(t, err)
		got = append(got, it.Key)
		must(t, kv.Delete(it.Key), kv.Put(it.Key+100, "y"))
		for inner, err := range kv.Scan(it.Key+1, it.Key+2) {
			must(t, err)
			if inner.Key != it.Key+1 {
				t.Errorf("inner scan at %d is at %d", it.Key, inner.Key)
			}
		}
		if it.Key == 0 {
			must(t, kv.Delete(1))
			break
		}
	}
	for it, err := range kv.All() {
		must(t, err)
		got = append(got, it.Key)
	}
	if diff := cmp.Diff([]int64{-2, -1, 0, -3, 2, 3, 98, 99, 100}, got); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}

func TestWindowsView(t *testing.T) {
	t.Parallel()
	_, _, w := newViews(t)
	must(t, w.Put("b", 1000, 1), w.PutAt("a", 1000, 2, 1500), w.Put("a", -1000, 3), w.Put("a", 2000, 4), w.Put("", 2000, 5))
	if v, at, ok, err := w.GetAt("a", 1000); v != 2 || at != 1500 || !ok || err != nil {
		t.Errorf("get: %d, %d, %v, %v; want 2, 1500", v, at, ok, err)
	}
	if _, ok, err := w.Get("b", 2000); ok || err != nil {
		t.Errorf("get of another window's key: %v, %v", ok, err)
	}

	scan := func(from, to int64) (got []state.WindowItem[string, int64]) {
		t.Helper()
		for it, err := range w.Between(from, to) {
			must(t, err)
			got = append(got, it)
		}
		return got
	}
	want := []state.WindowItem[string, int64]{
		{-1000, "a", 3, hostTime},
		{1000, "a", 2, 1500},
		{1000, "b", 1, hostTime},
		{2000, "", 5, hostTime},
		{2000, "a", 4, hostTime},
	}
	for _, c := range []struct{ from, to, first, last int64 }{
		{-1000, 2001, 0, 5}, {-1000, 2000, 0, 3}, {-999, 2000, 1, 3}, {1000, 1001, 1, 3}, {1000, 1000, 0, 0}, {1001, 2000, 0, 0},
	} {
		if diff := cmp.Diff(want[c.first:c.last], scan(c.from, c.to), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("between %d and %d (-want +got):\n%s", c.from, c.to, diff)
		}
	}

	must(t, w.Delete("a", 1000), w.Delete("a", 1000))
	n := 0
	for _, err := range w.All() {
		must(t, err)
		n++
	}
	if n != 4 {
		t.Errorf("%d entries after the deletion, want 4", n)
	}
}

func TestWindowKeyOrder(t *testing.T) {
	t.Parallel()
	starts := []int64{-1 << 63, -1000, -1, 0, 1, 255, 256, 1<<63 - 1}
	for i, start := range starts {
		b := state.AppendWindowKey([]byte("dst"), start, []byte("key"))[3:]
		gotStart, key, ok := state.SplitWindowKey(b)
		if gotStart != start || string(key) != "key" || !ok {
			t.Errorf("split: %d, %q, %v; want %d", gotStart, key, ok, start)
		}
		if i > 0 && string(b) <= string(state.AppendWindowKey(nil, starts[i-1], []byte("zzz"))) {
			t.Errorf("the key of window %d sorts before that of window %d", start, starts[i-1])
		}
	}
	if _, _, ok := state.SplitWindowKey(make([]byte, 7)); ok {
		t.Error("split 7 bytes as a window key")
	}
	if _, _, err := state.SplitValue(make([]byte, 7)); err == nil {
		t.Error("split 7 bytes as a value")
	}
	at, value, err := state.SplitValue(state.AppendValue(nil, -5, nil))
	if at != -5 || value == nil || len(value) != 0 || err != nil {
		t.Errorf("split of an empty value: %d, %v, %v; want -5 and an empty value that is not nil", at, value, err)
	}
}

var errRefused = errors.New("refused")

// picky is a serde of strings that refuses "bad".
type picky struct{}

func (picky) Append(dst []byte, v string) ([]byte, error) {
	if v == "bad" {
		return nil, errRefused
	}
	return append(dst, v...), nil
}

func (picky) Decode(b []byte) (string, error) {
	if strings.HasPrefix(string(b), "old") {
		return "", errRefused
	}
	return string(b), nil
}

// TestViewErrors: errors name the store, keep the cause, and leave the view usable.
func TestViewErrors(t *testing.T) {
	t.Parallel()
	kvs, ws := state.KeyValueOf("kvs", picky{}, picky{}), state.WindowsOf("ws", picky{}, picky{}, time.Hour)
	h := newHost(t, kvs.Spec(), ws.Spec())
	kv, err := kvs.Open(h)
	must(t, err)
	w, err := ws.Open(h)
	must(t, err)
	must(t,
		h.txn.Put(0, []byte("old key"), state.AppendValue(nil, 1, []byte("v"))),
		h.txn.Put(0, []byte("value"), state.AppendValue(nil, 1, []byte("old value"))),
		h.txn.Put(0, []byte("short"), []byte("1234567")),
		h.txn.Put(1, state.AppendWindowKey(nil, 5, []byte("old key")), state.AppendValue(nil, 1, []byte("v"))),
		h.txn.Put(1, []byte("\xff1234567"), []byte{}),
		h.txn.Put(1, []byte("\xff\xff"), []byte{}),
	)
	second := func(_ string, _ bool, err error) error { return err }
	scanKV := func(from, to string) (last error) {
		for _, err := range kv.Scan(from, to) {
			if last != nil {
				t.Error("the scan went on after its error")
			}
			last = err
		}
		return last
	}
	scanW := func(from, to int64) (last error) {
		for _, err := range w.Between(from, to) {
			if last != nil {
				t.Error("the scan went on after its error")
			}
			last = err
		}
		return last
	}
	for _, c := range []struct {
		name    string
		err     error
		refused bool
		names   string
	}{
		{"get key", second(kv.Get("bad")), true, `"kvs": encode key`},
		{"put key", kv.Put("bad", "v"), true, `"kvs": encode key`},
		{"put value", kv.Put("k", "bad"), true, `"kvs": encode value`},
		{"delete key", kv.Delete("bad"), true, `"kvs": encode key`},
		{"scan from", scanKV("bad", "z"), true, `"kvs": encode key`},
		{"scan to", scanKV("a", "bad"), true, `"kvs": encode key`},
		{"scan old key", scanKV("o", "p"), true, `"kvs": decode key`},
		{"scan old value", scanKV("v", "w"), true, `"kvs": decode value`},
		{"get old value", second(kv.Get("value")), true, `"kvs": decode value`},
		{"get short", second(kv.Get("short")), false, `"kvs": state: malformed value: 7 bytes`},
		{"window get key", second(w.Get("bad", 1)), true, `"ws": encode key`},
		{"window put key", w.Put("bad", 1, "v"), true, `"ws": encode key`},
		{"window put value", w.Put("k", 1, "bad"), true, `"ws": encode value`},
		{"window delete key", w.Delete("bad", 1), true, `"ws": encode key`},
		{"window scan old key", scanW(5, 6), true, `"ws": decode key`},
		{"window scan short", scanW(6, 1<<63-1), false, `"ws": state: malformed value: 0 bytes`},
	} {
		if c.err == nil || errors.Is(c.err, errRefused) != c.refused || !strings.Contains(c.err.Error(), c.names) {
			t.Errorf("%s: %v; want it to say %s", c.name, c.err, c.names)
		}
	}
	must(t, h.txn.Delete(1, []byte("\xff1234567")))
	var last error
	for _, err := range w.All() {
		last = err
	}
	if last == nil {
		t.Error("no error from a scan of malformed entries")
	}
	must(t, kv.Put("k", "v"), w.Put("k", 1, "v"))

	if _, err := perHour.Open(h); err == nil || !strings.Contains(err.Error(), `"per-hour"`) {
		t.Errorf("open a store that is not there: %v", err)
	}
	if _, err := state.KeyValueOf("ws", picky{}, picky{}).Open(h); err == nil {
		t.Error("opened a window store as a key-value store")
	}
}

// TestViewBackendErrors: what the store answers with comes through.
func TestViewBackendErrors(t *testing.T) {
	t.Parallel()
	h := newHost(t, counts.Spec(), perHour.Spec())
	h.txn = state.NewTxn(broken{h.txn.Backend()}, h.txn.Specs())
	kv, err := counts.Open(h)
	must(t, err)
	w, err := perHour.Open(h)
	must(t, err)
	if _, _, err := kv.Get(1); !errors.Is(err, errDisk) {
		t.Errorf("get: %v", err)
	}
	if _, _, err := w.Get("a", 1); !errors.Is(err, errDisk) {
		t.Errorf("get of a window: %v", err)
	}
	for _, err := range kv.All() {
		if !errors.Is(err, errDisk) {
			t.Errorf("scan: %v", err)
		}
	}
	for _, err := range w.All() {
		if !errors.Is(err, errDisk) {
			t.Errorf("scan of windows: %v", err)
		}
	}
}

func TestViewAllocations(t *testing.T) {
	_, kv, w := newViews(t)
	must(t, kv.Put(1, "x"), w.Put("a", 1, 1))
	counter, err := state.KeyValueOf("counts", serde.Int64(), serde.Int64()).Open(newHost(t, counts.Spec()))
	must(t, err)
	must(t, counter.Put(1, 1))
	if n := testing.AllocsPerRun(1000, func() {
		n, _, err := counter.Get(1)
		if err != nil || counter.Put(1, n+1) != nil {
			t.Fatal(err)
		}
		m, _, err := w.Get("a", 1)
		if err != nil || w.Put("a", 1, m+1) != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations a record, want none", n)
	}
}
