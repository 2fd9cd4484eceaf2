//go:build mutant_moved_offsets_only

package framework

const planted = movedOffsetsOnly
