package devkafka_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/headrace/headrace/devkafka"
)

func TestMistakesInAKafkaConfigAreNamed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config devkafka.KafkaConfig
		want   string
	}{
		"no partitions":   {devkafka.KafkaConfig{Topics: map[string]int32{"flights": 0}}, "topic flights: 0 partitions"},
		"no topic":        {devkafka.KafkaConfig{TopicConfigs: map[string]map[string]string{"flights": nil}}, "flights, which is not in Topics"},
		"own property":    {devkafka.KafkaConfig{Properties: map[string]string{"listeners": "x"}}, "Properties sets listeners"},
		"two lines":       {devkafka.KafkaConfig{Properties: map[string]string{"a": "b\nlisteners=x"}}, `property "a" has a line break`},
		"heap below zero": {devkafka.KafkaConfig{HeapMB: -1}, "HeapMB is -1"},
		"no java":         {devkafka.KafkaConfig{Java: "no-such-java"}, "needs java: install a JDK 17"},
	} {
		k, err := devkafka.StartKafka(c.config)
		if err == nil {
			k.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestWithoutMavenTheFirstStartSaysSo(t *testing.T) {
	java := script(t, t.TempDir(), "java", "")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	t.Setenv("PATH", t.TempDir())
	k, err := devkafka.StartKafka(devkafka.KafkaConfig{Java: java})
	if err == nil {
		k.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "needs mvn") || !strings.Contains(err.Error(), "install Apache Maven") {
		t.Errorf("no mvn: %v", err)
	}
}

// script is a program that stands for another one.
func script(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestWhoeverStartsAtTheSameTimeFetchesOnce(t *testing.T) {
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skip("this system has no shell for the programs that stand for java and mvn")
	}
	bin, cache := t.TempDir(), t.TempDir()
	ran := filepath.Join(bin, "ran")
	java := script(t, bin, "java", "exit 3\n")
	script(t, bin, "mvn", "echo fetched >>'"+ran+"'\nmkdir lib\n/bin/sleep 0.2\n")
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("HOME", cache)
	t.Setenv("PATH", bin)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			k, err := devkafka.StartKafka(devkafka.KafkaConfig{Java: java})
			if err == nil {
				k.Close()
			}
			if err == nil || !strings.Contains(err.Error(), "exit status 3") {
				t.Errorf("a java that fails: %v", err)
			}
		})
	}
	wg.Wait()
	if got, err := os.ReadFile(ran); err != nil || string(got) != "fetched\n" {
		t.Errorf("mvn ran %q times, want once: %v", got, err)
	}
	if err := os.RemoveAll(filepath.Join(cache, "headrace")); err != nil {
		t.Fatal(err)
	}
	script(t, bin, "mvn", "echo no such artifact; exit 1\n")
	_, err := devkafka.StartKafka(devkafka.KafkaConfig{Java: java})
	if err == nil || !strings.Contains(err.Error(), "no such artifact") {
		t.Errorf("an mvn that fails: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(cache, "headrace", "*", "*")); err != nil || len(left) > 0 {
		t.Errorf("a fetch that failed left %q: %v", left, err)
	}
}
