//go:build synctests

package framework_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/state/pebblestore"
	"github.com/headrace/headrace/topology"
)

// TestTableOlderThanTombstones: the topic of a table keeps tombstones for a day, as topics do. A process that was away for longer may have
// missed one of those that another process has taken in meanwhile, so its copy of the table is read anew; one that was away for some hours
// reads what is new.
func TestTableOlderThanTombstones(t *testing.T) {
	bubble(t, func(w *world) {
		rows := int64(0)
		c := w.c
		w.createTopics(1, "rows", "joined")
		w.configureTopics(1, map[string]*string{"cleanup.policy": kadm.StringPtr("compact")}, "table")
		row := func() {
			c.Produce(t, &kgo.Record{Topic: "table", Key: fmt.Appendf(nil, "k%d", rows), Value: []byte("v")}) // compaction leaves all
			rows++
		}
		disk := vfs.NewMem()
		on := func(c *framework.Config) {
			c.Topology = joinRows(t)
			c.State = pebblestore.New(pebblestore.Config{Dir: "/state", FS: disk, Logger: c.Logger})
		}
		runs := func(name string, change func(*framework.Config)) framework.Counters {
			m := w.start(name, change)
			m.runs(1)
			w.await("the table to be read", func() bool { return c.Committed(t, appID)["table[0]"] == rows })
			return m.stop()
		}
		for range 10 {
			row()
		}
		runs("first", on)
		for _, tc := range []struct {
			away time.Duration
			old  bool
		}{{12 * time.Hour, false}, {30 * time.Hour, true}, {time.Hour, false}} {
			row()
			runs("another, in memory", func(c *framework.Config) { c.Topology = joinRows(t) })
			time.Sleep(tc.away) // in a bubble
			n := runs("back after "+tc.away.String(), on)
			if want := int64(1); !tc.old && (n.RecordsRestored != want || n.StoresWiped != 0) {
				t.Errorf("back after %v: %d records restored and %d stores wiped, want what is new, %d", tc.away, n.RecordsRestored, n.StoresWiped, want)
			}
			if tc.old && (n.RecordsRestored != rows || n.StoresWiped != 1) {
				t.Errorf("back after %v: %d records restored and %d stores wiped, want all anew, %d", tc.away, n.RecordsRestored, n.StoresWiped, rows)
			}
		}
	})
}

// TestTableThatIsNotCompacted: a table's topic that only deletes keeps every tombstone that is behind a position, whatever its age. A copy that
// was away for days reads what is new, and keeps the rows that retention has deleted in front of it.
func TestTableThatIsNotCompacted(t *testing.T) {
	bubble(t, func(w *world) {
		c := w.c
		w.createTopics(1, "rows", "joined")
		w.configureTopics(1, map[string]*string{"cleanup.policy": kadm.StringPtr("delete")}, "table")
		disk := vfs.NewMem()
		on := func(c *framework.Config) {
			c.Topology = joinRows(t)
			c.State = pebblestore.New(pebblestore.Config{Dir: "/state", FS: disk, Logger: c.Logger})
		}
		rows := int64(0)
		row := func(key string) {
			c.Produce(t, &kgo.Record{Topic: "table", Key: []byte(key), Value: []byte("v")})
			rows++
		}
		streamed := int64(0)
		runs := func(name string, change func(*framework.Config)) framework.Counters {
			m := w.start(name, change)
			m.runs(1)
			w.await("all to be read", func() bool {
				at := c.Committed(t, appID)
				return at["table[0]"] == rows && at["rows[0]"] == streamed
			})
			return m.stop()
		}
		memory := func(c *framework.Config) {
			on(c)
			c.State = state.Memory()
		}
		row("old")
		for range 9 {
			row("other")
		}
		runs("first", on)
		row("new")
		runs("another, in memory", memory)
		if err := c.DeleteRecords("table", 0, 5); err != nil { // as retention does: the row that the copy has is in the topic no more
			t.Fatal(err)
		}
		time.Sleep(30 * time.Hour) // in a bubble
		c.Produce(t, &kgo.Record{Topic: "rows", Key: []byte("old"), Value: []byte("r")})
		streamed++
		n := runs("back", on)
		if got := len(c.ReadCommitted(t, "joined")); got != 1 {
			t.Errorf("a record with the row that retention has deleted has joined %d times, want 1", got)
		}
		if n.RecordsRestored != 1 || n.StoresWiped != 0 {
			t.Errorf("back after 30h: %d records restored and %d stores wiped, want what is new, 1", n.RecordsRestored, n.StoresWiped)
		}
	})
}

// joinRows joins topic rows with a table.
func joinRows(t *testing.T) *topology.Topology {
	t.Helper()
	b := topology.NewBuilder()
	table := topology.TableFrom(b, "known", topology.Topic("table", serde.String(), serde.String()))
	in := topology.From(b, topology.Topic("rows", serde.String(), serde.String()))
	topology.JoinTable(in, table, func(s, v string) string { return s + v }).To(topology.Topic("joined", serde.String(), serde.String()))
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return top
}
