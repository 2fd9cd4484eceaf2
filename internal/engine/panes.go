package engine

import (
	"strconv"

	"github.com/headrace/headrace/internal/graph"
	"github.com/headrace/headrace/internal/wire"
)

// Told appends the headers of a pane to a copy of h: nothing for the first result, on time. heard says that Heard will read them: then
// the timing is there in any case where the last of h could be taken for one of a pane, too.
func (r runtime) Told(h []graph.Header, p graph.Pane, heard bool) []graph.Header {
	if p.Timing == graph.OnTime {
		p.Timing = graph.NoTiming
	}
	apart := heard && len(h) > 0 && ofPane(h[len(h)-1].Key)
	if p == (graph.Pane{}) && !apart {
		return h
	}
	out := append(make([]graph.Header, 0, len(h)+3), h...)
	if p.Timing != graph.NoTiming || apart {
		out = append(out, graph.Header{Key: wire.HeaderPane, Value: []byte(p.Timing.String())})
	}
	if p.Revision > 0 {
		out = append(out, graph.Header{Key: wire.HeaderRevision, Value: strconv.AppendInt(nil, int64(p.Revision), 10)})
	}
	if p.Retraction {
		out = append(out, graph.Header{Key: wire.HeaderRetract, Value: []byte("true")})
	}
	return out
}

func ofPane(key string) bool {
	return key == wire.HeaderPane || key == wire.HeaderRevision || key == wire.HeaderRetract
}

// Heard reads what Told appended. A header of ours that does not read as one is the user's own.
func (r runtime) Heard(h []graph.Header) (p graph.Pane, n int) {
	for ; n < len(h); n++ {
		last := h[len(h)-1-n]
		switch last.Key {
		case wire.HeaderRetract:
			if p.Retraction || string(last.Value) != "true" {
				return p, n
			}
			p.Retraction = true
		case wire.HeaderRevision:
			rev, err := strconv.ParseInt(string(last.Value), 10, 32)
			if err != nil || rev <= 0 || p.Revision > 0 {
				return p, n
			}
			p.Revision = int32(rev)
		case wire.HeaderPane:
			switch string(last.Value) {
			case "": // none, or on time
			case "early":
				p.Timing = graph.Early
			case "late":
				p.Timing = graph.Late
			default:
				return p, n
			}
			return p, n + 1 // it comes first
		default:
			return p, n
		}
	}
	return p, n
}
