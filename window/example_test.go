package window_test

import (
	"fmt"
	"time"

	"github.com/headrace/headrace/serde"
	"github.com/headrace/headrace/window"
)

func ExampleHopping() {
	f := window.Hopping(5*time.Second, 2*time.Second)
	for start := range window.Starts(f, 6_000) {
		fmt.Printf("[%d, %d)\n", start, f.End(start))
	}
	// Output:
	// [2000, 7000)
	// [4000, 9000)
	// [6000, 11000)
}

func ExampleClosed() {
	f := window.Tumbling(time.Minute).Grace(30 * time.Second)
	w := window.BoundedDisorder(5 * time.Second)
	for _, maxTs := range []int64{70_000, 94_999, 95_000} {
		fmt.Println(maxTs, w.After(maxTs), window.Closed(f, 0, w.After(maxTs)))
	}
	// Output:
	// 70000 65000 false
	// 94999 89999 false
	// 95000 90000 true
}

func ExampleHold() {
	f := window.Tumbling(time.Minute).Grace(time.Minute)
	// At 100 s the first minute can still change, and its result begin at 0.
	fmt.Println(window.Hold(f, 100_000), window.Hold(f, 120_000))
	// Output:
	// 0 60000
}

func ExampleKeySerde() {
	codec := window.KeySerde(serde.String()).Size(6 * time.Hour)
	b, err := codec.Append(nil, window.Key[string]{Key: "AMS", Start: 1378684800000})
	if err != nil {
		fmt.Println(err)
		return
	}
	k, err := codec.Decode(b)
	if err != nil {
		fmt.Println(err)
		return
	}
	from, to := k.Interval()
	fmt.Printf("%x\n%v\n%v to %v\n", b, k, from.Format(time.DateTime), to.Format(time.DateTime))
	// Output:
	// 414d530000014100048c00
	// [AMS@1378684800000/1378706400000]
	// 2013-09-09 00:00:00 to 2013-09-09 06:00:00
}

func ExampleInnerKey() {
	b, err := window.InnerKey([]byte("AMS\x00\x00\x01\x41\x00\x04\x8c\x00"))
	fmt.Printf("%s %v\n", b, err)
	// Output:
	// AMS <nil>
}

func ExampleLate() {
	corrected := window.CorrectWithin(2 * time.Hour).Otherwise(window.Sideline("flights-late"))
	for _, l := range []window.Late{window.Drop(), corrected, {}} {
		topic, ok := l.Topic()
		fmt.Printf("%v %q %v %v\n", l, topic, ok, l.Validate())
	}
	// Output:
	// drop "" false <nil>
	// correct(2h0m0s, upsert) else sideline(flights-late) "flights-late" true <nil>
	// unset "" false window: no late policy: choose window.Drop(), window.Sideline(topic) or window.CorrectWithin(d).Otherwise(…)
}

func ExampleSession() {
	s := window.Session(30 * time.Second).Grace(10 * time.Second)
	// A session that ends at 60 s can grow until a record that would join it is late.
	fmt.Println(s.Late(90_000, 130_000), s.Late(90_000, 130_001))
	fmt.Println(s.Closed(s.Reach(60_000, 30_000), 130_000), s.Closed(s.Reach(60_000, 30_000), 130_001))
	// Output:
	// false true
	// false true
}

func ExampleSliding() {
	s := window.Sliding(5 * time.Second)
	// The first record of a key makes one window. The second makes one, too, and that which begins behind the first.
	for _, near := range [][]window.Slide{nil, {{Start: 3000, Latest: 8000}}} {
		ts := int64(8000 + 1200*len(near))
		p := s.Place(near, ts)
		fmt.Printf("[%d, %d] %v %d\n", p.Left, s.End(p.Left), p.NewBefore, p.Before)
	}
	// Output:
	// [3000, 8000] false 0
	// [4200, 9200] true 8001
}

func ExampleSessionKeySerde() {
	key := window.Key[string]{Key: "AMS", Start: 60_000, End: 90_000}
	b, err := window.SessionKeySerde(serde.String()).Append(nil, key)
	fmt.Printf("%v %x %v\n", key, b, err)
	// Output: [AMS@60000/90000] 414d530000000000015f90000000000000ea60 <nil>
}
