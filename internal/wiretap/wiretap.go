// Package wiretap looks at what a Kafka client and its brokers say to each other: it takes their connections apart into requests and
// responses, which hooks may watch, hold, forge or cut. Tests make faults with it, and the proof of exactly-once its evidence.
package wiretap

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Wire stands between a client and the brokers, sees every request and response, and may hold, forge or cut them. Its hooks are
// called from the client's goroutines, concurrently; each may be nil. Set them before the client is made.
type Wire struct {
	// Request sees a request before it goes out, and may wait. With false the connection is cut instead of sending it.
	Request func(Frame) bool
	// Response sees a response before the client does, and may wait or change it. With false the connection is cut instead, so
	// that the client never learns the answer.
	Response func(Frame) bool
}

// Frame is a request or a response without its length.
type Frame struct {
	Key     int16
	Version int16
	Bytes   []byte

	closed <-chan struct{}
}

// Stall waits, unless the client gives the connection up before.
func (f Frame) Stall(d time.Duration) {
	select {
	case <-time.After(d):
	case <-f.closed:
	}
}

// Request reads the frame of a request, and says whether that worked.
func (f Frame) Request(req kmsg.Request) bool {
	req.SetVersion(f.Version)
	body := f.Bytes[8:]                                // key, version, correlation id
	body = body[2+int(binary.BigEndian.Uint16(body)):] // client id
	if req.IsFlexible() {
		body = body[1:] // tags
	}
	return req.ReadFrom(body) == nil
}

// Response reads the frame of a response, and says whether that worked.
func (f Frame) Response(resp kmsg.Response) bool {
	resp.SetVersion(f.Version)
	return resp.ReadFrom(f.Bytes[answer(resp):]) == nil
}

// Forge puts a response in place of the one in the frame. It has to be as long.
func (f Frame) Forge(resp kmsg.Response) {
	resp.SetVersion(f.Version)
	copy(f.Bytes[answer(resp):], resp.AppendTo(nil))
}

// answer is where a response begins in its frame.
func answer(resp kmsg.Response) int {
	if resp.IsFlexible() {
		return 4 + 1 // correlation id and tags
	}
	return 4
}

// SetError forges the error code of an EndTxn response.
func (f Frame) SetError(code int16) {
	at := 4 + 4 // correlation id and throttle
	if f.Version >= 3 {
		at++ // tags of the header
	}
	binary.BigEndian.PutUint16(f.Bytes[at:], uint16(code))
}

// Dialer puts the wire between whoever dials and what dial reaches.
func (w *Wire) Dialer(dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &conn{Conn: c, wire: w, asked: make(map[uint32]Frame), closed: make(chan struct{})}, nil
	}
}

// conn takes the bytes apart into frames.
type conn struct {
	net.Conn
	wire *Wire

	closed chan struct{}
	once   sync.Once

	mu    sync.Mutex
	asked map[uint32]Frame

	out []byte // of a request that is not yet whole
	in  []byte // of a response that the client has not yet read
}

func (c *conn) Write(p []byte) (int, error) {
	c.out = append(c.out, p...)
	for len(c.out) >= 4 {
		n := 4 + int(binary.BigEndian.Uint32(c.out))
		if len(c.out) < n {
			break
		}
		frame := c.out[:n]
		c.out = c.out[n:]
		f := Frame{
			Key:     int16(binary.BigEndian.Uint16(frame[4:])),
			Version: int16(binary.BigEndian.Uint16(frame[6:])),
			Bytes:   frame[4:],
			closed:  c.closed,
		}
		c.mu.Lock()
		c.asked[binary.BigEndian.Uint32(frame[8:])] = Frame{Key: f.Key, Version: f.Version}
		c.mu.Unlock()
		if c.wire.Request != nil && !c.wire.Request(f) {
			c.Close()
			return 0, net.ErrClosed
		}
		if _, err := c.Conn.Write(frame); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

func (c *conn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

func (c *conn) Read(p []byte) (int, error) {
	if len(c.in) == 0 {
		if err := c.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, c.in)
	c.in = c.in[n:]
	return n, nil
}

func (c *conn) next() error {
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
	f := c.asked[id]
	delete(c.asked, id)
	c.mu.Unlock()
	f.Bytes, f.closed = frame[4:], c.closed
	if c.wire.Response != nil && !c.wire.Response(f) {
		c.Close()
		return io.EOF
	}
	c.in = frame
	return nil
}
