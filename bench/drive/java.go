package drive

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// MissingTool is an error that says which program has to be installed.
type MissingTool struct{ Tool, What string }

func (e *MissingTool) Error() string {
	return fmt.Sprintf("%s is missing: install %s and put it into the PATH", e.Tool, e.What)
}

// copyPlugin is pinned, since what Maven takes by default changes with its version.
const copyPlugin = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"

// Java is the peer in Java, built.
type Java struct {
	java    string
	home    string
	Version string // of Java
	Streams string // of Kafka Streams
}

// BuildJava builds the Maven project in sources, unless it has been built before on this machine: into the user's cache directory,
// under name and what follows from the sources. It tells where that is.
func BuildJava(name string, sources embed.FS, say func(string, ...any)) (*Java, error) {
	java, err := exec.LookPath("java")
	if err != nil {
		return nil, &MissingTool{"java", "a JDK 17 or newer"}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, fmt.Errorf("drive: find the cache directory for the Java peer: %w", err)
	}
	sum := sha256.New()
	var files []string
	err = fs.WalkDir(sources, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(sources, path)
		fmt.Fprintf(sum, "%s %d\n%s", path, len(text), text)
		files = append(files, path)
		return err
	})
	if err != nil {
		return nil, err
	}
	j := &Java{java: java, home: filepath.Join(cache, "headrace", name+"-"+hex.EncodeToString(sum.Sum(nil))[:12])}
	if _, err := os.Stat(j.home); errors.Is(err, fs.ErrNotExist) {
		say("building the Java peer into %s", j.home)
		if err := j.build(sources, files); err != nil {
			return nil, err
		}
	}
	return j, j.versions()
}

// build fills home, wholly or not at all.
func (j *Java) build(sources embed.FS, files []string) error {
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return &MissingTool{"mvn", "Apache Maven"}
	}
	javac, err := exec.LookPath("javac")
	if err != nil {
		return &MissingTool{"javac", "a JDK 17 or newer, not only its runtime,"}
	}
	if err := os.MkdirAll(filepath.Dir(j.home), 0o755); err != nil {
		return fmt.Errorf("drive: build the Java peer: %w", err)
	}
	dir, err := os.MkdirTemp(filepath.Dir(j.home), "build-")
	if err != nil {
		return fmt.Errorf("drive: build the Java peer: %w", err)
	}
	defer os.RemoveAll(dir) // gone already, if all went well
	if err := os.CopyFS(dir, sources); err != nil {
		return fmt.Errorf("drive: build the Java peer: %w", err)
	}
	var classes []string
	project := dir
	for _, f := range files {
		switch filepath.Ext(f) {
		case ".xml":
			project = filepath.Join(dir, filepath.Dir(f))
		case ".java":
			classes = append(classes, filepath.Join(dir, f))
		}
	}
	// Only what has to come from elsewhere is Maven's: its own compiler and packager are plugins that would have to be fetched, too.
	lib := filepath.Join(dir, "lib")
	fetch := exec.Command(mvn, "--batch-mode", "--no-transfer-progress", "-f", filepath.Join(project, "pom.xml"), copyPlugin, "-DincludeScope=runtime", "-DoutputDirectory="+lib)
	if out, err := fetch.CombinedOutput(); err != nil {
		return fmt.Errorf("drive: fetch Kafka Streams with %s: %w; it needs Maven's central repository or a mirror of it in Maven's settings\n%s", mvn, err, tail(out))
	}
	compile := exec.Command(javac, append([]string{"--release", "17", "-cp", filepath.Join(lib, "*"), "-d", filepath.Join(dir, "classes")}, classes...)...)
	if out, err := compile.CombinedOutput(); err != nil {
		return fmt.Errorf("drive: compile the Java peer: %w\n%s", err, tail(out))
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return fmt.Errorf("drive: build the Java peer: %w", err)
	}
	if err := os.Rename(dir, j.home); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("drive: build the Java peer: %w", err)
	}
	return nil
}

var javaVersion = regexp.MustCompile(`version "([^"]+)"`)

func (j *Java) versions() error {
	out, err := exec.Command(j.java, "-version").CombinedOutput()
	if err != nil {
		return fmt.Errorf("drive: ask %s for its version: %w\n%s", j.java, err, tail(out))
	}
	if m := javaVersion.FindSubmatch(out); m != nil {
		j.Version = string(m[1])
	}
	jars, err := filepath.Glob(filepath.Join(j.home, "lib", "kafka-streams-[0-9]*.jar"))
	if err != nil || len(jars) != 1 {
		return fmt.Errorf("drive: %s has no Kafka Streams in it; remove it", j.home)
	}
	j.Streams = strings.TrimSuffix(strings.TrimPrefix(filepath.Base(jars[0]), "kafka-streams-"), ".jar")
	return nil
}

// Command runs a class of the peer.
func (j *Java) Command(heapMB int, class string, args ...string) *exec.Cmd {
	return exec.Command(j.java, append([]string{
		fmt.Sprintf("-Xmx%dm", heapMB), "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-cp", filepath.Join(j.home, "classes") + string(os.PathListSeparator) + filepath.Join(j.home, "lib", "*"), class,
	}, args...)...)
}

// tail returns the last lines of a log.
func tail(out []byte) string {
	const most = 25
	lines := strings.Split(string(bytes.TrimSpace(out)), "\n")
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}
