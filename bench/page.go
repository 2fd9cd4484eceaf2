package main

import (
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/headrace/headrace/bench/drive"
	"github.com/headrace/headrace/bench/plan"
	"github.com/headrace/headrace/bench/report"
)

// page1 is the section of the works and their targets.
func (m *measurement) page1(rows []report.Row) string {
	var b strings.Builder
	b.WriteString("## Works and targets\n\n")
	m.where(&b)
	fmt.Fprintf(&b, "Records: %s for each work, values of %d bytes, keys of 8 bytes; record i has key i mod %s in a fixed shuffle, and its timestamp is i ms after the first.\n",
		drive.Thousands(m.params.Records), plan.ValueSize, drive.Thousands(m.params.Keys))
	fmt.Fprintf(&b, "Input, output and table have %d partitions; a table has a row for each key; byte serdes. Peers take turns, %d rounds; ratios are of medians.\n\n", m.params.Partitions, m.rounds)
	for _, w := range m.works {
		fmt.Fprintf(&b, "- %s: %s.\n", w.Name, w.What)
	}
	fmt.Fprintf(&b, "\n"+definitions+"\n", strings.Join(drive.GoSettings, " and "), m.params.HeapMB)
	b.WriteString(report.Markdown(rows))
	m.settings(&b)
	return b.String()
}

const definitions = `How it is measured, the same for every peer, each run in a process of its own that starts cold, with a new application id and new topics:

- k/s: input records by the time from the first batch of input that the peer's client receives (compiling, joining a table's rows and
  filling caches are in it, starting and joining the group are not) until the group has committed all of the input and no transaction is
  open in the output, seen from outside every 20 ms. For restore: changelog records, until the last task has its store.
- p50 and p99: from the making of a record by its producer until a read-committed consumer has what became of it. The first quarter of
  the records does not count.
- peak: the process's resident memory at its highest (VmHWM), in MiB. start: from the start of the process to its first committed output.
- A time counts only after all committed outputs have been read and found right, in number and content. Kafka Streams may leave
  out updates of a count that another one in the same transaction supersedes, which its cache does; the last one of each key must be right.
  Where keys repeat as by Zipf's law that is most of them, so there it runs a second time without its cache, and that is what the target is about.
- Go peers run with %s, as in a container of 256 MiB; a Java peer has %d MiB of heap.
`

// page2 is the section of how cost grows.
func (m *measurement) page2(rows []report.Row) string {
	var b strings.Builder
	b.WriteString("## How cost grows\n\n")
	m.where(&b)
	b.WriteString("One run each, with one size changed. CPU is of all processes of the peer, from their start, by a million records.\n\n")
	for _, g := range plan.Growths {
		fmt.Fprintf(&b, "- %s (work %s): %s.\n", g.Name, g.Work, g.What)
	}
	fmt.Fprintf(&b, "- %s (work count): Kafka Streams with less and less heap, down to the smallest with which it keeps %d %% of its rate.\n\n", smallestHeap, int(plan.KeepRate*100))
	b.WriteString(report.Markdown(rows))
	m.settings(&b)
	return b.String()
}

func (m *measurement) where(b *strings.Builder) {
	fmt.Fprintf(b, "`%s`, %s, %.0f minutes, commit %s.\n", m.command, m.began.UTC().Format(time.DateOnly), time.Since(m.began).Minutes(), drive.Commit())
	fmt.Fprintf(b, "%s; %s, franz-go %s, Pebble %s, Kafka %s (%s), Kafka Streams %s, Java %s.\n\n",
		drive.Machine(), runtime.Version(), drive.Module("github.com/twmb/franz-go"), drive.Module("github.com/cockroachdb/pebble/v2"),
		m.bench.Broker.Version, drive.BrokerSettings, m.bench.Java.Streams, m.bench.Java.Version)
}

func (m *measurement) settings(b *strings.Builder) {
	b.WriteString("\nSettings, as the peers told them:\n\n")
	for _, p := range []plan.Peer{plan.Raw, plan.Memory, plan.Pebble, plan.Streams, plan.StreamsNoCache, plan.StreamsMemory} {
		if s, ok := m.bench.Settings[p]; ok {
			fmt.Fprintf(b, "- %s: %s.\n", p, s)
		}
	}
}
