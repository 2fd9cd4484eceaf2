package ops

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Serve answers until its context is done, and takes nothing along: not the address, not a goroutine, not who still waits for an answer.
func TestServe(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	slow := make(chan struct{})
	defer close(slow)
	mux := http.NewServeMux()
	mux.Handle("/", serve(t, Config{}).h)
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) {
		slow <- struct{}{}
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, l, mux) }()
	get := func(path string) (int, string, error) {
		cl := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		resp, err := cl.Get(fmt.Sprintf("http://%s%s", l.Addr(), path))
		if err != nil {
			return 0, "", err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body), err
	}
	if code, body, err := get("/livez"); err != nil || code != http.StatusOK {
		t.Errorf("livez: %d %s %v", code, body, err)
	}
	if code, body, err := get("/readyz"); err != nil || code != http.StatusServiceUnavailable {
		t.Errorf("readyz: %d %s %v", code, body, err)
	}
	waited := make(chan error, 1)
	go func() {
		_, _, err := get("/slow")
		waited <- err
	}()
	<-slow
	began := time.Now()
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Serve returned %v", err)
	}
	if took := time.Since(began); took > 3*shutdownTimeout {
		t.Errorf("Serve took %v to end", took)
	}
	if err := <-waited; err == nil {
		t.Error("a request that never ends was answered")
	}
	if c, err := net.Dial("tcp", l.Addr().String()); err == nil {
		_ = c.Close()
		t.Error("the address still answers")
	}
	if err := Serve(context.Background(), l, mux); err == nil {
		t.Error("Serve goes on with a listener that is closed")
	}
}
