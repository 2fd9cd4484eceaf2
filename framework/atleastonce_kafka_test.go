//go:build kafka

package framework_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/devkafka"
	"github.com/headrace/headrace/framework"
)

// TestKafkaAtLeastOnceUnderKills kills processes with SIGKILL that run without transactions: at random moments, with their outputs held
// back, and with their positions held back. What was read may have been done more than once, but nothing not at all: no record is
// missing among the outputs, and none in a count.
func TestKafkaAtLeastOnceUnderKills(tt *testing.T) {
	const app = "repeats"
	first, second := counters(app)
	t := kafka(tt, devkafka.KafkaConfig{Topics: map[string]int32{first.in: tallyParts, copyTopic: tallyParts, first.out: tallyParts, second.out: tallyParts}})
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, seed))
	r := t.tally(tallyChild{App: app, Guarantee: framework.AtLeastOnce}, rng, tallyInput(rng, false))
	r.execute([]kill{atRandom, beforeProduce, atRandom, beforeCommit, atRandom, beforeProduce, atRandom, beforeCommit, atRandom})

	repeated := r.copied(t.ReadCommitted(t, copyTopic))
	repeated += r.atLeast(0, first, r.input, t.ReadCommitted(t, first.out))
	regrouped := r.regrouped.all()
	repeated += r.atLeast(1, second, regrouped, t.ReadCommitted(t, second.out))
	if repeated == 0 {
		t.Error("nothing is repeated: no kill was between outputs and positions")
	}

	// What the second operator got is at least what the first one read.
	got := make(map[string]bool)
	for _, rec := range regrouped {
		got[identity(string(rec.Value))] = true
	}
	wrong := t.complaints("repartition topic")
	defer wrong.end()
	for _, rec := range r.input {
		if !got[string(rec.Value)] {
			wrong.add("lost", "%s is not in it", placeOf(rec))
		}
	}
	t.Logf("repartition topic: %d records of %d inputs, %d repeated", len(regrouped), len(r.input), len(regrouped)-len(r.input))
}

// run follows the outputs of a key. They may start again from an earlier record, but must not leave one out.
type run struct {
	records []*kgo.Record  // of the key, as they were read
	at      map[string]int // their numbers, by place or identity
	last    int            // number of the last output's record
	done    int            // how many of the records have an output
	count   int64          // in the last output
}

func runs(read []*kgo.Record, name func(*kgo.Record) string) map[string]*run {
	of := make(map[string]*run)
	for key, records := range perKey(read) {
		of[key] = &run{records: records, at: make(map[string]int), last: -1}
		for i, rec := range records {
			of[key].at[name(rec)] = i
		}
	}
	return of
}

// next takes an output in, and says which record it is of.
func (r *run) next(wrong *complaints, output *kgo.Record, of string) (number int, ok bool) {
	if r == nil {
		wrong.add("made up", "%s is of key %s", placeOf(output), output.Key)
		return 0, false
	}
	number, ok = r.at[of]
	if !ok {
		wrong.add("made up", "%s is of %s, which %s does not have", placeOf(output), of, output.Key)
		return 0, false
	}
	if number > r.last+1 {
		wrong.add("lost", "%s, of %s, has record %d of the key behind record %d", placeOf(output), output.Key, number, r.last)
	}
	r.last, r.done = number, max(r.done, number+1)
	return number, true
}

func (r *run) end(wrong *complaints, key string) {
	if r.done < len(r.records) {
		wrong.add("lost", "%s has %d records, and no output of the last %d", key, len(r.records), len(r.records)-r.done)
	}
}

// copied wants each record of the input in the topic that it is copied to.
func (r *tallies) copied(copies []*kgo.Record) (repeated int) {
	wrong := r.t.complaints("copies")
	defer wrong.end()
	value := func(rec *kgo.Record) string { return string(rec.Value) }
	of := runs(r.input, value)
	for _, rec := range copies {
		of[string(rec.Key)].next(wrong, rec, value(rec))
	}
	for key, run := range of {
		run.end(wrong, key)
	}
	repeated = len(copies) - len(r.input)
	r.t.Logf("copies: %d of %d inputs, %d repeated", len(copies), len(r.input), repeated)
	return repeated
}

// atLeast holds what an operator has done with what it has read to what should at least have become of it.
func (r *tallies) atLeast(sub int, c counter, read, outputs []*kgo.Record) (repeated int) {
	t := r.t
	t.Helper()
	wrong := t.complaints(c.name)
	defer wrong.end()
	of := runs(read, placeOf)
	steps := 0
	for _, rec := range outputs {
		n, partition, offset, id, err := parse(rec.Value)
		if err != nil {
			t.Fatalf("%s has %q: %v", placeOf(rec), rec.Value, err)
		}
		run := of[string(rec.Key)]
		number, ok := run.next(wrong, rec, placeOf(&kgo.Record{Topic: c.in, Partition: partition, Offset: offset}))
		if !ok {
			continue
		}
		if is := identity(string(run.records[number].Value)); is != id {
			wrong.add("made up", "%s is of %q, want %q", placeOf(rec), id, is)
		}
		// The state has all records before this one, and has it: whatever it has twice.
		if n < int64(number+1) {
			wrong.add("lost", "%s counts %d of %s, but is of its record %d", placeOf(rec), n, rec.Key, number+1)
		}
		if n != run.count+1 {
			steps++
		}
		run.count = n
	}
	logged, stored := r.logged(c), r.store(sub, c)
	totals := make(map[string]int64)
	twice := int64(0)
	for key, run := range of {
		run.end(wrong, key)
		if n := int64(len(run.records)); run.count < n || logged[key] != run.count || stored[key] != run.count {
			wrong.add("lost", "%s was there %d times; the last output is %d, the changelog has %d, the store %d", key, n, run.count, logged[key], stored[key])
		}
		twice += run.count - int64(len(run.records))
		for _, rec := range run.records {
			totals[partitionTotal(rec.Partition)]++
		}
	}
	for key, n := range totals {
		if logged[key] < n || stored[key] != logged[key] {
			wrong.add("lost", "%s are %d; the changelog has %d, the store %d", key, n, logged[key], stored[key])
		}
	}
	if keys := len(of) + len(totals); len(logged) != keys || len(stored) != keys {
		wrong.add("made up", "the changelog has %d keys, the store %d, want %d", len(logged), len(stored), keys)
	}
	repeated = len(outputs) - len(read)
	t.Logf("%s: %d outputs of %d records, %d repeated; %d counted twice; %d outputs do not count on from the one before",
		c.name, len(outputs), len(read), repeated, twice, steps)
	return repeated
}
