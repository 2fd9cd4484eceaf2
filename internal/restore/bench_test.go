package restore

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/state"
)

// One operation is one record of 100 bytes, restored from an embedded broker to memory.
func BenchmarkRestore(b *testing.B) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topic))
	if err != nil {
		b.Fatal(err)
	}
	defer cluster.Close()
	cl, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.DefaultProduceTopic(topic))
	if err != nil {
		b.Fatal(err)
	}
	defer cl.Close()
	for i := range b.N {
		r := &kgo.Record{Key: fmt.Appendf(nil, "%08d", i%100_000), Value: make([]byte, 100)}
		cl.Produce(b.Context(), r, func(_ *kgo.Record, err error) {
			if err != nil {
				b.Error(err)
			}
		})
	}
	if err := cl.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	r, err := New([]kgo.Opt{kgo.SeedBrokers(cluster.ListenAddrs()...)})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	backend, err := state.Memory().Open("0_0", []state.Spec{counts})
	if err != nil {
		b.Fatal(err)
	}
	defer backend.Close()
	b.ReportAllocs()
	b.ResetTimer()
	res, err := r.Restore(b.Context(), Task{Backend: backend, Specs: []state.Spec{counts}, Stores: []Store{{Topic: topic}}}, time.Now, nil)
	if err != nil || res.Records != int64(b.N) {
		b.Fatal(res, err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
}
