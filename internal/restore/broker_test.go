package restore

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Each case happens when the second record is asked for.
func TestWhatHappensWhileTheLogIsRead(t *testing.T) {
	t.Parallel()
	type control = func(*world, *kmsg.FetchRequest) (kmsg.Response, error, bool)
	between := func(change func(*world) error) control {
		return func(w *world, _ *kmsg.FetchRequest) (kmsg.Response, error, bool) {
			w.cluster.SleepControl(func() {
				if err := change(w); err != nil {
					w.Error(err)
				}
			})
			return nil, nil, false
		}
	}
	for name, c := range map[string]struct {
		controls []control
		records  int64
		wiped    int
		offset   int64
		want     []string
	}{
		"another leader": {[]control{between(func(w *world) error {
			return w.cluster.MoveTopicPartition(topic, 0, (w.cluster.LeaderFor(topic, 0)+1)%3)
		})}, 4, 0, 5, []string{"a=1", "b=1", "c=1", "d=1"}},
		"trimmed": {[]control{between(func(w *world) error { return w.cluster.DeleteRecords(topic, 0, 3) })}, 2, 1, 5, []string{"d=1"}},
		"made anew": {[]control{between(func(w *world) error {
			if err := errors.Join(w.cluster.DeleteTopic(topic), w.cluster.CreateTopic(topic, 3, nil)); err != nil {
				return err
			}
			cl, err := kgo.NewClient(kgo.SeedBrokers(w.cluster.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
			if err != nil {
				return err
			}
			defer cl.Close()
			r := func(key string) *kgo.Record {
				return &kgo.Record{Topic: topic, Key: []byte(key), Value: []byte("2"), Timestamp: time.UnixMilli(7)}
			}
			return cl.ProduceSync(w.Context(), r("x"), r("y"), r("z")).FirstErr()
		})}, 4, 1, 3, []string{"x=2", "y=2", "z=2"}},
		"cut at a change of leaders": {[]control{func(w *world, req *kmsg.FetchRequest) (kmsg.Response, error, bool) {
			if got := req.Topics[0].Partitions[0].LastFetchedEpoch; got != 0 {
				w.Errorf("the fetch says that the record before it is of epoch %d, want 0", got)
			}
			resp, p := answer(req)
			p.DivergingEpoch.EndOffset = 1
			return resp, nil, true
		}}, 5, 1, 5, []string{"a=1", "b=1", "c=1", "d=1"}},
		"the rest is compacted away": {[]control{func(_ *world, req *kmsg.FetchRequest) (kmsg.Response, error, bool) {
			resp, p := answer(req)
			p.HighWatermark, p.LastStableOffset = 5, 5
			return resp, nil, true
		}}, 1, 0, 5, []string{"a=1"}},
		"throttled, then disconnected": {[]control{
			func(_ *world, req *kmsg.FetchRequest) (kmsg.Response, error, bool) {
				return req.ResponseKind(), nil, true
			},
			func(*world, *kmsg.FetchRequest) (kmsg.Response, error, bool) {
				return nil, errors.New("the connection breaks"), true
			},
		}, 4, 0, 5, []string{"a=1", "b=1", "c=1", "d=1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 3)
			w.restorer.fetchBytes = 1            // one batch a fetch
			w.commit("a=1", "b=1", "c=1", "d=1") // 0-3, marker 4
			n := 0
			w.cluster.ControlKey(int16(kmsg.Fetch), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
				w.cluster.KeepControl()
				req := kreq.(*kmsg.FetchRequest)
				if req.Topics[0].Partitions[0].FetchOffset != 1 || n == len(c.controls) {
					return nil, nil, false
				}
				n++
				return c.controls[n-1](w, req)
			})
			w.restored(c.records, c.wiped, c.offset, c.want...)
			if n != len(c.controls) {
				t.Errorf("offset 1 was asked for %d times, want at least %d", n, len(c.controls))
			}
		})
	}
}

// answer is a fetch response without records.
func answer(req *kmsg.FetchRequest) (*kmsg.FetchResponse, *kmsg.FetchResponseTopicPartition) {
	resp := req.ResponseKind().(*kmsg.FetchResponse)
	rt := kmsg.NewFetchResponseTopic()
	rt.Topic, rt.TopicID = req.Topics[0].Topic, req.Topics[0].TopicID
	rp := kmsg.NewFetchResponseTopicPartition()
	rp.Partition, rp.RecordBatches = req.Topics[0].Partitions[0].Partition, []byte{}
	rt.Partitions = append(rt.Partitions, rp)
	resp.Topics = append(resp.Topics, rt)
	return resp, &resp.Topics[0].Partitions[0]
}

func TestWhatDoesNotPassIsAnError(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(*world)
		is      error
		says    string
	}{
		"no such topic":     {func(w *world) { w.task.Stores[0].Topic = "nowhere" }, kerr.UnknownTopicOrPartition, "nowhere[0]"},
		"no such partition": {func(w *world) { w.task.Stores[0].Partition = 9 }, kerr.UnknownTopicOrPartition, topic + "[9]"},
		"not allowed": {func(w *world) {
			w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.TopicAuthorizationFailed})
		}, kerr.TopicAuthorizationFailed, `store "counts": read ` + topic + "[0]@0"},
		"changes all the time": {func(w *world) {
			w.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Count: -1, Err: kerr.OffsetOutOfRange})
		}, kerr.OffsetOutOfRange, "changed 4 times"},
		"no such store": {func(w *world) { w.task.Stores[0].Store = 1 }, nil, "there is no store 1"},
		"twice":         {func(w *world) { w.task.Stores = append(w.task.Stores, Store{}) }, nil, `store "counts" is listed twice`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1)
			w.restorer.attempts = 2
			w.commit("a=1")
			c.prepare(w)
			_, err := w.run()
			if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want one that says %q and is %v", err, c.says, c.is)
			}
		})
	}
}

func TestLastEpoch(t *testing.T) {
	t.Parallel()
	batch := func(base int64, epoch int32, size int) []byte {
		b := binary.BigEndian.AppendUint64(nil, uint64(base))
		b = binary.BigEndian.AppendUint32(b, uint32(size))
		b = binary.BigEndian.AppendUint32(b, uint32(epoch))
		b = append(b, 2)
		return append(b, make([]byte, size-5)...)
	}
	three := append(append(batch(0, 4, 60), batch(10, 5, 70)...), batch(20, 6, 80)...)
	for name, c := range map[string]struct {
		batches []byte
		offset  int64
		want    int32
	}{
		"none":      {nil, 10, -1},
		"all":       {three, 30, 6},
		"bounded":   {three, 20, 5},
		"cut short": {three[:len(three)-40], 30, 6},
		"only head": {three[:17], 30, -1},
		"nonsense":  {make([]byte, 100), 30, -1},
		"negative":  {append(binary.BigEndian.AppendUint32(make([]byte, 8), 1<<31), make([]byte, 50)...), 30, -1},
	} {
		if got := lastEpoch(c.batches, c.offset); got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
}
