package ops_test

import (
	"context"
	"net"

	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/ops"
)

// An app with its metrics and probes on one port of this machine.
func ExampleServe() {
	run := func(ctx context.Context, c framework.Config) error {
		client := ops.NewClient()
		c.Kafka = append(c.Kafka, client.Option())
		app, err := framework.New(c)
		if err != nil {
			return err
		}
		handler, err := ops.NewHandler(ops.Config{App: app, Client: client})
		if err != nil {
			return err
		}
		listener, err := net.Listen("tcp", "127.0.0.1:8080")
		if err != nil {
			return err
		}
		serving, stop := context.WithCancel(context.WithoutCancel(ctx))
		served := make(chan error, 1)
		go func() { served <- ops.Serve(serving, listener, handler) }()
		err = app.Run(ctx) // probes answer while it drains
		stop()
		if serveErr := <-served; err == nil {
			err = serveErr
		}
		return err
	}
	_ = run
}
