package drive

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
)

// Machine describes what the bench runs on, for people.
func Machine() string {
	model, memory := "unknown processor", "unknown memory"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
				if kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64); err == nil {
					memory = fmt.Sprintf("%.1f GiB of memory", kib/(1<<20))
				}
			}
		}
	}
	return fmt.Sprintf("%d cores of %s, %s, %s/%s", runtime.NumCPU(), model, memory, runtime.GOOS, runtime.GOARCH)
}

// Load returns the load average of the last minute, -1 if it is not known.
func Load() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return -1
	}
	load, err := strconv.ParseFloat(strings.Fields(string(text))[0], 64)
	if err != nil {
		return -1
	}
	return load
}

// Module returns the version of a module that this program was built with.
func Module(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if d.Path == path {
				return d.Version
			}
		}
	}
	return "unknown"
}

// Commit returns the commit of the checkout in the working directory.
func Commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
