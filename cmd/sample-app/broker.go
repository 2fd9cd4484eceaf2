package main

import (
	"context"
	"errors"
	"flag"
	"fmt"

	"github.com/headrace/headrace/devkafka"
)

// brokerCommand runs a broker in the foreground. Its address is all that it writes to the standard output, once it can be used.
func brokerCommand(ctx context.Context, p process) int {
	var port int
	var dir string
	var embedded bool
	fs := flag.NewFlagSet("sample-app broker", flag.ContinueOnError)
	fs.SetOutput(p.stderr)
	fs.IntVar(&port, "port", 9092, "port on 127.0.0.1; 0 takes a free one")
	fs.StringVar(&dir, "data-dir", "", "directory that keeps the data from one start to the next; without it nothing is kept")
	fs.BoolVar(&embedded, "embedded", false, "an embedded broker instead of a real Kafka: needs no Java, and is not one to prove a service on")
	err := fs.Parse(p.args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err == nil && fs.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", fs.Arg(0))
		fmt.Fprintf(p.stderr, "sample-app broker: %v\n", err)
	}
	if err != nil {
		return exitUsage // the flag set has said why
	}
	var b interface {
		Addrs() []string
		Close()
	}
	if embedded {
		b, err = devkafka.Start(devkafka.Config{Port: port, DataDir: dir})
	} else {
		fmt.Fprintln(p.stderr, "starting Apache Kafka; the first time on a machine it has to be fetched")
		b, err = devkafka.StartKafka(devkafka.KafkaConfig{Port: port, DataDir: dir})
	}
	if err != nil {
		fmt.Fprintf(p.stderr, "sample-app broker: %v\n", err)
		return exitFail
	}
	defer b.Close()
	fmt.Fprintln(p.stdout, b.Addrs()[0])
	<-ctx.Done()
	return exitOK
}

// settingsCommand writes the table of settings, for documentation.
func settingsCommand(_ context.Context, p process) int {
	settingsTable(p.stdout)
	return exitOK
}
