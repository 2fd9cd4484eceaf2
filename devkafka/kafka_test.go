//go:build kafka

package devkafka_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/devkafka"
)

func startKafka(t *testing.T, c devkafka.KafkaConfig) *devkafka.Kafka {
	t.Helper()
	began := time.Now()
	k, err := devkafka.StartKafka(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("up in %v", time.Since(began).Round(time.Millisecond))
	t.Cleanup(k.Close)
	return k
}

func TestKafkaIsConfiguredAndKeepsItsDataOverKillAndRestart(t *testing.T) {
	k := startKafka(t, devkafka.KafkaConfig{
		Topics:       map[string]int32{"flights": 3, "other": 1},
		TopicConfigs: map[string]map[string]string{"flights": {"retention.ms": "-1"}},
		Properties:   map[string]string{"log.cleaner.backoff.ms": "123"},
	})
	ctx, addrs := timeout(t), k.Addrs()
	cl := client(t, k)
	adm := kadm.NewClient(cl)

	topics, err := adm.ListTopics(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(topics["flights"].Partitions); n != 3 {
		t.Errorf("flights has %d partitions, want 3", n)
	}
	if got := setting(t, first(adm.DescribeTopicConfigs(ctx, "flights")), "retention.ms"); got != "-1" {
		t.Errorf("retention.ms of flights is %s", got)
	}
	brokerConfigs := func() kadm.ResourceConfigs { return first(adm.DescribeBrokerConfigs(ctx, 1)) }
	for key, want := range map[string]string{
		"log.cleaner.backoff.ms": "123", "group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "1000",
		"transaction.state.log.min.isr": "1", "share.coordinator.state.topic.replication.factor": "1",
	} {
		if got := setting(t, brokerConfigs(), key); got != want {
			t.Errorf("%s is %s, want %s", key, got, want)
		}
	}

	write(ctx, t, k, "flights", "before")
	k.Kill()
	if conn, err := net.Dial("tcp", addrs[0]); err == nil {
		conn.Close()
		t.Fatal("a killed broker still listens")
	}
	began := time.Now()
	if err := k.Restart(); err != nil { // of one that does not run
		t.Fatal(err)
	}
	t.Logf("up after a kill in %v", time.Since(began).Round(time.Millisecond))
	write(ctx, t, k, "flights", "between")
	began = time.Now()
	if err := k.Restart(); err != nil { // of one that runs
		t.Fatal(err)
	}
	t.Logf("stopped and up in %v", time.Since(began).Round(time.Millisecond))
	write(ctx, t, k, "flights", "after")
	got := read(ctx, t, k, "flights", 3)
	slices.Sort(got)
	if !slices.Equal(got, []string{"after", "before", "between"}) {
		t.Errorf("read %q", got)
	}
	if !slices.Equal(k.Addrs(), addrs) {
		t.Errorf("addresses were %q and are %q", addrs, k.Addrs())
	}

	// A transaction: what the embedded broker cannot show is that the real one accepts it, too.
	tx := client(t, k, kgo.TransactionalID("tx"), kgo.DefaultProduceTopic("other"))
	if err := tx.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := tx.ProduceSync(ctx, kgo.StringRecord("in a transaction")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := tx.EndTransaction(ctx, kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	// A stamp two hours ahead is refused, as in production.
	ahead := &kgo.Record{Topic: "other", Timestamp: time.Now().Add(2 * time.Hour)}
	if err := cl.ProduceSync(ctx, ahead).FirstErr(); !errors.Is(err, kerr.InvalidTimestamp) {
		t.Errorf("a stamp two hours ahead: %v", err)
	}

	log := k.LogPath()
	if text, err := os.ReadFile(log); err != nil || !strings.Contains(string(text), "Kafka Server started") {
		t.Errorf("the log, %d bytes, does not say that the server started: %v", len(text), err)
	}
	k.Close()
	k.Close()
	if _, err := os.Stat(filepath.Dir(log)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the data is still there: %v", err)
	}
	if err := k.Restart(); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("restart after Close: %v", err)
	}
}

func first[T any](v T, err error) T {
	if err != nil {
		panic(err) // a test that cannot ask has nothing to check
	}
	return v
}

func setting(t *testing.T, of kadm.ResourceConfigs, key string) string {
	t.Helper()
	for _, r := range of {
		for _, c := range r.Configs {
			if c.Key == key {
				return c.MaybeValue()
			}
		}
	}
	t.Fatalf("no %s in %v", key, of)
	return ""
}

func TestKafkaDataDirKeepsTopicsAndRecords(t *testing.T) {
	ctx, dir := timeout(t), t.TempDir()
	k := startKafka(t, devkafka.KafkaConfig{DataDir: dir, Topics: map[string]int32{"flights": 1}})
	write(ctx, t, k, "flights", "before")
	k.Close()

	k = startKafka(t, devkafka.KafkaConfig{DataDir: dir, Topics: map[string]int32{"flights": 1, "delays": 2}})
	write(ctx, t, k, "flights", "after")
	write(ctx, t, k, "delays", "new topic")
	if got := read(ctx, t, k, "flights", 2); !slices.Equal(got, []string{"before", "after"}) {
		t.Errorf("read %q", got)
	}
	k.Close()

	_, err := devkafka.StartKafka(devkafka.KafkaConfig{DataDir: dir, Topics: map[string]int32{"flights": 3}})
	if err == nil || !strings.Contains(err.Error(), "flights has 1 partitions in "+dir+", not 3") {
		t.Errorf("another number of partitions: %v", err)
	}
}

func TestKafkaThatCannotStartShowsItsLog(t *testing.T) {
	_, err := devkafka.StartKafka(devkafka.KafkaConfig{Properties: map[string]string{"num.network.threads": "many"}})
	if err == nil || !strings.Contains(err.Error(), "num.network.threads") {
		t.Errorf("a property that is no number: %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	if _, err := devkafka.StartKafka(devkafka.KafkaConfig{Port: port}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("port %d", port)) {
		t.Errorf("a port that is taken: %v", err)
	}
}

// parent is set for the process that TestKafkaEndsWithItsParent starts and kills.
const parent = "DEVKAFKA_TEST_PARENT"

func TestKafkaParent(t *testing.T) {
	if os.Getenv(parent) == "" {
		t.Skip("this is run by TestKafkaEndsWithItsParent, in a process of its own")
	}
	k, err := devkafka.StartKafka(devkafka.KafkaConfig{})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("address %s\n", k.Addrs()[0])
	<-t.Context().Done() // killed before
}

func TestKafkaEndsWithItsParent(t *testing.T) {
	if !endsWithParent {
		t.Skip("this system does not tell a process that its parent was killed")
	}
	ctx := timeout(t)
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestKafkaParent$", "-test.v")
	cmd.Env = append(os.Environ(), parent+"=1", "TMPDIR="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said []string
	address := ""
	for lines := bufio.NewScanner(out); address == "" && lines.Scan(); {
		said = append(said, lines.Text())
		address, _ = strings.CutPrefix(lines.Text(), "address ")
		if address == lines.Text() {
			address = ""
		}
	}
	if address == "" {
		t.Fatalf("the parent gave no address: %q", said)
	}
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatalf("before the kill: %v", err)
	}
	defer conn.Close()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	// The connection is open until Kafka ends: that is what the read waits for.
	deadline, _ := ctx.Deadline()
	if err := conn.SetReadDeadline(deadline); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("Kafka lived on: read %d bytes, %v", n, err)
	}
	// The system closes what it had open in some order.
	for {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			return
		}
		conn.Close()
		if time.Now().After(deadline) {
			t.Fatal("Kafka still listens")
		}
	}
}
