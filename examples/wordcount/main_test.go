package main

import (
	"maps"
	"testing"
	"time"

	"github.com/headrace/headrace/topology/topologytest"
)

func TestWords(t *testing.T) {
	d := topologytest.New(t, topologytest.Build(t, Words))
	lines := topologytest.Input(d, linesTopic)
	lines.Pipe(time.Now(), "", "the stream leads to the wheel")
	d.Crash() // whatever was committed is still there
	lines.Pipe(time.Now(), "", "the wheel does the work")

	got := topologytest.Latest(topologytest.Output(d, countsTopic))
	want := map[string]int64{"the": 4, "stream": 1, "leads": 1, "to": 1, "wheel": 2, "does": 1, "work": 1}
	if !maps.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
}
