package verify

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type windowKey struct {
	airport string
	start   int64 // ms
}

func (k windowKey) end() int64 { return k.start + windowSize }

func (k windowKey) String() string {
	return fmt.Sprintf("%s [%s, %s)", k.airport, clock(k.start), clock(k.end()))
}

func clock(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02 15:04") }

// outputs is what the app wrote, each topic in the order of its partitions.
type outputs struct {
	results []result
	late    []late
}

// A result is a record of the topic of the results; bad says why it is none.
type result struct {
	key      windowKey
	value    resultValue
	revision int
	late     bool // it came when its window had closed
	bad      string
}

type resultValue struct {
	Airport, City, State string
	Count, Sum           int64
	Mean                 float64
	Max                  int64
}

// decodeResult reads a windowed key by hand: the airport, then eight bytes big-endian with the start of the window in milliseconds.
func decodeResult(r *kgo.Record) result {
	where := fmt.Sprintf("%s/%d at offset %d", r.Topic, r.Partition, r.Offset)
	n := len(r.Key) - 8
	if n < 1 {
		return result{bad: fmt.Sprintf("%s: the key %q is no airport and window start", where, r.Key)}
	}
	res := result{key: windowKey{airport: string(r.Key[:n]), start: int64(binary.BigEndian.Uint64(r.Key[n:]))}}
	if r.Value == nil {
		res.bad = fmt.Sprintf("%s: window %v is deleted by a null value", where, res.key)
	} else if err := json.Unmarshal(r.Value, &res.value); err != nil {
		res.bad = fmt.Sprintf("%s: window %v: %v", where, res.key, err)
	}
	for _, h := range r.Headers {
		n, err := strconv.Atoi(string(h.Value))
		switch {
		case h.Key == "x-rev" && err == nil && n > 0:
			res.revision = n
		case h.Key == "x-pane" && string(h.Value) == "late":
			res.late = true
		case strings.HasPrefix(h.Key, "x-"):
			res.bad = fmt.Sprintf("%s: window %v has the header %s: %q, which it must not have", where, res.key, h.Key, h.Value)
		}
	}
	return res
}

// A late is a record of the topic of the late flights; bad says why it is none.
type late struct {
	key, reason, operator      string
	value                      lateValue
	start, end, watermark, by  int64
	eventTime                  int64
	originTopic                string
	originPartition, originOff int64
	where                      string
	bad                        string
}

type lateValue struct {
	Row                 int
	Scheduled           time.Time
	Delay, Distance     int
	Origin, Destination string
}

func decodeLate(r *kgo.Record) late {
	l := late{key: string(r.Key), where: fmt.Sprintf("%s/%d at offset %d", r.Topic, r.Partition, r.Offset)}
	if err := json.Unmarshal(r.Value, &l.value); err != nil {
		l.bad = fmt.Sprintf("%s: no flight: %v", l.where, err)
		return l
	}
	headers := map[string]string{}
	for _, h := range r.Headers {
		if _, twice := headers[h.Key]; twice && l.bad == "" {
			l.bad = fmt.Sprintf("%s: flight %d has the header %s twice", l.where, l.value.Row, h.Key)
		}
		headers[h.Key] = string(h.Value)
	}
	for name, to := range map[string]*string{
		"x-late-reason": &l.reason, "x-late-operator": &l.operator, "x-origin-topic": &l.originTopic,
	} {
		*to = headers[name]
		if *to == "" && l.bad == "" {
			l.bad = fmt.Sprintf("%s: flight %d lacks the header %s", l.where, l.value.Row, name)
		}
	}
	for name, to := range map[string]*int64{
		"x-late-window-start": &l.start, "x-late-window-end": &l.end, "x-late-watermark": &l.watermark, "x-late-by-ms": &l.by,
		"x-origin-partition": &l.originPartition, "x-origin-offset": &l.originOff, "x-event-time": &l.eventTime,
	} {
		n, err := strconv.ParseInt(headers[name], 10, 64)
		if err != nil && l.bad == "" {
			l.bad = fmt.Sprintf("%s: flight %d: the header %s is %q, not a decimal number", l.where, l.value.Row, name, headers[name])
		}
		*to = n
	}
	return l
}
