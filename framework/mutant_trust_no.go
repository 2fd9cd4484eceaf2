//go:build mutant_trust_no

package framework

const planted = trustNo
