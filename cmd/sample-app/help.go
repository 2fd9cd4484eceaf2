package main

import (
	"fmt"
	"io"
	"strings"
)

// Exit codes.
const (
	exitOK       = 0
	exitFail     = 1 // it did not work, or what came out is not right
	exitUsage    = 2 // it was not told properly what to do
	exitForced   = 3 // a second signal
	exitNotTidy  = 4 // draining took too long
	exitCodeHelp = `Exit codes:
  0  done; stopped by SIGTERM or SIGINT after everything in progress was finished
  1  failed, interrupted before the end, or what was verified is not right
  2  wrong usage or configuration
  3  ended at once by a second signal
  4  what was in progress did not finish within drain-timeout
After 3 and 4 whatever was not committed is processed again, by the next start or by other processes.
`
)

// showHelp writes the help of a command, its flags from the table of settings.
func showHelp(out io.Writer, command commands, name string) {
	about := ""
	for _, c := range all() {
		if "sample-app "+c.name == name {
			about = c.about
		}
	}
	fmt.Fprintf(out, "%s: %s\n\nusage: %s [flags]\n\n", name, about, name)
	fmt.Fprintf(out, "A file (YAML) gives way to environment variables, and these to flags. A key that is not known is an error.\n\n")
	fmt.Fprintf(out, "  --config FILE\n        read settings from FILE; also %s\n", configEnv)
	fmt.Fprintf(out, "  --print-config\n        write what is in effect, and where from, and end\n")
	for i := range settings {
		s := &settings[i]
		if s.in&command == 0 {
			continue
		}
		arg := " VALUE"
		if s.bool {
			arg = ""
		}
		fmt.Fprintf(out, "  --%s%s\n        %s\n", s.flag(), arg, s.doc)
		from := fmt.Sprintf("file %s, environment %s", s.key, s.env())
		if s.initial != "" {
			from += ", default " + s.initial
		}
		fmt.Fprintf(out, "        %s\n", from)
	}
	fmt.Fprintf(out, "\n%s", exitCodeHelp)
}

// settingsTable writes all settings as a table for documentation.
func settingsTable(out io.Writer) {
	fmt.Fprintln(out, "| key in the file | environment | flag | of | default | Kafka's name | what it is |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|---|")
	code := func(s string) string {
		if s == "" {
			return "–"
		}
		return "`" + s + "`"
	}
	for i := range settings {
		s := &settings[i]
		var of []string
		for _, c := range all() {
			if c.settings&s.in != 0 {
				of = append(of, c.name)
			}
		}
		fmt.Fprintf(out, "| %s | %s | %s | %s | %s | %s | %s |\n",
			code(s.key), code(s.env()), code("--"+s.flag()), strings.Join(of, ", "), code(s.initial), code(s.kafka), s.doc)
	}
}
