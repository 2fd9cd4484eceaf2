package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/rawbytes"
	"github.com/knadh/koanf/v2"
)

const configEnv = envPrefix + "CONFIG"

// A layer is one of the places that settings come from, and what each of them is called there.
type layer struct {
	name   string
	k      *koanf.Koanf
	called func(*setting) string
}

// given is everything that was configured: defaults, file, environment, flags, each over the ones before.
type given struct {
	all    *koanf.Koanf
	layers []layer
	print  bool // --print-config
}

// source says where a setting was set last.
func (g *given) source(s *setting) string {
	for _, l := range slices.Backward(g.layers) {
		if l.k.Exists(s.key) {
			return cmp.Or(strings.TrimSpace(l.name+" "+l.called(s)), l.name)
		}
	}
	return "default"
}

// value is how a setting was written.
func (g *given) value(s *setting) (string, error) {
	switch v := g.all.Get(s.key).(type) {
	case nil:
		if g.all.Exists(s.key) {
			return "", errors.New("it has no value")
		}
		return "", nil
	case []any:
		var words []string
		for _, e := range v {
			words = append(words, fmt.Sprint(e))
		}
		return strings.Join(words, ","), nil
	case map[string]any:
		return "", errors.New("it has no settings below it")
	default:
		return fmt.Sprint(v), nil
	}
}

// configure reads the settings of a command. With --help or --print-config it writes what was asked for, and the error is flag.ErrHelp.
func configure(command commands, name string, p process) (*config, error) {
	g, err := gather(command, name, p)
	if err != nil {
		return nil, err
	}
	c, err := g.config(command)
	if g.print {
		if printErr := g.show(p.stdout); printErr != nil {
			return nil, printErr
		}
		return nil, cmp.Or(err, flag.ErrHelp)
	}
	return c, err
}

// gather reads the layers and refuses what nobody knows. Nothing is parsed yet.
func gather(command commands, name string, p process) (*given, error) {
	g := &given{}
	flags, file, err := readFlags(command, name, p, g)
	if err != nil {
		return nil, err
	}
	initial := map[string]any{}
	for i := range settings {
		initial[settings[i].key] = settings[i].initial
	}
	var mistakes []error
	add := func(name string, provider koanf.Provider, parser koanf.Parser, called func(*setting) string) error {
		k := koanf.New(".")
		if err := k.Load(provider, parser); err != nil {
			return err
		}
		// A key may also be written with its dots.
		flat := koanf.New(".")
		if err := flat.Load(confmap.Provider(k.All(), "."), nil); err != nil {
			return err
		}
		g.layers = append(g.layers, layer{name, flat, called})
		return nil
	}
	if err := add("default", confmap.Provider(initial, "."), nil, func(*setting) string { return "" }); err != nil {
		return nil, err
	}
	environment, unknown := environ(p.environ)
	for _, name := range unknown {
		mistakes = append(mistakes, fmt.Errorf("environment variable %s is not known%s", name, hint(name, envNames(), nil)))
	}
	if file == "" {
		file = environment[configEnv]
	}
	if file != "" {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("configuration file: %w", err)
		}
		if err := add("file "+file, rawbytes.Provider(raw), yaml.Parser(), func(*setting) string { return "" }); err != nil {
			return nil, fmt.Errorf("configuration file %s: not read: %w", file, err)
		}
		mistakes = append(mistakes, unknownKeys(file, g.layers[len(g.layers)-1].k)...)
	}
	if err := add("environment", env.Provider(".", env.Opt{
		Prefix:      envPrefix,
		EnvironFunc: func() []string { return p.environ },
		TransformFunc: func(name, value string) (string, any) {
			for i := range settings {
				if settings[i].env() == name {
					return settings[i].key, value
				}
			}
			return "", nil
		},
	}), nil, (*setting).env); err != nil {
		return nil, err
	}
	if err := add("flag", confmap.Provider(flags, "."), nil, func(s *setting) string { return "--" + s.flag() }); err != nil {
		return nil, err
	}
	g.all = koanf.New(".")
	for _, l := range g.layers {
		if err := g.all.Merge(l.k); err != nil {
			return nil, err
		}
	}
	return g, errors.Join(mistakes...)
}

