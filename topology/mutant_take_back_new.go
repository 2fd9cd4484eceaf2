//go:build mutant_take_back_new

package topology

const takeBackNew = true
