package window_test

import (
	"bytes"
	"encoding/hex"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/window"
)

func checkSessionKey[K any](t *testing.T, inner serde.Serde[K], k window.Key[K], want []byte) {
	t.Helper()
	codec := window.SessionKeySerde(inner)
	got, err := codec.Append([]byte("before"), k)
	if err != nil || !bytes.Equal(got, append([]byte("before"), want...)) {
		t.Errorf("Append(%v) = %x, %v, Kafka Streams writes %x", k, got[len("before"):], err, want)
	}
	back, err := codec.Decode(want)
	if diff := cmp.Diff(k, back); diff != "" || err != nil {
		t.Errorf("Decode(%x): %v (-want +got):\n%s", want, err, diff)
	}
	innerBytes, err := inner.Append(nil, k.Key)
	if err != nil {
		t.Fatal(err)
	}
	if part, err := codec.PartitionKey(want); err != nil || !bytes.Equal(part, innerBytes) {
		t.Errorf("PartitionKey(%x) = %x, %v, want %x", want, part, err, innerBytes)
	}
}

func TestSessionKeySerdeWritesTheBytesOfKafkaStreams(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("testdata/kafka-streams-sessions.tsv")
	if err != nil {
		t.Fatal(err)
	}
	number := func(s string) int64 {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	unhex := func(s string) []byte {
		b, err := hex.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	seen := map[string]int{}
	for line := range strings.Lines(string(file)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(strings.TrimRight(line, "\n"), "\t")
		if len(f) != 5 {
			t.Fatalf("line %q has %d fields, want 5", line, len(f))
		}
		seen[f[0]]++
		switch f[0] {
		case "String":
			checkSessionKey(t, serde.String(), window.Key[string]{Key: string(unhex(f[1])), Start: number(f[2]), End: number(f[3])}, unhex(f[4]))
		case "Int64":
			checkSessionKey(t, serde.Int64(), window.Key[int64]{Key: number(f[1]), Start: number(f[2]), End: number(f[3])}, unhex(f[4]))
		default:
			t.Fatalf("no serde for %q", f[0])
		}
	}
	if seen["String"] == 0 || seen["Int64"] == 0 {
		t.Errorf("testdata has %v lines", seen)
	}
}

func TestSessionKeySerdeErrors(t *testing.T) {
	t.Parallel()
	codec := window.SessionKeySerde(serde.Int64())
	for name, c := range map[string]struct {
		in   []byte
		want string
	}{
		"short":     {make([]byte, 15), "want at least 16 bytes"},
		"no key":    {make([]byte, 16), "inner key"},
		"backwards": {append(make([]byte, 8+15), 1), "ends before it starts"},
	} {
		if _, err := codec.Decode(c.in); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error that says %q", name, err, c.want)
		}
	}
	var none window.SessionKeyCodec[int64]
	if _, err := none.Append(nil, window.Key[int64]{}); err == nil {
		t.Error("Append without an inner serde: no error")
	}
	if _, err := none.Decode(make([]byte, 24)); err == nil {
		t.Error("Decode without an inner serde: no error")
	}
	if _, err := codec.PartitionKey(nil); err == nil {
		t.Error("PartitionKey of nothing: no error")
	}
}

// FuzzSessionKey: whatever decodes encodes to the same bytes again, and nothing panics.
func FuzzSessionKey(f *testing.F) {
	f.Add([]byte("k\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00\x05"))
	f.Add(make([]byte, 16))
	f.Fuzz(func(t *testing.T, b []byte) {
		codec := window.SessionKeySerde(serde.Bytes())
		k, err := codec.Decode(b)
		if err != nil {
			return
		}
		if k.End < k.Start {
			t.Fatalf("%v ends before it starts", k)
		}
		if again, err := codec.Append(nil, k); err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%x decodes to %v and encodes to %x, %v", b, k, again, err)
		}
		if inner, err := window.InnerSessionKey(b); err != nil || !bytes.Equal(inner, k.Key) {
			t.Fatalf("InnerSessionKey(%x) = %x, %v, want %x", b, inner, err, k.Key)
		}
	})
}
