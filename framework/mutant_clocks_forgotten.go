//go:build mutant_clocks_forgotten

package framework

const planted = clocksForgotten
