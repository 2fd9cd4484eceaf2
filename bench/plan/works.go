package plan

import (
	"fmt"
	"slices"
	"strings"
)

// Peer names who does a work.
type Peer string

// The peers. Each run of one is a process of its own, and a new application with topics of its own.
const (
	// Raw is a franz-go loop that consumes and produces in transactions and does nothing else: the bound that client and broker set.
	Raw Peer = "raw"
	// Memory and Pebble are this project, with each of its state providers.
	Memory Peer = "headrace-memory"
	Pebble Peer = "headrace-pebble"
	// Streams is Kafka Streams with RocksDB, StreamsMemory the same with its stores in memory, and StreamsNoCache the same with its
	// record cache switched off: with it, updates of a key that come close to each other are merged, and most are never written.
	Streams        Peer = "streams"
	StreamsMemory  Peer = "streams-memory"
	StreamsNoCache Peer = "streams-nocache"
)

// Java says whether the peer runs in a Java process.
func (p Peer) Java() bool { return p == Streams || p == StreamsMemory || p == StreamsNoCache }

// merges says whether the peer may leave updates out that a later one of the same key follows.
func (p Peer) merges() bool { return p.Java() && p != StreamsNoCache }

// Kind is how a work is run and timed.
type Kind uint8

const (
	// Throughput: the input is there before the peer starts. Time runs from the first batch of it that the peer receives until all of
	// it is committed and no transaction is open in the output.
	Throughput Kind = iota
	// Restore: the changelog is there and the input empty. Time runs from the first batch of the changelog that the peer receives
	// until all tasks have their stores. Then one record for each key shows what is in them.
	Restore
	// Latency: the input is produced at a rate while the peer runs. A record's time runs from its making until a read-committed
	// consumer has what the peer made of it.
	Latency
	// Jump: the input is there, and behind it a record in each partition that is a day later. Time runs as for Throughput, until all
	// results are there.
	Jump
)

// Input names a set of records.
type Input string

const (
	Uniform Input = "uniform" // record i has key i mod Keys in a fixed shuffle
	Zipf    Input = "zipf"    // keys by Zipf's law, s = 1.1
	Apiece  Input = "apiece"  // each record has a key of its own, and all are within a window; behind them one in each partition, a day later
	None    Input = "none"    // no records but those that the run produces
)

// Metric is something that is measured. Rate is better when it is higher, everything else when it is lower.
type Metric string

const (
	Rate   Metric = "k/s"
	P50    Metric = "p50 ms"
	P99    Metric = "p99 ms"
	Peak   Metric = "peak MiB"
	Start  Metric = "start s"     // from the start of the process to its first committed output, as a reader sees it
	CPU    Metric = "CPU s/M"     // of the peer's processes, from start to end, for a million records
	Allocs Metric = "allocs/rec"  // of Go peers, from start to end
	Bytes  Metric = "alloc B/rec" // likewise
	// Largest is the largest transaction: the bytes of its keys, values and headers, as the peer counts them. LongestGap is the longest
	// time from one commit to the next while there is work.
	Largest    Metric = "largest txn MiB"
	LongestGap Metric = "longest gap ms"
	// Outputs is how many committed outputs there were, all of them right. It is told, not compared.
	Outputs Metric = "outputs"
)

// Higher says whether more of it is better.
func (m Metric) Higher() bool { return m == Rate }

// Work is one thing that all peers do.
type Work struct {
	Name  string
	Group string // another name, which it shares with others
	What  string
	Kind  Kind
	Input Input
	// Table says that the input is joined with a table of Keys rows.
	Table bool
	Keys  int  // instead of as many as usual, if not 0
	Apart bool // only if it is asked for
	// Store is the name of the store whose changelog the peers write, empty if they write none.
	Store string
	Peers []Peer
	// Metrics are the rows of the table that the work's runs fill.
	Metrics []Metric
	// Check makes what judges the outputs of a peer.
	Check func(r Run, p Peer) Checker
}

// Works are all works, in the order in which they run.
var Works = slices.Concat([]Work{
	{
		Name: "map", What: "filter (keeps nine in ten) and map (a changed copy of the value)",
		Input: Uniform, Peers: []Peer{Raw, Memory, Streams}, Metrics: []Metric{Rate},
		Check: func(r Run, _ Peer) Checker { return newCopies(r, Keep, marked) },
	},
	{
		Name: "count", What: "count per key, every update written",
		Input: Uniform, Store: "counts", Peers: all, Metrics: []Metric{Rate, Peak, Start},
		Check: counts,
	},
	{
		Name: "count-zipf", What: "count per key, keys by Zipf's law, every update written",
		Input: Zipf, Store: "counts", Peers: append(all[:len(all):len(all)], StreamsNoCache), Metrics: []Metric{Rate},
		Check: counts,
	},
	{
		Name: "tumbling", Group: "windowed", What: "count per key and window of 60 s, every update written",
		Input: Uniform, Store: "windows", Peers: all, Metrics: []Metric{Rate},
		Check: func(r Run, p Peer) Checker {
			if p == Raw {
				return newIndexes(r)
			}
			return newUpdates(r, true, p.merges())
		},
	},
	{
		Name: "join", What: "each record joined with the row of its key in a table",
		Input: Uniform, Table: true, Peers: all, Metrics: []Metric{Rate},
		Check: func(r Run, p Peer) Checker {
			if p == Raw {
				return newCopies(r, nil, nil)
			}
			return newCopies(r, nil, joined)
		},
	},
	{
		Name: "restore", What: "the store of count from its changelog, without a local copy",
		Kind: Restore, Input: None, Store: "counts", Peers: all, Metrics: []Metric{Rate},
		Check: func(r Run, p Peer) Checker { return newRestored(r) },
	},
	{
		Name: "latency", What: "last value per key at 2,000 records/s, as a read-committed consumer sees it",
		Kind: Latency, Input: None, Store: "last", Peers: all, Metrics: []Metric{P50, P99},
		Check: func(r Run, _ Peer) Checker { return newCopies(r, nil, nil) },
	},
}, windowed)

