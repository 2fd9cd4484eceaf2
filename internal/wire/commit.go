package wire

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
)

const (
	// commitFormat is what is written. Format 1, which is still read, has no flags: no partition was idle, and no generator was other
	// than the one that goes by the largest event time.
	commitFormat = 2

	// commitPrefix tells our metadata from others': Kafka's default is the empty string, kgo's the member id.
	commitPrefix = "hr1:"

	// MaxMetadata is how long the metadata of an offset may become, in bytes. Brokers refuse what is over offset.metadata.max.bytes,
	// 4096 by default.
	MaxMetadata = 3500
)

// What the flags of a source say, in one byte.
const (
	flagIdle      = 1 << iota // the partition is idle
	flagAhead                 // Ahead follows
	flagGenerator             // values of the generator follow
	flagsEnd
)

// AppendCommit appends c in format 2.
func AppendCommit(dst []byte, c Commit) []byte {
	dst = append(dst, commitFormat)
	dst = appendString(dst, c.TransactionalID)
	dst = binary.AppendUvarint(dst, c.Sequence)

	src := &c.Source
	var flags byte
	if src.Idle {
		flags |= flagIdle
	}
	if src.Ahead != 0 {
		flags |= flagAhead
	}
	if len(src.Generator) > 0 {
		flags |= flagGenerator
	}
	dst = append(dst, flags)
	dst = appendTime(dst, src.MaxTime)
	dst = appendTime(dst, src.Watermark)
	if flags&flagAhead != 0 {
		dst = binary.AppendUvarint(dst, src.Ahead)
	}
	if flags&flagGenerator != 0 {
		dst = appendTimes(dst, src.Generator)
	}
	dst = binary.AppendUvarint(dst, uint64(src.Producers))
	dst = binary.AppendUvarint(dst, uint64(len(src.Channels)))
	// Neighbours are close in both: a channel is its distance from the one before it.
	var producer int32
	var watermark int64
	for _, ch := range src.Channels {
		dst = binary.AppendUvarint(dst, uint64(ch.Producer-producer)<<2|uint64(ch.State))
		dst = appendTime(dst, ch.Watermark-watermark)
		producer, watermark = ch.Producer, ch.Watermark
	}

	dst = binary.AppendUvarint(dst, uint64(len(c.Operators)))
	for _, op := range c.Operators {
		dst = appendString(dst, op.Name)
		dst = appendTimes(dst, op.Values)
	}
	return dst
}

// DecodeCommitBytes decodes what AppendCommit appended, now or in format 1.
func DecodeCommitBytes(b []byte) (Commit, error) {
	r := read("commit", b, 1, commitFormat)
	c := Commit{TransactionalID: r.string(), Sequence: r.uvarint()}
	var flags byte
	if r.format > 1 {
		if flags = r.byte(); flags >= flagsEnd {
			r.fail("the flags are none that there are")
		}
	}
	src := &c.Source
	src.Idle = flags&flagIdle != 0
	src.MaxTime, src.Watermark = r.time(), r.time()
	if flags&flagAhead != 0 {
		if src.Ahead = r.uvarint(); src.Told() <= src.Watermark {
			r.fail("what was told is not ahead of the watermark")
		}
	}
	if flags&flagGenerator != 0 {
		if src.Generator = r.times(); len(src.Generator) == 0 {
			r.fail("a generator has no values")
		}
	}
	src.Producers = r.int32()
	if n := r.count(2); n > 0 {
		src.Channels = make([]Channel, n)
		var producer int64
		var watermark int64
		for i := range src.Channels {
			var state ReportState
			step := r.uvarint()
			if r.format > 1 {
				state, step = ReportState(step&3), step>>2
			}
			if step > math.MaxInt32 || state > End {
				r.fail("a channel has no possible producer or state")
				break
			}
			producer += int64(step)
			watermark += r.time()
			if i > 0 && step == 0 || producer > int64(src.Producers)-1 {
				r.fail("the channels are not in ascending order below the number of producers")
				break
			}
			src.Channels[i] = Channel{Producer: int32(producer), Watermark: watermark, State: state}
		}
	}
	if n := r.count(2); n > 0 {
		c.Operators = make([]OperatorClock, n)
		for i := range c.Operators {
			c.Operators[i].Name = r.string()
			c.Operators[i].Values = r.times()
		}
	}
	if err := r.end(); err != nil {
		return Commit{}, err
	}
	return c, nil
}

// EncodeCommit returns c as the metadata of an offset: a prefix, then base64, as metadata is a Kafka string. The caller compares
// its length with MaxMetadata.
func EncodeCommit(c Commit) string {
	return commitPrefix + base64.RawStdEncoding.EncodeToString(AppendCommit(nil, c))
}

// DecodeCommit decodes the metadata of an offset. It returns false, and no error, for metadata that another program has written,
// the empty one included.
func DecodeCommit(metadata string) (c Commit, ours bool, err error) {
	text, ours := strings.CutPrefix(metadata, commitPrefix)
	if !ours {
		return Commit{}, false, nil
	}
	b, err := base64.RawStdEncoding.Strict().DecodeString(text)
	if err != nil {
		return Commit{}, true, fmt.Errorf("wire: commit: %w: %w", ErrCorrupt, err)
	}
	c, err = DecodeCommitBytes(b)
	return c, true, err
}
