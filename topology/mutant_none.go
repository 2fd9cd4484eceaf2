//go:build !mutant_reopen_window

package topology

// reopenClosed is a planted bug, for proving that the demo's checker finds it: a late record opens its window again,
// and so corrects none.
const reopenClosed = false
