package ops

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/headrace/headrace/framework"
)

// Config is what a handler shows. App is enough.
type Config struct {
	// App is the app to show, before, while and after it runs.
	App *framework.App
	// Client, if set, adds what the app's Kafka clients measure. Its Option must have gone into the app's Config.
	Client *Client
	// NoPartitions leaves out the series of single partitions, which are four for each partition that the process reads. Those of topics
	// stay.
	NoPartitions bool
	// Collectors are metrics of the program's own, to be served beside ours.
	Collectors []prometheus.Collector
}

// NewHandler returns the handler of /metrics, /livez, /readyz and /startupz. It takes GET and HEAD, and answers 404 to other paths, so
// that it can be mounted in a mux of one's own. It is safe for concurrent use and starts nothing.
//
// It fails if two collectors want the same name.
func NewHandler(c Config) (http.Handler, error) {
	if c.App == nil {
		return nil, errors.New("ops: Config.App is nil: give what framework.New returned")
	}
	return newHandler(c, c.App.Snapshot)
}

func newHandler(c Config, snapshot func() framework.Snapshot) (http.Handler, error) {
	registry, err := newRegistry(c, snapshot)
	if err != nil {
		return nil, fmt.Errorf("ops: register metrics: %w", err)
	}
	up := &startup{}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, ErrorHandling: promhttp.HTTPErrorOnError}))
	mux.Handle("GET /livez", probe(snapshot, func(s *framework.Snapshot, _ time.Time) []Reason { return stalled(s) }))
	mux.Handle("GET /readyz", probe(snapshot, unready))
	mux.Handle("GET /startupz", probe(snapshot, up.pending))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		mux.ServeHTTP(w, r)
	}), nil
}

// newRegistry has our metrics with the application's name, and those of Go, of the process and of the program as they are.
func newRegistry(c Config, snapshot func() framework.Snapshot) (*prometheus.Registry, error) {
	registry := prometheus.NewRegistry()
	ours := prometheus.WrapRegistererWith(prometheus.Labels{"application_id": snapshot().AppID}, registry)
	errs := []error{
		ours.Register(&collector{snapshot: snapshot, noPartitions: c.NoPartitions, version: version()}),
		registry.Register(collectors.NewGoCollector()),
		registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})),
	}
	if c.Client != nil {
		errs = append(errs, ours.Register(c.Client))
	}
	for _, own := range c.Collectors {
		errs = append(errs, registry.Register(own))
	}
	return registry, errors.Join(errs...)
}

// The limits of Serve. A scrape is one short request.
const (
	readTimeout     = 5 * time.Second
	writeTimeout    = 30 * time.Second
	idleTimeout     = 2 * time.Minute
	maxHeaderBytes  = 16 << 10
	shutdownTimeout = 2 * time.Second
)

// Serve serves h at l until ctx is done, and then ends what is under way, within two seconds. It blocks, closes l, and returns nil
// then, or why it could not go on. It knows no users and no TLS: listen where only those can connect who may know.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeaderBytes, ErrorLog: slog.NewLogLogger(slog.Default().Handler(), slog.LevelWarn),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return fmt.Errorf("ops: serve %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	err := server.Shutdown(stop)
	if err != nil {
		err = server.Close()
	}
	<-ended
	if err != nil {
		return fmt.Errorf("ops: stop serving %s: %w", l.Addr(), err)
	}
	return nil
}
