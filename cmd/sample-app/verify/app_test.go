package verify

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/cmd/sample-app/data"
)

// A reference is what a right app writes, worked out record by record with a single watermark, the minimum of those of
// the partitions. It shares with the checker the files and what a flight is, but not the computation.
type reference struct {
	windows []refWindow // results, in the order in which they are put out
	late    []refLate
	half    int // how many results are out when half of the feed is in
}

type refWindow struct {
	start   int64
	stats   refStats
	rows    []int
	rev     int
	late    bool
	headers []kgo.RecordHeader // that a test adds
}

// distinct counts the windows of results.
func distinct(results []refWindow) int {
	n := 0
	for _, w := range results {
		if w.rev == 0 {
			n++
		}
	}
	return n
}

type refStats struct {
	Airport string  `json:"airport"`
	City    string  `json:"city"`
	State   string  `json:"state"`
	Count   int64   `json:"count"`
	Sum     int64   `json:"sum"`
	Mean    float64 `json:"mean"`
	Max     int64   `json:"max"`
}

func (s *refStats) add(delay int64) {
	if s.Count == 0 || delay > s.Max {
		s.Max = delay
	}
	s.Count++
	s.Sum += delay
	s.Mean = float64(s.Sum) / float64(s.Count)
}

type refFlight struct {
	Row         int       `json:"row"`
	Scheduled   time.Time `json:"scheduled"`
	Delay       int       `json:"delay"`
	Distance    int       `json:"distance"`
	Origin      string    `json:"origin"`
	Destination string    `json:"destination"`
	City        string    `json:"city"` // a field that the checker does not know
}

type refLate struct {
	key     string
	flight  refFlight
	headers map[string]string
}

// runReference runs the reference app.
func runReference(records, partitions int) reference {
	const hour = int64(3600_000)
	airports, _ := readAirports(data.Airports)
	flights, _ := readFlights(data.Flights, records)
	slices.SortStableFunc(flights, func(a, b flight) int { return int(a.heard - b.heard) })

	var ref reference
	open := map[int64]map[string]*refWindow{} // by start and airport
	done := map[windowKey]refWindow{}         // closed, as it was put out last
	closeUpTo := func(w int64) {
		for _, start := range slices.Sorted(maps.Keys(open)) {
			if start+6*hour > w {
				break
			}
			for _, name := range slices.Sorted(maps.Keys(open[start])) {
				w := *open[start][name]
				ref.windows = append(ref.windows, w)
				done[windowKey{name, start}] = w
			}
			delete(open, start)
		}
	}
	corrects := func(f *flight, start int64) {
		w, ok := done[f.window()]
		if ok {
			w.rev++
			w.rows = slices.Clone(w.rows)
		} else {
			at := airports[f.origin]
			w = refWindow{start: start, stats: refStats{Airport: f.origin, City: at.city, State: at.state}}
		}
		w.late = true
		w.stats.add(int64(f.delay))
		w.rows = append(w.rows, f.row)
		done[f.window()] = w
		ref.windows = append(ref.windows, w)
	}
	first := int64(-1 << 62)
	own := slices.Repeat([]int64{first}, partitions)
	partitioner := kgo.StickyKeyPartitioner(nil).ForTopic("flights")
	for i, f := range flights {
		w := slices.Min(own)
		start := f.scheduled - f.scheduled%(6*hour)
		p := partitioner.Partition(&kgo.Record{Key: []byte(f.key())}, partitions)
		switch {
		case w >= start+7*hour:
			ref.late = append(ref.late, refLateOf(&f, w, p, i))
		case w >= start+6*hour:
			corrects(&f, start)
		default:
			if open[start] == nil {
				open[start] = map[string]*refWindow{}
			}
			win := open[start][f.origin]
			if win == nil {
				at := airports[f.origin]
				win = &refWindow{start: start, stats: refStats{Airport: f.origin, City: at.city, State: at.state}}
				open[start][f.origin] = win
			}
			win.stats.add(int64(f.delay))
			win.rows = append(win.rows, f.row)
		}
		own[p] = max(own[p], f.scheduled-hour/4)
		closeUpTo(slices.Min(own))
		if i+1 == len(flights)/2 {
			ref.half = len(ref.windows)
		}
	}
	closeUpTo(1 << 62)
	return ref
}

// refLateOf is the late record of a flight: w is the operator's watermark, partition and offset say where the flight came from.
func refLateOf(f *flight, w int64, partition, offset int) refLate {
	const size = 6 * 3600_000
	dec := func(n int64) string { return strconv.FormatInt(n, 10) }
	start := f.scheduled - f.scheduled%size
	return refLate{
		key: f.origin,
		flight: refFlight{
			Row: f.row, Scheduled: time.UnixMilli(f.scheduled).UTC(), Delay: f.delay, Distance: f.distance,
			Origin: f.origin, Destination: f.destination, City: "unchecked",
		},
		headers: map[string]string{
			"x-late-reason": "window-closed", "x-late-operator": "delay-stats", "x-late-window-start": dec(start), "x-late-window-end": dec(start + size),
			"x-late-watermark": dec(w), "x-late-by-ms": dec(w - start - size), "x-origin-topic": "app-by-origin-repartition",
			"x-origin-partition": dec(int64(partition)), "x-origin-offset": dec(int64(offset)), "x-event-time": dec(f.scheduled),
		},
	}
}

