package window_test

import (
	"bytes"
	"encoding/hex"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/window"
)

// Type inference finds K in a KeyCodec[K] that is passed as a serde.Serde of a Key[K].
func keyOf[K any](serde.Serde[K]) (k K) { return k }

var _ window.Key[string] = keyOf(window.KeySerde(serde.String()))

func checkKey[K any](t *testing.T, inner serde.Serde[K], k window.Key[K], innerBytes, want []byte, size, sizedEnd, plainEnd int64) {
	t.Helper()
	plain := window.KeySerde(inner)
	sized := plain.Size(time.Duration(size) * time.Millisecond)
	got, err := sized.Append([]byte("before"), k)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, append([]byte("before"), want...)) {
		t.Errorf("Append(%v) = %x, Kafka Streams writes %x", k, got[len("before"):], want)
	}
	for _, c := range []struct {
		codec window.KeyCodec[K]
		end   int64
	}{{sized, sizedEnd}, {plain, plainEnd}} {
		back, err := c.codec.Decode(want)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(window.Key[K]{Key: k.Key, Start: k.Start, End: c.end}, back); diff != "" {
			t.Errorf("Decode(%x) (-want +got):\n%s", want, diff)
		}
	}
	part, err := sized.PartitionKey(want)
	if err != nil || !bytes.Equal(part, innerBytes) {
		t.Errorf("PartitionKey(%x) = %x, %v, want %x", want, part, err, innerBytes)
	}
}

func TestKeySerdeWritesTheBytesOfKafkaStreams(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("testdata/kafka-streams.tsv")
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
		if len(f) != 8 {
			t.Fatalf("line %q has %d fields, want 8", line, len(f))
		}
		start, end, size := number(f[2]), number(f[3]), number(f[4])
		want, sizedEnd, plainEnd := unhex(f[5]), number(f[6]), number(f[7])
		seen[f[0]]++
		switch f[0] {
		case "String":
			k := string(unhex(f[1]))
			checkKey(t, serde.String(), window.Key[string]{Key: k, Start: start, End: end}, []byte(k), want, size, sizedEnd, plainEnd)
		case "Int64":
			k := number(f[1])
			inner, err := serde.Int64().Append(nil, k)
			if err != nil {
				t.Fatal(err)
			}
			checkKey(t, serde.Int64(), window.Key[int64]{Key: k, Start: start, End: end}, inner, want, size, sizedEnd, plainEnd)
		default:
			t.Fatalf("no serde for %q", f[0])
		}
	}
	if seen["String"] == 0 || seen["Int64"] == 0 {
		t.Errorf("testdata has %v lines", seen)
	}
}

func TestKeyString(t *testing.T) {
	t.Parallel()
	k := window.Key[string]{Key: "k", Start: 0, End: 60_000}
	if got, want := k.String(), "[k@0/60000]"; got != want { // as Kafka Streams prints it
		t.Errorf("String() = %q, want %q", got, want)
	}
	got, err := window.KeySerde(serde.String()).Decode([]byte("k\x00\x00\x00\x00\x00\x00\x00\x07"))
	if want := "[k@7/?]"; err != nil || got.String() != want { // without a size nobody knows the end
		t.Errorf("String() = %q, %v, want %q", got, err, want)
	}
	start, end := k.Interval()
	if want := time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC); !start.Equal(want) || end.Sub(start) != time.Minute || start.Location() != time.UTC {
		t.Errorf("Interval() = %v, %v", start, end)
	}
}

func TestKeySerdeErrors(t *testing.T) {
	t.Parallel()
	k := window.KeySerde(serde.Int64())
	long := make([]byte, 16)
	for _, c := range []struct {
		name  string
		codec window.KeyCodec[int64]
		in    []byte
		want  string
	}{
		{"short", k, []byte("1234567"), "window: KeySerde: want at least 8 bytes for the start, got 7; the key was probably written without a window"},
		{"inner", k, make([]byte, 12), "window: KeySerde: inner key: serde: Int64: want 8 bytes, got 4; the topic was probably written with another serializer"},
		{"size 0", k.Size(0), long, "window: KeySerde: size is 0s, want at least 1ms"},
		{"size negative", k.Size(-time.Second), long, "window: KeySerde: size is -1s, want at least 1ms"},
		{"size odd", k.Size(1500 * time.Microsecond), long, "window: KeySerde: size is 1.5ms, want whole milliseconds"},
		{"no inner", window.KeySerde[int64](nil), long, "window: KeySerde: the serde of the inner key is nil"},
		{"zero", window.KeyCodec[int64]{}, long, "window: KeySerde: the serde of the inner key is nil"},
	} {
		if _, err := c.codec.Decode(c.in); err == nil || err.Error() != c.want {
			t.Errorf("%s: Decode: %v, want %s", c.name, err, c.want)
		}
	}
	if err := k.Size(0).Validate(); err == nil {
		t.Error("Validate takes size 0")
	}
	if err := k.Size(0).Size(time.Minute).Validate(); err != nil {
		t.Errorf("Validate after a good size: %v", err)
	}
	if _, err := window.KeySerde[int64](nil).Append(nil, window.Key[int64]{}); err == nil {
		t.Error("Append without an inner serde gives no error")
	}
}

func FuzzKeySerde(f *testing.F) {
	f.Add([]byte(""), int64(60_000))
	f.Add([]byte("1234567"), int64(1))
	f.Add([]byte("AMS\x00\x00\x01\x41\x00\x04\x8c\x00"), int64(21_600_000))
	f.Add(bytes.Repeat([]byte{0xff}, 9), int64(math.MaxInt32))
	f.Fuzz(func(t *testing.T, b []byte, size int64) {
		codec := window.KeySerde(serde.Bytes()).Size(ms(size % (1 << 40)))
		k, err := codec.Decode(b)
		if len(b) < 8 || codec.Validate() != nil {
			if err == nil {
				t.Fatalf("Decode(%x) with size %d = %v", b, size, k)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if k.End < k.Start {
			t.Fatalf("window of %v ends before it starts", k)
		}
		again, err := codec.Append(nil, k)
		if err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%x decodes to %v and encodes to %x, %v", b, k, again, err)
		}
		inner, err := window.InnerKey(b)
		if err != nil || !bytes.Equal(inner, k.Key) {
			t.Fatalf("InnerKey(%x) = %x, %v, want %x", b, inner, err, k.Key)
		}
	})
}

func BenchmarkKeySerde(b *testing.B) {
	codec := window.KeySerde(serde.Bytes()).Size(time.Minute)
	k := window.Key[[]byte]{Key: []byte("account1"), Start: 60_000}
	b.ReportAllocs()
	var buf []byte
	for b.Loop() {
		var err error
		if buf, err = codec.Append(buf[:0], k); err != nil {
			b.Fatal(err)
		}
		if _, err = codec.Decode(buf); err != nil {
			b.Fatal(err)
		}
	}
}
