package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestFirstSignalEndsInOrder(t *testing.T) {
	t.Parallel()
	signals := make(chan os.Signal, 2)
	signals <- syscall.SIGTERM
	var errs bytes.Buffer
	code := untilSignal(signals, &errs, func(ctx context.Context) int {
		<-ctx.Done()
		return exitOK
	})
	if code != exitOK || errs.Len() > 0 {
		t.Errorf("ended with %d and %q, want %d and silence", code, &errs, exitOK)
	}
	if code := untilSignal(nil, &errs, func(context.Context) int { return exitUsage }); code != exitUsage {
		t.Errorf("without a signal the code is %d, want that of the command", code)
	}
}

func TestSecondSignalDoesNotWait(t *testing.T) {
	t.Parallel()
	signals := make(chan os.Signal, 2)
	hangs := make(chan struct{})
	defer close(hangs)
	var errs bytes.Buffer
	code := untilSignal(signals, &errs, func(ctx context.Context) int {
		signals <- syscall.SIGTERM
		<-ctx.Done()
		signals <- os.Interrupt
		<-hangs
		return exitOK
	})
	if code != exitForced || !strings.Contains(errs.String(), "second signal") {
		t.Errorf("ended with %d and %q, want %d", code, &errs, exitForced)
	}
}

func TestDrainIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Hour, cancel)
		began := time.Now()
		if err := drained(ctx, 10*time.Second, func(ctx context.Context) error {
			<-ctx.Done()
			<-time.After(9 * time.Second)
			return nil
		}); err != nil {
			t.Errorf("one that drains within its time: %v", err)
		}
		if took := time.Since(began); took != time.Hour+9*time.Second {
			t.Errorf("it took %v", took)
		}
		began = time.Now()
		err := drained(ctx, 10*time.Second, func(context.Context) error {
			<-time.After(time.Minute)
			return nil
		})
		if took := time.Since(began); !errors.Is(err, errNotTidy) || took != 10*time.Second {
			t.Errorf("one that hangs: %v after %v, want an error after 10s", err, took)
		}
		<-time.After(time.Minute) // it has ended by then
		want := errors.New("broken")
		if err := drained(t.Context(), time.Second, func(context.Context) error { return want }); !errors.Is(err, want) {
			t.Errorf("one that fails: %v", err)
		}
	})
}

func TestCommandsAndCodes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{nil, exitUsage, "usage: sample-app COMMAND"},
		{[]string{"--version"}, exitOK, "sample-app dev"},
		{[]string{"help"}, exitOK, "3  ended at once by a second signal"},
		{[]string{"verfy"}, exitUsage, `unknown command "verfy" (did you mean verify?)`},
		{[]string{"run"}, exitUsage, "sample-app run: brokers: give at least one"},
		{[]string{"run", "--brokers=127.0.0.1:1", "--http-addr=nowhere"}, exitUsage, "http.addr: listen tcp: address nowhere: missing port in address"},
		{[]string{"healthcheck"}, exitUsage, "http.addr is empty"},
		{[]string{"healthcheck", "--http-addr=127.0.0.1:1"}, exitFail, "connection refused"},
		{[]string{"run", "--brokers=127.0.0.1:1", "--session-timeout=40s"}, exitUsage, "TransactionTimeout is 30s, below SessionTimeout"},
		{[]string{"feed", "--brokers=127.0.0.1:1", "--partitions=0"}, exitUsage, "feed.partitions (from flag --partitions)"},
		{[]string{"broker", "x"}, exitUsage, `unexpected argument "x"`},
		{[]string{"broker", "--prot=1"}, exitUsage, "prot"},
		{[]string{"demo", "--records=0"}, exitUsage, "--records 0"},
		{[]string{"settings"}, exitOK, "| `brokers` | `HEADRACE_BROKERS` | `--brokers` | run, feed, verify, timeline |"},
	} {
		var out bytes.Buffer
		if code := dispatch(t.Context(), process{tt.args, nil, &out, &out}); code != tt.code || !strings.Contains(out.String(), tt.says) {
			t.Errorf("%q: ended with %d, want %d, and said %q, want %q in it", tt.args, code, tt.code, &out, tt.says)
		}
	}
}

func TestLogFormat(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{"auto": `"msg":"x"`, "json": `"msg":"x"`, "text": "msg=x"} {
		var out bytes.Buffer
		log := newLogger(&config{LogFormat: format, LogLevel: "warn"}, &out)
		log.Info("quiet")
		log.Log(t.Context(), slog.LevelWarn, "x")
		if !strings.Contains(out.String(), want) || strings.Contains(out.String(), "quiet") {
			t.Errorf("%s: %q, want %q", format, &out, want)
		}
	}
}
