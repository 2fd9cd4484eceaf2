package archtest

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// A ban forbids something in files that are not tests. Either it holds only in
// some rooms, and then their rows name it, or everywhere but in some rooms.
type ban struct {
	name    string
	in      []string // holds only here, ...
	but     []string // ... or, if in is empty, everywhere but here
	find    func(*file) []finding
	because string
	instead string
}

type finding struct {
	pos  token.Pos
	what string
}

func (b ban) holds(pkg string) bool {
	if len(b.in) > 0 {
		return under(pkg, b.in...)
	}
	return !under(pkg, b.but...)
}

func (b ban) apply(f *file) []violation {
	var found []violation
	for _, x := range b.find(f) {
		found = append(found, f.violation(b.name, x.pos, "%s in %s: %s; %s", x.what, f.pkg, b.because, b.instead))
	}
	return found
}

// roomBans returns the bans that the row of pkg has to name, in the order below.
func roomBans(pkg string) []string {
	var in []string
	for _, b := range bans {
		if len(b.in) > 0 && b.holds(pkg) {
			in = append(in, b.name)
		}
	}
	return in
}

// live are the rooms that run: they may look at the clock and start goroutines,
// each with an owner that waits for it.
var live = []string{
	"framework", "state/pebblestore", "ops", "devkafka", "internal/restore", "internal/kafkatest", "internal/wiretap", "internal/disktest",
	"internal/eos/...", "internal/sim", "internal/sim/run", "cmd/...",
}

var bans = []ban{
	{
		name:    "channel",
		in:      []string{"internal/engine"},
		find:    channels,
		because: "a step machine that can wait cannot be replayed from its inputs",
		instead: "make it an input of Step, or a result that the caller takes",
	},
	{
		name:    "sync",
		in:      []string{"internal/engine"},
		find:    imports("sync", "sync/atomic", "golang.org/x/sync"),
		because: "a task has one caller at a time, and a lock would hide that it has two",
		instead: "let the worker that owns the task make the call",
	},
	{
		name:    "mutex",
		in:      []string{"internal/engine", "internal/graph", "topology", "window", "serde"},
		find:    selectors("sync", "Mutex", "RWMutex"),
		because: "what is built here is either immutable or owned by one task",
		instead: "build it before it is shared, or keep it per task",
	},
	{
		name:    "io",
		in:      []string{"internal/engine"},
		find:    imports("os", "net", "io/fs", "io/ioutil", "bufio", "syscall"),
		because: "the same inputs must give the same outputs, on every machine",
		instead: "take bytes as arguments and return bytes",
	},
	{
		name:    "http",
		in:      []string{"framework"},
		find:    imports("net/http", "github.com/cockroachdb/pebble", "github.com/prometheus"),
		because: "who uses the framework without a server, metrics or a disk should not compile them",
		instead: "hand it in: a Provider, an Observer, or App.Snapshot from another room",
	},
	{
		name:    "internal",
		in:      []string{"cmd/sample-app/..."},
		find:    imports(module + "/internal"),
		because: "the reference app must be possible for everybody",
		instead: "use the public rooms, and where they do not suffice, mend them",
	},
	{
		name:    "ours",
		in:      []string{"cmd/sample-app/verify", "internal/sim/oracle"},
		find:    imports(module),
		because: "a checker that shares code with what it checks shares its faults",
		instead: "write it again, by hand and from the format's description",
	},
	{
		name: "clock",
		but:  live,
		find: func(f *file) []finding {
			return append(
				selectors("time", "Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Timer", "Ticker")(f),
				selectors("context", "WithTimeout", "WithTimeoutCause", "WithDeadline", "WithDeadlineCause")(f)...)
		},
		because: "time is an argument, so that a test or a replay decides what it is",
		instead: "take now as a parameter",
	},
	{
		name: "goroutine",
		// The conformance suite starts readers beside a writer: to prove that a
		// Provider stands it is what the suite is for.
		but:     append([]string{"state/statetest"}, live...),
		find:    goroutines,
		because: "a goroutine needs an owner that waits for it",
		instead: "do it in the caller, or start it in framework",
	},
	{
		name: "print",
		but:  []string{"cmd/...", "internal/eos/run", "internal/sim/run"}, // which are programs, and so have streams
		find: func(f *file) []finding {
			return slices.Concat(
				selectors("fmt", "Print", "Printf", "Println")(f),
				builtins(f, "print", "println"),
				imports("log")(f))
		},
		because: "the streams of the process belong to the program, not to a library",
		instead: "return it, or use the log/slog logger of the Config",
	},
	{
		name:    "env",
		but:     []string{"cmd/..."},
		find:    selectors("os", "Getenv", "LookupEnv", "Environ", "ExpandEnv"),
		because: "what steers a library must be visible in its Config",
		instead: "make it a field, and read the environment in cmd",
	},
	{
		name:    "panic",
		find:    panics,
		because: "a mistake of the user is an error, and of ours is worth a sentence",
		instead: "return an error, or say on the same line why it cannot happen",
	},
}

