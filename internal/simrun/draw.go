package simrun

import (
	"math/rand/v2"
	"slices"
	"time"
)

// What the runs set, and the stalls are measured by.
const (
	SessionTimeout     = 6 * time.Second
	TransactionTimeout = 10 * time.Second
	// RebalanceTimeout is what the framework has.
	RebalanceTimeout = 15 * time.Second
)

const (
	// quiet is how long members have to themselves in the beginning, and span how long faults come.
	quiet = 3 * time.Second
	span  = 30 * time.Second
)

// answers are what brokers say when something is wrong that will not stay so, by request.
var answers = map[string][]string{
	"Produce": {
		"NOT_LEADER_FOR_PARTITION", "NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "REQUEST_TIMED_OUT", "UNKNOWN_SERVER_ERROR",
		"KAFKA_STORAGE_ERROR", "INVALID_PRODUCER_EPOCH",
	},
	"Fetch":           {"NOT_LEADER_FOR_PARTITION", "UNKNOWN_LEADER_EPOCH", "FENCED_LEADER_EPOCH", "KAFKA_STORAGE_ERROR", "UNKNOWN_SERVER_ERROR", "OFFSET_NOT_AVAILABLE"},
	"Metadata":        {"LEADER_NOT_AVAILABLE"},
	"ListOffsets":     {"NOT_LEADER_FOR_PARTITION", "OFFSET_NOT_AVAILABLE", "LEADER_NOT_AVAILABLE"},
	"FindCoordinator": {"COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"},
	"JoinGroup":       {"COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS"},
	"SyncGroup":       {"COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS", "ILLEGAL_GENERATION"},
	"Heartbeat":       {"COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS", "ILLEGAL_GENERATION"},
	"OffsetFetch":     {"COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "UNSTABLE_OFFSET_COMMIT"},
	"InitProducerID":  {"COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "CONCURRENT_TRANSACTIONS", "COORDINATOR_NOT_AVAILABLE"},
	"TxnOffsetCommit": {
		"COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "TRANSACTION_ABORTABLE",
		"INVALID_PRODUCER_EPOCH", "REQUEST_TIMED_OUT", "UNKNOWN_SERVER_ERROR", "PRODUCER_FENCED",
	},
	"EndTxn": {
		"COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "CONCURRENT_TRANSACTIONS", "UNKNOWN_SERVER_ERROR",
		"INVALID_TXN_STATE", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH",
	},
}

// refusable are the requests of answers, the ones that matter most more than once.
var refusable = []string{
	"Produce", "Produce", "Fetch", "Metadata", "ListOffsets", "FindCoordinator", "JoinGroup", "SyncGroup", "Heartbeat", "OffsetFetch",
	"InitProducerID", "TxnOffsetCommit", "TxnOffsetCommit", "TxnOffsetCommit", "EndTxn", "EndTxn", "EndTxn",
}

// Outputs are the topics that an app writes to, but for internal ones, which stand behind.
func Outputs(app string) []string {
	switch app {
	case Fold:
		return []string{"eos-totals", "sim-fold-by-key-repartition", "sim-fold-totals-changelog"}
	case Windows:
		return []string{"eos-windows", "eos-late", "sim-windows-by-group-repartition", "sim-windows-results-repartition", "sim-windows-windows-changelog"}
	default:
		return []string{"eos-ticks", "sim-ticks-ticks-changelog"}
	}
}

// crowd is not an event but some of them.
const crowd = "crowd"

type drawer struct {
	*rand.Rand
	t Trace
}

// Draw makes the trace of a seed.
func Draw(seed uint64) Trace {
	d := drawer{Rand: rand.New(rand.NewPCG(seed, 1))}
	d.t = Trace{Version: Version, Seed: seed, Members: 3, Workers: 1, Idle: -1}
	d.t.App = pick(d, []string{Fold, Fold, Fold, Windows, Windows, Windows, Ticks})
	d.t.Disk, d.t.Static = d.chance(60), d.chance(60)
	d.t.Keep = d.t.Static && d.chance(30)
	d.t.Skip = d.chance(50)
	if d.chance(20) {
		d.t.Workers = 2
	}
	if d.chance(30) {
		d.t.Pending = 4000
	}
	if d.chance(20) {
		d.t.Idle = d.Int32N(4)
	}
	if d.t.App != Ticks {
		d.writes()
	}
	d.t.Away = d.t.App == Windows && seed%3 == 0
	for range 2 + d.IntN(4) {
		d.fault(Duration(quiet + d.upTo(span)))
	}
	slices.SortStableFunc(d.t.Events, func(a, b Event) int { return int(a.At - b.At) })
	return d.t
}

func (d *drawer) writes() {
	jump := -1
	if d.chance(20) {
		jump = d.IntN(15)
	}
	poison := d.chance(35)
	late := d.chance(60)
	for i, at := 0, time.Duration(0); at < quiet+span; i, at = i+1, at+time.Second+d.upTo(2*time.Second) {
		e := Event{At: Duration(at), Do: Write, N: 10 + d.IntN(40)}
		if i == jump {
			e.Jump = Duration(time.Hour)
		}
		if late && d.chance(40) {
			e.Late = 1 + d.IntN(5)
		}
		if poison && d.chance(30) {
			e.Poison = 1 + d.IntN(3)
		}
		d.t.Events = append(d.t.Events, e)
	}
}

// fault adds one, and what ends it if it does not end by itself.
func (d *drawer) fault(at Duration) {
	e := Event{At: at, Member: d.IntN(d.t.Members)}
	kinds := []string{Kill, Kill, Kill, Kill, Stop, Start, Stall, Stall, Stall, Cut, Cut, Slow, Wrong, Wrong, Wrong, Forge, Garble, Hijack, Move, Gone, Compact}
	if d.t.Disk {
		kinds = append(kinds, Disk, Disk, Disk)
	}
	if d.t.App == Ticks {
		kinds = append(kinds, crowd, crowd, crowd)
	}
	switch e.Do = pick(*d, kinds); e.Do {
	case Kill:
		if d.chance(85) {
			e.Point = pick(*d, Points())
		}
		e.Keep = pick(*d, []int{0, 50, 100, 100})
		if d.t.Idle >= 0 || d.chance(80) {
			d.add(Event{At: at + Duration(100*time.Millisecond+d.upTo(12*time.Second)), Do: Start, Member: e.Member})
		}
	case Stop:
		d.add(Event{At: at + Duration(d.upTo(10*time.Second)), Do: Start, Member: e.Member})
	case Start:
		e.Member = d.t.Members // one more
		if d.chance(50) {
			d.add(Event{At: at + Duration(2*time.Second+d.upTo(10*time.Second)), Do: Stop, Member: e.Member})
		}
	case Stall:
		e.For = Duration(pick(*d, []time.Duration{2 * time.Second, SessionTimeout + 2*time.Second, TransactionTimeout + 2*time.Second, RebalanceTimeout + 5*time.Second}))
		e.Key, e.Response = d.frames(), d.chance(50)
		if d.chance(40) { // while a transaction is open, which may end it
			e.For, e.Key = Duration(TransactionTimeout+2*time.Second), pick(*d, []string{"Produce", "TxnOffsetCommit", "EndTxn"})
		}
	case crowd:
		// Two members come one after another while a transaction cannot end.
		e.Do, e.For, e.Key, e.Response = Stall, Duration(10*time.Second), "Produce", true
		d.add(Event{At: at + Duration(time.Second+d.upTo(2*time.Second)), Do: Start, Member: d.t.Members})
		d.add(Event{At: at + Duration(4*time.Second+d.upTo(3*time.Second)), Do: Start, Member: d.t.Members + 1})
	case Cut:
		e.For = Duration(200*time.Millisecond + d.upTo(15*time.Second))
		e.Key, e.Response = d.frames(), d.chance(50)
	case Slow:
		e.For, e.Delay = Duration(2*time.Second+d.upTo(10*time.Second)), Duration(10*time.Millisecond+d.upTo(300*time.Millisecond))
		e.Key = d.frames()
	case Wrong:
		e.Member = 0
		e.Key = pick(*d, refusable)
		e.Error = pick(*d, answers[e.Key])
		if slices.Contains([]string{"Produce", "Fetch", "Metadata", "ListOffsets"}, e.Key) {
			e.Topic = pick(*d, Outputs(d.t.App))
		}
		if e.N = 1 + d.IntN(3); d.chance(20) {
			e.N, e.For = 0, Duration(time.Second+d.upTo(8*time.Second))
		}
	case Forge:
		e.N = 1 + d.IntN(3)
	case Garble:
		e.N = 1 + d.IntN(3)
		e.Key = pick(*d, refusable)
	case Gone:
		e.Member, e.For = 0, Duration(500*time.Millisecond+d.upTo(12*time.Second))
	case Disk:
		e.Op, e.For = pick(*d, []string{"read", "write", "sync", "all"}), Duration(500*time.Millisecond+d.upTo(10*time.Second))
	case Move, Compact:
		e.Member = 0
	}
	d.add(e)
}

// frames are those of all requests, or of one kind.
func (d *drawer) frames() string {
	if d.chance(40) {
		return ""
	}
	return pick(*d, refusable)
}

func (d *drawer) add(e Event) { d.t.Events = append(d.t.Events, e) }

func (d *drawer) chance(percent int) bool { return d.IntN(100) < percent }

func (d *drawer) upTo(most time.Duration) time.Duration {
	return time.Duration(d.Int64N(int64(most/time.Millisecond))) * time.Millisecond
}

func pick[T any](d drawer, of []T) T { return of[d.IntN(len(of))] }
