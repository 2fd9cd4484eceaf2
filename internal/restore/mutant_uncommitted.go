//go:build mutant_uncommitted

package restore

import "github.com/twmb/franz-go/pkg/kgo"

const isolation = 0

func isolationLevel() kgo.IsolationLevel { return kgo.ReadUncommitted() }
