package state_test

import (
	"fmt"
	"testing"

	"github.com/headrace/headrace/state"
)

const hostTime = 1_700_000_000_000

// host lends the stores of a transaction, as a task does.
type host struct{ txn *state.Txn }

func (h host) OpenStore(name string, kind state.Kind) (state.Store, error) {
	for i, s := range h.txn.Specs() {
		if s.Name == name && s.Kind == kind {
			return h.txn.Store(i, func() int64 { return hostTime }), nil
		}
	}
	return nil, fmt.Errorf("no %s store of that name", kind)
}

func newHost(t testing.TB, specs ...state.Spec) host {
	t.Helper()
	b, err := state.Memory().Open("0_0", specs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return host{state.NewTxn(b, specs)}
}