var all = []Peer{Raw, Memory, Pebble, Streams}

func counts(r Run, p Peer) Checker {
	if p == Raw {
		return newIndexes(r)
	}
	return newUpdates(r, false, p.merges())
}

// Find returns the works with these names, or groups of them, separated by commas; an empty text is all but those that are apart.
func Find(names string) ([]Work, error) {
	var found []Work
	if names == "" {
		for _, w := range Works {
			if !w.Apart {
				found = append(found, w)
			}
		}
		return found, nil
	}
	for name := range strings.SplitSeq(names, ",") {
		before := len(found)
		for _, w := range Works {
			if name := strings.TrimSpace(name); w.Name == name || w.Group == name {
				found = append(found, w)
			}
		}
		if len(found) == before {
			var have []string
			for _, w := range Works {
				have = append(have, w.Name)
			}
			return nil, fmt.Errorf("plan: there is no work %q; there are %s, and windowed for those with windows (memory and start-up are measured with count)", name, strings.Join(have, ", "))
		}
	}
	return found, nil
}

// Params are the sizes of a run.
type Params struct {
	Records    int
	Keys       int
	Partitions int
	Workers    int // workers of an app, threads of Kafka Streams
	Operators  int // of map: how many maps follow one another
	Instances  int // processes of the peer that share the work
	HeapMB     int // of a Java peer
	Rate       int // records per second, for latency
}

// Default are the sizes at which the targets hold.
func Default() Params {
	return Params{Records: 2_000_000, Keys: 100_000, Partitions: 4, Workers: 1, Operators: 1, Instances: 1, HeapMB: 2048, Rate: 2000}
}

// For returns the sizes for a work: what is restored is 0.85 of the records, latency is measured with one in fifty, and a jump with half.
func (p Params) For(w *Work) Params {
	if w.Keys > 0 {
		p.Keys = w.Keys
	}
	switch w.Kind {
	case Restore:
		p.Records = p.Records * 85 / 100
	case Latency:
		p.Records = max(p.Records/50, 1000)
	case Jump:
		p.Records /= 2
		p.Keys = p.Records
	}
	return p
}

// Run is a work at a size, with the records that it is given.
type Run struct {
	Params
	*Data
}

// Window is the size of windows, in milliseconds.
const Window = 60_000

// Target is something to be reached: a metric of a peer, as a multiple of another's or, if Over is empty, in itself. It is at least
// Bound where higher is better, and at most Bound where lower is.
type Target struct {
	Work   string
	Metric Metric
	Peer   Peer
	Over   Peer
	Bound  float64
}

// SmallHeap stands, as Target.Over, for Kafka Streams at the smallest heap that keeps 95 % of its rate.
const SmallHeap Peer = "streams, smallest heap"

// Targets are what is to be reached at Default's sizes.
var Targets = []Target{
	{"map", Rate, Memory, Streams, 3},
	{"map", Rate, Memory, Raw, 0.7},
	{"count", Rate, Memory, Streams, 8},
	{"count", Rate, Pebble, Streams, 4},
	{"count-zipf", Rate, Memory, StreamsNoCache, 8}, // with its cache it writes a quarter of the updates: that is other work
	{"count-zipf", Rate, Pebble, StreamsNoCache, 4},
	{"tumbling", Rate, Memory, Streams, 6},
	{"tumbling", Rate, Pebble, Streams, 3},
	{"join", Rate, Memory, Streams, 4},
	{"join", Rate, Pebble, Streams, 3},
	{"restore", Rate, Memory, Streams, 3},
	{"restore", Rate, Pebble, Streams, 1.8},
	{"latency", P50, Memory, Streams, 0.25},
	{"latency", P50, Pebble, Streams, 0.25},
	{"latency", P99, Memory, Streams, 0.25},
	{"latency", P99, Pebble, Streams, 0.25},
	{"count", Peak, Memory, "", 256},
	{"count", Peak, Pebble, "", 256},
}

// FullTargets hold where the smallest heap has been looked for.
var FullTargets = []Target{
	{"count", Peak, Memory, SmallHeap, 0.5},
	{"count", Peak, Pebble, SmallHeap, 0.5},
}
