package eos

import (
	"bytes"
	"fmt"
	"hash/maphash"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Record is a record as the checkers need it.
type Record struct {
	Topic     string
	Partition int32
	Offset    int64
	Key       string
	Value     []byte // nil if it is null
	Time      int64  // Unix milliseconds
	Headers   []kgo.RecordHeader
}

func (r Record) String() string { return fmt.Sprintf("%s[%d]@%d", r.Topic, r.Partition, r.Offset) }

// FromKgo makes a Record that keeps nothing of the client's memory.
func FromKgo(r *kgo.Record) Record {
	out := Record{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Key: string(r.Key), Value: bytes.Clone(r.Value), Time: r.Timestamp.UnixMilli(),
	}
	if len(r.Headers) > 0 {
		out.Headers = make([]kgo.RecordHeader, len(r.Headers))
		for i, h := range r.Headers {
			out.Headers[i] = kgo.RecordHeader{Key: h.Key, Value: bytes.Clone(h.Value)}
		}
	}
	return out
}

func (r Record) header(key string) (string, bool) {
	for _, h := range r.Headers {
		if h.Key == key {
			return string(h.Value), true
		}
	}
	return "", false
}

// Place is a partition.
type Place struct {
	Topic     string
	Partition int32
}

func (p Place) String() string { return fmt.Sprintf("%s[%d]", p.Topic, p.Partition) }

// Place is where the record is.
func (r Record) Place() Place { return Place{r.Topic, r.Partition} }

var seed = maphash.MakeSeed()

// sum is a fingerprint of what a reader sees of a record.
func (r Record) sum() uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	_, _ = h.WriteString(r.Key) // a hash takes everything
	_ = h.WriteByte(byte(flag(r.Value == nil)))
	_, _ = h.Write(r.Value)
	return h.Sum64()
}
