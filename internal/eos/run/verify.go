package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/internal/eos"
	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/state/pebblestore"
)

// verify reads everything and runs all checkers. The processes have ended.
func verify(ctx context.Context, d *driver, brokers []string, live *reader) (*eos.Report, error) {
	rep := &eos.Report{}
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	logs := map[string]string{
		eos.TotalsStore: eos.TotalsApp + "-" + eos.TotalsStore + "-changelog", eos.WindowsStore: eos.WindowsApp + "-" + eos.WindowsStore + "-changelog",
		eos.RevisedStore: eos.WindowsApp + "-" + eos.RevisedStore + "-changelog", eos.SumsStore: eos.WindowsApp + "-" + eos.SumsStore + "-changelog",
		eos.TicksStore: eos.TicksApp + "-" + eos.TicksStore + "-changelog", eos.GroupsStore: eos.Groups,
	}
	topics := []string{eos.Input, eos.Totals, eos.Windows, eos.Late, eos.Revised, eos.Sums, eos.Clock, eos.Ticks}
	for _, log := range logs {
		topics = append(topics, log)
	}
	repartition := inputs()[eos.WindowsApp][1:4]
	if err := checkOpen(ctx, rep, adm, slices.Concat(topics, repartition), d.cfg.transaction); err != nil {
		return nil, err
	}
	for _, topic := range slices.Concat(topics, repartition) {
		if d.read[topic], err = readAll(ctx, brokers, topic); err != nil {
			return nil, err
		}
	}
	if err := checkOffsets(ctx, rep, adm, d); err != nil {
		return nil, err
	}

	input := make([][]eos.Event, eos.Partitions)
	var counted []eos.Event
	for p, records := range d.read[eos.Input].records {
		for _, r := range records {
			e, err := eos.EventSerde.Decode(r.Value)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", r, err)
			}
			input[p] = append(input[p], e)
			if !e.End {
				counted = append(counted, e)
			}
		}
	}
	eos.CheckTotals(rep, counted, d.topic(eos.Totals), keyOf, true)
	eos.CheckWindows(rep, input, d.topic(eos.Windows), d.topic(eos.Late), true)
	d.corrections = eos.CheckCorrected(rep, input, d.topic(eos.Revised), d.topic(eos.Sums)).Corrections
	eos.CheckHop(rep, counted, d.topic(repartition[0]), slices.Max(d.read[repartition[0]].starts) > 0)
	eos.CheckTimers(rep, d.topic(eos.Ticks))

	copies, err := d.copies()
	if err != nil {
		return nil, err
	}
	folds := make(map[string]map[string]eos.Entry)
	for store, log := range logs {
		check := eos.CheckStore
		if store == eos.WindowsStore || store == eos.RevisedStore {
			check = eos.CheckWindowStore
		}
		folds[store] = check(rep, store, d.read[log].records, d.read[log].starts, copies[store])
	}
	eos.CheckOutputs(rep, eos.TotalsStore, folds[eos.TotalsStore], d.topic(eos.Totals))
	eos.CheckOutputs(rep, eos.TicksStore, folds[eos.TicksStore], d.topic(eos.Ticks))
	eos.CheckOutputs(rep, eos.SumsStore, folds[eos.SumsStore], d.topic(eos.Sums))
	eos.CheckEmpty(rep, eos.WindowsStore, folds[eos.WindowsStore])
	eos.CheckEmpty(rep, eos.RevisedStore, folds[eos.RevisedStore])

	final := make(eos.Seen)
	for _, topic := range []string{eos.Totals, eos.Windows, eos.Late, eos.Revised, eos.Sums, eos.Ticks} {
		for _, r := range d.topic(topic) {
			final.See(r)
		}
	}
	eos.CheckReader(rep, live.saw(final), final)
	return rep, nil
}

// topic is what was read of a topic, partition behind partition.
func (d *driver) topic(name string) []eos.Record { return slices.Concat(d.read[name].records...) }

func checkOffsets(ctx context.Context, rep *eos.Report, adm *kadm.Client, d *driver) error {
	for group, topics := range inputs() {
		got, err := adm.FetchOffsets(ctx, group)
		if err != nil {
			return err
		}
		committed, last := make(map[eos.Place]int64), make(map[eos.Place]int64)
		for _, topic := range topics {
			for p, records := range d.read[topic].records {
				at := eos.Place{Topic: topic, Partition: int32(p)}
				if o, ok := got.Lookup(topic, int32(p)); ok {
					committed[at] = o.At
				}
				if n := len(records); n > 0 {
					last[at] = records[n-1].Offset
				}
			}
		}
		eos.CheckOffsets(rep, group, committed, last)
	}
	return nil
}

// copies reads all stores of all processes from their disks.
func (d *driver) copies() (map[string][]eos.StoreCopy, error) {
	out := make(map[string][]eos.StoreCopy)
	for _, p := range d.procs {
		for _, app := range []string{eos.TotalsApp, eos.WindowsApp, eos.TicksApp} {
			top, err := eos.Topology(app)
			if err != nil {
				return nil, err
			}
			dir := filepath.Join(p.dir(), app)
			provider := pebblestore.In(dir)
			for _, sub := range top.Plan().SubTopologies {
				for part := range int32(eos.Partitions) {
					task := fmt.Sprintf("%d_%d", sub.ID, part)
					if _, err := os.Stat(filepath.Join(dir, task)); err != nil || len(sub.Stores) == 0 {
						continue
					}
					if err := readTask(out, provider, p.name, task, part, sub.Stores); err != nil {
						return nil, fmt.Errorf("%s of %s, task %s: %w", app, p.name, task, err)
					}
				}
			}
			if err := provider.Close(); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

func readTask(out map[string][]eos.StoreCopy, provider state.Provider, owner, task string, part int32, specs []state.Spec) error {
	b, err := provider.Open(task, specs)
	if err != nil {
		return err
	}
	defer b.Close()
	for i, spec := range specs {
		c, err := eos.ReadStore(owner, part, b, i, spec.Kind)
		if err != nil {
			return err
		}
		out[spec.Name] = append(out[spec.Name], c)
	}
	return nil
}
