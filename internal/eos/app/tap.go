package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/headrace/headrace/internal/eos"
	"github.com/headrace/headrace/internal/wire"
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

	mu   sync.Mutex
	last eos.Happening // of the last TxnOffsetCommit
}

func (t *tap) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &tapped{Conn: c, tap: t, asked: make(map[uint32]asked)}, nil
}

// transaction is what is known of the one in hand.
func (t *tap) transaction() eos.Happening {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.last
}

func (t *tap) offsets(version int16, body []byte) {
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.SetVersion(version)
	if req.ReadFrom(body) != nil {
		return
	}
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

func (t *tap) answered(a asked, body []byte) {
	var code int16
	switch a.key {
	case offsetCommitKey:
		resp := kmsg.NewPtrTxnOffsetCommitResponse()
		resp.SetVersion(a.version)
		if resp.ReadFrom(body) != nil {
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
		resp.SetVersion(a.version)
		if resp.ReadFrom(body) != nil {
			return
		}
		code = resp.ErrorCode
	}
	h := t.transaction()
	h.App = t.app
	switch {
	case code != 0:
		h.What, h.Point = eos.Refused, kmsg.NameForKey(a.key)
		h.Error = fmt.Sprint(code)
		if err := kerr.TypedErrorForCode(code); err != nil {
			h.Error = err.Message
		}
		t.agent.tell(h)
	case a.key == offsetCommitKey:
		t.agent.at(eos.AfterOffsets, t.app, func() eos.Happening { return h })
	case a.commit:
		h.What = eos.Committed
		t.agent.tell(h)
		t.agent.at(eos.AfterEnd, t.app, func() eos.Happening { return h })
	}
}

// tapped takes the bytes apart into requests and answers.
type tapped struct {
	net.Conn
	tap *tap

	mu    sync.Mutex
	asked map[uint32]asked

	out []byte // of a request that is not yet whole
	in  []byte // of an answer that the client has not yet read
}

type asked struct {
	key, version int16
	commit       bool // an EndTxn that commits
}

func (c *tapped) Write(p []byte) (int, error) {
	c.out = append(c.out, p...)
	for len(c.out) >= 4 {
		n := 4 + int(binary.BigEndian.Uint32(c.out))
		if len(c.out) < n {
			break
		}
		frame := c.out[:n]
		c.out = c.out[n:]
		c.request(frame[4:])
		if _, err := c.Conn.Write(frame); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

func (c *tapped) request(f []byte) {
	a := asked{key: int16(binary.BigEndian.Uint16(f)), version: int16(binary.BigEndian.Uint16(f[2:]))}
	if a.key != offsetCommitKey && a.key != endKey {
		return
	}
	body := f[8:]
	body = body[2+int(binary.BigEndian.Uint16(body)):] // the client's id
	if a.version >= 3 {
		body = body[1:] // tags
	}
	if a.key == endKey {
		req := kmsg.NewPtrEndTxnRequest()
		req.SetVersion(a.version)
		a.commit = req.ReadFrom(body) == nil && req.Commit
	}
	c.mu.Lock()
	c.asked[binary.BigEndian.Uint32(f[4:])] = a
	c.mu.Unlock()
	if a.key == offsetCommitKey {
		c.tap.offsets(a.version, body)
	}
}

func (c *tapped) Read(p []byte) (int, error) {
	if len(c.in) == 0 {
		if err := c.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, c.in)
	c.in = c.in[n:]
	return n, nil
}

func (c *tapped) next() error {
	var size [4]byte
	if _, err := io.ReadFull(c.Conn, size[:]); err != nil {
		return err
	}
	frame := make([]byte, 4+binary.BigEndian.Uint32(size[:]))
	copy(frame, size[:])
	if _, err := io.ReadFull(c.Conn, frame[4:]); err != nil {
		return err
	}
	id := binary.BigEndian.Uint32(frame[4:])
	c.mu.Lock()
	a, ok := c.asked[id]
	delete(c.asked, id)
	c.mu.Unlock()
	if ok {
		body := frame[8:]
		if a.version >= 3 {
			body = body[1:] // tags
		}
		c.tap.answered(a, body)
	}
	c.in = frame
	return nil
}
