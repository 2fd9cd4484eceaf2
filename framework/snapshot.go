package framework

import (
	"slices"
	"time"

	"github.com/headrace/headrace/internal/engine"
)

// WorkerState is what a worker is doing.
type WorkerState string

// The states of a worker.
const (
	// Starting: the app looks for its topics, or the worker has no client yet.
	Starting WorkerState = "starting"
	// Joining: the group has not given the worker its tasks yet. It stays so while the group runs another topology, which Err then
	// says.
	Joining WorkerState = "joining"
	// Restoring: some of its tasks are being made; the others run.
	Restoring WorkerState = "restoring"
	// Running: all its tasks run. It may have none.
	Running WorkerState = "running"
	// Stopped: it has left the group.
	Stopped WorkerState = "stopped"
)

// Snapshot is where an app stands: for progress displays, probes and tests. It is a copy; nothing in it changes later.
//
// Kafka Streams: metadataForLocalThreads, and its metrics.
type Snapshot struct {
	// AppID is that of the Config. Instance is the name of this process, empty until Run has it.
	AppID, Instance string
	// Workers are the workers of this process.
	Workers []WorkerStatus
	// Tasks are the tasks that run in this process, in order of sub-topology and partition.
	Tasks []TaskStatus
	// Restoring are the tasks of this process that are being made: they do not run yet, or not any more, and none of their records is
	// processed meanwhile. In the order of Tasks.
	Restoring []RestoreStatus
	// Expected is how many tasks each sub-topology has over all instances, by its id: whether Tasks has all of them can be told.
	// It is nil until the topics have been looked up.
	Expected map[int]int
	// Counters are the sums over the life of the app.
	Counters Counters
	// Drops has the records that went no further by operator and reason, over the life of the app, in the order of the topology. What
	// Counters says of them are the sums.
	Drops []Drops
	// Late is how late records were, of operators that have had such, counted as Drops are.
	Late []Lateness
	// Read and Written are what was taken from topics and written to them, changelogs included, in the order of their names.
	Read, Written []Flow
	// Aborts are the transactions that did not commit, by reason; Counters.Aborts is their sum.
	Aborts map[AbortReason]int64
	// CommitTimes are how long transactions that committed took, from the first record that they produced until stores had them.
	CommitTimes Histogram
}

// WorkerStatus is where one worker stands.
type WorkerStatus struct {
	ID    int
	State WorkerState
	// Since is when it got into that state.
	Since time.Time
	// Tasks is how many tasks it has, those being restored included.
	Tasks int
	// Err is what it last recovered from, nil if nothing ever went wrong, and ErrAt when.
	Err   error
	ErrAt time.Time
	// FailingSince is when the first of the errors came that Err is the last of, with no commit and no 30 s of peace in between. It is
	// zero when something was committed after them.
	FailingSince time.Time
	// Stall is set while the worker is stuck for longer than Config.TaskTimeout.
	Stall *Stall
}

// TaskStatus is where one task stands. Event times are in Unix milliseconds, and math.MinInt64 is none yet.
type TaskStatus struct {
	// SubTopology and Partition name the task, and ID does as Kafka Streams writes it.
	SubTopology int
	Partition   int32
	ID          string
	// Worker is the worker that runs it.
	Worker int
	// Sources are its input partitions.
	Sources []SourceStatus
	// Operators are those that keep event time of their own, upstream before downstream.
	Operators []OperatorStatus
	// StateBytes is about how much room its stores take, as of some seconds ago; -1 if the provider does not tell.
	StateBytes int64
}

// SourceStatus is where one input partition stands.
type SourceStatus struct {
	Topic     string
	Partition int32
	// Offset is the next to process.
	Offset int64
	// Queued is how many records have been fetched and wait.
	Queued int
	// Watermark is the partition's: no record with a smaller event time is expected.
	Watermark int64
	// Held says that what is queued waits until others are as far in event time: see Config.MaxDrift.
	Held bool
	// Idle says that the partition has had nothing for Config.IdleAfter and holds no watermark back; of a repartition topic, that all
	// its writers say so of themselves.
	Idle bool
	// Behind is how many records, since the task was made, were in order in their partition but behind what the others had come to while it
	// was idle. Where that made them late they are counted as late, too.
	Behind int64
	// End is the partition's end when something was last fetched from it: the last stable offset, before which nothing is in an open
	// transaction.
	End int64
}

