package ops

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/plugin/kprom"
)

// Client measures the Kafka clients of an app: connections, bytes and requests by broker, batches by topic. Make one for each app, hand
// its Option to framework.Config.Kafka and itself to Config. It is safe for concurrent use.
//
// An app has a client for each worker, which is replaced now and then, and two more; what is measured is the sum.
type Client struct {
	metrics *kprom.Metrics
	made    captured

	mu   sync.Mutex
	live map[*kgo.Client]struct{}
}

// NewClient returns a Client that has measured nothing yet.
func NewClient() *Client {
	c := &Client{live: make(map[*kgo.Client]struct{})}
	c.metrics = kprom.NewMetrics("headrace_client",
		kprom.Registerer(&c.made),
		kprom.FetchAndProduceDetail(kprom.ByTopic, kprom.CompressedBytes, kprom.Batches, kprom.ConsistentNaming),
		kprom.HistogramsFromOpts(
			kprom.HistogramOpts{Enable: kprom.RequestDurationE2E, Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}},
			kprom.HistogramOpts{Enable: kprom.RequestThrottled, Buckets: []float64{.01, .1, 1, 10}},
		),
		kprom.NativeBucketFactor(1),
	)
	// It makes its counters when it hears of a client, and anew with each. Only its gauges look at the client, and made has none of them.
	c.metrics.OnNewClient(nil)
	return c
}

// Option hands the measuring to a client.
func (c *Client) Option() kgo.Opt { return kgo.WithHooks(&hooks{c.metrics, c}) }

// hooks are those of kprom, but for the two that would bind it to one client.
type hooks struct {
	*kprom.Metrics
	c *Client
}

func (h *hooks) OnNewClient(cl *kgo.Client) {
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	h.c.live[cl] = struct{}{}
}

func (h *hooks) OnClientClosed(cl *kgo.Client) {
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	delete(h.c.live, cl)
}

// Describe and Collect make c a prometheus.Collector, for programs that have a registry of their own.
func (c *Client) Describe(ch chan<- *prometheus.Desc) {
	ch <- bufferedProduced.desc
	ch <- bufferedFetched.desc
	for _, m := range c.made {
		m.Describe(ch)
	}
}

// Collect is there for prometheus.Collector.
func (c *Client) Collect(ch chan<- prometheus.Metric) {
	produced, fetched := int64(0), int64(0)
	c.mu.Lock()
	for cl := range c.live {
		produced += cl.BufferedProduceRecords()
		fetched += cl.BufferedFetchRecords()
	}
	c.mu.Unlock()
	out := scrape{ch}
	out.count(bufferedProduced, produced)
	out.count(bufferedFetched, fetched)
	for _, m := range c.made {
		m.Collect(ch)
	}
}

// captured is a prometheus.Registerer that only remembers. It leaves out gauges of a single client.
type captured []prometheus.Collector

func (r *captured) Register(c prometheus.Collector) error {
	if _, ok := c.(prometheus.GaugeFunc); !ok {
		*r = append(*r, c)
	}
	return nil
}

func (r *captured) MustRegister(cs ...prometheus.Collector) {
	for _, c := range cs {
		_ = r.Register(c) // never fails
	}
}

func (r *captured) Unregister(prometheus.Collector) bool { return false }
