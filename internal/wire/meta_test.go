package wire

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var (
	references = map[string]Reference{
		"reference":         {TransactionalID: "flights-a1-0", Sequence: 300, Partition: 3, Offset: 1 << 40, Slot: 1},
		"reference-unknown": {TransactionalID: "flights-a1-0", Sequence: 1, Offset: -1},
	}
	metas = map[string]Meta{
		"meta": {Topic: "flights-by-origin-repartition", Partition: 3, Commit: commits["commit-repartition"]},
	}
)

func referenceBytes(dst []byte, r Reference) []byte {
	b, err := base64.RawStdEncoding.DecodeString(strings.TrimPrefix(EncodeReference(r), commitPrefix))
	if err != nil {
		panic(err)
	}
	return append(dst, b...)
}

func decodeReferenceBytes(b []byte) (Reference, error) {
	r, is, err := DecodeReference(commitPrefix + base64.RawStdEncoding.EncodeToString(b))
	if err == nil && !is {
		err = errors.New("no reference")
	}
	return r, err
}

// What the file keeps of a meta record is the part in front of its commit, whose bytes have numbers of their own.
func TestMetaKeepsItsBytes(t *testing.T) {
	t.Parallel()
	all := goldenIn(t, "testdata/meta1.txt")
	checkGolden(t, all, references, referenceBytes, decodeReferenceBytes)
	m := metas["meta"]
	want := append(append([]byte(nil), all["meta-head"]...), AppendCommit(nil, m.Commit)...)
	if got := AppendMeta(nil, m); hex.EncodeToString(got) != hex.EncodeToString(want) {
		t.Errorf("meta: got %x, want %x", got, want)
	}
	if got, err := DecodeMeta(all["meta"]); err != nil {
		t.Errorf("meta of the first version: %v", err)
	} else if diff := cmp.Diff(m, got); diff != "" {
		t.Errorf("meta of the first version (-want +got):\n%s", diff)
	}
	if got, want := string(MetaKey("in", 12, 1)), "in/12/1"; got != want {
		t.Errorf("key %q, want %q", got, want)
	}
}

func TestMetaRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ref := Reference{
			TransactionalID: rapid.String().Draw(t, "id"), Sequence: rapid.Uint64().Draw(t, "sequence"),
			Partition: rapid.Int32Range(0, math.MaxInt32).Draw(t, "partition"), Offset: rapid.Int64().Draw(t, "offset"),
			Slot: rapid.Uint8().Draw(t, "slot"),
		}
		text := EncodeReference(ref)
		if got, is, err := DecodeReference(text); !is || err != nil || got != ref {
			t.Fatalf("got %+v, %t, %v, want %+v", got, is, err, ref)
		}
		// A program of before refuses it, and says why.
		if _, ours, err := DecodeCommit(text); !ours || !errors.Is(err, ErrFormat) {
			t.Fatalf("taken for a commit: ours %t, %v", ours, err)
		}
		m := Meta{Topic: rapid.String().Draw(t, "topic"), Partition: ref.Partition, Commit: Commit{
			TransactionalID: ref.TransactionalID, Sequence: ref.Sequence,
			Source:    SourceClock{MaxTime: ref.Offset, Watermark: math.MinInt64},
			Operators: []OperatorClock{{Name: rapid.String().Draw(t, "name"), Values: []int64{ref.Offset}}},
		}}
		got, err := DecodeMeta(AppendMeta([]byte("before"), m)[len("before"):])
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(m, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestWhatIsNoReference(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "gw1:gQ", "hr1:!", "hr1:", EncodeCommit(commits["commit-outside"])} {
		if ref, is, err := DecodeReference(text); is || err != nil || ref != (Reference{}) {
			t.Errorf("DecodeReference(%q) = %+v, %t, %v; want that it is none", text, ref, is, err)
		}
	}
	good := referenceBytes(nil, references["reference"])
	for n := 1; n < len(good); n++ {
		if _, err := decodeReferenceBytes(good[:n]); !errors.Is(err, ErrCorrupt) {
			t.Errorf("reference cut at %d: %v", n, err)
		}
	}
	if _, err := decodeReferenceBytes(append(good, 0)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("reference with more behind it: %v", err)
	}
	meta := AppendMeta(nil, metas["meta"])
	for n := range meta {
		if _, err := DecodeMeta(meta[:n]); !errors.Is(err, ErrCorrupt) {
			t.Errorf("meta record cut at %d: %v", n, err)
		}
	}
	if _, err := DecodeMeta([]byte{2, 0, 0}); !errors.Is(err, ErrFormat) {
		t.Errorf("meta record of another format: %v", err)
	}
}

// Whatever decodes encodes to something that decodes to the same, and nothing panics.
func FuzzDecodeMeta(f *testing.F) {
	for _, r := range references {
		f.Add(referenceBytes(nil, r))
	}
	for _, m := range metas {
		f.Add(AppendMeta(nil, m))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := DecodeMeta(b); err == nil {
			again, err := DecodeMeta(AppendMeta(nil, m))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(m, again); diff != "" {
				t.Fatal(diff)
			}
		}
		if r, err := decodeReferenceBytes(b); err == nil {
			if again, err := decodeReferenceBytes(referenceBytes(nil, r)); err != nil || again != r {
				t.Fatal(again, err)
			}
		}
	})
}
