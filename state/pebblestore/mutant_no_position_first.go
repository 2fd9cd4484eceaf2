//go:build !mutant_position_first

package pebblestore

import "github.com/headrace/headrace/state"

// positionFirst is a planted bug, for proving that a checker finds it: positions reach the disk before their data.
func (*backend) positionFirst([]*state.Position) error { return nil }
