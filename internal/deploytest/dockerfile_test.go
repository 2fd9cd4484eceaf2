package deploytest

import (
	"bufio"
	"encoding/json"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// An instruction of a Dockerfile, with its lines joined.
type instruction struct{ name, args string }

// stages are the instructions of each stage, those before the first FROM at the front.
func stages(t *testing.T) [][]instruction {
	t.Helper()
	out := [][]instruction{nil}
	whole := ""
	lines := bufio.NewScanner(strings.NewReader(read(t, "Dockerfile")))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		whole += strings.TrimSuffix(line, `\`)
		if strings.HasSuffix(line, `\`) {
			continue
		}
		name, args, _ := strings.Cut(whole, " ")
		if whole = ""; name == "FROM" {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], instruction{name, strings.TrimSpace(args)})
	}
	if len(out) != 3 {
		t.Fatalf("the Dockerfile has %d stages, want one to build and one that is left", len(out)-1)
	}
	return out
}

// only is the arguments of the one instruction of that name.
func only(t *testing.T, stage []instruction, name string) string {
	t.Helper()
	found := all(stage, name)
	if len(found) != 1 {
		t.Fatalf("the stage has %d times %s, want one", len(found), name)
	}
	return found[0]
}

func all(stage []instruction, name string) (args []string) {
	for _, i := range stage {
		if i.name == name {
			args = append(args, i.args)
		}
	}
	return args
}

// environment is what the image sets.
func environment(t *testing.T) map[string]string {
	t.Helper()
	env := map[string]string{}
	for _, args := range all(stages(t)[2], "ENV") {
		for _, kv := range strings.Fields(args) {
			k, v, _ := strings.Cut(kv, "=")
			env[k] = v
		}
	}
	return env
}

// exec is an argument in exec form.
func execForm(t *testing.T, args string) (words []string) {
	t.Helper()
	if err := json.Unmarshal([]byte(args), &words); err != nil {
		t.Errorf("%s is not in exec form, and there is no shell to run it: %v", args, err)
	}
	return words
}

var pinned = regexp.MustCompile(`:(v?\d+\.\d+\.\d+(-[\w.]+)?|nonroot|\d[\w.-]*@sha256:[0-9a-f]{64})$`)

func TestDockerfile(t *testing.T) {
	t.Parallel()
	if strings.Contains(read(t, "Dockerfile"), "# syntax=") {
		t.Error("a syntax line needs a registry, where none may be reached")
	}
	s := stages(t)
	defaults := map[string]string{}
	for _, arg := range all(s[0], "ARG") {
		name, image, _ := strings.Cut(arg, "=")
		defaults["${"+name+"}"] = image
	}
	for _, stage := range s[1:] {
		from := strings.Fields(regexp.MustCompile(`^--platform=\S+ `).ReplaceAllString(only(t, stage, "FROM"), ""))[0]
		if image := defaults[from]; !pinned.MatchString(image) {
			t.Errorf("FROM %s: want an argument whose default is pinned, not %q", from, image)
		}
	}
	goVersion := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, "go.mod"))[1]
	if image := defaults["${BUILD_IMAGE}"]; !strings.HasPrefix(image, "golang:"+goVersion+".") {
		t.Errorf("it is built with %s, and go.mod says %s", image, goVersion)
	}
	builds := strings.Join(all(s[1], "RUN"), "\n")
	for _, want := range []string{"CGO_ENABLED=0", "-trimpath", "-s -w", "-o /out/app ./cmd/sample-app"} {
		if !strings.Contains(builds, want) {
			t.Errorf("the build does not say %s", want)
		}
	}
	for _, m := range regexp.MustCompile(`-X main\.(\w+)=`).FindAllStringSubmatch(builds, -1) {
		sources, err := filepath.Glob("../../cmd/sample-app/*.go")
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(sources, func(f string) bool {
			return regexp.MustCompile(`(?m)^(var )?\s*` + m[1] + `(\s+string)?\s*=?`).MatchString(read(t, filepath.Join("cmd/sample-app", filepath.Base(f))))
		}) {
			t.Errorf("the build sets main.%s, which the program has not", m[1])
		}
	}

	final := s[2]
	if runs := all(final, "RUN"); len(runs) > 0 {
		t.Errorf("RUN %q needs a shell in the final image", runs)
	}
	user := only(t, final, "USER")
	if user != "65532:65532" {
		t.Errorf("USER is %s", user)
	}
	if got := execForm(t, only(t, final, "ENTRYPOINT")); !slices.Equal(got, []string{"/app"}) {
		t.Errorf("ENTRYPOINT is %q", got)
	}
	commands := subcommands(t)
	if got := execForm(t, only(t, final, "CMD")); len(got) != 1 || !slices.Contains(commands, got[0]) {
		t.Errorf("CMD %q is none of the program's commands %q", got, commands)
	}
	_, health, _ := strings.Cut(only(t, final, "HEALTHCHECK"), "CMD ")
	if got := execForm(t, health); len(got) != 2 || got[0] != "/app" || !slices.Contains(commands, got[1]) {
		t.Errorf("HEALTHCHECK %q is none of the program's commands %q", got, commands)
	}
	volume := execForm(t, only(t, final, "VOLUME"))[0]
	env := environment(t)
	if dir := env["HEADRACE_STATE_DIR"]; env["HEADRACE_STATE"] != "pebble" || path.Dir(dir) != volume {
		t.Errorf("state is kept in %s of %q, want it below the volume %s", env["HEADRACE_STATE"], dir, volume)
	}
	if !slices.ContainsFunc(all(final, "COPY"), func(c string) bool {
		return strings.Contains(c, "--chown="+user) && strings.HasSuffix(c, " "+volume)
	}) {
		t.Errorf("%s does not belong to the user", volume)
	}
	if got := only(t, final, "EXPOSE"); ":"+got != env["HEADRACE_HTTP_ADDR"] {
		t.Errorf("EXPOSE %s, and the address is %s", got, env["HEADRACE_HTTP_ADDR"])
	}
	labels := strings.Join(all(final, "LABEL"), " ")
	for _, l := range []string{"title", "description", "source", "licenses", "version", "revision"} {
		if !strings.Contains(labels, "org.opencontainers.image."+l+"=") {
			t.Errorf("there is no label %s", l)
		}
	}
}

// Everything that the program is built from must be in the build's context.
func TestDockerignore(t *testing.T) {
	t.Parallel()
	list := exec.Command("go", "list", "-deps", "-f",
		`{{if and .Module .Module.Main}}{{$d := .Dir}}{{range .GoFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}{{range .EmbedFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}{{end}}`,
		"./cmd/sample-app")
	list.Dir = filepath.Join("..", "..")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs(list.Dir)
	if err != nil {
		t.Fatal(err)
	}
	var patterns []string
	for line := range strings.Lines(read(t, ".dockerignore")) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			patterns = append(patterns, line)
		}
	}
	ignored := func(file string) string {
		for ; file != "."; file = path.Dir(file) {
			for _, p := range patterns {
				name, anywhere := strings.CutPrefix(p, "**/")
				of := file
				if anywhere {
					of = path.Base(file)
				}
				if ok, _ := path.Match(name, of); ok {
					return p
				}
			}
		}
		return ""
	}
	files := append(strings.Fields(string(out)), filepath.Join(root, "go.mod"), filepath.Join(root, "go.sum"))
	for _, f := range files {
		rel, err := filepath.Rel(root, f)
		if err != nil {
			t.Fatal(err)
		}
		if p := ignored(filepath.ToSlash(rel)); p != "" {
			t.Errorf("%s is needed to build, and left out by %s", rel, p)
		}
	}
	if len(files) < 50 {
		t.Errorf("the program is built from %d files only", len(files))
	}
	for _, f := range []string{".git/HEAD", ".env", "deploy/alerts.yml", "framework/app_test.go", "window/testdata/x"} {
		if ignored(f) == "" {
			t.Errorf("%s is sent to the build, which has no use for it", f)
		}
	}
}
