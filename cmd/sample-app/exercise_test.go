package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/cmd/sample-app/exercise"
)

var update = flag.Bool("update", false, "write the golden files and the tables of the documents anew")

func exercised(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = exerciseCommand(t.Context(), process{args: args, stdout: &out, stderr: &errs})
	return code, out.String(), errs.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs; if what is written now is right: go test ./cmd/sample-app -update (-want +got):\n%s", file, diff)
	}
}

// The worked example, all of what it writes, and its pictures.
func TestExercise(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	code, stdout, stderr := exercised(t, "--out", dir, "--draw", "all")
	if code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	golden(t, "exercise.txt", strings.ReplaceAll(stdout, dir+string(filepath.Separator), ""))
	picture, err := os.Open(filepath.Join(dir, "exercise.png"))
	if err != nil {
		t.Fatal(err)
	}
	defer picture.Close()
	if img, err := png.Decode(picture); err != nil || img.Bounds().Dx() < 1000 {
		t.Errorf("exercise.png: %v", err)
	}
	svg, err := os.ReadFile(filepath.Join(dir, "exercise.svg"))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "exercise.svg", string(svg))
}

// Another amount, and every table that has it follows; nothing in them is written down beforehand.
func TestExerciseFollowsTheList(t *testing.T) {
	t.Parallel()
	list := filepath.Join(t.TempDir(), "payments.csv")
	if err := os.WriteFile(list, []byte("second,amount\n10,5\n50,7\n62,11\n# changed from 3\n59,30\n70,2\n125,1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := exercised(t, "--out", "none", "--draw", "none", "--events", list)
	if code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	golden(t, "exercise-30.txt", stdout)
	for _, want := range []string{"42 at W=65", "12 → 42 (rev 1)", "+12, −12, +42 (rev 1)", "12+13+1+30 = 56", "late topic: 30", "+30"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("it does not say %q:\n%s", want, stdout)
		}
	}
}

// Several accounts, times with fractions, and records that are late as they come.
func TestExerciseOfSeveralAccounts(t *testing.T) {
	t.Parallel()
	list := filepath.Join(t.TempDir(), "payments.csv")
	if err := os.WriteFile(list, []byte("1,5,ann\n2.5,7,bob\n9.9,1,ann\n31,2,bob\n8,4,bob\n70,1,ann\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := exercised(t, "--out", "none", "--draw", "all", "--events", list, "--window", "10s", "--disorder", "2s", "--horizon", "15s")
	if code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	golden(t, "exercise-accounts.txt", stdout)
}

func TestExerciseUsage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(text string) string {
		f, err := os.CreateTemp(dir, "*.csv")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		return f.Name()
	}
	for _, c := range []struct {
		want string
		args []string
	}{
		{"unexpected argument", []string{"now"}},
		{"size is 0s", []string{"--window", "0s"}},
		{"horizon 0s", []string{"--horizon", "0s"}},
		{"disorder -1s", []string{"--disorder", "-1s"}},
		{"no payment 7", []string{"--event", "7"}},
		{"--event -1", []string{"--event", "-1"}},
		{"no such file", []string{"--events", filepath.Join(dir, "none.csv")}},
		{"1 payments", []string{"--events", file("1,2\n")}},
		{"line 2: \"x\" is no time", []string{"--events", file("1,2\nx,3\n")}},
		{"line 2: \"2.5\" is no amount", []string{"--events", file("1,2\n3,2.5\n")}},
		{"line 3: 1 fields", []string{"--events", file("at,amount\n1,2\n3\n")}},
		{"no time in seconds", []string{"--events", file("1,2\n-3,2\n")}},
	} {
		code, _, stderr := exercised(t, c.args...)
		if code != exitUsage || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: exit code %d, %s; want %q", c.args, code, stderr, c.want)
		}
	}
}

// What does not add up is said, and is an error.
func TestExerciseThatDoesNotAddUp(t *testing.T) {
	t.Parallel()
	runs, _, err := exercise.Plan(exercise.Worked(), exercise.Default(), -1)
	if err != nil {
		t.Fatal(err)
	}
	o := exerciseOptions{Setup: exercise.Default(), out: "none", draw: "none"}
	outcomes, err := runExercise(t.Context(), runs, o, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := showExercise(&out, outcomes, nil, o); err != nil {
		t.Fatal(err)
	}
	outcomes[2].DroppedCount++
	outcomes[4].Windows[0].Results[1].Sum++
	err = showExercise(&out, outcomes, nil, o)
	if !errors.Is(err, errConservation) || !strings.Contains(err.Error(), "run drop: ") || !strings.Contains(err.Error(), "run upsert: ") {
		t.Errorf("two runs do not add up, and it says %v", err)
	}
	if !strings.Contains(out.String(), "16+13+1 ≠ 29") {
		t.Errorf("the table does not show it:\n%s", out.String())
	}
}

func TestExerciseInterrupted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	if code := exerciseCommand(ctx, process{args: []string{"--out", "none"}, stdout: &out, stderr: &errs}); code != exitFail {
		t.Errorf("interrupted: exit code %d, %s", code, errs.String())
	}
}
