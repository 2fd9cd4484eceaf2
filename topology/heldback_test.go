package topology

import (
	"bytes"
	"encoding/hex"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/headrace/headrace/state"
)

// The bytes of what Suppress keeps back are in people's changelogs: none of them may ever change.
func TestHeldBackFormat(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kept   heldBack
		golden string
	}{
		{heldBack{since: 258, low: 257, at: 7, value: []byte("v")}, "01000000000000000102" + "0000000000000101" + "76"},
		{heldBack{since: -1, low: -2, at: 7, null: true, value: []byte{}}, "0101ffffffffffffffff" + "fffffffffffffffe"},
		{
			heldBack{
				since: 1, low: 1, at: 7, pane: Pane{Timing: Late, Revision: 300}, value: []byte{},
				headers: []Header{{Key: "n", Value: []byte("ab")}, {Key: ""}, {Key: "e", Value: []byte{}}},
			},
			"01060000000000000001" + "0000000000000001" + "03ac02" + "03" + "016e036162" + "0000" + "016501",
		},
	} {
		if got := hex.EncodeToString(append(c.kept.append(nil), c.kept.value...)); got != c.golden {
			t.Errorf("%+v is %s, want %s", c.kept, got, c.golden)
		}
		b, err := hex.DecodeString(c.golden)
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeHeldBack(state.AppendValue(nil, 7, b))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.kept, got, cmp.AllowUnexported(heldBack{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.golden, diff)
		}
	}
}

// Whatever a store holds is an error or a change that comes back from its own bytes.
func FuzzHeldBack(f *testing.F) {
	f.Add([]byte{})
	for _, k := range []heldBack{{since: 5, low: 4}, {null: true}, {pane: Pane{Timing: Early, Revision: 1}, headers: []Header{{Key: "a"}, {Key: "b", Value: []byte("c")}}}} {
		f.Add(append(k.append(state.AppendValue(nil, 3, nil)), k.value...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := decodeHeldBack(b)
		if err != nil {
			return
		}
		again, err := decodeHeldBack(append(got.append(state.AppendValue(nil, got.at, nil)), got.value...))
		if diff := cmp.Diff(got, again, cmp.AllowUnexported(heldBack{}), cmpopts.EquateEmpty()); diff != "" || err != nil {
			t.Errorf("%x: %v (-once +twice):\n%s", b, err, diff)
		}
		if got.null && !bytes.Equal(got.value, nil) {
			t.Errorf("%x: null, with the value %x", b, got.value)
		}
	})
}
