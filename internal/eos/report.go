package eos

import (
	"fmt"
	"slices"
	"strings"
)

// Kind is what is wrong.
type Kind int

// The kinds of violations.
const (
	// Lost: something had to be there and is not.
	Lost Kind = iota
	// Duplicated: something is there twice.
	Duplicated
	// OutOfOrder: something comes behind what it had to come before.
	OutOfOrder
	// StoreDiffers: a store does not hold what it has to.
	StoreDiffers
	// Wrong is everything else.
	Wrong
	kinds
)

func (k Kind) String() string {
	return [...]string{"lost", "duplicated", "out of order", "store differs", "wrong"}[k]
}

// maxExamples is how many violations a report describes.
const maxExamples = 10

// Violation is something that a checker found.
type Violation struct {
	Checker string
	Kind    Kind
	Text    string

	nth int // of its checker
}

func (v Violation) String() string {
	return fmt.Sprintf("violation: checker=%s kind=%q %s", v.Checker, v.Kind, v.Text)
}

// Report gathers what checkers find. The zero Report says that all is well.
type Report struct {
	// Examples are the first violations of each checker.
	Examples []Violation

	counts [kinds]int
	of     map[string]int
}

func (r *Report) add(checker string, kind Kind, format string, args ...any) {
	r.counts[kind]++
	if r.of == nil {
		r.of = make(map[string]int)
	}
	r.of[checker]++
	if r.of[checker] <= maxExamples {
		r.Examples = append(r.Examples, Violation{checker, kind, fmt.Sprintf(format, args...), r.of[checker]})
	}
}

// Count is how many violations of the kind there are.
func (r *Report) Count(k Kind) int { return r.counts[k] }

// Of is how many violations the checker found.
func (r *Report) Of(checker string) int { return r.of[checker] }

// OK says that there is none.
func (r *Report) OK() bool { return r.counts == [kinds]int{} }

// Summary counts the violations as the last line of a run does.
func (r *Report) Summary() string {
	return fmt.Sprintf("%d lost, %d duplicated, %d out of order, %d stores differ",
		r.counts[Lost], r.counts[Duplicated], r.counts[OutOfOrder], r.counts[StoreDiffers])
}

// Describe writes up to maxExamples violations, one a line, taking turns among the checkers.
func (r *Report) Describe() string {
	turns := slices.Clone(r.Examples)
	slices.SortStableFunc(turns, func(a, b Violation) int { return a.nth - b.nth })
	var b strings.Builder
	for _, v := range turns[:min(len(turns), maxExamples)] {
		fmt.Fprintln(&b, v)
	}
	return b.String()
}
