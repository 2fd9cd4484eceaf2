//go:build mutant_keep_overlay

package framework

const planted = keepOverlay
