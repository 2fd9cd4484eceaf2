package statetest

import (
	"testing"

	"github.com/headrace/headrace/state"
)

// A backend that tells its size tells more when it holds more, and not much less than what it was given. Values are random, so that
// compression does not help.
func testSize(t *testing.T, open func(*testing.T) state.Provider, _ Options) {
	b := openTask(t, open(t), specs())
	sized, ok := b.(state.Sized)
	if !ok {
		t.Skip("the backend does not tell its size")
	}
	empty := sized.Size()
	src := newSource(t, seeds[0])
	value := make([]byte, 1000)
	var last string
	for range 100 {
		for i := range value {
			value[i] = byte(src.IntN(256))
		}
		last = string(value[:20])
		apply(t, b, put(0, last, string(value)))
	}
	full := sized.Size()
	if empty < 0 || full-empty < 80_000 {
		t.Errorf("size %d when empty and %d with 102 kB", empty, full)
	}
	apply(t, b, put(0, last, "short"), del(0, "never was"), del(0, last))
	if now := sized.Size(); now < 0 || now > 2*full {
		t.Errorf("size %d after a deletion, %d before", now, full)
	}
}