// Lag is how many offsets are still to be processed, as of the last fetch. Markers of transactions are among them. Kafka Streams:
// records-lag.
func (s SourceStatus) Lag() int64 { return max(s.End-s.Offset, 0) }

// OperatorStatus is where one operator that keeps event time stands.
type OperatorStatus struct {
	// Name is that of its store, or of its node.
	Name string
	// Watermark is the operator's own: the smallest of its inputs'. Passed is what those behind it have been told, where that is held
	// back for what may still come, as windows do; it is math.MinInt64 where nothing has been told.
	Watermark, Passed int64
	// Due says that time has made something due that is not yet done: a window to close, a punctuation to fire.
	Due bool
}

// RestoreStatus is where the making of one task stands.
type RestoreStatus struct {
	// SubTopology, Partition, ID and Worker are as in TaskStatus.
	SubTopology int
	Partition   int32
	ID          string
	Worker      int
	// Since is when it began, and Attempt the number of the try that is under way, from 1; 0 says that a store that has failed is being
	// closed first.
	Since   time.Time
	Attempt int
	// Err is how the try before failed, nil if there was none: a broker that does not answer, a full disk.
	Err error
	// Stores are its stores that are being restored. It is empty while positions are read, which may have to wait for the transaction
	// of the task's last owner.
	Stores []StoreProgress
}

// StoreProgress is where the restore of one store stands.
type StoreProgress struct {
	// Store is the store's name, and Topic and Partition what it is restored from.
	Store     string
	Topic     string
	Partition int32
	// Offset is the next to read, End the one at which the store is restored, and Records how many were applied so far.
	Offset, End int64
	Records     int64
	// Waiting says that somebody's open transaction keeps the rest from being read, at the longest for its timeout.
	Waiting bool
}

// Counters are sums over the life of an app. None of them ever goes down.
type Counters struct {
	// Records is how many records were processed in transactions that have committed.
	Records int64
	// Commits and Aborts are transactions by their outcome. An abort that a rebalance asks for and that has nothing in it is none.
	Commits int64
	Aborts  int64
	// ReadBacks is how often the answer to a commit was not a plain yes and the committed offsets were read back to know.
	ReadBacks int64
	// ReadBacksCommitted is how many of them found that the transaction had been committed.
	ReadBacksCommitted int64
	// TasksBuilt is how often a task was made, after an assignment, an abort or a restart, and TasksLost how often one was taken.
	TasksBuilt int64
	TasksLost  int64
	// RecordsRestored is how many records of changelogs and tables went into stores when tasks were made.
	RecordsRestored int64
	// StoresWiped is how often a store was emptied and restored from the start of its topic: its position was too old, or not in the
	// topic any more. StatesDamaged is how often the state of a task was found damaged on disk and thrown away.
	StoresWiped   int64
	StatesDamaged int64
	// OffsetsTrimmed is how far the starts of internal topics were moved, summed over their partitions: what had been read of repartition
	// topics, and what changelogs had of windows that are gone.
	OffsetsTrimmed int64
	// Rebalances is how often the group gave a worker an assignment.
	Rebalances int64
	// Fenced is how often another process, or a transaction's timeout, took a worker's transactional id away.
	Fenced int64
	// Sessions is how many clients the workers have made.
	Sessions int64
	// Dropped is how many records went no further, by reason: null-key, null-value, late-dropped, undecodable, bad-timestamp, failed
	// (the topology's own code, under topology.Skip), refused (an output that its topic does not take, under topology.Skip), no-match
	// (JoinTable found no entry for the key), no-window (windows of one's own that leave gaps), and future (TopicOf.FutureGuard with window.Drop). A record that is late for several windows, or that several operators drop, counts as often.
	// Sidelined records and dead letters are not among them.
	Dropped map[string]int64
	// Reports is how many watermark reports were written into repartition topics, in transactions that committed: one for each partition,
	// whenever a task has something to report.
	Reports int64
	// Lost is how many offsets of inputs retention had deleted before they were processed, under Config.SkipLostInput. Those that
	// are found again, since nothing was committed in between, count again.
	Lost int64
	// Sidelined is how many late records, and such that were too far ahead, were written to a sideline topic, and DeadLetters how many to a dead-letter topic.
	Sidelined   int64
	DeadLetters int64
	// Corrected is how many late records corrected the result of a window, once for each window.
	Corrected int64
}

