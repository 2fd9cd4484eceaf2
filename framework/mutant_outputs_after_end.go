//go:build mutant_outputs_after_end

package framework

const planted = outputsAfterEnd
