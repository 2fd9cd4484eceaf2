//go:build mutant_back_from_changelog

package topology

const backFromChangelog = true
