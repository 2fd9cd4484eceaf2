package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/headrace/headrace/framework"
)

// write makes a file and returns its name.
func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// settle configures run.
func settle(environ []string, args ...string) (c *config, stdout string, err error) {
	var out bytes.Buffer
	c, err = configure(inRun, "sample-app run", process{args, environ, &out, &out})
	return c, out.String(), err
}

func TestPrecedenceIsFileEnvironmentFlags(t *testing.T) {
	t.Parallel()
	file := write(t, "brokers: [file:1, other:2]\napp-id: file\nworkers: 2\nlog:\n  level: debug\nlog.format: text\nsasl:\n  allow-plaintext: true\n")
	c, _, err := settle(
		[]string{"PATH=/bin", "HEADRACE_APP_ID=environment", "HEADRACE_WORKERS=3", "HEADRACE_CONFIG=" + file},
		"--workers", "4", "--keep-membership")
	if err != nil {
		t.Fatal(err)
	}
	got := []any{c.Brokers, c.AppID, c.Workers, c.LogLevel, c.LogFormat, c.SASL.AllowPlaintext, c.KeepMembership, c.State, c.CommitInterval}
	want := []any{[]string{"file:1", "other:2"}, "environment", 4, "debug", "text", true, true, "memory", 100 * time.Millisecond}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if c, _, err = settle([]string{"HEADRACE_CONFIG=nowhere"}, "--config", file); err != nil || c.AppID != "file" {
		t.Errorf("the flag does not decide on the file: %v", err)
	}
}

// Each setting has a value of its own here; it must land in one field of its own, from every place.
func TestEverySettingArrivesFromEverywhere(t *testing.T) {
	t.Parallel()
	values := map[string]string{
		"brokers": "h:1", "state": "pebble", "guarantee": "at-least-once", "replication-factor": "3", "sasl.mechanism": "SCRAM-SHA-512", "log.format": "json", "log.level": "warn",
		"timeline.time": "header:at", "timeline.late": "sideline",
	}
	fields := func(c *config) map[string]any {
		out := map[string]any{}
		var walk func(string, reflect.Value)
		walk = func(path string, v reflect.Value) {
			for i := range v.NumField() {
				name := path + "." + v.Type().Field(i).Name
				if v.Field(i).Kind() == reflect.Struct {
					walk(name, v.Field(i))
				} else {
					out[name] = v.Field(i).Interface()
				}
			}
		}
		walk("", reflect.ValueOf(c).Elem())
		return out
	}
	parsed := func(command commands, environ []string, args ...string) map[string]any {
		t.Helper()
		g, err := gather(command, "x", process{args, environ, os.Stdout, os.Stderr})
		if err != nil {
			t.Fatal(err)
		}
		c := &config{}
		for i := range settings {
			v, err := g.value(&settings[i])
			if err == nil {
				err = settings[i].set(c, v)
			}
			if err != nil {
				t.Fatalf("%s: %v", settings[i].key, err)
			}
		}
		return fields(c)
	}
	initial := parsed(inRun, nil)
	owner := map[string]string{}
	for i := range settings {
		s := &settings[i]
		v := values[s.key]
		switch {
		case v != "":
		case s.bool:
			v = "true"
		case strings.HasSuffix(s.initial, "s") || strings.HasSuffix(s.initial, "m"):
			v = "7h0m0s"
		default:
			v = "77"
		}
		var command commands
		for _, c := range []commands{inRun, inFeed, inVerify, inTimeline} {
			if s.in&c != 0 {
				command = c
			}
		}
		for from, got := range map[string]map[string]any{
			"file":        parsed(command, nil, "--config", write(t, s.key+": "+v+"\n")),
			"environment": parsed(command, []string{s.env() + "=" + v}),
			"flag":        parsed(command, nil, "--"+s.flag()+"="+v),
		} {
			var changed []string
			for name := range got {
				if !reflect.DeepEqual(got[name], initial[name]) {
					changed = append(changed, name)
				}
			}
			if len(changed) != 1 || owner[changed[0]] != "" && owner[changed[0]] != s.key {
				t.Errorf("%s from %s changes %v, want one field that is nobody else's", s.key, from, changed)
				continue
			}
			owner[changed[0]] = s.key
			if said := strings.Trim(fmt.Sprint(got[changed[0]]), "[]"); said != v {
				t.Errorf("%s from %s is %s, want %s", s.key, from, said, v)
			}
		}
	}
	for name := range initial {
		if owner[name] == "" {
			t.Errorf("config%s has no setting", name)
		}
	}
}

