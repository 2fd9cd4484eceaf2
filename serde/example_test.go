package serde_test

import (
	"bytes"
	"fmt"

	"github.com/headrace/headrace/serde"
)

func ExampleInt64() {
	b, err := serde.Int64().Append(nil, 42)
	if err != nil {
		fmt.Println(err)
		return
	}
	v, err := serde.Int64().Decode(b)
	fmt.Printf("%x %d %v\n", b, v, err)
	_, err = serde.Int64().Decode([]byte("42"))
	fmt.Println(err)
	// Output:
	// 000000000000002a 42 <nil>
	// serde: Int64: want 8 bytes, got 2; the topic was probably written with another serializer
}

func ExampleJSON() {
	type Payment struct {
		Account string `json:"account"`
		Cents   int64  `json:"cents"`
	}
	s := serde.JSON[Payment]()
	b, err := s.Append(nil, Payment{Account: "a1", Cents: 1250})
	fmt.Printf("%s %v\n", b, err)
	_, err = s.Decode([]byte(`{"account":"a1"}{}`))
	fmt.Println(err)
	// Output:
	// {"account":"a1","cents":1250} <nil>
	// serde: JSON[serde_test.Payment]: decode 18 bytes: invalid character '{' after top-level value
}

func ExampleOrderedInt64() {
	for _, v := range []int64{-2, -1, 0, 1} {
		b, _ := serde.OrderedInt64().Append(nil, v)
		fmt.Printf("%x\n", b)
	}
	// Output:
	// 7ffffffffffffffe
	// 7fffffffffffffff
	// 8000000000000000
	// 8000000000000001
}

func ExamplePairSerde_Prefix() {
	s := serde.OrderedPair(serde.String(), serde.OrderedInt16())
	key, _ := s.Append(nil, serde.Pair[string, int16]{First: "AMS", Second: -1})
	prefix, _ := s.Prefix(nil, "AMS")
	other, _ := s.Prefix(nil, "AM")
	fmt.Printf("%x %x\n", key, prefix)
	fmt.Println(bytes.HasPrefix(key, prefix), bytes.HasPrefix(key, other))
	// Output:
	// 414d5300017fff 414d530001
	// true false
}
