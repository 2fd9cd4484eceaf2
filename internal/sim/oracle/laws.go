package oracle

import (
	"slices"
	"strconv"
	"strings"
)

// StartOf is the start of the window that a [WindowKey] names.
func StartOf(k string) int64 {
	hex, _, _ := strings.Cut(k, " ")
	u, _ := strconv.ParseUint(hex, 16, 64) // WindowKey wrote it
	return int64(u)
}

// ClosedAt says whether the window that begins at start is closed at a watermark.
func (n *Node) ClosedAt(start, w int64) bool {
	return w != Unknown && w >= plus(windowsOf(n).end(start), n.Grace)
}

// CountOf is how many values are in a total.
func CountOf(v string) int64 {
	n, _ := weight(v)
	return n
}

// Written is the topic that a node's results go to as they are, empty if there is none.
func (s *Spec) Written(node int) string {
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Kind == To && n.In[0] == node {
			return n.Name
		}
	}
	return ""
}

// Totals finds the windowed total whose results a total of plain keys sums up, each once, and all that is between, the two included. It is
// -1 if there is none such.
func (s *Spec) Totals(node int) (from int, way []int) {
	way = []int{node}
	for i := s.Nodes[node].In[0]; ; i = s.Nodes[i].In[0] {
		n := &s.Nodes[i]
		way = append(way, i)
		switch {
		case n.Kind == Total && n.Windowed():
			return i, way
		case !slices.Contains([]Kind{Changes, MapValues, Repartition, GroupBy}, n.Kind):
			return -1, nil
		}
	}
}