// readFlags parses the arguments. Which settings are flags of the command is in the table.
func readFlags(command commands, name string, p process, g *given) (flags map[string]any, file string, err error) {
	flags = map[string]any{}
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	known := []string{"--config", "--print-config"}
	fs.StringVar(&file, "config", "", "")
	fs.BoolVar(&g.print, "print-config", false, "")
	for i := range settings {
		s := &settings[i]
		if s.in&command == 0 {
			continue
		}
		known = append(known, "--"+s.flag())
		keep := func(v string) error {
			flags[s.key] = v
			return nil
		}
		if s.bool {
			fs.BoolFunc(s.flag(), "", keep)
		} else {
			fs.Func(s.flag(), "", keep)
		}
	}
	err = fs.Parse(p.args)
	if errors.Is(err, flag.ErrHelp) {
		showHelp(p.stdout, command, name)
		return nil, "", err
	}
	if err != nil {
		if name, ok := strings.CutPrefix(err.Error(), "flag provided but not defined: -"); ok {
			return nil, "", fmt.Errorf("flag --%s is not known%s", strings.TrimPrefix(name, "-"), hint(name, known, nil))
		}
		return nil, "", err
	}
	if fs.NArg() > 0 {
		return nil, "", fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	return flags, file, nil
}

func envNames() []string {
	names := []string{configEnv}
	for i := range settings {
		names = append(names, settings[i].env())
	}
	return names
}

// serviceLink is how the variables end that Kubernetes gives every container for a service: one of the name headrace has our prefix.
var serviceLink = []string{"SERVICE_HOST", "SERVICE_PORT", "PORT"}

// environ returns the variables with our prefix, and the names of those that nobody knows.
func environ(all []string) (known map[string]string, unknown []string) {
	known = map[string]string{}
	names := envNames()
	for _, e := range all {
		name, value, _ := strings.Cut(e, "=")
		rest, ours := strings.CutPrefix(name, envPrefix)
		switch {
		case !ours:
		case slices.Contains(names, name):
			known[name] = value
		case slices.ContainsFunc(serviceLink, func(l string) bool { return rest == l || strings.HasPrefix(rest, l+"_") }):
		default:
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown)
	return known, unknown
}

func unknownKeys(file string, k *koanf.Koanf) (mistakes []error) {
	var names []string
	also := map[string]string{}
	for i := range settings {
		names = append(names, settings[i].key)
		if settings[i].kafka != "" {
			also[settings[i].kafka] = settings[i].key
		}
	}
	for _, key := range k.Keys() {
		if !slices.Contains(names, key) {
			mistakes = append(mistakes, fmt.Errorf("configuration file %s: key %s is not known%s", file, key, hint(key, names, also)))
		}
	}
	return mistakes
}

// config parses everything, since commands share files and environments, checks what the command uses, and returns all mistakes at once.
func (g *given) config(command commands) (*config, error) {
	c := &config{}
	var mistakes []error
	for i := range settings {
		s := &settings[i]
		v, err := g.value(s)
		if err == nil && (v != "" || s.initial == "") {
			err = s.set(c, v)
		} else if err == nil {
			err = errors.New("it has no value")
		}
		if err != nil {
			mistakes = append(mistakes, fmt.Errorf("%s (from %s): %w", s.key, g.source(s), err))
		}
	}
	if len(mistakes) > 0 {
		return nil, errors.Join(mistakes...)
	}
	if err := c.check(command); err != nil {
		return nil, err
	}
	return c, nil
}

// check finds what does not go together.
func (c *config) check(command commands) error {
	var mistakes []error
	mistake := func(format string, args ...any) { mistakes = append(mistakes, fmt.Errorf(format, args...)) }
	if command == inHealthcheck {
		return nil // it talks to no broker
	}
	if len(c.Brokers) == 0 {
		mistake("brokers: give at least one as host:port: --brokers, %s or brokers in the file", settingOf("brokers").env())
	}
	switch {
	case command&inRun == 0:
	case c.State == "pebble" && c.StateDir == "":
		mistake("state-dir: state pebble needs a directory that outlives the process")
	case c.State != "pebble" && c.StateDir != "":
		mistake("state-dir: state %s keeps nothing on disk; set state to pebble", c.State)
	}
	if command&inTimeline != 0 {
		if c.Timeline.Topic == "" {
			mistake("timeline.topic: say which topic to draw: --topic, %s or timeline.topic in the file", settingOf("timeline.topic").env())
		}
		if err := c.Timeline.windows().Validate(); err != nil {
			mistake("timeline: %w", err)
		}
	}
	if !c.TLS.Enabled && (c.TLS.CAFile != "" || c.TLS.ServerName != "" || c.TLS.CertFile != "" || c.TLS.KeyFile != "") {
		mistake("tls.enabled is not true, but other settings of tls are given; set it, or leave them out")
	}
	if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") {
		mistake("tls.cert-file and tls.key-file belong together: give both, or neither")
	}
	m := c.SASL.Mechanism
	bearer := m == oauthBearer
	needs := func(key, value string, when bool) {
		switch {
		case when && value == "":
			mistake("%s: sasl.mechanism %s needs it", key, m)
		case !when && value != "" && m == "":
			mistake("%s is given, but no sasl.mechanism: give one of %s", key, strings.Join(mechanisms, ", "))
		case !when && value != "":
			mistake("%s: sasl.mechanism %s has no use for it", key, m)
		}
	}
	needs("sasl.username", c.SASL.Username, m != "" && !bearer)
	needs("sasl.password-file", c.SASL.PasswordFile, m != "" && !bearer)
	needs("sasl.token-file", c.SASL.TokenFile, bearer)
	if (bearer || m == saslPlain) && !c.TLS.Enabled && !c.SASL.AllowPlaintext {
		mistake("sasl.mechanism %s without tls.enabled sends the secret in the clear: enable TLS, or set sasl.allow-plaintext where the network is your own", m)
	}
	return errors.Join(mistakes...)
}

// redacted is a value as it may be shown.
func (s *setting) redacted(v string) string {
	if s.secret && v != "" {
		if st, err := os.Stat(v); err != nil || !st.Mode().IsRegular() {
			return "[redacted: not the name of a file]"
		}
	}
	if s.key == "brokers" && brokers(&config{}, v) != nil {
		return "[redacted: not written as host:port]"
	}
	return v
}

// show writes the effective configuration as a file that can be used, with the source of each setting.
func (g *given) show(out io.Writer) error {
	for i := range settings {
		s := &settings[i]
		v, err := g.value(s)
		if err != nil {
			v = "" // config has said so
		}
		if _, err := fmt.Fprintf(out, "%-40s # %s\n", s.key+": "+yamlText(s.redacted(v)), g.source(s)); err != nil {
			return err
		}
	}
	return nil
}

// yamlText quotes what YAML would take for something else.
func yamlText(v string) string {
	if v == "" || strings.ContainsAny(v, " #'\"{}[]&*!|>%@`\n\t") || strings.HasPrefix(v, "-") && len(v) < 2 {
		return fmt.Sprintf("%q", v)
	}
	return v
}
