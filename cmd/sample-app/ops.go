package main

import (
	"context"
	"errors"

	"github.com/headrace/headrace/framework"
)

// serveOps serves metrics and probes of the app at an address, until ctx is done; wait then returns when the server has ended. It
// fails if it cannot listen there. An empty address is no server.
//
// There is none yet: any other address is refused, so that nobody takes silence for health.
func serveOps(_ context.Context, addr string, _ *framework.App) (wait func() error, err error) {
	if addr != "" {
		return nil, errors.New("http.addr: metrics and probes are not there yet; leave it out")
	}
	return func() error { return nil }, nil
}
