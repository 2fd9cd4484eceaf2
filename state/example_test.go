package state_test

import (
	"fmt"
	"time"

	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/state"
)

// A handle is declared once, next to the code that uses the store, and opened by each task.
func ExampleKeyValueOf() {
	totals := state.KeyValueOf("totals", serde.String(), serde.Int64())

	// What a task does for its operators:
	specs := []state.Spec{totals.Spec()}
	backend, err := state.Memory().Open("0_0", specs)
	if err != nil {
		panic(err)
	}
	defer backend.Close()
	task := host{state.NewTxn(backend, specs)}

	view, err := totals.Open(task)
	if err != nil {
		panic(err)
	}
	for _, airport := range []string{"ZRH", "GVA", "ZRH"} {
		n, _, err := view.Get(airport) // zero if there is none yet
		if err != nil {
			panic(err)
		}
		if err := view.Put(airport, n+1); err != nil {
			panic(err)
		}
	}
	for item, err := range view.All() {
		if err != nil {
			panic(err)
		}
		fmt.Println(item.Key, item.Value)
	}
	// Output:
	// GVA 1
	// ZRH 2
}

func ExampleWindowsView_Between() {
	perHour := state.WindowsOf("per-hour", serde.String(), serde.Int64(), 2*time.Hour)
	specs := []state.Spec{perHour.Spec()}
	backend, err := state.Memory().Open("0_0", specs)
	if err != nil {
		panic(err)
	}
	defer backend.Close()
	view, err := perHour.Open(host{state.NewTxn(backend, specs)})
	if err != nil {
		panic(err)
	}

	hour := time.Hour.Milliseconds()
	for i, airport := range []string{"ZRH", "GVA", "BSL"} {
		if err := view.Put(airport, int64(i)*hour, 1); err != nil {
			panic(err)
		}
	}
	for item, err := range view.Between(0, 2*hour) { // the third window is not in it
		if err != nil {
			panic(err)
		}
		fmt.Println(item.Start/hour, item.Key, item.Value)
	}
	// Output:
	// 0 ZRH 1
	// 1 GVA 1
}

func ExampleSessionsOf() {
	visits := state.SessionsOf("visits", serde.String(), serde.Int64(), time.Hour)
	b, err := state.Memory().Open("0_0", []state.Spec{visits.Spec()})
	if err != nil {
		panic(err)
	}
	defer b.Close()
	view, err := visits.Open(host{state.NewTxn(b, []state.Spec{visits.Spec()})})
	if err != nil {
		panic(err)
	}
	for _, end := range []int64{1000, 5000, 9000} {
		if err := view.Put("ada", end-500, end, end/1000); err != nil {
			panic(err)
		}
	}
	for it, err := range view.Of("ada", 2000, 6000) { // those that have a moment in it
		fmt.Println(it.Start, it.End, it.Value, err)
	}
	// Output: 4500 5000 5 <nil>
}
