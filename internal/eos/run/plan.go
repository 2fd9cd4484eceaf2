package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/devkafka"
	"github.com/headrace/headrace/internal/eos"
)

// Kinds of faults beside the points at which processes kill themselves.
const (
	random  = "random"
	zombie  = "zombie"
	restart = "broker-restart"
)

// planned returns the faults in their order.
func planned(c config) ([]string, error) {
	var points, randoms, zombies int
	switch c.plan {
	case "full":
		points, randoms, zombies = 3, 6, 5
	case "short":
		points, randoms, zombies = 1, 1, 1
	case "none":
		return nil, nil
	default:
		return nil, fmt.Errorf("plan %q: take full, short or none", c.plan)
	}
	var faults []string
	add := func(kind string, n int) {
		for range n {
			faults = append(faults, kind)
		}
	}
	if c.only != "" {
		for kind := range strings.SplitSeq(c.only, ",") {
			add(kind, 3)
		}
		return faults, nil
	}
	for _, point := range eos.KillPoints() {
		add(point, points)
	}
	add(random, randoms)
	add(zombie, zombies)
	rng := rand.New(rand.NewPCG(c.seed, 2))
	rng.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
	middle := len(faults) / 2
	return append(faults[:middle:middle], append([]string{restart}, faults[middle:]...)...), nil
}

// driver carries a plan out.
type driver struct {
	cfg   config
	kafka *devkafka.Kafka
	hub   *hub
	live  *reader
	procs []*process
	rng   *rand.Rand

	kinds        []string
	wanted, done map[string]int
	kills        map[string]int
	// Gaps count from when both processes first were well until the input was over, but for the quiet spans: of one process, or of all
	// where the name is empty.
	well, fed          time.Time
	quiet              []span
	faults             []fault
	gone               bool // in the fault under way, its process was away for longer than its session
	resultsAtLastFault int
	corrections        int                 // results of windows that were corrected, counted in the end
	read               map[string]topicLog // what verify has read
}

type span struct {
	of       string
	from, to time.Time
}

// fault is when a fault of a kind was under way. gone: for longer than the session of the process that suffered it, so that the group
// had to go on without it.
type fault struct {
	span
	gone bool
}

func newDriver(c config, kafka *devkafka.Kafka) *driver {
	d := &driver{
		cfg: c, kafka: kafka, hub: newHub(), rng: rand.New(rand.NewPCG(c.seed, 3)),
		wanted: make(map[string]int), done: make(map[string]int), kills: make(map[string]int), read: make(map[string]topicLog),
	}
	for _, name := range []string{"p0", "p1"} {
		d.procs = append(d.procs, &process{name: name, hub: d.hub, cfg: c, addr: kafka.Addrs()})
	}
	return d
}

func (d *driver) prepare(ctx context.Context) error {
	if err := prepareTopics(ctx, d.kafka.Addrs()); err != nil {
		return err
	}
	for _, p := range d.procs {
		if err := p.start(""); err != nil {
			return err
		}
	}
	return nil
}

// execute carries the faults out one after the other, each when both processes are well. It stops at the first that cannot be.
func (d *driver) execute(ctx context.Context, faults []string) error {
	for _, kind := range faults {
		if d.wanted[kind] == 0 {
			d.kinds = append(d.kinds, kind)
		}
		d.wanted[kind]++
	}
	if err := d.healthy(time.Minute); err != nil {
		return err
	}
	d.well = time.Now()
	for i, kind := range faults {
		if i == len(faults)-1 {
			d.awaitResults(500)
		}
		began := time.Now()
		d.gone = false
		p := d.procs[(i+d.rng.IntN(2))%2]
		evidence, err := d.fault(ctx, kind, p)
		if err != nil {
			return fmt.Errorf("fault %d of %d, %s: %w", i+1, len(faults), kind, err)
		}
		d.done[kind]++
		fmt.Printf("%3d/%d %s\n", i+1, len(faults), evidence)
		if err := d.healthy(time.Minute); err != nil {
			return fmt.Errorf("after fault %d, %s: %w", i+1, kind, err)
		}
		d.quiet = append(d.quiet, span{p.name, began, time.Now()}) // gaps are those of the other
		d.faults = append(d.faults, fault{span{kind, began, time.Now()}, d.gone})
		fmt.Printf("       well again after %v\n", time.Since(began).Round(10*time.Millisecond))
	}
	return nil
}

// awaitResults lets the last fault come when enough windows have closed.
func (d *driver) awaitResults(n int) {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if d.resultsAtLastFault = d.live.counts().results; d.resultsAtLastFault >= n && d.live.counts().late >= 100 {
			return
		}
	}
}

