// Command run proves exactly-once on a real Apache Kafka: it feeds two processes of the test application, kills, stops and restarts
// them and the broker by a plan, and holds everything that was written and kept to what had to be.
//
// It exits with 1 on any violation, and if a fault of the plan has no evidence.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/headrace/headrace/devkafka"
	"github.com/headrace/headrace/internal/eos"
)

type config struct {
	app         string
	records     int
	plan        string
	seed        uint64
	rate        int
	dir         string
	only        string
	session     time.Duration
	transaction time.Duration
}

func main() {
	var c config
	flag.StringVar(&c.app, "app", "", "the test application's program, built with the tag failpoints")
	flag.IntVar(&c.records, "records", 200_000, "the least number of events")
	flag.StringVar(&c.plan, "plan", "full", "the fault plan: full, short or none")
	flag.Uint64Var(&c.seed, "seed", 0, "seed of events and faults; 0 takes one from the clock")
	flag.IntVar(&c.rate, "rate", 5_200, "events a second")
	flag.StringVar(&c.dir, "dir", "", "keep logs and state in this directory")
	flag.StringVar(&c.only, "only", "", "run only faults of these kinds, with commas between, three of each")
	flag.DurationVar(&c.session, "session", 3*time.Second, "session timeout")
	flag.DurationVar(&c.transaction, "transaction", 10*time.Second, "transaction timeout")
	flag.Parse()
	if c.seed == 0 {
		c.seed = uint64(time.Now().UnixNano())
	}
	ok, err := run(c)
	if err != nil {
		fmt.Fprintln(os.Stderr, "eos:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

func run(c config) (bool, error) {
	faults, err := planned(c)
	if err != nil {
		return false, err
	}
	if c.dir == "" {
		if c.dir, err = os.MkdirTemp("", "headrace-eos-"); err != nil {
			return false, err
		}
		defer os.RemoveAll(c.dir)
	} else if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return false, err
	}
	fmt.Printf("seed %d, plan %s: %d faults\n", c.seed, c.plan, len(faults))
	topics, configs := topics()
	kafka, err := devkafka.StartKafka(devkafka.KafkaConfig{Topics: topics, TopicConfigs: configs, DataDir: filepath.Join(c.dir, "kafka")})
	if err != nil {
		return false, err
	}
	defer kafka.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	d := newDriver(c, kafka)
	defer d.killAll()
	if err := d.prepare(ctx); err != nil {
		return false, err
	}
	feed := newFeed(c, kafka.Addrs())
	feeding := make(chan error, 1)
	go func() { feeding <- feed.run(ctx) }()
	live := newReader(kafka.Addrs(), eos.Totals, eos.Windows, eos.Late, eos.Revised, eos.Sums, eos.Ticks)
	defer live.close()
	d.live = live

	failed := d.execute(ctx, faults)
	if failed != nil {
		fmt.Println("the plan was not carried out:", failed)
	}
	feed.finish(c.records)
	if err := <-feeding; err != nil {
		return false, err
	}
	d.fed = time.Now()
	fmt.Printf("%d events written\n", feed.count)
	if err := d.drain(ctx, feed); err != nil {
		fmt.Println(err)
		failed = errors.Join(failed, err)
	}
	end := syscall.SIGTERM
	if failed != nil {
		end = syscall.SIGQUIT // their logs say where they hang
	}
	failed = errors.Join(failed, d.stopAll(end))
	rep, err := verify(ctx, d, kafka.Addrs(), live)
	if err != nil {
		return false, errors.Join(failed, err)
	}
	return d.conclude(rep, feed, failed), nil
}

func topics() (map[string]int32, map[string]map[string]string) {
	parts, configs := make(map[string]int32), make(map[string]map[string]string)
	for _, t := range []string{eos.Input, eos.Totals, eos.Windows, eos.Late, eos.Revised, eos.Sums, eos.Clock, eos.Ticks} {
		parts[t], configs[t] = eos.Partitions, map[string]string{"retention.ms": "-1"}
	}
	parts[eos.Groups], configs[eos.Groups] = eos.Partitions, map[string]string{"cleanup.policy": "compact"}
	return parts, configs
}

// conclude prints what fell where, what is wrong, and the last line. It says whether all is well.
func (d *driver) conclude(rep *eos.Report, feed *feed, failed error) bool {
	ok := rep.OK() && failed == nil
	fmt.Println("faults by kind:")
	kills, zombies := 0, 0
	for _, kind := range d.kinds {
		n := d.done[kind]
		fmt.Printf("  %-20s %d of %d\n", kind, n, d.wanted[kind])
		if n < d.wanted[kind] {
			ok = false
		}
	}
	for _, n := range d.kills {
		kills += n
	}
	zombies = d.done[zombie]
	late, results := len(d.topic(eos.Late)), d.resultsAtLastFault
	fmt.Printf("windows with a result before the last fault: %d; events set aside: %d; results corrected: %d; aborts and fences seen: %s\n",
		results, late, d.corrections, d.trouble())
	if d.cfg.plan != "none" && d.cfg.only == "" {
		if results < 500 {
			fmt.Println("fewer than 500 windows were closed before the last fault")
			ok = false
		}
		if late < 100 {
			fmt.Println("fewer than 100 events were set aside")
			ok = false
		}
		if d.corrections < 100 {
			fmt.Println("fewer than 100 results of windows were corrected")
			ok = false
		}
	}
	gaps := d.longestGaps()
	fmt.Println("longest commit gaps of the process to which nothing was done, by what the other suffered:")
	for _, line := range gaps.lines {
		fmt.Println(" ", line)
	}
	fmt.Printf("  %d ms at most while a process was gone for longer than its session of %v\n", gaps.gone.Milliseconds(), d.cfg.session)
	if gaps.stable > gapAim && d.cfg.plan == "full" && d.cfg.only == "" {
		fmt.Printf("with the other back in time, a process committed nothing for %v; the aim is %v\n", gaps.stable, gapAim)
		ok = false
	}
	if !rep.OK() {
		fmt.Print(rep.Describe())
		fmt.Printf("%d violations besides\n", rep.Count(eos.Wrong))
	}
	if failed != nil {
		fmt.Println("failed:", strings.ReplaceAll(failed.Error(), "\n", "; "))
	}
	fmt.Printf("%d records, %d kills, %d zombies: %s; longest commit gap of the process not killed: %d ms\n",
		feed.count, kills, zombies, rep.Summary(), gaps.stable.Milliseconds())
	return ok
}
