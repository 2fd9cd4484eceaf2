package archtest

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var runCommands = flag.Bool("commands", false, "run the commands of the documents, with a real Kafka where Java is")

// notRun are commands of documents that are not run, by how they begin, with the reason. What can be run is.
var notRun = []struct{ begins, why string }{
	{"docker ", "needs a Docker engine and images from a registry"},
	{"docker-compose ", "needs a Docker engine and images from a registry"},
	{"kafka-", "a tool of a Kafka installation, for a cluster of your own"},
	{"rpk ", "a tool of Redpanda, for a cluster of your own"},
	{"git clone ", "there is no public address yet"},
}

// servers are commands that go on until they are interrupted, by how they begin, with what they write when they are ready.
var servers = []struct {
	begins string
	ready  *regexp.Regexp
}{
	{"./sample-app broker", regexp.MustCompile(`127\.0\.0\.1:`)},
	{"./sample-app run", regexp.MustCompile(`"msg":"tasks"`)},
	{"./clicks", regexp.MustCompile(`task runs`)},
}

// port is that of the broker in documents; tests use another.
const port = "9092"

// The commands of the guides must work, in the order in which they stand, with the output that stands below them. A document is one
// session: it begins beside a checkout that is called headrace, files with names are written where the document has them, and what goes
// on until it is interrupted does so to the end. A line of output "…" stands for any others.
func TestDocsCommands(t *testing.T) {
	if !*runCommands {
		t.Skip("runs with -commands: make docs-check")
	}
	home, found := t.TempDir(), 0
	copyTree(t, absolute(t), filepath.Join(home, "headrace"))
	for _, d := range guides(t) {
		if !slices.ContainsFunc(d.blocks, func(b block) bool { return b.lang == "console" }) {
			continue
		}
		found += strings.Count(d.text, "\n$ ")
		t.Run(d.name, func(t *testing.T) { newSession(t, d, home).run() })
	}
	if found < 15 {
		t.Errorf("the guides have %d commands; are they found?", found)
	}
}

// session carries out a document.
type session struct {
	t       *testing.T
	d       *document
	home    string // where it begins
	dir     string
	env     []string
	port    string
	running []*server
}

type server struct {
	at      string
	command string
	want    []string // in what it has written in the end
	cmd     *exec.Cmd
	out     output
	ended   chan error
}

// output is what a command has written so far.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

func newSession(t *testing.T, d *document, home string) *session {
	s := &session{t: t, d: d, home: home, port: freePort(t)}
	s.dir = s.home
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "HEADRACE_") {
			s.env = append(s.env, e)
		}
	}
	return s
}

func freePort(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// copyTree makes a checkout in which commands may leave what they like.
func copyTree(t *testing.T, from, to string) {
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = from
	out, err := list.Output()
	if err != nil {
		t.Fatalf("list the files of the checkout: %v", err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join(from, name))
		if os.IsNotExist(err) {
			continue // deleted, and not yet committed
		}
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(filepath.Join(from, name))
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, text, info.Mode()); err != nil {
			t.Fatal(err)
		}
	}
}

func (s *session) run() {
	defer s.stop()
	for _, b := range s.d.blocks {
		if file := b.file(); file != "" && b.lang != "console" {
			write(s.t, filepath.Join(s.home, file), s.translated(b.text))
			continue
		}
		if b.lang == "console" {
			s.console(b)
		}
		if s.t.Failed() {
			return
		}
	}
}

// console carries out the commands of a block.
func (s *session) console(b block) {
	lines := strings.Split(strings.TrimRight(b.text, "\n"), "\n")
	for i := 0; i < len(lines); {
		command, ok := strings.CutPrefix(lines[i], "$ ")
		at := s.d.at(b.line + i)
		if !ok {
			s.t.Fatalf("%s: %q is no command; begin it with \"$ \"", at, lines[i])
		}
		for i++; strings.HasSuffix(command, "\\") && i < len(lines); i++ {
			command = strings.TrimSuffix(command, "\\") + strings.TrimSpace(lines[i])
		}
		var want []string
		for ; i < len(lines) && !strings.HasPrefix(lines[i], "$ "); i++ {
			want = append(want, lines[i])
		}
		s.command(at, command, want)
	}
}

