//go:build mutant_offset_by_one

package framework

const planted = offsetByOne
