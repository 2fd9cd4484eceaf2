// A module of its own, as yours would be. It is named like a stranger's, so that it cannot reach what is internal.
module example.com/wordcount

go 1.26.0

require (
	github.com/headrace/headrace v0.0.0
	github.com/twmb/franz-go v1.22.3
)

require (
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/pierrec/lz4/v4 v4.1.33 // indirect
	github.com/tidwall/btree v1.8.2 // indirect
	github.com/twmb/franz-go/pkg/kadm v1.20.0 // indirect
	github.com/twmb/franz-go/pkg/kfake v0.0.0-20260918054303-01f206a7e32c // indirect
	github.com/twmb/franz-go/pkg/kmsg v1.15.1 // indirect
)

replace github.com/headrace/headrace => ../..
