package main

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headrace/headrace/internal/eos"
	"github.com/headrace/headrace/internal/wire"
	"github.com/headrace/headrace/internal/wiretap"
)

const (
	offsetCommitKey = int16(kmsg.TxnOffsetCommit)
	endKey          = int16(kmsg.EndTxn)
)

// tap sees the requests that end the transactions of an application, and their answers. Points are reached before a request is sent
// and before the client has its answer.
type tap struct {
	agent *agent
	app   string

	// commits says that the last EndTxn commits. A client has no more than one transaction.
	commits atomic.Bool

	mu   sync.Mutex
	last eos.Happening // of the last TxnOffsetCommit
}

func (t *tap) dialer() func(ctx context.Context, network, address string) (net.Conn, error) {
	w := &wiretap.Wire{
		Request:  func(f wiretap.Frame) bool { t.asked(f); return true },
		Response: func(f wiretap.Frame) bool { t.answered(f); return true },
	}
	return w.Dialer((&net.Dialer{}).DialContext)
}

// transaction is what is known of the one in hand.
func (t *tap) transaction() eos.Happening {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last
}

func (t *tap) asked(f wiretap.Frame) {
	switch f.Key {
	case endKey:
		req := kmsg.NewPtrEndTxnRequest()
		t.commits.Store(f.Request(req) && req.Commit)
	case offsetCommitKey:
		if req := kmsg.NewPtrTxnOffsetCommitRequest(); f.Request(req) {
			t.offsets(req)
		}
	}
}

func (t *tap) offsets(req *kmsg.TxnOffsetCommitRequest) {
	h := eos.Happening{App: t.app, Transaction: req.TransactionalID}
	at := make(map[string]int64)
	for _, topic := range req.Topics {
		for _, p := range topic.Partitions {
			at[fmt.Sprintf("%s[%d]", topic.Topic, p.Partition)] = p.Offset
			if p.Metadata == nil {
				continue
			}
			if c, ours, err := wire.DecodeCommit(*p.Metadata); ours && err == nil {
				h.Sequence = c.Sequence
			} else if r, away, err := wire.DecodeReference(*p.Metadata); away && err == nil {
				h.Sequence = r.Sequence
			}
		}
	}
	var text []string
	for _, tp := range slices.Sorted(maps.Keys(at)) {
		text = append(text, fmt.Sprintf("%s@%d", tp, at[tp]))
	}
	h.Offsets = strings.Join(text, " ")
	t.mu.Lock()
	h.Unmoved = h.Offsets == t.last.Offsets
	t.last = h
	t.mu.Unlock()
	// A process that is to be stopped is stopped where its transaction holds only what time has made.
	if o := t.agent.armed.Load(); o == nil || o.verb != "stop" || h.Unmoved {
		t.agent.at(eos.BeforeOffsets, t.app, func() eos.Happening { return h })
	}
}

func (t *tap) answered(f wiretap.Frame) {
	var code int16
	switch f.Key {
	case offsetCommitKey:
		resp := kmsg.NewPtrTxnOffsetCommitResponse()
		if !f.Response(resp) {
			return
		}
		for _, topic := range resp.Topics {
			for _, p := range topic.Partitions {
				if p.ErrorCode != 0 {
					code = p.ErrorCode
				}
			}
		}
	case endKey:
		resp := kmsg.NewPtrEndTxnResponse()
		if !f.Response(resp) {
			return
		}
		code = resp.ErrorCode
	default:
		return
	}
	h := t.transaction()
	h.App = t.app
	switch {
	case code != 0:
		h.What, h.Point = eos.Refused, kmsg.NameForKey(f.Key)
		h.Error = fmt.Sprint(code)
		if err := kerr.TypedErrorForCode(code); err != nil {
			h.Error = err.Message
		}
		t.agent.tell(h)
	case f.Key == offsetCommitKey:
		t.agent.at(eos.AfterOffsets, t.app, func() eos.Happening { return h })
	case t.commits.Load():
		h.What = eos.Committed
		t.agent.tell(h)
		t.agent.at(eos.AfterEnd, t.app, func() eos.Happening { return h })
	}
}
