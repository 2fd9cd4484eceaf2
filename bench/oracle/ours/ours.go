// Package ours answers cases with this library, in its test driver.
package ours

import (
	"bytes"
	"encoding/binary"
	"errors"
	"time"

	"github.com/headrace/headrace/bench/oracle/batch"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/topology"
	"github.com/headrace/headrace/topology/topologytest"
	"github.com/headrace/headrace/window"
)

var (
	in  = topology.Topic("in", serde.String(), serde.Int64())
	out = topology.Topic[window.Key[string]]("out", interval{}, serde.Int64())
)

// Answer answers a case.
func Answer(c *batch.Case) (batch.Answer, error) {
	b := topology.NewBuilder()
	group := topology.From(b, in).GroupByKey()
	w := windowed(c, group)
	var opts []topology.AggregateOption
	switch c.Emit {
	case batch.Close:
		opts = append(opts, topology.EmitOnClose())
	case batch.Final:
		opts = append(opts, topology.EmitFinal())
	}
	var results topology.Table[window.Key[string], int64]
	if c.Fold == batch.Count {
		results = topology.Count(w, "store", opts...)
	} else {
		add := func(a, v int64) int64 { return a + v }
		results = topology.AggregateWith(w, "store", serde.Int64(), topology.Aggregator[int64, int64]{Add: add, Merge: add}, opts...)
	}
	if c.Emit == batch.Suppress {
		results.Suppress("suppressed", topology.UntilWindowCloses()).To(out)
	} else {
		results.To(out)
	}
	top, err := b.Build()
	if err != nil {
		return batch.Answer{}, err
	}
	d, err := topologytest.Open(top)
	if err != nil {
		return batch.Answer{}, err
	}
	var a batch.Answer
	err = d.Try(func() {
		from, to := topologytest.Input(d, in), topologytest.Output(d, out)
		for _, r := range c.In {
			at := time.UnixMilli(r.Time)
			switch {
			case r.NullKey:
				from.PipeNullKey(at, r.Value)
			case r.Null:
				from.PipeNull(at, r.Key)
			default:
				from.Pipe(at, r.Key, r.Value)
			}
			var results []batch.Result
			for _, o := range to.All() {
				results = append(results, batch.Result{
					Key: o.Key.Key, Start: o.Key.Start, End: o.Key.End, Value: o.Value, Null: o.Null, Time: o.Time.UnixMilli(),
				})
			}
			a.Out = append(a.Out, results)
		}
	})
	for _, n := range d.Counts() {
		a.Dropped += n
	}
	return a, err
}

func windowed(c *batch.Case, group topology.Grouped[string, int64]) topology.Grouped[window.Key[string], int64] {
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	var def window.Definition
	switch c.Window {
	case batch.Tumbling:
		def = window.Tumbling(ms(c.Size)).Grace(ms(c.Grace))
	case batch.Hopping:
		def = window.Hopping(ms(c.Size), ms(c.Advance)).Grace(ms(c.Grace))
	case batch.Sliding:
		def = window.Sliding(ms(c.Diff)).Grace(ms(c.Grace))
	case batch.Session:
		def = window.Session(ms(c.Gap)).Grace(ms(c.Grace))
	}
	return topology.Windowed(group, def, window.Drop())
}

// interval encodes a windowed key with both of its ends.
type interval struct{}

func (interval) Append(dst []byte, k window.Key[string]) ([]byte, error) {
	dst = append(append(dst, k.Key...), 0)
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, uint64(k.Start)), uint64(k.End)), nil
}

func (interval) Decode(b []byte) (window.Key[string], error) {
	key, times, ok := bytes.Cut(b, []byte{0})
	if !ok || len(times) != 16 {
		return window.Key[string]{}, errors.New("not a key of the oracle")
	}
	return window.Key[string]{
		Key: string(key), Start: int64(binary.BigEndian.Uint64(times)), End: int64(binary.BigEndian.Uint64(times[8:])),
	}, nil
}
