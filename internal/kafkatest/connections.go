package kafkatest

import (
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// connections are those that brokers have accepted, by the broker's port.
type connections struct {
	latency atomic.Int64

	mu   sync.Mutex
	open map[string][]net.Conn
}

// conn answers with the latency of its cluster.
type conn struct {
	net.Conn
	all *connections
}

func (c conn) Write(p []byte) (int, error) {
	if d := c.all.latency.Load(); d > 0 {
		time.Sleep(time.Duration(d))
	}
	return c.Conn.Write(p)
}

// SetLatency is how long an answer is on its way, nothing by default. With none, a client in a bubble that asks again and again until
// something changes does so for ever: time stands still while it asks.
func (c *Cluster) SetLatency(d time.Duration) { c.connections.latency.Store(int64(d)) }

type listener struct {
	net.Listener
	port string
	all  *connections
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c = conn{c, l.all}
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	if l.all.open == nil {
		l.all.open = make(map[string][]net.Conn)
	}
	l.all.open[l.port] = append(l.all.open[l.port], c)
	return c, nil
}

func (c *Cluster) listen(network, address string) (net.Listener, error) {
	l, err := c.network.Listen(network, address)
	if err != nil {
		return nil, err
	}
	return &listener{l, address[strings.LastIndexByte(address, ':')+1:], &c.connections}, nil
}

// Disconnect closes all connections to the broker at a port, such as "9092". A broker that is removed from the cluster keeps them
// otherwise.
func (c *Cluster) Disconnect(port string) {
	c.connections.mu.Lock()
	defer c.connections.mu.Unlock()
	for _, conn := range c.connections.open[port] {
		_ = conn.Close() // it may be closed already
	}
	delete(c.connections.open, port)
}
