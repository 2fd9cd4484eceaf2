package topology

import (
	"bytes"
	"encoding/hex"
	"testing"

	"github.com/headrace/headrace/state"
)

// The bytes of timers are in people's changelogs: none of them may ever change.
func TestTimerFormat(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		timer  timer
		golden string
	}{
		{timer{at: 1_357_002_000_000, indexed: 1_357_001_100_000}, "010000013bf39f46800000013bf3918ae0"},
		{timer{at: -1, indexed: -1, holds: true, hold: 258}, "01ffffffffffffffffffffffffffffffff" + "0000000000000102"},
	} {
		if got := hex.EncodeToString(c.timer.append(nil)); got != c.golden {
			t.Errorf("%+v is %s, want %s", c.timer, got, c.golden)
		}
		b, err := hex.DecodeString(c.golden)
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeTimer(state.AppendValue(nil, 7, b))
		if err != nil || got != c.timer {
			t.Errorf("%s: got %+v, %v, want %+v", c.golden, got, err, c.timer)
		}
	}
	q := &timerQueue{}
	if got := hex.EncodeToString(q.entry(dueTag, 258, []byte("kann"))); got != "648000000000000102616e6e" {
		t.Errorf("the entry of an index is %s", got)
	}
	if at, key := splitIndex(q.entry(holdTag, -3, []byte("kann"))); at != -3 || string(key) != "ann" {
		t.Errorf("taken apart: %d, %q", at, key)
	}
}

// Whatever a store holds is an error or a timer, and that of no other bytes.
func FuzzTimer(f *testing.F) {
	f.Add([]byte{})
	f.Add(state.AppendValue(nil, 7, timer{at: 5, indexed: 4}.append(nil)))
	f.Add(state.AppendValue(nil, 7, timer{at: 5, indexed: 4, holds: true, hold: 3}.append(nil)))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := decodeTimer(b)
		if err != nil {
			return
		}
		if again := got.append(nil); !bytes.Equal(again, b[8:]) {
			t.Errorf("%x is %+v, which is %x", b[8:], got, again)
		}
	})
}