// healthy waits until each process runs tasks of each application and commits.
func (d *driver) healthy(limit time.Duration) error {
	from := d.hub.now()
	end := time.Now().Add(limit)
	for _, p := range d.procs {
		for _, app := range []string{eos.TotalsApp, eos.WindowsApp, eos.TicksApp} {
			for _, what := range []string{eos.Status, eos.Committed} {
				ok := false
				for !ok {
					_, ok = d.hub.await(from, time.Second, func(l line) bool {
						return l.process == p.name && l.life == p.life && l.App == app && l.What == what && (what == eos.Committed || l.Tasks > 0)
					})
					switch {
					case ok:
					case !p.alive():
						return fmt.Errorf("process %s has ended by itself: %s", p.name, d.lastWords(p.name))
					case time.Now().After(end):
						return fmt.Errorf("process %s: no %s of %s within %v", p.name, what, app, limit)
					}
				}
			}
		}
	}
	return nil
}

func (d *driver) lastWords(name string) string {
	for _, l := range d.hub.all() {
		if l.process == name && l.What == eos.Failed {
			return l.App + ": " + l.Error
		}
	}
	return "see its log"
}

// fault does one, and returns its evidence.
func (d *driver) fault(ctx context.Context, kind string, p *process) (string, error) {
	switch kind {
	case random:
		time.Sleep(time.Duration(d.rng.Int64N(int64(1500 * time.Millisecond))))
		evidence, err := d.kill(p)
		if err != nil {
			return "", err
		}
		d.kills[random]++
		return evidence + ", back " + d.revive(p, ""), nil
	case zombie:
		return d.zombie(p)
	case restart:
		return d.restartBroker(ctx)
	case eos.DuringRestore:
		if _, err := d.kill(p); err != nil {
			return "", err
		}
		d.kills[random]++
		d.gone = true
		time.Sleep(d.cfg.session + time.Second) // others go on, so that there is something to restore
		app := []string{eos.TotalsApp, eos.WindowsApp}[d.rng.IntN(2)]
		from := d.hub.now()
		if err := p.start("kill " + kind + " " + app); err != nil {
			return "", err
		}
		return d.killed(p, kind, from)
	}
	apps := []string{eos.TotalsApp, eos.WindowsApp, eos.TicksApp}
	if kind == eos.AfterPoll {
		apps = apps[:2] // the timers read nothing
	}
	from := d.hub.now()
	if err := p.send("kill " + kind + " " + apps[d.rng.IntN(len(apps))]); err != nil {
		return "", err
	}
	return d.killed(p, kind, from)
}

// killed waits until a process has killed itself at a point, and revives it.
func (d *driver) killed(p *process, point string, from int) (string, error) {
	killed, err := p.awaitExit(time.Minute)
	if err != nil {
		return "", err
	}
	l, ok := d.hub.await(from, time.Second, func(l line) bool {
		return l.process == p.name && l.life == p.life && l.What == eos.Killing && l.Point == point
	})
	if !killed || !ok {
		return "", fmt.Errorf("process %s ended without reaching the point: %s", p.name, d.lastWords(p.name))
	}
	d.kills[point]++
	return fmt.Sprintf("%s killed %s: %s, transaction %s #%d, %s, back %s", p.name, point, l.App, l.Transaction, l.Sequence, short(l.Offsets), d.revive(p, "")), nil
}

func short(s string) string {
	if len(s) > 90 {
		return s[:90] + "…"
	}
	return s
}

// kill ends a life at once. The evidence is the last transaction of each application.
func (d *driver) kill(p *process) (string, error) {
	if err := p.signal(syscall.SIGKILL); err != nil {
		return "", err
	}
	killed, err := p.awaitExit(10 * time.Second)
	if err != nil {
		return "", err
	}
	if !killed {
		return "", fmt.Errorf("process %s ended before it could be killed: %s", p.name, d.lastWords(p.name))
	}
	last := make(map[string]line)
	for _, l := range d.hub.all() {
		if l.process == p.name && l.life == p.life && l.What == eos.Committed {
			last[l.App] = l
		}
	}
	return fmt.Sprintf("%s killed at random: %s #%d, %s #%d, %s #%d committed last", p.name,
		eos.TotalsApp, last[eos.TotalsApp].Sequence, eos.WindowsApp, last[eos.WindowsApp].Sequence, eos.TicksApp, last[eos.TicksApp].Sequence), nil
}

// revive starts a process again, soon enough to keep its membership or too late for it.
func (d *driver) revive(p *process, arm string) string {
	wait := 200 * time.Millisecond
	if d.rng.IntN(2) == 0 {
		wait = d.cfg.session + 1500*time.Millisecond
		d.gone = true
	}
	time.Sleep(wait)
	if err := p.start(arm); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("after %v", wait)
}

// refusals are the answers by which a broker fences.
var refusals = map[string]bool{
	"ILLEGAL_GENERATION": true, "UNKNOWN_MEMBER_ID": true, "FENCED_INSTANCE_ID": true, "INVALID_PRODUCER_EPOCH": true, "PRODUCER_FENCED": true,
}

