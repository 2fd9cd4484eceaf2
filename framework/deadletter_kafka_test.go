//go:build kafka

package framework_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/devkafka"
)

// TestKafkaDeadLettersUnderKills has records that make an operator panic when it has written to its store and made an output: one in a
// hundred of the input, and as many behind a repartition topic. Processes are killed with SIGKILL all the while. Outputs, changelogs and
// stores must be the fold of the other records, each value once and in order, and the dead letters exactly the bad ones.
func TestKafkaDeadLettersUnderKills(tt *testing.T) {
	const app = "letters"
	first, second := counters(app)
	topics := map[string]int32{}
	for _, topic := range []string{first.in, first.out, first.dead, second.out, second.dead} {
		topics[topic] = tallyParts
	}
	t := kafka(tt, devkafka.KafkaConfig{Topics: topics})
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, seed))
	r := t.tally(tallyChild{App: app, Letters: true}, rng, tallyInput(rng, true))
	r.execute([]kill{atRandom, atRandom, atRandom, beforeCommit, atRandom, atRandom})

	dirty, clean := r.dirty.all(), r.clean.all()
	t.Logf("%d outputs of the first operator in transactions that were aborted, %d in those that were not", len(dirty)-len(clean), len(clean))
	if len(dirty) == len(clean) {
		t.Error("no kill was in the middle of a transaction")
	}
	regrouped := r.regrouped.all()
	r.exactly(0, first, r.input, clean)
	r.exactly(1, second, regrouped, t.ReadCommitted(t, second.out))

	// What the second operator got is what the first one put out.
	values := func(records []*kgo.Record) []string {
		var out []string
		for _, rec := range records {
			out = append(out, string(rec.Value))
		}
		slices.Sort(out)
		return out
	}
	if !slices.Equal(values(clean), values(regrouped)) {
		t.Errorf("%d outputs and %d records in the repartition topic are not the same", len(clean), len(regrouped))
	}
}

// exactly holds what an operator has done with what it has read to what should have become of it.
func (r *tallies) exactly(sub int, c counter, read, outputs []*kgo.Record) {
	t := r.t
	t.Helper()
	wrong := t.complaints(c.name)
	defer wrong.end()
	takes := func(rec *kgo.Record) bool { return !strings.HasSuffix(string(rec.Value), c.panics) }

	counts, bad := make(map[string]int64), make(map[string]*kgo.Record)
	got := perKey(outputs)
	for key, records := range perKey(read) {
		want := make([]string, 0, len(records))
		for _, rec := range records {
			if !takes(rec) {
				bad[placeOf(rec)] = rec
				continue
			}
			counts[key]++
			counts[partitionTotal(rec.Partition)]++
			want = append(want, counted(counts[key], rec.Partition, rec.Offset, identity(string(rec.Value))))
		}
		for i := range max(len(want), len(got[key])) {
			w, g := "nothing", "nothing"
			if i < len(want) {
				w = want[i]
			}
			if i < len(got[key]) {
				g = string(got[key][i].Value)
			}
			if w != g {
				wrong.add("output", "number %d of %s is %s, want %s", i+1, key, g, w)
				break
			}
		}
		delete(got, key)
	}
	if len(got) > 0 {
		wrong.add("output", "there are %d keys that were not read", len(got))
	}
	t.Logf("%s: %d records, %d of them bad, %d outputs, %d keys", c.name, len(read), len(bad), len(outputs), len(counts)-tallyParts)
	if len(bad) != tallyRecords/100 {
		t.Errorf("%s: %d records are bad, want %d", c.name, len(bad), tallyRecords/100)
	}
	wrong.same("changelog", counts, r.logged(c))
	wrong.same("store", counts, r.store(sub, c))
	r.lettersAre(c, bad)
}

func placeOf(rec *kgo.Record) string {
	return fmt.Sprintf("%s[%d]@%d", rec.Topic, rec.Partition, rec.Offset)
}

// lettersAre wants the dead letters of an operator to be these records, each once, in order, and as it has read them.
func (r *tallies) lettersAre(c counter, bad map[string]*kgo.Record) {
	t := r.t
	t.Helper()
	wrong := t.complaints("dead letters of " + c.name)
	defer wrong.end()
	const prefix = "__streams.errors."
	headers := []string{"exception", "message", "topic", "partition", "offset"}
	if c.name == "by-group" {
		headers = slices.Insert(headers, 2, "stacktrace")
	}
	seen, last := make(map[string]bool), make(map[int32]int64)
	for _, letter := range t.ReadCommitted(t, c.dead) {
		own := len(letter.Headers) - len(headers)
		says, names := make(map[string]string), []string(nil)
		for _, h := range letter.Headers[max(0, own):] {
			name := strings.TrimPrefix(h.Key, prefix)
			says[name], names = string(h.Value), append(names, name)
			if name == h.Key {
				names[len(names)-1] += " without prefix"
			}
		}
		if !slices.Equal(names, headers) {
			wrong.add("headers", "%s has %q behind its own, want %q", placeOf(letter), names, headers)
			continue
		}
		at := fmt.Sprintf("%s[%s]@%s", says["topic"], says["partition"], says["offset"])
		rec := bad[at]
		if rec == nil || seen[at] {
			wrong.add("set", "%s, of %s, is not of a bad record or comes twice", placeOf(letter), at)
			continue
		}
		seen[at] = true
		if string(letter.Key) != string(rec.Key) || string(letter.Value) != string(rec.Value) || !letter.Timestamp.Equal(rec.Timestamp) || !cmp.Equal(letter.Headers[:own], rec.Headers) {
			wrong.add("content", "that of %s is %q = %q at %v with %q, want %q = %q at %v with %q", at,
				letter.Key, letter.Value, letter.Timestamp, letter.Headers[:own], rec.Key, rec.Value, rec.Timestamp, rec.Headers)
		}
		if says["exception"] != "panic" || !strings.Contains(says["message"], "cannot take "+identity(string(rec.Value))) {
			wrong.add("cause", "that of %s says %q, %q", at, says["exception"], says["message"])
		}
		if stack, ok := says["stacktrace"]; ok && !strings.Contains(stack, "(*tally).Process") {
			wrong.add("cause", "that of %s has the stack %q", at, stack)
		}
		// Keys have the same partition in all topics here, so a dead letter's is that of its task.
		if offset, err := strconv.ParseInt(says["offset"], 10, 64); letter.Partition != rec.Partition || err != nil || offset < last[letter.Partition] {
			wrong.add("order", "that of %s is %s, behind that of offset %d", at, placeOf(letter), last[letter.Partition])
		} else {
			last[letter.Partition] = offset
		}
	}
	for at := range bad {
		if !seen[at] {
			wrong.add("set", "there is none of %s", at)
		}
	}
	t.Logf("%s: %d dead letters", c.name, len(seen))
}