func TestFrameworkGetsWhatWasConfigured(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c, _, err := settle(nil, "--brokers", "a:1,b:2", "--app-id", "id", "--instance", "me", "--keep-membership", "--workers", "3",
		"--state", "pebble", "--state-dir", dir, "--commit-interval", "5ms", "--session-timeout", "7s", "--transaction-timeout", "8s",
		"--topic-timeout", "9s", "--guarantee", "at-least-once", "--replication-factor", "3")
	if err != nil {
		t.Fatal(err)
	}
	top, err := Flights()
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.framework(top, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := framework.New(got); err != nil {
		t.Error(err)
	}
	if kind := fmt.Sprintf("%T", got.State); kind != "*pebblestore.Provider" {
		t.Errorf("state is a %s", kind)
	}
	got.State, got.Topology, got.Logger = nil, nil, nil
	want := framework.Config{
		Brokers: []string{"a:1", "b:2"}, AppID: "id", Instance: "me", KeepMembership: true, Workers: 3,
		CommitInterval: 5 * time.Millisecond, MinCommitInterval: 5 * time.Millisecond, SessionTimeout: 7 * time.Second,
		TransactionTimeout: 8 * time.Second, TopicTimeout: 9 * time.Second, Guarantee: framework.AtLeastOnce, ReplicationFactor: 3,
		IdleAfter: neverIdle,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestMistakesAreNamedWithTheWayOut(t *testing.T) {
	t.Parallel()
	file := func(text string) []string { return []string{"--config", write(t, text)} }
	for name, tt := range map[string]struct {
		environ, args []string
		want          []string
	}{
		"nothing":               {nil, nil, []string{"brokers: give at least one", "HEADRACE_BROKERS"}},
		"key":                   {nil, file("brokers: a:1\ncommit-intervall: 1s\n"), []string{"key commit-intervall is not known (did you mean commit-interval?)"}},
		"nested key":            {nil, file("tls:\n  ca-fil: x\n"), []string{"key tls.ca-fil is not known (did you mean tls.ca-file?)"}},
		"camel case":            {nil, file("sessionTimeout: 1s\n"), []string{"key sessionTimeout is not known (did you mean session-timeout?)"}},
		"Kafka's name":          {nil, file("bootstrap.servers: a:1\n"), []string{"key bootstrap.servers is not known (did you mean brokers?)"}},
		"like nothing":          {nil, file("zzzzzzzzzz: 1\n"), []string{"key zzzzzzzzzz is not known"}},
		"two keys":              {nil, file("brokrs: a:1\nwrkers: 2\n"), []string{"did you mean brokers?", "did you mean workers?"}},
		"password":              {nil, file("sasl: {password: hunter2}\n"), []string{"key sasl.password is not known (did you mean sasl.password-file?)"}},
		"variable":              {[]string{"HEADRACE_COMMIT_INTERVALL=1s"}, nil, []string{"HEADRACE_COMMIT_INTERVALL is not known (did you mean HEADRACE_COMMIT_INTERVAL?)"}},
		"flag":                  {nil, []string{"--commit-intervall=1s"}, []string{"--commit-intervall is not known (did you mean --commit-interval?)"}},
		"flag of feed":          {nil, []string{"--rate=1"}, []string{"--rate is not known"}},
		"argument":              {nil, []string{"x"}, []string{`unexpected argument "x"`}},
		"no file":               {nil, []string{"--config", "nowhere.yaml"}, []string{"configuration file", "nowhere.yaml"}},
		"no YAML":               {nil, file("brokers: [a:1\n"), []string{"not read", "yaml"}},
		"twice":                 {nil, file("workers: 1\nworkers: 2\n"), []string{"already defined"}},
		"a list":                {nil, file("- brokers\n"), []string{"not read"}},
		"no value":              {nil, file("workers:\n"), []string{"workers (from file", "no value"}},
		"map for a value":       {nil, file("workers: {many: 3}\n"), []string{"key workers.many is not known"}},
		"number":                {[]string{"HEADRACE_WORKERS=many"}, nil, []string{`workers (from environment HEADRACE_WORKERS): "many" is not a number of at least 1`}},
		"below":                 {nil, []string{"--workers=0"}, []string{"workers (from flag --workers)"}},
		"no unit":               {nil, []string{"--session-timeout=6"}, []string{`"6" is not a time with its unit`}},
		"choice":                {nil, []string{"--state=disk"}, []string{`"disk" is none of memory, pebble`}},
		"bool":                  {[]string{"HEADRACE_TLS_ENABLED=perhaps"}, nil, []string{"neither true nor false"}},
		"broker":                {nil, []string{"--brokers=a:1,b"}, []string{"broker 2 is not written as host:port"}},
		"no directory":          {nil, []string{"--brokers=a:1", "--state=pebble"}, []string{"state-dir: state pebble needs a directory"}},
		"directory of memory":   {nil, []string{"--brokers=a:1", "--state-dir=x"}, []string{"set state to pebble"}},
		"TLS off":               {nil, []string{"--brokers=a:1", "--tls-ca-file=x"}, []string{"tls.enabled is not true"}},
		"half a certificate":    {nil, []string{"--brokers=a:1", "--tls-enabled", "--tls-cert-file=x"}, []string{"belong together"}},
		"PLAIN in the clear":    {nil, []string{"--brokers=a:1", "--sasl-mechanism=plain", "--sasl-username=u", "--sasl-password-file=x"}, []string{"PLAIN without tls.enabled", "sasl.allow-plaintext"}},
		"no password":           {nil, []string{"--brokers=a:1", "--sasl-mechanism=SCRAM-SHA-256", "--sasl-username=u"}, []string{"sasl.password-file: sasl.mechanism SCRAM-SHA-256 needs it"}},
		"password for a token":  {nil, []string{"--brokers=a:1", "--tls-enabled", "--sasl-mechanism=OAUTHBEARER", "--sasl-token-file=x", "--sasl-password-file=x"}, []string{"OAUTHBEARER has no use for it"}},
		"user but no mechanism": {nil, []string{"--brokers=a:1", "--sasl-username=u"}, []string{"no sasl.mechanism"}},
	} {
		c, _, err := settle(tt.environ, tt.args...)
		if err == nil || c != nil {
			t.Errorf("%s: no error", name)
			continue
		}
		for _, want := range tt.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q does not say %q", name, err, want)
			}
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %q tells the secret", name, err)
		}
	}
}

// A service that is called headrace puts such variables into every container of its namespace.
func TestServiceLinksOfKubernetesAreNoSettings(t *testing.T) {
	t.Parallel()
	_, _, err := settle([]string{
		"HEADRACE_BROKERS=a:1", "HEADRACE_SERVICE_HOST=10.0.0.1", "HEADRACE_SERVICE_PORT=80", "HEADRACE_SERVICE_PORT_HTTP=80",
		"HEADRACE_PORT=tcp://10.0.0.1:80", "HEADRACE_PORT_80_TCP_ADDR=10.0.0.1",
	})
	if err != nil {
		t.Error(err)
	}
}

func TestPrintConfigTellsSourcesAndNoSecrets(t *testing.T) {
	t.Parallel()
	password := write(t, "hunter2\n")
	file := write(t, "app-id: x\nsasl:\n  mechanism: SCRAM-SHA-256\n  username: bob\n  password-file: "+password+"\n")
	environ := []string{"HEADRACE_WORKERS=3", "HEADRACE_INSTANCE=# me", "HEADRACE_CONFIG=" + file}
	c, out, err := settle(environ, "--brokers", "a:1", "--print-config")
	if !errors.Is(err, flag.ErrHelp) || c != nil {
		t.Fatalf("got %v, want nothing but the print", err)
	}
	lines := strings.Split(out, "\n")
	for _, want := range [][2]string{
		{"app-id: x", "file " + file},
		{"workers: 3", "environment HEADRACE_WORKERS"},
		{"brokers: a:1", "flag --brokers"},
		{"commit-interval: 100ms", "default"},
		{"sasl.password-file: " + password, "file " + file},
		{`instance: "# me"`, "environment HEADRACE_INSTANCE"},
	} {
		if !slices.ContainsFunc(lines, func(l string) bool {
			value, source, _ := strings.Cut(l, " # ")
			if rest, ok := strings.CutPrefix(l, `instance: "# me"`); ok { // the only value with a # in it
				value, source = `instance: "# me"`, strings.TrimPrefix(strings.TrimSpace(rest), "# ")
			}
			return strings.TrimSpace(value) == want[0] && source == want[1]
		}) {
			t.Errorf("no line %s # %s in\n%s", want[0], want[1], out)
		}
	}
	if strings.Contains(out, "hunter2") {
		t.Error("it shows the password")
	}
	// What is printed is a file that configures the same.
	if _, same, err := settle(nil, "--config", write(t, out), "--print-config"); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("the output is no file: %v", err)
	} else {
		values := func(s string) (all []string) {
			for _, l := range strings.Split(s, "\n") {
				all = append(all, strings.TrimSpace(l[:max(0, strings.LastIndex(l, "#"))]))
			}
			return all
		}
		if d := cmp.Diff(values(out), values(same)); d != "" {
			t.Errorf("read again, it differs:\n%s", d)
		}
	}

	// A secret where its file should be named, and a broker with one.
	for _, environ := range [][]string{
		{"HEADRACE_BROKERS=a:1", "HEADRACE_SASL_MECHANISM=SCRAM-SHA-256", "HEADRACE_SASL_USERNAME=u", "HEADRACE_SASL_PASSWORD_FILE=hunter2"},
		{"HEADRACE_BROKERS=u:hunter2@a:1"},
	} {
		if _, out, err := settle(environ, "--print-config"); strings.Contains(out, "hunter2") || !strings.Contains(out, "[redacted") || err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v\n%s", environ, err, out)
		}
	}
}

