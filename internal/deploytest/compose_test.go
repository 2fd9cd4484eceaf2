package deploytest

import (
	"cmp"
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/devkafka"
)

type service struct {
	Image           string
	Build           *struct{ Context string }
	ContainerName   string `json:"container_name"`
	Entrypoint      []string
	Command         []string
	Environment     map[string]any
	Ports, Expose   []string
	Volumes         []string
	Profiles        []string
	ReadOnly        bool     `json:"read_only"`
	CapDrop         []string `json:"cap_drop"`
	SecurityOpt     []string `json:"security_opt"`
	StopGracePeriod string   `json:"stop_grace_period"`
	Restart         string
	Healthcheck     *struct {
		Test    []string
		Disable bool
	}
	DependsOn map[string]struct{ Condition string } `json:"depends_on"`
}

type composition struct {
	Services map[string]service
	Volumes  map[string]any
	values   map[string]string // of .env
}

var variable = regexp.MustCompile(`\$\{(\w+)\}`)

func compose(t *testing.T) composition {
	t.Helper()
	c := composition{values: map[string]string{}}
	decode(t, "docker-compose.yml", &c)
	for line := range strings.Lines(read(t, ".env")) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(k, "#") {
			c.values[k] = v
		}
	}
	return c
}

// fill puts the values of .env in.
func (c composition) fill(s string) string {
	return variable.ReplaceAllStringFunc(s, func(v string) string { return c.values[variable.FindStringSubmatch(v)[1]] })
}

var built string // directory of the binary

// program builds the program once for all tests, and returns the binary.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "headrace-deploytest-")
	if err != nil {
		return "", err
	}
	built = dir
	binary := filepath.Join(dir, "sample-app")
	build := exec.Command("go", "build", "-o", binary, "./cmd/sample-app")
	build.Dir = filepath.Join("..", "..")
	build.Stderr = os.Stderr
	return binary, build.Run()
})

func TestMain(m *testing.M) {
	code := m.Run()
	if built != "" {
		_ = os.RemoveAll(built) // it is a temporary directory
	}
	os.Exit(code)
}

// sampleApp runs the program with nothing else in its environment.
func sampleApp(t *testing.T, env map[string]string, args ...string) (string, error) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds and runs the program")
	}
	binary, err := program()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = []string{}
	for k, v := range env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// subcommands are the commands that the program's help lists.
func subcommands(t *testing.T) (names []string) {
	t.Helper()
	out, err := sampleApp(t, nil, "help")
	if err != nil {
		t.Fatal(err, out)
	}
	for _, m := range regexp.MustCompile(`(?m)^  ([a-z]+) +\S`).FindAllStringSubmatch(out, -1) {
		names = append(names, m[1])
	}
	return names
}

func TestComposeImages(t *testing.T) {
	t.Parallel()
	c := compose(t)
	used := map[string]bool{}
	for _, m := range variable.FindAllStringSubmatch(read(t, "docker-compose.yml"), -1) {
		used[m[1]] = true
	}
	for v := range used {
		if c.values[v] == "" {
			t.Errorf("%s is used, and .env does not say what it is", v)
		}
	}
	for v := range c.values {
		if !used[v] {
			t.Errorf("%s stands in .env, and nothing uses it", v)
		}
	}
	for name, s := range c.Services {
		if image := c.fill(s.Image); !pinned.MatchString(image) || !variable.MatchString(s.Image) {
			t.Errorf("%s: %s is not pinned in .env", name, s.Image)
		}
	}
}

func TestComposeApp(t *testing.T) {
	t.Parallel()
	c := compose(t)
	app := c.Services["app"]
	if app.ContainerName != "" || len(app.Ports) > 0 {
		t.Error("app has a name or a port of the host: there could not be several")
	}
	volume := execForm(t, only(t, stages(t)[2], "VOLUME"))[0]
	if !slices.Equal(app.Volumes, []string{volume}) {
		t.Errorf("app has the volumes %q, want one without a name at %s, so that each container has its own", app.Volumes, volume)
	}
	if got := only(t, stages(t)[2], "EXPOSE"); !slices.Equal(app.Expose, []string{got}) {
		t.Errorf("app exposes %q, the image %s", app.Expose, got)
	}
	settings, err := sampleApp(t, map[string]string{"HEADRACE_BROKERS": "b:1"}, "run", "--print-config")
	if err != nil {
		t.Fatal(err, settings)
	}
	drain := regexp.MustCompile(`(?m)^drain-timeout: (\S+)`).FindStringSubmatch(settings)
	if drain == nil {
		t.Fatalf("there is no drain-timeout in\n%s", settings)
	}
	limit, err := time.ParseDuration(drain[1])
	if err != nil {
		t.Fatal(err)
	}
	if grace, err := time.ParseDuration(app.StopGracePeriod); err != nil || grace <= limit {
		t.Errorf("app is killed after %s (%v), and may take %v to stop", app.StopGracePeriod, err, limit)
	}
	if app.Restart != "on-failure" {
		t.Errorf("app restarts %q: want on-failure, so that it stays stopped when it was told to", app.Restart)
	}
	for _, name := range []string{"app", "feeder", "verify"} {
		s := c.Services[name]
		if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s may write, has capabilities, or may get new ones: %+v", name, s)
		}
		if s.Image != app.Image || s.Build == nil {
			t.Errorf("%s is another image than app, or is not built", name)
		}
	}
}

