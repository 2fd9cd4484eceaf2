// Package ops shows a running app to those who run it: metrics for Prometheus and probes for Kubernetes, over HTTP.
//
//	client := ops.NewClient()
//	app, err := framework.New(framework.Config{ /* … */ Kafka: []kgo.Opt{client.Option()}})
//	handler, err := ops.NewHandler(ops.Config{App: app, Client: client})
//	listener, err := net.Listen("tcp", "127.0.0.1:8080")
//	go ops.Serve(ctx, listener, handler)
//
// The paths are
//
//   - /metrics: what docs/metrics.md lists.
//   - /livez: 200 unless a worker is stuck for longer than framework.Config.TaskTimeout. It asks for a restart of the process.
//   - /readyz: 200 while every worker is running, and none is stuck or has met nothing but errors for 30 s. Where it matters that state
//     is complete before a process is asked for it, or before the next one of a rolling update is stopped, this is what to wait for.
//   - /startupz: 200 once every worker has been running, and before that as long as restores make progress.
//
// The probes answer in JSON, with a list of reasons behind every 503: which worker, which task, what it waits for, how far it is. They
// have names of topics, brokers and tasks in them, and errors, but no keys or values of records.
//
// Everything is made of App.Snapshot, which takes no lock that a worker needs and makes no request: a scrape or a probe never holds
// up processing, and what it says of a busy worker is up to some tens of milliseconds old.
//
// There is no registry but the handler's own, and nothing is registered in the default one. Several apps in a process have a handler
// each.
package ops
