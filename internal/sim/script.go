package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/headrace/headrace/internal/engine"
	"github.com/headrace/headrace/internal/sim/oracle"
)

// A script is a Case as text, in the form of the engine's own scripts: commands, each with its input below it and then "----".
//
//	case seed=7 workers=2 keep=copy fetch=3 policy=skip
//	source name=in parts=2 disorder=5           one line for each node, numbered from 0
//	aggregate in=0 name=agg1 size=60 advance=60
//	----
//	push in part=0
//	k 1f @1000                                  key, value, timestamp, how; "~" for null
//	----
//	step task=0_0 n=3 budget=5
//	----

// String returns the script.
func (c *Case) String() string {
	var b strings.Builder
	fields := func(kv ...any) {
		for i := 0; i < len(kv); i += 2 {
			switch v := kv[i+1].(type) {
			case bool:
				if v {
					fmt.Fprintf(&b, " %s", kv[i])
				}
			case byte:
				if v != 0 {
					fmt.Fprintf(&b, " %s=%c", kv[i], v)
				}
			default:
				if s := fmt.Sprint(v); s != "" && s != "0" {
					fmt.Fprintf(&b, " %s=%s", kv[i], s)
				}
			}
		}
		b.WriteByte('\n')
	}
	b.WriteString("case")
	fields("seed", c.Seed, "workers", c.Workers, "keep", c.Keep, "fetch", c.Fetch, "policy", c.Spec.Policy)
	for _, n := range c.Spec.Nodes {
		b.WriteString(string(n.Kind))
		var in []string
		for _, i := range n.In {
			in = append(in, strconv.Itoa(i))
		}
		if len(in) > 0 {
			b.WriteString(" in=" + strings.Join(in, ","))
		}
		fields("name", n.Name, "store", n.Store, "parts", n.Parts, "disorder", n.Disorder, "own-time", n.OwnTime,
			"keep-nulls", n.KeepNulls, "future", n.Future, "gen", n.Gen, "win", n.Win, "zone", n.Zone, "first", n.First, "size", n.Size, "advance", n.Advance, "grace", n.Grace, "sideline", n.Sideline, "on-close", n.OnClose, "final", n.Final,
			"correct", n.Correct, "retract", n.Retract, "early", n.Early, "early-count", n.EarlyCount, "discard", n.Discard, "retracting", n.Retracting, "accept", n.Accept, "by-channel", n.ByChannel,
			"bad", n.Bad, "panic", n.Panic, "policy", n.Policy, "every", n.Every, "wall", n.Wall, "limit", n.Limit)
	}
	b.WriteString("----\n")
	for i := range c.Ops {
		op := &c.Ops[i]
		b.WriteByte('\n')
		if op.Do == Push {
			fmt.Fprintf(&b, "push %s part=%d\n%s %s @%d %s", op.Topic, op.Part, field(op.Key), field(op.Value), op.At, op.How)
			b.WriteString("\n----\n")
			continue
		}
		b.WriteString(string(op.Do))
		switch op.Do {
		case Step, Flush, Compact, Trim:
			fields("task", op.Task, "n", op.N, "budget", op.Budget)
		case Move:
			fields("task", op.Task, "worker", op.Worker, "n", op.N, "crash", op.Crash)
		default:
			fields("worker", op.Worker, "n", op.N, "crash", op.Crash)
		}
		b.WriteString("----\n")
	}
	return b.String()
}

func field(b []byte) string {
	if b == nil {
		return "~"
	}
	return string(b)
}

func unfield(s string) []byte {
	if s == "~" {
		return nil
	}
	return []byte(s)
}

// args are the words behind a command.
type args map[string]string

func (a args) num(name string) int64 {
	n, _ := strconv.ParseInt(a[name], 10, 64) // 0 if it is not there
	return n
}

func (a args) is(name string) bool { _, ok := a[name]; return ok }

