package devkafka_test

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/headrace/headrace/devkafka"
)

// A broker of one's own, for a test or a demo: any client can use it.
func ExampleStart() {
	broker, err := devkafka.Start(devkafka.Config{Topics: map[string]int32{"greetings": 1}})
	if err != nil {
		panic(err)
	}
	defer broker.Close()

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(broker.Addrs()...), kgo.DefaultProduceTopic("greetings"),
		kgo.ConsumeTopics("greetings"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		panic(err)
	}
	defer client.Close()
	if err := client.ProduceSync(ctx, kgo.StringRecord("hello")).FirstErr(); err != nil {
		panic(err)
	}
	for _, r := range client.PollRecords(ctx, 1).Records() {
		fmt.Printf("%s[%d]@%d: %s\n", r.Topic, r.Partition, r.Offset, r.Value)
	}
	// Output:
	// greetings[0]@0: hello
}
