//go:build !failpoints

package framework

import "github.com/headrace/headrace/internal/restore"

// failpoint marks a step at which a test may end the process. Without the tag it is nothing.
func (*worker) failpoint(string, *batch) {}

func (*App) restoreFailpoint(restore.Progress) {}
