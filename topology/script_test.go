package topology_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/topology/topologytest"
	"github.com/headrace/headrace/window"
)

// The topics of most tests. A script writes to s and t, and reads what a test calls its output.
var (
	str = serde.String()
	i64 = serde.Int64()

	s = topology.Topic("s", str, str)
	t = topology.Topic("t", str, str)

	outStrings = topology.Topic("out", str, str)
	outCounts  = topology.Topic("out", str, i64)
)

const ms = time.Millisecond

func at(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// outWindows is the output of a count in windows of this size.
func outWindows(size time.Duration) topology.TopicOf[window.Key[string], int64] {
	return topology.Topic("out", window.KeySerde(str).Size(size), i64)
}

// script drives a topology record by record. Records are written "key:value@time", with null for null, and a topic in front of
// them if it is not s.
type script struct {
	tb   testing.TB
	d    *topologytest.Driver
	ins  map[string]*topologytest.In[string, string]
	read func() []string
}

// record is a line of a script, taken apart.
type record struct {
	topic      string
	key, value string
	at         int64
}

func parse(line string) record {
	r := record{topic: "s"}
	if topic, rest, ok := strings.Cut(line, " "); ok {
		r.topic, line = topic, rest
	}
	line, ts, ok := strings.Cut(line, "@")
	if !ok {
		panic("no time in " + line)
	}
	var err error
	if r.at, err = strconv.ParseInt(ts, 10, 64); err != nil {
		panic(err)
	}
	if r.key, r.value, ok = strings.Cut(line, ":"); !ok {
		panic("no key in " + line)
	}
	return r
}

// in writes a record and wants these outputs of it.
func (sc *script) in(line string, want ...string) {
	sc.tb.Helper()
	sc.pipe(line)
	sc.wants(line, want...)
}

func (sc *script) pipe(line string, headers ...topology.Header) {
	sc.tb.Helper()
	r := parse(line)
	in, ok := sc.ins[r.topic]
	if !ok {
		in = topologytest.Input(sc.d, topology.Topic(r.topic, str, str))
		sc.ins[r.topic] = in
	}
	switch {
	case r.key == "null" && r.value == "null":
		in.PipeRaw(0, at(r.at), nil, nil, headers...)
	case r.key == "null":
		in.PipeNullKey(at(r.at), r.value, headers...)
	case r.value == "null":
		in.PipeNull(at(r.at), r.key, headers...)
	default:
		in.Pipe(at(r.at), r.key, r.value, headers...)
	}
}

func (sc *script) wants(after string, want ...string) {
	sc.tb.Helper()
	if diff := cmp.Diff(want, sc.read()); diff != "" {
		sc.tb.Errorf("after %s (-want +got):\n%s", after, diff)
	}
}

// counts wants these numbers of dropped records, and no others: "reason", n, …
func (sc *script) counts(want map[string]int64) {
	sc.tb.Helper()
	if diff := cmp.Diff(want, sc.d.Counts()); diff != "" {
		sc.tb.Errorf("records that went no further (-want +got):\n%s", diff)
	}
}

// run builds a topology and returns the script that drives it. Windowed results are written "key[start,end)=value@time".
func run[K, V any](tb testing.TB, out topology.TopicOf[K, V], build func(b *topology.Builder), opts ...topologytest.Option) *script {
	tb.Helper()
	b := topology.NewBuilder()
	build(b)
	sc := &script{tb: tb, d: topologytest.New(tb, topologytest.Build(tb, b.Build), opts...), ins: map[string]*topologytest.In[string, string]{}}
	o := topologytest.Output(sc.d, out)
	sc.read = func() []string {
		var lines []string
		for _, r := range o.All() {
			lines = append(lines, show(r))
		}
		return lines
	}
	return sc
}

func show[K, V any](r topologytest.Record[K, V]) string {
	value := fmt.Sprint(r.Value)
	if r.Null {
		value = "null"
	}
	key := fmt.Sprint(r.Key) + ":"
	if r.NullKey {
		key = "null:"
	}
	if k, ok := any(r.Key).(window.Key[string]); ok {
		key = fmt.Sprintf("%s[%d,%d)=", k.Key, k.Start, k.End)
	}
	return fmt.Sprintf("%s%s@%d", key, value, r.Time.UnixMilli())
}
