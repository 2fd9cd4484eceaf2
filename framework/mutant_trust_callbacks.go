//go:build mutant_trust_callbacks

package framework

const planted = trustCallbacks
