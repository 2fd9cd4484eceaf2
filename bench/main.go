// Command bench measures this library beside a franz-go loop without a framework and beside Kafka Streams: on one machine, in one go,
// on a real Kafka that it starts. It is run by make bench, make bench-full and make profile.
//
// It ends with 1 if a peer wrote something wrong or a target is missed, and with 2 if a tool is missing.
package main

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/headrace/headrace/bench/drive"
	"github.com/headrace/headrace/bench/peer"
	"github.com/headrace/headrace/bench/plan"
)

//go:embed streams/pom.xml streams/src
var sources embed.FS

func main() {
	if len(os.Args) == 3 && os.Args[1] == "peer" {
		if err := runPeer(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	var missing *drive.MissingTool
	switch {
	case err == nil:
	case errors.Is(err, flag.ErrHelp):
	case errors.As(err, &missing):
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func runPeer(text string) error {
	var s plan.Spec
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	return peer.Main(s, os.Stdin, os.Stdout)
}

type options struct {
	works     []plan.Work
	params    plan.Params
	rounds    int
	full      bool
	growth    string
	quick     bool // not what the targets are about
	profiles  string
	peer      plan.Peer
	page      string
	command   string
	skipWorks bool
}

const defaultRounds = 3

func parse(args []string, out io.Writer) (options, error) {
	o := options{params: plan.Default()}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(out)
	work := f.String("work", "", "works to measure, separated by commas; all if empty")
	f.IntVar(&o.params.Records, "records", o.params.Records, "records of each work")
	f.IntVar(&o.rounds, "rounds", defaultRounds, "runs of each peer at each work")
	f.BoolVar(&o.full, "full", false, "also measure how cost grows with threads, keys, partitions, operators, tasks and instances")
	f.StringVar(&o.growth, "growth", "", "with -full: only these growths, separated by commas, and not the works")
	f.StringVar(&o.profiles, "profile", "", "profile one run, into this directory, in place of measuring")
	f.StringVar((*string)(&o.peer), "peer", string(plan.Memory), "with -profile: whom")
	f.StringVar(&o.page, "page", "docs/performance.md", "the page to write")
	f.StringVar(&o.command, "command", "make bench", "how this was called, for the page")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	var err error
	if o.works, err = plan.Find(*work); err != nil {
		return o, err
	}
	if o.params.Records < 1000 || o.rounds < 1 {
		return o, fmt.Errorf("%d records, %d rounds: give at least 1000 and 1", o.params.Records, o.rounds)
	}
	for name := range strings.SplitSeq(o.growth, ",") {
		known := name == "" || name == smallestHeap
		for _, g := range plan.Growths {
			known = known || g.Name == name
		}
		if !known {
			return o, fmt.Errorf("there is no growth %q", name)
		}
	}
	o.skipWorks = o.growth != ""
	o.quick = *work != "" || o.growth != "" || o.params.Records != plan.Default().Records || o.rounds != defaultRounds
	return o, nil
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args, out)
	if err != nil {
		return err
	}
	if runtime.GOOS != "linux" {
		return fmt.Errorf("needs Linux, not %s: memory and CPU time of processes are read from /proc", runtime.GOOS)
	}
	began := time.Now()
	say := func(format string, args ...any) {
		fmt.Fprintf(out, "%s  %s\n", clock(time.Since(began)), fmt.Sprintf(format, args...))
	}
	java, err := tools(o, say)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "headrace-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	say("starting Kafka")
	broker, err := drive.StartBroker()
	if err != nil {
		return err
	}
	defer broker.Close()
	say("Kafka %s on %s; %s", broker.Version, strings.Join(broker.Addrs, ","), drive.BrokerSettings)
	b := drive.New(broker, java, dir, say)
	if o.profiles != "" {
		return profile(ctx, b, o, out)
	}
	m := &measurement{options: o, bench: b, out: out, say: say, began: began}
	return m.all(ctx)
}

// tools looks for what has to be there. Java runs the broker in any case.
func tools(o options, say func(string, ...any)) (*drive.Java, error) {
	if _, err := exec.LookPath("java"); err != nil {
		return nil, &drive.MissingTool{Tool: "java", What: "a JDK 17 or newer"}
	}
	if _, err := exec.LookPath("mvn"); err != nil {
		return nil, &drive.MissingTool{Tool: "mvn", What: "Apache Maven, which fetches Kafka and Kafka Streams,"}
	}
	if o.profiles != "" {
		return nil, nil
	}
	return drive.BuildJava("bench-streams", sources, say)
}

func clock(d time.Duration) string {
	return fmt.Sprintf("%02d:%02d", int(d.Minutes()), int(d.Seconds())%60)
}