func TestComposeFitsTogether(t *testing.T) {
	t.Parallel()
	c := compose(t)
	host := map[string]string{}
	for name, s := range c.Services {
		for on, d := range s.DependsOn {
			to, ok := c.Services[on]
			switch {
			case !ok:
				t.Errorf("%s depends on %s, which does not exist", name, on)
			case d.Condition == "service_healthy" && (to.Healthcheck == nil || len(to.Healthcheck.Test) == 0):
				t.Errorf("%s waits for %s to be healthy, which has no health check", name, on)
			case d.Condition == "":
				t.Errorf("%s depends on %s without a condition", name, on)
			}
		}
		for _, p := range s.Ports {
			m := regexp.MustCompile(`^127\.0\.0\.1:(\d+):\d+$`).FindStringSubmatch(p)
			if m == nil {
				t.Errorf("%s: port %s can be reached from elsewhere", name, p)
				continue
			}
			if other := host[m[1]]; other != "" {
				t.Errorf("%s and %s both want port %s", name, other, m[1])
			}
			host[m[1]] = name
		}
		for _, v := range s.Volumes {
			from, _, named := strings.Cut(v, ":")
			if !named {
				continue
			}
			if _, ok := c.Volumes[from]; ok {
				continue
			}
			if _, err := os.Stat(filepath.Join("..", "..", from)); err != nil || !strings.HasSuffix(v, ":ro") {
				t.Errorf("%s: %s is neither a volume nor a file of ours to read (%v)", name, v, err)
			}
		}
	}
	broker := c.Services["redpanda"]
	if broker.Healthcheck == nil || !strings.Contains(strings.Join(broker.Healthcheck.Test, " "), "rpk cluster health") {
		t.Error("the broker has no health check by rpk cluster health")
	}
	if !slices.Contains(broker.Command, "--advertise-kafka-addr=internal://redpanda:9092,external://localhost:19092") || host["19092"] != "redpanda" {
		t.Errorf("the broker's addresses and ports do not fit: %q, %q", broker.Command, broker.Ports)
	}
	for name, conditions := range map[string]map[string]string{
		"topics": {"redpanda": "service_healthy"},
		"feeder": {"topics": "service_completed_successfully"},
		"app":    {"redpanda": "service_healthy", "topics": "service_completed_successfully", "feeder": "service_started"},
	} {
		for on, want := range conditions {
			if got := c.Services[name].DependsOn[on].Condition; got != want {
				t.Errorf("%s waits for %s to be %q, not %q", name, on, got, want)
			}
		}
	}
	if got := c.Services["console"].Profiles; !slices.Equal(got, []string{"console"}) {
		t.Errorf("console is in the profiles %q", got)
	}
}

// The program must take its environment: it refuses what it does not know.
func TestComposeSettings(t *testing.T) {
	t.Parallel()
	c := compose(t)
	for _, name := range []string{"app", "feeder", "verify"} {
		s := c.Services[name]
		env := environment(t)
		for k, v := range s.Environment {
			text, _ := v.(string)
			env[k] = c.fill(text)
		}
		out, err := sampleApp(t, env, append(slices.Clone(s.Command), "--print-config")...)
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		if !strings.Contains(out, "brokers: redpanda:9092 ") {
			t.Errorf("%s does not find the broker:\n%s", name, out)
		}
	}
}

