package topology

import (
	"encoding/hex"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What is kept of the results of windows outlives the program that wrote it.
func TestHistoryBytes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		h    history
		want string
	}{
		{history{}, "01000000"},
		{history{results: 1, timing: OnTime}, "01020100"},
		{history{results: 300, since: 5, timing: Early}, "0101ac0205"},
		{history{results: 2, timing: Late, last: []byte("15"), lastAt: 59_000}, "01030200000000000000e6783135"},
		{history{results: 2, timing: Late, last: []byte{}, lastAt: -1}, "01030200ffffffffffffffff"},
	} {
		b := appendHistory(nil, &c.h)
		if got := hex.EncodeToString(b); got != c.want {
			t.Errorf("%+v is written as %s, want %s", c.h, got, c.want)
		}
		back, ok := decodeHistory(b)
		if diff := cmp.Diff(c.h, back, cmp.AllowUnexported(history{})); !ok || diff != "" {
			t.Errorf("%s is read as another (-want +got):\n%s", c.want, diff)
		}
	}
}

func FuzzHistory(f *testing.F) {
	for _, s := range []string{"", "01000000", "01030200000000000000e6783135", "02000000", "0101ffffffffffffffffff0105", "010101"} {
		b, err := hex.DecodeString(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, ok := decodeHistory(b)
		if !ok {
			return
		}
		again, ok := decodeHistory(appendHistory(nil, &h))
		if diff := cmp.Diff(h, again, cmp.AllowUnexported(history{})); !ok || diff != "" {
			t.Errorf("%x is read as another once written again:\n%s", b, diff)
		}
	})
}
