package topology

import (
	"encoding/hex"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What is kept of the results of sessions outlives the program that wrote it.
func TestSessionHistoryBytes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		h    sessionHistory
		want string
	}{
		{sessionHistory{}, "02000000"},
		{sessionHistory{since: 5}, "02000005"},
		{sessionHistory{results: 300, timing: Late, told: []told{{start: -1, last: 5, revision: 299, timing: Late}}}, "0203ac0200" + "010aab020300"},
		{
			sessionHistory{results: 2, timing: OnTime, told: []told{{1, 2, 0, OnTime, []byte("15")}, {64, 65, 1, Early, []byte{}}}},
			"02020200" + "02040002" + "01023135" + "800182010101" + "0100",
		},
	} {
		b := appendSessionHistory(nil, &c.h)
		if got := hex.EncodeToString(b); got != c.want {
			t.Errorf("%+v is written as %s, want %s", c.h, got, c.want)
		}
		back, ok := decodeSessionHistory(b)
		if diff := cmp.Diff(c.h, back, cmp.AllowUnexported(sessionHistory{}, told{})); !ok || diff != "" {
			t.Errorf("%s is read as another (-want +got):\n%s", c.want, diff)
		}
	}
}

func FuzzSessionHistory(f *testing.F) {
	for _, s := range []string{"", "02000000", "0203ac0200010aab020300", "0202020002040002010231358001820101010100", "01000000", "020000000204000201ff", "0200ffffffffffffffffff0105"} {
		b, err := hex.DecodeString(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, ok := decodeSessionHistory(b)
		if !ok {
			return
		}
		again, ok := decodeSessionHistory(appendSessionHistory(nil, &h))
		if diff := cmp.Diff(h, again, cmp.AllowUnexported(sessionHistory{}, told{})); !ok || diff != "" {
			t.Errorf("%x is read as another once written again:\n%s", b, diff)
		}
	})
}
