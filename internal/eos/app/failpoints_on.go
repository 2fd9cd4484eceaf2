//go:build failpoints

package main

import (
	"github.com/headrace/headrace/framework"
	"github.com/headrace/headrace/internal/eos"
)

// watchFailpoints listens to the points within the framework.
func watchFailpoints(a *agent) {
	framework.Failpoint = func(at framework.FailpointHit) {
		a.at(at.Point, at.App, func() eos.Happening {
			return eos.Happening{App: at.App, Transaction: at.Transaction, Sequence: at.Sequence, Offsets: at.Offsets()}
		})
	}
}