func (s *session) command(at, command string, want []string) {
	s.t.Helper()
	for _, n := range notRun {
		if strings.HasPrefix(command, n.begins) {
			s.t.Logf("not run: %s: %s (%s)", at, command, n.why)
			return
		}
	}
	if m := target.FindStringSubmatch(command); m != nil && command == m[0] {
		s.ciRuns(at, m[1])
		return
	}
	if to, ok := strings.CutPrefix(command, "cd "); ok {
		if s.dir = filepath.Join(s.dir, to); !exists(s.dir) {
			s.t.Fatalf("%s: %s is not there", at, to)
		}
		return
	}
	if set, ok := strings.CutPrefix(command, "export "); ok {
		s.env = append(s.env, s.translated(set))
		return
	}
	for _, known := range servers {
		if strings.HasPrefix(command, known.begins) {
			s.serve(at, command, want, known.ready)
			return
		}
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(s.t.Context(), 3*time.Minute)
	defer cancel()
	var out output
	cmd := s.bash(ctx, command, &out)
	err := cmd.Run()
	s.t.Logf("ran: %s: %s (%.1f s)", at, command, time.Since(began).Seconds())
	if err != nil {
		s.t.Fatalf("%s: %s: %v\n%s%s", at, command, err, out.String(), s.logs())
	}
	if missing := notIn(out.String(), want, s.translated); missing != "" {
		s.t.Errorf("%s: %s does not write %q, but\n%s", at, command, missing, out.String())
	}
}

// notIn returns the first line that is wanted and not there, behind those before it.
func notIn(out string, want []string, translated func(string) string) string {
	have := strings.Split(out, "\n")
	for _, line := range want {
		if strings.TrimSpace(line) == "…" || strings.TrimSpace(line) == "" {
			continue
		}
		// What differs from time to time is "…" within a line, too.
		pattern := strings.ReplaceAll(regexp.QuoteMeta(translated(strings.TrimSpace(line))), "…", ".*")
		found := slices.IndexFunc(have, func(h string) bool { return regexp.MustCompile("^" + pattern + "$").MatchString(strings.TrimSpace(h)) })
		if found < 0 {
			return line
		}
		have = have[found+1:]
	}
	return ""
}

// translated has the port of the session's broker.
func (s *session) translated(text string) string {
	return regexp.MustCompile(`\b`+port+`\b`).ReplaceAllString(text, s.port)
}

func (s *session) bash(ctx context.Context, command string, out io.Writer) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-c", s.translated(command))
	cmd.Dir, cmd.Env = s.dir, s.env
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// serve starts what goes on, and waits until it is ready.
func (s *session) serve(at, command string, want []string, ready *regexp.Regexp) {
	s.t.Helper()
	run := command
	if strings.HasPrefix(command, "./sample-app broker") {
		run += " -port " + s.port
		if !kafkaRuns() && !strings.Contains(command, "-embedded") {
			s.t.Logf("not run: %s: %s (needs Java 17 and Maven); an embedded broker takes its place", at, command)
			run += " -embedded"
		}
	}
	began := time.Now()
	srv := &server{at: at, command: command, want: want, ended: make(chan error, 1)}
	srv.cmd = s.bash(context.WithoutCancel(s.t.Context()), "exec "+run, &srv.out)
	srv.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // "go run" has a child
	if err := srv.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() { srv.ended <- srv.cmd.Wait() }()
	s.running = append(s.running, srv)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(2 * time.Minute)
	for !ready.MatchString(srv.out.String()) {
		select {
		case err := <-srv.ended:
			srv.ended <- err
			s.t.Fatalf("%s: %s ended: %v\n%s", at, command, err, srv.out.String())
		case <-limit:
			s.t.Fatalf("%s: %s does not get ready\n%s", at, command, srv.out.String())
		case <-tick.C:
		}
	}
	s.t.Logf("ran: %s: %s (ready after %.1f s)", at, command, time.Since(began).Seconds())
}

// stop interrupts what goes on, the last first, as a reader does at the end. It must end well.
func (s *session) stop() {
	for _, srv := range slices.Backward(s.running) {
		s.await(srv)
		_ = syscall.Kill(-srv.cmd.Process.Pid, syscall.SIGINT) // it may have ended
		select {
		case err := <-srv.ended:
			if err != nil {
				s.t.Errorf("interrupted, %s ended with %v\n%s", srv.command, err, tail(srv.out.String()))
			}
		case <-time.After(30 * time.Second):
			_ = syscall.Kill(-srv.cmd.Process.Pid, syscall.SIGKILL)
			<-srv.ended
			s.t.Errorf("interrupted, %s does not end", srv.command)
		}
	}
}

// await waits until a server has written what the document says.
func (s *session) await(srv *server) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(30 * time.Second)
	for {
		missing := notIn(srv.out.String(), srv.want, s.translated)
		if missing == "" || s.t.Failed() {
			return
		}
		select {
		case <-limit:
			s.t.Errorf("%s: %s did not write %q, but\n%s", srv.at, srv.command, missing, srv.out.String())
		case <-tick.C:
		}
	}
}

func (s *session) logs() string {
	var b strings.Builder
	for _, srv := range s.running {
		fmt.Fprintf(&b, "\n%s:\n%s", srv.command, tail(srv.out.String()))
	}
	return b.String()
}

func tail(text string) string { return text[max(0, len(text)-2000):] }

// ciRuns wants a target of the Makefile that CI runs, since it would take too long here.
func (s *session) ciRuns(at, name string) {
	s.t.Helper()
	makefile, err := os.ReadFile(absolute(s.t, "Makefile"))
	if err != nil {
		s.t.Fatal(err)
	}
	if !ciRuns(string(makefile), name) {
		s.t.Errorf("%s: make %s is not what CI runs", at, name)
	}
	s.t.Logf("run by make ci: %s: make %s", at, name)
}

// ciRuns says whether the recipe of ci has a target.
func ciRuns(makefile, name string) bool {
	recipe := regexp.MustCompile(`(?m)^ci:.*\n((?:\t.*\n?)+)`).FindString(makefile)
	return regexp.MustCompile(`(?m)^\t\$\(MAKE\) ` + regexp.QuoteMeta(name) + `( |$)`).MatchString(recipe)
}

// kafkaRuns says whether a real Kafka can be started here.
func kafkaRuns() bool {
	_, java := exec.LookPath("java")
	_, mvn := exec.LookPath("mvn")
	return java == nil && mvn == nil
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