// zombie stops a process whose transaction holds only what timers made, for longer than its session, and wants the end of that
// transaction to be refused.
func (d *driver) zombie(p *process) (string, error) {
	from := d.hub.now()
	if err := p.send("stop " + eos.BeforeOffsets + " " + eos.TicksApp); err != nil {
		return "", err
	}
	stop, ok := d.hub.await(from, time.Minute, func(l line) bool { return l.process == p.name && l.What == eos.Stopping })
	if !ok {
		return "", fmt.Errorf("process %s has not stopped itself", p.name)
	}
	d.gone = true
	asleep := d.cfg.session + 1500*time.Millisecond + time.Duration(d.rng.Int64N(int64(time.Second)))
	time.Sleep(asleep)
	if err := p.signal(syscall.SIGCONT); err != nil {
		return "", err
	}
	refused, ok := d.hub.await(from, 20*time.Second, func(l line) bool {
		return l.process == p.name && l.What == eos.Refused && l.App == eos.TicksApp && l.Sequence == stop.Sequence && refusals[l.Error]
	})
	if !ok {
		if _, committed := d.hub.await(from, 0, func(l line) bool {
			return l.process == p.name && l.What == eos.Committed && l.App == eos.TicksApp && l.Sequence == stop.Sequence
		}); committed {
			return "", fmt.Errorf("process %s slept for %v and then committed transaction %d", p.name, asleep, stop.Sequence)
		}
		return "", fmt.Errorf("process %s slept for %v, and transaction %d was not refused", p.name, asleep, stop.Sequence)
	}
	return fmt.Sprintf("%s slept for %v with transaction %s #%d, %s unmoved: %s refused with %s", p.name, asleep.Round(time.Millisecond),
		stop.Transaction, stop.Sequence, short(stop.Offsets), refused.Point, refused.Error), nil
}

// drain waits until everything that was written has come out.
func (d *driver) drain(ctx context.Context, f *feed) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(d.kafka.Addrs()...))
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	behind := ""
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); {
		for _, p := range d.procs {
			if !p.alive() {
				return fmt.Errorf("process %s has ended by itself: %s", p.name, d.lastWords(p.name))
			}
		}
		c := d.live.counts()
		behind = fmt.Sprintf("%d of %d totals, %d in windows or set aside", c.totals, f.count, c.counted+c.late)
		if c.totals >= f.count && c.counted+c.late >= f.count {
			if behind = lagging(ctx, adm); behind == "" {
				return nil
			}
		}
		time.Sleep(200 * time.Millisecond)
	}
	return fmt.Errorf("not all has come out within two minutes: %s", behind)
}

// lagging names a partition whose last record is not committed as read.
func lagging(ctx context.Context, adm *kadm.Client) string {
	for app, topics := range inputs() {
		ends, err := adm.ListCommittedOffsets(ctx, topics...)
		if err != nil {
			return err.Error()
		}
		got, err := adm.FetchOffsets(ctx, app)
		if err != nil {
			return err.Error()
		}
		for _, topic := range topics {
			for p := range int32(eos.Partitions) {
				end, _ := ends.Lookup(topic, p)
				at, _ := got.Lookup(topic, p)
				if at.At < end.Offset-1 { // the last may be a marker that nothing asks to be committed
					return fmt.Sprintf("%s has read %s[%d] up to %d of %d", app, topic, p, at.At, end.Offset)
				}
			}
		}
	}
	return ""
}

// inputs are the topics that each group reads.
func inputs() map[string][]string {
	return map[string][]string{
		eos.TotalsApp:  {eos.Input},
		eos.WindowsApp: {eos.Input, eos.WindowsApp + "-by-group-repartition", eos.WindowsApp + "-results-repartition", eos.WindowsApp + "-revised-by-group-repartition", eos.Groups},
		eos.TicksApp:   {eos.Clock},
	}
}

// stopAll ends the processes, by SIGTERM in an orderly way.
func (d *driver) stopAll(s syscall.Signal) error {
	var errs []error
	for _, p := range d.procs {
		if p.alive() {
			errs = append(errs, p.signal(s))
		}
	}
	for _, p := range d.procs {
		if _, err := p.awaitExit(30 * time.Second); err != nil {
			errs = append(errs, err)
			continue
		}
		if p.state.ExitCode() != 0 {
			errs = append(errs, fmt.Errorf("process %s ended with %s: %s", p.name, p.state, d.lastWords(p.name)))
		}
	}
	return errors.Join(errs...)
}

func (d *driver) killAll() {
	for _, p := range d.procs {
		if p.cmd != nil && p.alive() {
			_ = p.signal(syscall.SIGKILL)
			<-p.exited
		}
	}
}
