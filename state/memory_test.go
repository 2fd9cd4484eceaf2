package state_test

import (
	"testing"

	"github.com/headrace/headrace/state"
	"github.com/headrace/headrace/state/statetest"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	statetest.Run(t, func(*testing.T) state.Provider { return state.Memory() }, statetest.Options{})
}
