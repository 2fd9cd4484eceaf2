package verify

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/cmd/sample-app/data"
)

func judged(t *testing.T, records, partitions int) []flight {
	t.Helper()
	flights, err := readFlights(data.Flights, records)
	if err != nil {
		t.Fatal(err)
	}
	judge(flights, partitions)
	return flights
}

// These are facts of the file: another order, another partitioner or another rule gives other numbers.
func TestJudge(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ records, partitions, mayLate, mustLate, may, must int }{
		{20_000, 4, 179, 98, 43, 27},
		{40_000, 4, 358, 196, 86, 54},
		{20_000, 8, 134, 24, 31, 5},
		{20_000, 1, 276, 276, 59, 59}, // the minimum is that of the only partition
		{2000, 4, 26, 8, 5, 2},
	} {
		mayLate, mustLate, may, must := 0, 0, 0, 0
		for _, f := range judged(t, tt.records, tt.partitions) {
			if f.mayLate {
				mayLate++
			}
			if f.mustLate {
				mustLate++
			}
			if f.may {
				may++
			}
			if f.must {
				must++
			}
			if f.must && !f.may || f.mustLate && !f.mayLate || f.may && !f.mayLate || f.must && !f.mustLate {
				t.Errorf("%d/%d: flight %d is late, and is not: %+v", tt.records, tt.partitions, f.row, f)
			}
		}
		got := []int{mayLate, mustLate, may, must}
		if want := []int{tt.mayLate, tt.mustLate, tt.may, tt.must}; !slices.Equal(got, want) {
			t.Errorf("%d records, %d partitions: late may, must, sidelined may, must: %v, want %v", tt.records, tt.partitions, got, want)
		}
	}
}

// The hash was written by hand; the client's is compatible with Kafka's.
func TestPartitionOfIsKafkas(t *testing.T) {
	t.Parallel()
	kafkas := kgo.StickyKeyPartitioner(nil).ForTopic("flights")
	same := func(key []byte, n int) {
		if got, want := partitionOf(key, n), kafkas.Partition(&kgo.Record{Key: key}, n); got != want {
			t.Errorf("partitionOf(%q, %d) = %d, want %d", key, n, got, want)
		}
	}
	for _, f := range judged(t, 20_000, 4) {
		same([]byte(f.key()), 4)
		same([]byte(f.key()), 1000)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for length := range 64 {
		key := make([]byte, length)
		for i := range key {
			key[i] = byte(rnd.Uint32())
		}
		same(key, 1<<20)
	}
}

func TestFloor(t *testing.T) {
	t.Parallel()
	for _, tt := range [][2]int64{{0, 0}, {5, 0}, {9, 0}, {10, 10}, {-1, -10}, {-10, -10}, {-11, -20}} {
		if got := floor(tt[0], 10); got != tt[1] {
			t.Errorf("floor(%d, 10) = %d, want %d", tt[0], got, tt[1])
		}
	}
}