// Help and the table for the documentation have every setting, and names are told apart.
func TestHelpHasEverySetting(t *testing.T) {
	t.Parallel()
	var table bytes.Buffer
	settingsTable(&table)
	seen := map[string]bool{}
	for i := range settings {
		s := &settings[i]
		for _, name := range []string{s.key, s.env(), "--" + s.flag()} {
			if seen[name] && name != s.key || !strings.Contains(table.String(), "`"+name+"`") {
				t.Errorf("%s: name %s is there twice, or not in the table", s.key, name)
			}
			seen[name] = true
		}
		for _, c := range all() {
			var out bytes.Buffer
			if c.settings == 0 {
				continue
			}
			if code := c.run(t.Context(), process{[]string{"--help"}, nil, &out, &out}); code != exitOK {
				t.Errorf("%s --help ends with %d", c.name, code)
			}
			if has := strings.Contains(out.String(), "\n  --"+s.flag()+" ") || strings.Contains(out.String(), "\n  --"+s.flag()+"\n"); has != (c.settings&s.in != 0) {
				t.Errorf("the help of %s has --%s: %v", c.name, s.flag(), has)
			}
			if !strings.Contains(out.String(), exitCodeHelp) {
				t.Errorf("the help of %s does not tell the exit codes", c.name)
			}
		}
	}
}
