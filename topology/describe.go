package topology

import (
	"fmt"
	"strings"

	"github.com/headrace/headrace/internal/graph"
)

// Describe returns the topology as text, in the form in which Kafka Streams prints its own, so that tools which draw that can draw
// this. Names that end in ten digits are numbered by position and name nothing durable. A repartition topic is shown by the name that
// GroupBy or Repartition was given: on the cluster it is <app>-<name>-repartition, and the topology does not know the application.
func (t *Topology) Describe() string { return describe(t.plan) }

func describe(p *graph.Plan) string {
	var b strings.Builder
	b.WriteString("Topologies:\n")
	for i, sub := range p.SubTopologies {
		indent := "  "
		if i == 0 {
			indent = "   " // as Kafka Streams does
		}
		fmt.Fprintf(&b, "%sSub-topology: %d\n", indent, sub.ID)
		up := make([][]string, len(sub.Nodes))
		for _, n := range sub.Nodes {
			for _, d := range n.To {
				up[d] = append(up[d], n.Name)
			}
		}
		for j, n := range sub.Nodes {
			switch n.Kind {
			case graph.SourceNode:
				fmt.Fprintf(&b, "    Source: %s (topics: [%s])\n", n.Name, n.Topic)
			case graph.ProcessorNode:
				fmt.Fprintf(&b, "    Processor: %s (stores: [%s])\n", n.Name, strings.Join(n.Stores, ", "))
			case graph.SinkNode:
				fmt.Fprintf(&b, "    Sink: %s (topic: %s)\n", n.Name, n.Topic)
			}
			if n.Kind != graph.SinkNode {
				var to []string
				for _, d := range n.To {
					to = append(to, sub.Nodes[d].Name)
				}
				fmt.Fprintf(&b, "      --> %s\n", orNone(to))
			}
			if n.Kind != graph.SourceNode {
				fmt.Fprintf(&b, "      <-- %s\n", orNone(up[j]))
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
