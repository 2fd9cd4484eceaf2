package ours_test

import (
	"testing"

	"github.com/headrace/headrace/bench/oracle/batch"
	"github.com/headrace/headrace/bench/oracle/draw"
	"github.com/headrace/headrace/bench/oracle/judge"
	"github.com/headrace/headrace/bench/oracle/ours"
)

// Without Java: the batch with its quirks stands in for Kafka Streams.
func TestAnswersAreRight(t *testing.T) {
	t.Parallel()
	for seed := range uint64(600) {
		c := draw.Case(seed)
		mine, err := ours.Answer(c)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if v := judge.Case(c, mine, batch.Run(c, batch.All())); v.Wrong != "" {
			t.Fatalf("seed %d: %s\n%s", seed, c, v.Wrong)
		}
	}
}
