package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headrace/headrace/bench/drive"
	"github.com/headrace/headrace/bench/plan"
	"github.com/headrace/headrace/bench/report"
)

// The page says what a reader needs to judge its figures.
func TestPage(t *testing.T) {
	t.Parallel()
	o, err := parse(nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	o.page = filepath.Join(t.TempDir(), "performance.md")
	m := &measurement{
		options: o, began: time.Now(), say: func(string, ...any) {},
		bench: &drive.Bench{
			Broker: &drive.Broker{Version: "9.8.7"}, Java: &drive.Java{Version: "17.0.1", Streams: "4.4.0"},
			Settings: map[plan.Peer]string{plan.Streams: "exactly_once_v2"},
		},
	}
	rows := report.Rows(plan.Works, "", []plan.Result{
		{Work: "map", Peer: plan.Streams, Values: map[plan.Metric]float64{plan.Rate: 100}},
		{Work: "map", Peer: plan.Memory, Values: map[plan.Metric]float64{plan.Rate: 250}},
	}, []plan.Target{{Work: "map", Metric: plan.Rate, Peer: plan.Memory, Over: plan.Streams, Bound: 3}})
	if err := m.write("bench", m.page1(rows)); err != nil {
		t.Fatal(err)
	}
	if err := m.write("full", m.page2(nil)); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(o.page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"`make bench`", time.Now().UTC().Format(time.DateOnly), "Kafka 9.8.7", "Kafka Streams 4.4.0", "Java 17.0.1", "cores of", "2,000,000", "exactly_once_v2",
		"short by 17 % (2.50, at least 3.00 of streams)", "How cost grows",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
}

func TestOnlyTheUsualSizesAreJudged(t *testing.T) {
	t.Parallel()
	for args, quick := range map[string]bool{
		"": false, "-full": false, "-work count": true, "-records 300000": true, "-rounds 1": true, "-full -growth keys": true,
		"-records 2000000 -rounds 3": false,
	} {
		o, err := parse(strings.Fields(args), io.Discard)
		if err != nil || o.quick != quick {
			t.Errorf("%q: a quick look is %t, want %t: %v", args, o.quick, quick, err)
		}
	}
	for _, args := range []string{"-work cuont", "-records 5", "-rounds 0", "-full -growth kyes"} {
		if _, err := parse(strings.Fields(args), io.Discard); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}

func Example_missing() {
	fmt.Println(&drive.MissingTool{Tool: "mvn", What: "Apache Maven"})
	// Output: mvn is missing: install Apache Maven and put it into the PATH
}
