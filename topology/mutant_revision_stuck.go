//go:build mutant_revision_stuck

package topology

const revisionStuck = true