func (r reference) clone() reference {
	r.windows, r.late = slices.Clone(r.windows), slices.Clone(r.late)
	for i := range r.windows {
		r.windows[i].rows = slices.Clone(r.windows[i].rows)
	}
	for i := range r.late {
		r.late[i].headers = maps.Clone(r.late[i].headers)
	}
	return r
}

func (w *refWindow) record(topic string) *kgo.Record {
	key := binary.BigEndian.AppendUint64([]byte(w.stats.Airport), uint64(w.start))
	value, err := json.Marshal(w.stats)
	if err != nil {
		panic(err)
	}
	r := &kgo.Record{Topic: topic, Key: key, Value: value}
	if w.rev > 0 {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: "x-rev", Value: []byte(strconv.Itoa(w.rev))})
	}
	if w.late {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: "x-pane", Value: []byte("late")})
	}
	r.Headers = append(r.Headers, w.headers...)
	return r
}

func (l *refLate) record(topic string) *kgo.Record {
	value, err := json.Marshal(l.flight)
	if err != nil {
		panic(err)
	}
	r := &kgo.Record{Topic: topic, Key: []byte(l.key), Value: value}
	for _, name := range slices.Sorted(maps.Keys(l.headers)) {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: []byte(l.headers[name])})
	}
	return r
}

// A broker is where a test's app writes, and a checker reads.
type broker struct {
	addrs    []string
	producer *kgo.Client
}