func (a args) task() engine.TaskID {
	var id engine.TaskID
	_, _ = fmt.Sscanf(a["task"], "%d_%d", &id.SubTopology, &id.Partition)
	return id
}

func words(line string) (cmd string, a args) {
	a = args{}
	for i, f := range strings.Fields(line) {
		if i == 0 {
			cmd = f
			continue
		}
		k, v, _ := strings.Cut(f, "=")
		a[k] = v
	}
	return cmd, a
}

// Parse reads a script. Lines that begin with '#' are comments.
func Parse(script string) (*Case, error) {
	c := &Case{}
	var lines []string
	for line := range strings.Lines(script) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	for len(lines) > 0 {
		cmd, a := words(lines[0])
		n := slices.Index(lines, "----")
		if n < 0 {
			return nil, fmt.Errorf("sim: %q has no ----", cmd)
		}
		body := lines[1:n]
		lines = lines[n+1:]
		if err := c.command(cmd, a, body); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *Case) command(cmd string, a args, body []string) error {
	switch Verb(cmd) {
	case "case":
		c.Seed, c.Workers, c.Keep, c.Fetch = uint64(a.num("seed")), int(a.num("workers")), Keep(a["keep"]), int(a.num("fetch"))
		c.Spec.Policy = oracle.Policy(a["policy"])
		for _, l := range body {
			c.Spec.Nodes = append(c.Spec.Nodes, parseNode(words(l)))
		}
		return nil
	case Push:
		topic := ""
		for k, v := range a {
			if v == "" {
				topic = k
			}
		}
		for _, l := range body {
			f := strings.Fields(l)
			if len(f) < 3 {
				return fmt.Errorf("sim: %q is no record", l)
			}
			op := Op{Do: Push, Topic: topic, Part: int32(a.num("part")), Key: unfield(f[0]), Value: unfield(f[1])}
			if _, err := fmt.Sscanf(f[2], "@%d", &op.At); err != nil {
				return fmt.Errorf("sim: %q has no timestamp: %w", l, err)
			}
			if len(f) > 3 {
				op.How = f[3]
			}
			c.Ops = append(c.Ops, op)
		}
		return nil
	case Step, TakeOff, Land, Abort, Crash, Move, Assign, Flush, Compact, Trim, Pass:
		c.Ops = append(c.Ops, Op{
			Do: Verb(cmd), Task: a.task(), Worker: int(a.num("worker")), N: int(a.num("n")), Budget: int(a.num("budget")), Crash: a.is("crash"),
		})
		return nil
	}
	return fmt.Errorf("sim: there is no command %q", cmd)
}

func parseNode(kind string, a args) oracle.Node {
	n := oracle.Node{
		Kind: oracle.Kind(kind), Name: a["name"], Store: a["store"], Parts: int32(a.num("parts")), Disorder: a.num("disorder"),
		OwnTime: a.is("own-time"), KeepNulls: a.is("keep-nulls"), Future: a.num("future"), Gen: a["gen"], Size: a.num("size"), Advance: a.num("advance"), Grace: a.num("grace"),
		Sideline: a["sideline"], OnClose: a.is("on-close"), Panic: a.is("panic"), Policy: oracle.Policy(a["policy"]), Every: a.num("every"), Wall: a.num("wall"),
		Limit: int(a.num("limit")), Win: a["win"], Zone: a["zone"], First: int(a.num("first")), Final: a.is("final"), Correct: a.num("correct"), Retract: a.is("retract"),
		Early: a.num("early"), EarlyCount: int(a.num("early-count")), Discard: a.is("discard"), Retracting: a.is("retracting"), Accept: a.is("accept"), ByChannel: a.is("by-channel"),
	}
	if a.is("bad") {
		n.Bad = a["bad"][0]
	}
	for in := range strings.SplitSeq(a["in"], ",") {
		if i, err := strconv.Atoi(in); err == nil {
			n.In = append(n.In, i)
		}
	}
	return n
}
