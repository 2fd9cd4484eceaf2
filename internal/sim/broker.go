package sim

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// broker answers what a Restorer asks, from the logs: metadata, offsets, and fetches of record batches with aborted transactions.
type broker struct {
	logs map[tp]*log
	// few is how many batches one answer brings.
	few int
}

func topicID(topic string) [16]byte {
	sum := sha256.Sum256([]byte(topic))
	return [16]byte(sum[:16])
}

const leaderEpoch = 1

func (b *broker) ask(_ context.Context, req kmsg.Request) (kmsg.Response, error) {
	switch req := req.(type) {
	case *kmsg.MetadataRequest:
		return b.metadata(req), nil
	case *kmsg.ListOffsetsRequest:
		return b.offsets(req), nil
	case *kmsg.FetchRequest:
		return b.fetch(req), nil
	}
	return nil, fmt.Errorf("sim: nobody answers a %T", req)
}

func (b *broker) metadata(req *kmsg.MetadataRequest) *kmsg.MetadataResponse {
	resp := kmsg.NewPtrMetadataResponse()
	for _, want := range req.Topics {
		t := kmsg.NewMetadataResponseTopic()
		t.Topic, t.TopicID = want.Topic, topicID(*want.Topic)
		for part := int32(0); b.logs[tp{*want.Topic, part}] != nil; part++ {
			p := kmsg.NewMetadataResponseTopicPartition()
			p.Partition, p.Leader, p.LeaderEpoch = part, 1, leaderEpoch
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

func (b *broker) offsets(req *kmsg.ListOffsetsRequest) *kmsg.ListOffsetsResponse {
	resp := kmsg.NewPtrListOffsetsResponse()
	for _, want := range req.Topics {
		t := kmsg.NewListOffsetsResponseTopic()
		t.Topic = want.Topic
		for _, p := range want.Partitions {
			r := kmsg.NewListOffsetsResponseTopicPartition()
			r.Partition = p.Partition
			if l := b.logs[tp{want.Topic, p.Partition}]; l == nil {
				r.ErrorCode = kerr.UnknownTopicOrPartition.Code
			} else if r.Offset = l.end(); p.Timestamp == -2 {
				r.Offset = l.start
			}
			t.Partitions = append(t.Partitions, r)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

func (b *broker) fetch(req *kmsg.FetchRequest) *kmsg.FetchResponse {
	resp := kmsg.NewPtrFetchResponse()
	for _, want := range req.Topics {
		t := kmsg.NewFetchResponseTopic()
		t.Topic, t.TopicID = want.Topic, want.TopicID
		for _, p := range want.Partitions {
			t.Partitions = append(t.Partitions, b.fetchPartition(b.logs[tp{want.Topic, p.Partition}], p.FetchOffset, req.IsolationLevel == 1))
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

func (b *broker) fetchPartition(l *log, offset int64, readCommitted bool) kmsg.FetchResponseTopicPartition {
	r := kmsg.NewFetchResponseTopicPartition()
	r.Partition, r.HighWatermark, r.LastStableOffset, r.LogStartOffset = l.part, l.end(), l.stable(), l.start
	if offset < l.start || offset > l.end() {
		r.ErrorCode = kerr.OffsetOutOfRange.Code
		return r
	}
	end := l.end()
	if readCommitted {
		end = l.stable()
	}
	told := map[*transaction]bool{}
	for n := 0; offset < end && n < b.few; offset++ {
		e := &l.entries[offset]
		if e.gone {
			continue
		}
		n++
		r.RecordBatches = appendBatch(r.RecordBatches, e)
		if t := e.txn; t != nil && t.fate == aborted && !told[t] {
			told[t] = true
			a := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
			a.ProducerID, a.FirstOffset = t.id, offset
			r.AbortedTransactions = append(r.AbortedTransactions, a)
		}
	}
	return r
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendBatch appends an entry as a batch of its own.
func appendBatch(dst []byte, e *entry) []byte {
	rec := kmsg.Record{Key: e.Key, Value: e.Value}
	batch := kmsg.RecordBatch{
		FirstOffset: e.Offset, PartitionLeaderEpoch: leaderEpoch, Magic: 2, FirstTimestamp: e.Time, MaxTimestamp: e.Time,
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: 1,
	}
	if e.txn != nil {
		batch.Attributes |= 0x10
		batch.ProducerID, batch.ProducerEpoch, batch.FirstSequence = e.txn.id, 0, 0
	}
	if e.Control {
		batch.Attributes |= 0x20
		kind := uint16(0)
		if e.txn.fate == committed {
			kind = 1
		}
		rec.Key = binary.BigEndian.AppendUint16([]byte{0, 0}, kind)
		rec.Value = make([]byte, 6)
	}
	for _, h := range e.Headers {
		rec.Headers = append(rec.Headers, kmsg.Header{Key: h.Key, Value: h.Value})
	}
	body := rec.AppendTo(nil)
	rec.Length = int32(len(body) - 1) // without the one byte that a length of 0 takes
	batch.Records = rec.AppendTo(nil)
	at := len(dst)
	dst = batch.AppendTo(dst)
	binary.BigEndian.PutUint32(dst[at+8:], uint32(len(dst)-at-12))
	binary.BigEndian.PutUint32(dst[at+17:], crc32.Checksum(dst[at+21:], castagnoli))
	return dst
}
