package devkafka

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	kafkaVersion = "4.3.1"
	// copyPlugin is pinned, since what Maven takes by default changes with its version.
	copyPlugin = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
)

// pom asks Maven for Kafka, and for a logger that writes to the standard error: Kafka's own brings none.
const pom = `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>devkafka</groupId>
  <artifactId>devkafka</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>` + kafkaVersion + `</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId>
      <artifactId>slf4j-simple</artifactId>
      <version>1.7.36</version>
    </dependency>
  </dependencies>
</project>
`

// program is Kafka as it is installed, and how to run it.
type program struct {
	java   string
	home   string // has lib with all jars
	heapMB int
	record string // where to make an archive of classes, if anywhere
}

// archive has the classes as Java has them in memory: with it, Kafka starts in a third of the time. Java leaves one alone that does
// not fit.
func (p *program) archive() string { return filepath.Join(p.home, "classes.jsa") }

// command runs a class of Kafka's. The options favour a quick start over peak speed.
func (p *program) command(class string, args ...string) *exec.Cmd {
	jars, _ := filepath.Glob(filepath.Join(p.home, "lib", "*.jar")) // the pattern is ours; sorted, as the archive needs it
	heap := p.heapMB
	if heap == 0 {
		heap = 512
	}
	options := []string{
		"-Xmx" + strconv.Itoa(heap) + "m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-Djava.awt.headless=true", "-Dorg.slf4j.simpleLogger.showDateTime=true", "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
		"-cp", strings.Join(jars, string(os.PathListSeparator)),
	}
	switch {
	case p.record != "":
		options = append(options, "-XX:ArchiveClassesAtExit="+p.record)
	case exists(p.archive()):
		options = append(options, "-XX:SharedArchiveFile="+p.archive())
	}
	return exec.Command(p.java, slices.Concat(options, []string{class}, args)...)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func lookJava(name string) (string, error) {
	if name == "" {
		name = "java"
	}
	java, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("devkafka: StartKafka needs java: install a JDK 17 or newer and put it into the PATH, or name it in KafkaConfig.Java: %w", err)
	}
	return java, nil
}

// install returns the directory that has Kafka, after fetching it if need be.
func install(java string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("devkafka: find the cache directory that keeps Kafka: %w", err)
	}
	home := filepath.Join(cache, "headrace", "kafka-"+kafkaVersion)
	ready := filepath.Join(home, "ready")
	if exists(ready) {
		return home, nil
	}
	if err := os.MkdirAll(filepath.Dir(home), 0o755); err != nil {
		return "", fmt.Errorf("devkafka: make the cache directory that keeps Kafka: %w", err)
	}
	guard, err := os.OpenFile(home+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", fmt.Errorf("devkafka: fetch Kafka: %w", err)
	}
	defer guard.Close()
	if err := lock(guard); err != nil {
		return "", fmt.Errorf("devkafka: wait for another process to fetch Kafka (%s): %w", guard.Name(), err)
	}
	if exists(ready) { // the other process has done it
		return home, nil
	}
	if !exists(home) { // otherwise whoever fetched it was ended before the rest was done
		if err := fetch(home); err != nil {
			return "", err
		}
	}
	prepare(program{java: java, home: home})
	if err := os.WriteFile(ready, nil, 0o644); err != nil {
		return "", fmt.Errorf("devkafka: fetch Kafka: %w", err)
	}
	return home, nil
}

// fetch fills home, wholly or not at all.
func fetch(home string) error {
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return fmt.Errorf("devkafka: the first StartKafka on a machine needs mvn to fetch Kafka into %s: install Apache Maven and put it into the PATH: %w", home, err)
	}
	dir, err := os.MkdirTemp(filepath.Dir(home), "fetch-")
	if err != nil {
		return fmt.Errorf("devkafka: fetch Kafka: %w", err)
	}
	defer os.RemoveAll(dir) // gone already, if all went well
	if err := os.WriteFile(filepath.Join(dir, "pom.xml"), []byte(pom), 0o644); err != nil {
		return fmt.Errorf("devkafka: fetch Kafka: %w", err)
	}
	cmd := exec.Command(mvn, "--batch-mode", "--no-transfer-progress", copyPlugin, "-DincludeScope=runtime", "-DoutputDirectory="+filepath.Join(dir, "lib"))
	cmd.Dir = dir
	if out, err := run(cmd); err != nil {
		return fmt.Errorf("devkafka: fetch Kafka %s with %s: %w; it needs Maven's central repository or a mirror of it in Maven's settings\n%s", kafkaVersion, mvn, err, tail(out))
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return fmt.Errorf("devkafka: fetch Kafka: %w", err)
	}
	// Whoever has no lock may have been faster.
	if err := os.Rename(dir, home); err != nil && !(errors.Is(err, fs.ErrExist) || exists(home)) {
		return fmt.Errorf("devkafka: fetch Kafka: %w", err)
	}
	return nil
}

// prepare starts Kafka once to make the archive of its classes. Without one everything works, only slower.
func prepare(p program) {
	p.record = p.archive() + ".new"
	k, err := (&KafkaConfig{Topics: map[string]int32{"prepared": 1}}).start(p)
	if err != nil {
		return
	}
	defer k.Close()
	if k.proc.stop(startTimeout) { // Java writes it at its end; nobody sees it before it is whole
		_ = os.Rename(p.record, p.archive())
	}
}