// The topics that Compose makes must be those that the feeder wants, but for the one of the flights.
func TestComposeTopics(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds and runs the program")
	}
	c := compose(t)
	broker, err := devkafka.Start(devkafka.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	client, err := kgo.NewClient(kgo.SeedBrokers(broker.Addrs()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	adm := kadm.NewClient(client)
	ctx := t.Context()

	create := regexp.MustCompile(`^rpk topic create ([\w -]+?) --if-not-exists -p (\S+) -c (\S+)=(\S+) -X brokers=redpanda:9092$`)
	var made []string
	for line := range strings.Lines(c.Services["topics"].Command[0]) {
		m := create.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			t.Fatalf("not understood: %s", line)
		}
		partitions, err := strconv.Atoi(c.fill(m[2]))
		if err != nil {
			t.Fatal(err)
		}
		names := strings.Fields(m[1])
		if _, err := adm.CreateTopics(ctx, int32(partitions), 1, map[string]*string{m[3]: &m[4]}, names...); err != nil {
			t.Fatal(err)
		}
		made = append(made, names...)
	}
	out, err := sampleApp(t, map[string]string{
		"HEADRACE_BROKERS": strings.Join(broker.Addrs(), ","), "HEADRACE_FEED_PARTITIONS": c.values["PARTITIONS"], "HEADRACE_FEED_RECORDS": "100",
	}, "feed")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var fed []string
	for _, m := range regexp.MustCompile(`(?m)^made topic (\S+)`).FindAllStringSubmatch(out, -1) {
		fed = append(fed, m[1])
	}
	if !slices.Equal(fed, []string{"flights"}) {
		t.Errorf("the feeder had to make the topics %q, want flights alone", fed)
	}
	topics, err := adm.ListTopics(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for name, d := range topics {
		if got := strconv.Itoa(len(d.Partitions)); got != c.values["PARTITIONS"] {
			t.Errorf("topic %s has %s partitions", name, got)
		}
	}
	want := append(fed, made...)
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(topics)); !slices.Equal(got, want) {
		t.Errorf("there are the topics %q, and wanted are %q", got, want)
	}
}

func TestComposeMonitoring(t *testing.T) {
	t.Parallel()
	c := compose(t)
	var prometheus struct {
		RuleFiles     []string `json:"rule_files"`
		ScrapeConfigs []struct {
			JobName      string `json:"job_name"`
			DNSSDConfigs []struct {
				Names []string
				Type  string
				Port  int
			} `json:"dns_sd_configs"`
		} `json:"scrape_configs"`
	}
	decode(t, "deploy/prometheus.yml", &prometheus)
	found := false
	for _, s := range prometheus.ScrapeConfigs {
		if s.JobName != "headrace" {
			continue
		}
		found = true
		if len(s.DNSSDConfigs) != 1 || !slices.Equal(s.DNSSDConfigs[0].Names, []string{"app"}) || s.DNSSDConfigs[0].Type != "A" {
			t.Fatalf("the app's containers are not looked up by the name app: %+v", s)
		}
		if got, want := strconv.Itoa(s.DNSSDConfigs[0].Port), only(t, stages(t)[2], "EXPOSE"); got != want {
			t.Errorf("Prometheus asks port %s, and the image has %s", got, want)
		}
	}
	if !found || !strings.Contains(read(t, "deploy/alerts.yml"), `up{job="headrace"}`) {
		t.Error("there is no job headrace, or no alert on it")
	}
	mounts := func(service string) map[string]string {
		at := map[string]string{}
		for _, v := range c.Services[service].Volumes {
			if parts := strings.Split(v, ":"); len(parts) == 3 {
				at[parts[0]] = parts[1]
			}
		}
		return at
	}
	p := mounts("prometheus")
	if config := "--config.file=" + p["./deploy/prometheus.yml"]; !slices.Contains(c.Services["prometheus"].Command, config) {
		t.Errorf("Prometheus is not told %s", config)
	}
	for _, f := range prometheus.RuleFiles {
		if at := p["./deploy/"+f]; at != filepath.Join(filepath.Dir(p["./deploy/prometheus.yml"]), f) {
			t.Errorf("rules %s are mounted at %q", f, at)
		}
	}

	var source struct {
		Datasources []struct{ UID, Type, URL string }
	}
	decode(t, "deploy/grafana/provisioning/datasources/prometheus.yml", &source)
	if len(source.Datasources) != 1 || source.Datasources[0].URL != "http://prometheus:9090" || source.Datasources[0].Type != "prometheus" {
		t.Errorf("Grafana's data source is %+v", source)
	}
	var dashboards struct {
		Providers []struct {
			Type    string
			Options struct{ Path string }
		}
	}
	decode(t, "deploy/grafana/provisioning/dashboards/headrace.yml", &dashboards)
	g := mounts("grafana")
	at := cmp.Or(g["./deploy/grafana/dashboards"], "nowhere")
	if len(dashboards.Providers) != 1 || dashboards.Providers[0].Options.Path != at {
		t.Errorf("Grafana looks for dashboards in %+v, and they are mounted at %s", dashboards, at)
	}
	if home := c.Services["grafana"].Environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]; home != at+"/headrace.json" {
		t.Errorf("Grafana's home is %s", home)
	}
	if g["./deploy/grafana/provisioning"] != "/etc/grafana/provisioning" {
		t.Errorf("Grafana's provisioning is mounted at %q", g["./deploy/grafana/provisioning"])
	}
}

// Compose itself, where it is there, says whether the file is good, with all profiles.
func TestComposeConfig(t *testing.T) {
	t.Parallel()
	command := []string{"docker-compose"}
	if exec.Command("docker", "compose", "version").Run() == nil {
		command = []string{"docker", "compose"}
	} else if _, err := exec.LookPath(command[0]); err != nil {
		t.Skip("neither docker compose nor docker-compose is there")
	}
	args := append(command[1:], "--profile", "console", "--profile", "verify", "config", "--quiet")
	cmd := exec.Command(command[0], args...)
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s %s: %v\n%s", command[0], strings.Join(args, " "), err, out)
	}
}
