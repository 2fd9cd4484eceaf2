package graph

import "testing"

// The hashes are those of Kafka's own tests of its client (org.apache.kafka.common.utils.UtilsTest).
func TestMurmur2IsKafkas(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]int32{
		"21":                         -973932308,
		"foobar":                     -790332482,
		"a-little-bit-long-string":   -985981536,
		"a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
		"abc": 479470107,
	} {
		if got := int32(murmur2([]byte(key))); got != want {
			t.Errorf("murmur2(%q) = %d, want %d", key, got, want)
		}
	}
}

// A negative hash must not make a negative partition, and the empty key is a key like any other.
func TestPartitionOfStaysInRange(t *testing.T) {
	t.Parallel()
	seen := map[int32]bool{}
	for _, key := range []string{"", "21", "foobar", "a-little-bit-long-string", "abc", "x", "yy", "zzz", "wwww"} {
		p := PartitionOf([]byte(key), 3)
		if p < 0 || p > 2 {
			t.Fatalf("PartitionOf(%q, 3) = %d", key, p)
		}
		seen[p] = true
	}
	if len(seen) != 3 {
		t.Errorf("nine keys went to partitions %v only", seen)
	}
	if got := PartitionOf([]byte("21"), 7); got != (-973932308&0x7fffffff)%7 {
		t.Errorf("PartitionOf(21, 7) = %d: the sign bit is to be cleared, not the value negated", got)
	}
}
