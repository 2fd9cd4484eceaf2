package topology_test

import (
	"testing"
	"time"

	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/topology"
)

// idling sets the timer of each record's key a minute further, as sessions and timeouts do.
type idling struct {
	timers *topology.TimersView[[]byte]
}

var idle = topology.EventTimers("idle", serde.Bytes())

func (p *idling) Init(t *topology.Task, out topology.Emitter[[]byte, []byte]) (err error) {
	p.timers, err = idle.Open(t, func(key []byte, at time.Time) error {
		return out(topology.Record[[]byte, []byte]{Key: key, Time: at.UnixMilli()})
	})
	return err
}

func (p *idling) Process(r topology.Record[[]byte, []byte], _ topology.Emitter[[]byte, []byte]) error {
	return p.timers.Set(r.Key, time.UnixMilli(r.Time+60_000))
}

func BenchmarkTimersPutOff(b *testing.B) {
	builder := topology.NewBuilder()
	topology.Process(topology.From(builder, benchIn), "idling", func() *idling { return &idling{} }, idle).To(benchOut)
	newWorker(b, builder, 1000).run(b)
}

// Each key comes again after its timer has fired: it is set, fires, and emits.
func BenchmarkTimersFire(b *testing.B) {
	builder := topology.NewBuilder()
	topology.Process(topology.From(builder, benchIn), "idling", func() *idling { return &idling{} }, idle).To(benchOut)
	newWorker(b, builder, 100_000).run(b)
}

func BenchmarkSuppress(b *testing.B) {
	builder := topology.NewBuilder()
	topology.Count(topology.From(builder, benchIn).GroupByKey(), "count").
		Suppress("suppressed", topology.UntilTimeLimit(10*time.Second).MaxRecords(10_000).EmitEarlyWhenFull()).To(benchN)
	newWorker(b, builder, 1000).run(b)
}
