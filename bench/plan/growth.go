package plan

// Growth is how cost grows with one size, all others being as usual.
type Growth struct {
	Name    string
	What    string
	Work    string
	Peers   []Peer
	Metrics []Metric
	Points  []Point
}

// Point is one size.
type Point struct {
	Name string
	Set  func(*Params)
}

// Growths are what bench-full measures beside the works.
var Growths = []Growth{
	{
		Name: "memory", What: "Kafka Streams with its stores in memory, too", Work: "count",
		Peers: []Peer{Memory, StreamsMemory}, Metrics: []Metric{Rate, CPU, Peak},
		Points: []Point{{"in memory", func(*Params) {}}},
	},
	{
		Name: "memory-tumbling", What: "the same for windows", Work: "tumbling",
		Peers: []Peer{Memory, StreamsMemory}, Metrics: []Metric{Rate, CPU, Peak},
		Points: []Point{{"in memory", func(*Params) {}}},
	},
	{
		Name: "threads", What: "workers of one app, threads of one Kafka Streams", Work: "count",
		Peers: []Peer{Memory, Pebble, Streams}, Metrics: []Metric{Rate, CPU},
		Points: []Point{
			{"1 thread", func(*Params) {}},
			{"2 threads", func(p *Params) { p.Workers = 2 }},
		},
	},
	{
		Name: "keys", What: "how many keys there are; each at least once", Work: "count",
		Peers: []Peer{Memory, Pebble, Streams}, Metrics: []Metric{Rate, CPU, Peak},
		Points: []Point{
			{"10 k keys", keys(10_000)}, {"100 k keys", keys(100_000)}, {"1 M keys", keys(1_000_000)}, {"10 M keys", keys(10_000_000)},
		},
	},
	{
		Name: "partitions", What: "partitions of input and output, without a store", Work: "map",
		Peers: []Peer{Raw, Memory, Streams}, Metrics: []Metric{Rate, CPU},
		Points: []Point{{"1 partition", partitions(1)}, {"100 partitions", partitions(100)}, {"1000 partitions", partitions(1000)}},
	},
	{
		Name: "operators", What: "maps in a row", Work: "map",
		Peers: []Peer{Memory, Streams}, Metrics: []Metric{Rate, CPU},
		Points: []Point{
			{"1 operator", func(*Params) {}},
			{"50 operators", func(p *Params) { p.Operators = 50 }},
		},
	},
	{
		Name: "tasks", What: "tasks of one worker, each with a store", Work: "count",
		Peers: []Peer{Memory, Pebble, Streams}, Metrics: []Metric{Rate, CPU, Peak, Start},
		Points: []Point{{"1 task", partitions(1)}, {"100 tasks", partitions(100)}},
	},
	{
		Name: "instances", What: "processes that share the work; CPU of all of them together", Work: "count",
		Peers: []Peer{Memory, Pebble, Streams}, Metrics: []Metric{CPU, Rate},
		Points: []Point{{"1 instance", instances(1)}, {"2 instances", instances(2)}, {"4 instances", instances(4)}},
	},
}

func keys(n int) func(*Params) {
	return func(p *Params) {
		// In proportion: a look with fewer records has fewer keys, too.
		p.Keys = max(1, int(float64(n)*float64(p.Records)/float64(Default().Records)))
		p.Records = max(p.Records, p.Keys*6/5)
	}
}

func partitions(n int) func(*Params) { return func(p *Params) { p.Partitions = n } }

func instances(n int) func(*Params) { return func(p *Params) { p.Instances = n } }

// Heaps are those with which Kafka Streams is tried, in MiB, after the usual one: until its rate is below KeepRate of what it was.
var Heaps = []int{1024, 768, 512, 384, 256, 192, 128, 96, 64}

// KeepRate is the share of its rate that Kafka Streams has to keep at the smallest heap.
const KeepRate = 0.95
