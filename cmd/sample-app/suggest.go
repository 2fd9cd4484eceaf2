package main

import (
	"fmt"
	"strings"
)

// hint is " (did you mean …?)" with the name that is most like the one that is unknown, or nothing if none is.
//
// names lists all there are; also has other words that people know one by.
func hint(unknown string, names []string, also map[string]string) string {
	best, bestAt := "", 0
	consider := func(word, name string) {
		a, b := folded(unknown), folded(word)
		d := distance(a, b)
		if len(a) >= 4 && (strings.HasPrefix(b, a) || strings.HasSuffix(b, a)) {
			d = min(d, 1)
		}
		if d <= max(1, len(a)/3) && (best == "" || d < bestAt) {
			best, bestAt = name, d
		}
	}
	for _, n := range names {
		consider(n, n)
	}
	for word, name := range also {
		if folded(word) == folded(unknown) {
			best = name
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", best)
}

// folded leaves out what people write differently.
func folded(s string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "", ".", "").Replace(s))
}

// distance is Levenshtein's: how many bytes are to be inserted, deleted or replaced.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
