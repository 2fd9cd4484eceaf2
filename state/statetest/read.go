package statetest

import (
	"bytes"
	"testing"

	"github.com/headrace/headrace/state"
)

func testEmpty(t *testing.T, open func(*testing.T) state.Provider, _ Options) {
	b := openTask(t, open(t), specs())
	for i := range specs() {
		wantAll(t, b, i)
		wantAbsent(t, b, i, "")
		wantAbsent(t, b, i, "a")
		if got := b.Position(i); got != (state.Position{}) {
			t.Errorf("position of store %d: %+v, want zero", i, got)
		}
	}
	apply(t, b)
	wantAll(t, b, 0)
}

func testPutGetDelete(t *testing.T, open func(*testing.T) state.Provider, _ Options) {
	b := openTask(t, open(t), specs())
	apply(t, b, put(0, "a", "1"), put(1, "a", "2"), put(1, "b", "3"))
	wantAll(t, b, 0, pair{"a", "1"})
	wantAll(t, b, 1, pair{"a", "2"}, pair{"b", "3"})
	wantAll(t, b, 2)
	wantAbsent(t, b, 0, "b")

	apply(t, b, put(0, "a", "4"), del(1, "a"), del(2, "never was"))
	wantAll(t, b, 0, pair{"a", "4"})
	wantAll(t, b, 1, pair{"b", "3"})
	wantAll(t, b, 2)
	wantAbsent(t, b, 1, "a")
}

func testEmptyIsNotAbsent(t *testing.T, open func(*testing.T) state.Provider, _ Options) {
	b := openTask(t, open(t), specs())
	wantAbsent(t, b, 1, "")
	apply(t, b, put(1, "", ""), put(1, "k", ""))
	wantAll(t, b, 1, pair{"", ""}, pair{"k", ""})
	apply(t, b, put(1, "", "v"))
	wantAll(t, b, 1, pair{"", "v"}, pair{"k", ""})
	apply(t, b, del(1, ""))
	wantAll(t, b, 1, pair{"k", ""})
	wantAll(t, b, 0)
	wantAll(t, b, 2)
}

func testBigValues(t *testing.T, open func(*testing.T) state.Provider, _ Options) {
	b := openTask(t, open(t), specs())
	big := string(bytes.Repeat([]byte("0123456789abcdef"), 128<<10)) // 2 MiB
	key := string(bytes.Repeat([]byte("k"), 32<<10))
	apply(t, b, put(0, key, big), put(0, key+"x", "small"), put(2, "z", big[1:]))
	wantAll(t, b, 0, pair{key, big}, pair{key + "x", "small"})
	wantAll(t, b, 2, pair{"z", big[1:]})
}

func testScanBounds(t *testing.T, open func(*testing.T) state.Provider, _ Options) {
	b := openTask(t, open(t), specs())
	keys := []string{"", "\x00", "a", "a\x00", "aa", "b", "\xff", "\xff\xff"}
	var ms []state.Mutation
	for i := len(keys) - 1; i >= 0; i-- {
		for s := range specs() {
			ms = append(ms, put(s, keys[i], keys[i]))
		}
	}
	apply(t, b, ms...)
	bounds := [][]byte{nil}
	for _, k := range append([]string{"c", "a\x00\x00", "\xff\xff\xff"}, keys...) {
		bounds = append(bounds, []byte(k))
	}
	for _, from := range bounds {
		for _, to := range bounds {
			var want []pair
			for _, k := range keys {
				if k >= string(from) && (to == nil || k < string(to)) {
					want = append(want, pair{k, k})
				}
			}
			if diff := difference(want, collect(t, b.Scan(1, from, to))); diff != "" {
				t.Errorf("scan from %q to %q (nil %v) %s", from, to, to == nil, diff)
			}
		}
	}
}

func testScanEndsEarly(t *testing.T, open func(*testing.T) state.Provider, _ Options) {
	b := openTask(t, open(t), specs())
	apply(t, b, put(0, "a", "1"), put(0, "b", "2"), put(0, "c", "3"))
	for range 3 {
		n := 0
		for _, err := range b.Scan(0, nil, nil) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; n == 2 {
				break
			}
		}
		if n != 2 {
			t.Errorf("%d entries, want 2", n)
		}
	}
	// A scan within a scan, and a sequence used twice.
	all := b.Scan(0, nil, nil)
	n := 0
	for range all {
		n += len(collect(t, all))
	}
	if n != 9 {
		t.Errorf("%d entries in nested scans, want 9", n)
	}
	apply(t, b, del(0, "b"))
	wantAll(t, b, 0, pair{"a", "1"}, pair{"c", "3"})
}

// testBytesStay: what was read stays as it was, whatever becomes of the key.
func testBytesStay(t *testing.T, open func(*testing.T) state.Provider, _ Options) {
	b := openTask(t, open(t), specs())
	apply(t, b, put(0, "a", "first"), put(0, "b", "first"))
	got, _, err := b.Get(0, []byte("a"))
	if err != nil {
		t.Fatal(err)
	}
	var scanned []state.Entry // as it came, to be looked at later
	for e, err := range b.Scan(0, nil, nil) {
		if err != nil {
			t.Fatal(err)
		}
		scanned = append(scanned, e)
	}
	apply(t, b, put(0, "a", "other"), del(0, "b"), put(0, "c", "third"))
	_ = append(got, "grown"...)
	if string(got) != "first" {
		t.Errorf("value read before: %q, want %q", got, "first")
	}
	var later []pair
	for _, e := range scanned {
		later = append(later, pair{string(e.Key), string(e.Value)})
	}
	if diff := difference([]pair{{"a", "first"}, {"b", "first"}}, later); diff != "" {
		t.Errorf("entries scanned before %s", diff)
	}
	wantAll(t, b, 0, pair{"a", "other"}, pair{"c", "third"})
}