// workerSnapshot is what a worker publishes. It is immutable.
type workerSnapshot struct {
	status    WorkerStatus
	tasks     []TaskStatus
	restoring []RestoreStatus
	tally     tally
}

// Snapshot returns where the app stands. It is safe for concurrent use, takes no lock that a worker needs, and may be some tens of
// milliseconds behind while a worker is busy.
func (a *App) Snapshot() Snapshot {
	s := Snapshot{AppID: a.set.AppID}
	if lay := a.published.Load(); lay != nil {
		s.Instance = a.instance // set before
		s.Expected = make(map[int]int, len(lay.subs))
		for i := range lay.subs {
			s.Expected[lay.subs[i].sub.ID] = int(lay.subs[i].tasks)
		}
	}
	var all drops
	var commits times
	read, written := flows{}, flows{}
	s.Aborts = make(map[AbortReason]int64)
	for i := range a.states {
		ws := a.states[i].Load()
		if ws == nil {
			s.Workers = append(s.Workers, WorkerStatus{ID: i, State: Starting})
			continue
		}
		status := ws.status
		status.Stall = a.stalls[i].Load()
		s.Workers = append(s.Workers, status)
		s.Tasks = append(s.Tasks, ws.tasks...)
		s.Restoring = append(s.Restoring, ws.restoring...)
		s.Counters.add(&ws.tally.Counters)
		all = all.sum(ws.tally.drops)
		commits.merge(&ws.tally.commits)
		read.merge(ws.tally.read)
		written.merge(ws.tally.written)
		for j, n := range ws.tally.aborts {
			if n > 0 {
				s.Aborts[abortReasons[j]] += n
			}
		}
	}
	s.Read, s.Written, s.CommitTimes = read.list(), written.list(), commits.histogram()
	slices.SortFunc(s.Tasks, func(x, y TaskStatus) int {
		return compareTasks(engine.TaskID{SubTopology: x.SubTopology, Partition: x.Partition}, engine.TaskID{SubTopology: y.SubTopology, Partition: y.Partition})
	})
	slices.SortFunc(s.Restoring, func(x, y RestoreStatus) int {
		return compareTasks(engine.TaskID{SubTopology: x.SubTopology, Partition: x.Partition}, engine.TaskID{SubTopology: y.SubTopology, Partition: y.Partition})
	})
	s.Counters.StatesDamaged, s.Counters.OffsetsTrimmed = a.damaged.Load(), a.trimmed.Load()
	s.Counters.Dropped = make(map[string]int64)
	if lay := a.published.Load(); lay != nil {
		s.Drops, s.Late = all.list(lay), all.lateness(lay)
	}
	for _, d := range s.Drops {
		switch d.Outcome {
		case Sidelined:
			s.Counters.Sidelined += d.Records
		case Corrected:
			s.Counters.Corrected += d.Records
		case DeadLettered:
			s.Counters.DeadLetters += d.Records
		case Dropped:
			s.Counters.Dropped[d.Reason] += d.Records
		}
	}
	return s
}

func (c *Counters) add(o *Counters) {
	c.Records += o.Records
	c.Commits += o.Commits
	c.Aborts += o.Aborts
	c.ReadBacks += o.ReadBacks
	c.ReadBacksCommitted += o.ReadBacksCommitted
	c.TasksBuilt += o.TasksBuilt
	c.TasksLost += o.TasksLost
	c.RecordsRestored += o.RecordsRestored
	c.StoresWiped += o.StoresWiped
	c.Rebalances += o.Rebalances
	c.Fenced += o.Fenced
	c.Sessions += o.Sessions
	c.Lost += o.Lost
	c.Reports += o.Reports
}

func taskStatus(worker int, t *task) TaskStatus {
	st := t.run.Status()
	out := TaskStatus{SubTopology: st.Task.SubTopology, Partition: st.Task.Partition, ID: st.Task.String(), Worker: worker, StateBytes: t.size}
	for i, s := range st.Sources {
		out.Sources = append(out.Sources, SourceStatus{
			Topic: s.Topic, Partition: s.Partition, Offset: s.Offset, Queued: s.Queued, Watermark: s.Watermark, Held: s.Held, Idle: s.Idle, Behind: s.Behind, End: t.inputs[i].end,
		})
	}
	for _, o := range st.Operators {
		out.Operators = append(out.Operators, OperatorStatus(o))
	}
	return out
}