// imports finds imports of the named packages. A name covers what is below it
// unless it is "log", whose child log/slog is the replacement.
func imports(paths ...string) func(*file) []finding {
	return func(f *file) []finding {
		var found []finding
		for _, spec := range f.tree.Imports {
			p := importPath(spec)
			for _, ban := range paths {
				if p == ban || ban != "log" && strings.HasPrefix(p, ban+"/") {
					found = append(found, finding{spec.Pos(), "import of " + p})
					break
				}
			}
		}
		return found
	}
}

// selectors finds every mention of pkg.name, called or not.
func selectors(pkg string, names ...string) func(*file) []finding {
	return func(f *file) []finding {
		local := f.local(pkg)
		if local == "" {
			return nil
		}
		return collect(f, func(n ast.Node) string {
			s, ok := n.(*ast.SelectorExpr)
			if !ok || !slices.Contains(names, s.Sel.Name) {
				return ""
			}
			if x, ok := s.X.(*ast.Ident); !ok || x.Name != local {
				return ""
			}
			return pkg + "." + s.Sel.Name
		})
	}
}

func channels(f *file) []finding {
	return collect(f, func(n ast.Node) string {
		switch n := n.(type) {
		case *ast.ChanType:
			return "channel type"
		case *ast.SendStmt:
			return "send"
		case *ast.SelectStmt:
			return "select"
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				return "receive"
			}
		}
		return ""
	})
}

// goroutines finds go statements and their disguises: a method or function
// called Go (sync.WaitGroup, errgroup), and context.AfterFunc.
func goroutines(f *file) []finding {
	return append(selectors("context", "AfterFunc")(f), collect(f, func(n ast.Node) string {
		switch n := n.(type) {
		case *ast.GoStmt:
			return "go statement"
		case *ast.CallExpr:
			if s, ok := n.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Go" {
				return "call of Go"
			}
		}
		return ""
	})...)
}

func panics(f *file) []finding {
	return slices.DeleteFunc(builtins(f, "panic"), func(x finding) bool { return f.explained(x.pos) })
}

func builtins(f *file, names ...string) []finding {
	return collect(f, func(n ast.Node) string {
		if c, ok := n.(*ast.CallExpr); ok {
			if id, ok := c.Fun.(*ast.Ident); ok && slices.Contains(names, id.Name) {
				return id.Name
			}
		}
		return ""
	})
}

// collect walks f and keeps the nodes that what gives a name.
func collect(f *file, what func(ast.Node) string) []finding {
	var found []finding
	ast.Inspect(f.tree, func(n ast.Node) bool {
		if n != nil {
			if w := what(n); w != "" {
				found = append(found, finding{n.Pos(), w})
			}
		}
		return true
	})
	return found
}
