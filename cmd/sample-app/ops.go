package main

import (
	"context"
	"fmt"
	"net"

	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/ops"
)

// serveOps serves metrics and probes of the app at an address, until ctx is done; wait then returns when the server has ended. It
// fails if it cannot listen there. An empty address is no server. client is what was given to the app for the metrics of its clients.
func serveOps(ctx context.Context, addr string, app *framework.App, client *ops.Client) (wait func() error, err error) {
	if addr == "" {
		return func() error { return nil }, nil
	}
	handler, err := ops.NewHandler(ops.Config{App: app, Client: client})
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("http.addr: %w", err)
	}
	served := make(chan error, 1)
	go func() { served <- ops.Serve(ctx, listener, handler) }()
	return func() error { return <-served }, nil
}