func startBroker(t *testing.T, partitions int32) *broker {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, "airport-delays", "flights-late"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	b := &broker{addrs: c.ListenAddrs()}
	b.producer, err = kgo.NewClient(kgo.SeedBrokers(b.addrs...), kgo.TransactionalID("app"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.producer.Close)
	return b
}

// begin starts a transaction and writes into it, so that it lies in the log and is open.
func (b *broker) begin(t *testing.T, rs ...*kgo.Record) {
	t.Helper()
	if err := b.producer.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := b.producer.ProduceSync(t.Context(), rs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func (b *broker) end(t *testing.T, how kgo.TransactionEndTry) {
	t.Helper()
	if err := b.producer.EndTransaction(t.Context(), how); err != nil {
		t.Fatal(err)
	}
}

// write writes in small transactions, as the app would.
func (b *broker) write(t *testing.T, rs []*kgo.Record) {
	t.Helper()
	for chunk := range slices.Chunk(rs, 400) {
		b.begin(t, chunk...)
		b.end(t, kgo.TryCommit)
	}
}

// small is a feed with 26 flights that may and 8 that must be late, 5 and 2 of them so late that they are sidelined.
const small = 2000

var (
	smallReference = runReference(small, 4)
	smallFile      = func() []flight {
		flights, err := readFlights(data.Flights, small)
		if err != nil {
			panic(err)
		}
		judge(flights, 4)
		return flights
	}()
	smallAirports = func() map[string]airport {
		airports, err := readAirports(data.Airports)
		if err != nil {
			panic(err)
		}
		return airports
	}()
)

func smallTrial() *trial {
	ref := smallReference.clone()
	return &trial{ref: ref, half: ref.half, records: small, into: 4}
}

// newChecker makes a checker; decoding the file is dear under the race detector, so the small ones share it.
func newChecker(t *testing.T, b *broker, records int, lateness bool) *Checker {
	t.Helper()
	c := Checker{opts: Options{Delays: "airport-delays", Late: "flights-late"}, flights: smallFile, airports: smallAirports, half: -1}
	if records != small {
		made, err := New(Options{Brokers: b.addrs, Flights: data.Flights, Airports: data.Airports, Records: records, Partitions: 4})
		if err != nil {
			t.Fatal(err)
		}
		c = *made
	}
	c.opts.Brokers, c.opts.LatenessChecked = b.addrs, lateness
	return &c
}

// A trial is a run of an app whose output a test can spoil.
type trial struct {
	ref           reference
	half          int // windows that are out at half time
	raw           []*kgo.Record
	noHalf        bool
	unchecked     bool
	abortedFirst  bool // an aborted transaction with garbage before everything
	abortedLast   bool // and one behind
	records, into int
}

func (tr *trial) run(t *testing.T) Report {
	t.Helper()
	b := startBroker(t, int32(tr.into))
	c := newChecker(t, b, tr.records, !tr.unchecked)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	var garbage []*kgo.Record
	for i := range min(40, len(tr.ref.windows)) {
		w := tr.ref.windows[i]
		garbage = append(garbage, w.record("airport-delays"), &kgo.Record{Topic: "flights-late", Key: []byte("ABE"), Value: []byte("garbage")})
	}
	if tr.abortedFirst {
		b.begin(t, garbage...)
		b.end(t, kgo.TryAbort)
	}
	var windows, late []*kgo.Record
	for _, w := range tr.ref.windows {
		windows = append(windows, w.record("airport-delays"))
	}
	for _, l := range tr.ref.late {
		late = append(late, l.record("flights-late"))
	}
	b.write(t, windows[:tr.half])
	if !tr.noHalf {
		if err := c.Half(ctx); err != nil {
			t.Fatal(err)
		}
	}
	b.write(t, windows[tr.half:])
	b.write(t, late)
	b.write(t, tr.raw)
	if tr.abortedLast {
		b.begin(t, garbage...)
		b.end(t, kgo.TryAbort)
	}
	rep, err := c.Check(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

// history are the results of the window that a flight belongs to, by their places.
func (tr *trial) history(row int) (at []int) {
	f := &smallFile[row-1]
	for i, w := range tr.ref.windows {
		if w.start == f.window().start && w.stats.Airport == f.origin {
			at = append(at, i)
		}
	}
	return at
}

// window finds the first result of the window that a flight belongs to.
func (tr *trial) window(row int) *refWindow {
	if at := tr.history(row); len(at) > 0 {
		return &tr.ref.windows[at[0]]
	}
	f := &smallFile[row-1]
	at := smallAirports[f.origin]
	tr.ref.windows = append(tr.ref.windows, refWindow{start: f.window().start, stats: refStats{Airport: f.origin, City: at.city, State: at.state}})
	return &tr.ref.windows[len(tr.ref.windows)-1]
}

// recount makes the statistics of a result anew.
func (w *refWindow) recount() {
	w.stats.Count, w.stats.Sum, w.stats.Max, w.stats.Mean = 0, 0, 0, 0
	for _, r := range w.rows {
		w.stats.add(int64(smallFile[r-1].delay))
	}
}

// addToWindow counts a flight in all results of its window.
func (tr *trial) addToWindow(row int) {
	tr.window(row)
	for _, at := range tr.history(row) {
		w := &tr.ref.windows[at]
		w.rows = append(w.rows, row)
		w.recount()
	}
}

// correctWindow puts a result of a flight's window out that has the flight, too, with the next revision.
func (tr *trial) correctWindow(row int) {
	at := tr.history(row)
	w := tr.ref.windows[at[len(at)-1]]
	w.rows = append(slices.Clone(w.rows), row)
	w.rev, w.late = w.rev+1, true
	w.recount()
	tr.ref.windows = append(tr.ref.windows, w)
}

// dropFromWindow takes a flight out again; a window without any is not put out, nor is a correction by nothing.
func (tr *trial) dropFromWindow(row int) {
	var gone []int
	rev, count := 0, int64(0)
	for _, at := range tr.history(row) {
		w := &tr.ref.windows[at]
		w.rows = slices.DeleteFunc(w.rows, func(r int) bool { return r == row })
		w.recount()
		if w.stats.Count == count {
			gone = append(gone, at)
			continue
		}
		w.rev, count = rev, w.stats.Count
		rev++
	}
	for _, at := range slices.Backward(gone) {
		tr.ref.windows = slices.Delete(tr.ref.windows, at, at+1)
	}
	tr.half = min(tr.half, len(tr.ref.windows))
}

// neighbours finds two windows of one airport, one behind the other, with two flights or more each.
func (tr *trial) neighbours(t *testing.T) (a, b *refWindow) {
	t.Helper()
	for i := range tr.ref.windows {
		for j := range tr.ref.windows {
			a, b := &tr.ref.windows[i], &tr.ref.windows[j]
			if tr.alone(a) && tr.alone(b) && a.stats.Airport == b.stats.Airport && a.start+windowSize == b.start && a.stats.Count > 1 && b.stats.Count > 1 {
				return a, b
			}
		}
	}
	t.Fatal("no two neighbours")
	return nil, nil
}

// alone says that a window has one result.
func (tr *trial) alone(w *refWindow) bool { return len(tr.history(w.rows[0])) == 1 }

// corrected finds the first result that corrects another.
func (tr *trial) corrected(t *testing.T) *refWindow {
	t.Helper()
	for i := range tr.ref.windows {
		if tr.ref.windows[i].rev == 1 {
			return &tr.ref.windows[i]
		}
	}
	t.Fatal("no correction")
	return nil
}

// anyRow returns a flight of the small feed for which is holds, by the checker's own judgement.
func anyRow(t *testing.T, is func(*flight) bool) int {
	t.Helper()
	for i := range smallFile {
		if is(&smallFile[i]) {
			return smallFile[i].row
		}
	}
	t.Fatal("no such flight")
	return 0
}

// lateFor is the record of a sidelined flight that says it has just missed the time of corrections.
func lateFor(row int) refLate {
	f := &smallFile[row-1]
	start := floor(f.scheduled, windowSize)
	return refLateOf(f, start+windowSize+horizon, 0, 0)
}

func gunzip(t *testing.T, gz []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(gz))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func gzipped(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
