package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The health check asks /livez of the address that the app was told to listen at, and its code says what it heard.
func TestHealthcheck(t *testing.T) {
	t.Parallel()
	code := http.StatusOK
	var asked string
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.Path
		w.WriteHeader(code)
		_, _ = w.Write([]byte("worker 0 is stuck"))
	}))
	defer app.Close()
	addr := strings.TrimPrefix(app.URL, "http://")
	everywhere := "0.0.0.0" + addr[strings.LastIndex(addr, ":"):]
	for _, tt := range []struct {
		addr string
		code int
		want int
	}{
		{addr, http.StatusOK, exitOK}, {everywhere, http.StatusOK, exitOK}, {addr, http.StatusServiceUnavailable, exitFail},
	} {
		code = tt.code
		var out bytes.Buffer
		got := dispatch(t.Context(), process{[]string{"healthcheck"}, []string{"HEADRACE_HTTP_ADDR=" + tt.addr}, &out, &out})
		if got != tt.want || !strings.Contains(out.String(), "worker 0 is stuck") {
			t.Errorf("%s answers %d: ended with %d, want %d: %s", tt.addr, tt.code, got, tt.want, &out)
		}
	}
	if asked != "/livez" {
		t.Errorf("asked for %s, want /livez", asked)
	}
}
