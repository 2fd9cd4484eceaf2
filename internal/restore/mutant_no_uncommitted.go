//go:build !mutant_uncommitted

package restore

import "github.com/twmb/franz-go/pkg/kgo"

// isolation is read-committed. Anything else is a planted bug, for proving that a checker finds it.
const isolation = 1

func isolationLevel() kgo.IsolationLevel { return kgo.ReadCommitted() }
