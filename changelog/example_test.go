package changelog_test

import (
	"fmt"

	"github.com/headrace/headrace/changelog"
	"github.com/headrace/headrace/state"
)

func Example() {
	spec := state.Spec{Name: "totals", Kind: state.KeyValueKind}
	written := state.Mutation{Key: []byte("ZRH"), Value: state.AppendValue(nil, 1_700_000_000_000, []byte("41"))}

	record, buf, err := changelog.Encode(nil, spec, written, 0)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s: %s → %s at %d\n", changelog.Topic("flights", spec.Name), record.Key, record.Value, record.Time)

	// Restoring the store reads it back.
	mutation, _, err := changelog.Decode(buf, 0, spec, record)
	if err != nil {
		panic(err)
	}
	at, value, err := state.SplitValue(mutation.Value)
	fmt.Printf("%s → %s at %d %v\n", mutation.Key, value, at, err)
	// Output:
	// flights-totals-changelog: ZRH → 41 at 1700000000000
	// ZRH → 41 at 1700000000000 <nil>
}

func ExampleCheckStore() {
	fmt.Println(changelog.CheckStore("flights", "delay stats"))
	// Output:
	// changelog: store name "delay stats" has ' ' at byte 5; Kafka allows a-z, A-Z, 0-9, '.', '_' and '-'
}
