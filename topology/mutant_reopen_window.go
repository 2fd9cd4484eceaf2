//go:build mutant_reopen_window

package topology

const reopenClosed = true
