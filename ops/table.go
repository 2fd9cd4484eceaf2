package ops

import "github.com/prometheus/client_golang/prometheus"

type kind uint8

const (
	gauge kind = iota
	counter
	histogram
)

func (k kind) String() string { return [...]string{"gauge", "counter", "histogram"}[k] }

// metric is a row of the table. Names are stable: a change is a break for whoever has a dashboard.
type metric struct {
	group   string
	name    string
	kind    kind
	labels  []string
	help    string
	streams string // what is nearest in Kafka Streams
	client  bool   // comes from the hooks of the client
	desc    *prometheus.Desc
}

// table has every metric of ours. docs/metrics.md is made of it, and what is collected is held to it.
var table []*metric

func row(group string, k kind, name, help, streams string, labels ...string) *metric {
	m := &metric{group: group, name: "headrace_" + name, kind: k, labels: labels, help: help, streams: streams}
	m.desc = prometheus.NewDesc(m.name, m.help, m.labels, nil)
	table = append(table, m)
	return m
}

func clientRow(k kind, name, help, streams string, labels ...string) *metric {
	m := row(groupClient, k, "client_"+name, help, streams, labels...)
	m.client = true
	return m
}

const (
	groupApp     = "App and workers"
	groupTopics  = "Topics and partitions"
	groupDrops   = "Records that went no further"
	groupCommits = "Transactions and the group"
	groupState   = "State"
	groupClient  = "Kafka client"
)

var (
	appInfo = row(groupApp, gauge, "app_info", "1, with the name of the process among those of the application and the version of the library.",
		"app-info, version", "app_instance", "version")
	ready   = row(groupApp, gauge, "ready", "Whether /readyz says that the app is ready: 1, or 0.", "state")
	workers = row(groupApp, gauge, "workers", "Workers by what they are doing: starting, joining, restoring, running, stopped.",
		"alive-stream-threads", "state")
	workersStalled = row(groupApp, gauge, "workers_stalled", "Workers that have been at one step or commit for longer than the task timeout.",
		"failed-stream-threads")
	workersFailing = row(groupApp, gauge, "workers_failing", "Workers that have met errors for more than 30 s without a commit in between.", "")
	tasks          = row(groupApp, gauge, "tasks", "Tasks of this process by state: restoring, running.", "", "state")
	tasksExpected  = row(groupApp, gauge, "tasks_expected", "Tasks that the application has over all processes.", "")
	tasksBuilt     = row(groupApp, counter, "tasks_built_total", "Times a task was made, after an assignment, an abort or a restart.", "task-created-total")
	tasksLost      = row(groupApp, counter, "tasks_lost_total", "Times the group took a task away.", "task-closed-total")

	recordsProcessed = row(groupTopics, counter, "records_processed_total", "Records processed in transactions that committed.", "process-total")
	recordsRead      = row(groupTopics, counter, "read_records_total", "Records taken from a topic in transactions that committed, those that were left out too.",
		"records-consumed-total", "topic")
	bytesRead = row(groupTopics, counter, "read_bytes_total", "Bytes of keys, values and headers of these records, not compressed.",
		"bytes-consumed-total", "topic")
	recordsWritten = row(groupTopics, counter, "written_records_total", "Records written to a topic, changelogs and repartition topics too, in transactions that committed.",
		"records-produced-total", "topic")
	bytesWritten = row(groupTopics, counter, "written_bytes_total", "Bytes of keys, values and headers of these records, not compressed.",
		"bytes-produced-total", "topic")
	topicLag = row(groupTopics, gauge, "topic_lag_records", "Offsets still to be processed, summed over the topic's partitions in this process, as of the last fetch.",
		"", "topic")
	topicWatermarkLag = row(groupTopics, gauge, "topic_watermark_lag_seconds", "How far the watermark of the topic's slowest partition in this process that is not idle is behind the clock; negative if ahead.",
		"", "topic")
	partitionLag = row(groupTopics, gauge, "partition_lag_records", "Offsets still to be processed, as of the last fetch.",
		"records-lag", "topic", "partition")
	partitionQueued = row(groupTopics, gauge, "partition_queued_records", "Records that were fetched and wait to be processed.",
		"input-buffer-bytes-total", "topic", "partition")
	partitionWatermark = row(groupTopics, gauge, "partition_watermark_timestamp_seconds", "Event time up to which the partition is complete, in Unix seconds.",
		"", "topic", "partition")
	partitionWatermarkLag = row(groupTopics, gauge, "partition_watermark_lag_seconds", "How far that is behind the clock; negative if ahead.",
		"record-e2e-latency-max", "topic", "partition")
	partitionIdle = row(groupTopics, gauge, "partition_idle", "Whether the partition has had nothing for so long that watermarks go on without it: 1, or 0.",
		"", "topic", "partition")
	partitionBehind = row(groupTopics, gauge, "partition_behind_records",
		"Records since the task was made that were in order in their partition, but behind what others had come to while it was idle.", "", "topic", "partition")
	nodeWatermark = row(groupTopics, gauge, "node_watermark_timestamp_seconds", "Event time that an operator's slowest task in this process has come to, in Unix seconds.",
		"", "node")
	nodeWatermarkLag = row(groupTopics, gauge, "node_watermark_lag_seconds", "How far the event time of an operator's slowest task in this process is behind the clock; negative if ahead.",
		"", "node")

	nodeWatermarkHold = row(groupTopics, gauge, "node_watermark_hold_seconds", "How far an operator's watermark is ahead of what it has told those behind it, of the task in this process where that is most: for windows that are open, or results that are due.",
		"", "node")

	lateBy = row(groupDrops, histogram, "late_records_seconds", "By how much records were late, in event time: for how long their windows had been closed. Those that corrected a result are among them; one counts for each window.",
		"", "subtopology", "node")
	reports = row(groupTopics, counter, "watermark_reports_total", "Watermark reports written into repartition topics, one for each partition, in transactions that committed.", "")

	recordsDropped = row(groupDrops, counter, "records_dropped_total",
		"Records that went no further at an operator, by reason (null-key, late-dropped, undecodable, …) and outcome (dropped, sidelined, dead-lettered; or corrected, for what was late and corrected a result).",
		"dropped-records-total", "subtopology", "node", "reason", "outcome")
	offsetsLost = row(groupDrops, counter, "lost_offsets_total", "Offsets of inputs that retention deleted before they were processed.", "")

	commits        = row(groupCommits, counter, "commits_total", "Transactions that committed.", "commit-total")
	commitDuration = row(groupCommits, histogram, "commit_duration_seconds", "How long transactions that committed took, from their first record until stores had them.",
		"commit-latency-avg, -max")
	aborts    = row(groupCommits, counter, "aborts_total", "Transactions that did not commit, by reason: rebalance, refused, produce, fenced, broker, unclear.", "", "reason")
	readBacks = row(groupCommits, counter, "commit_readbacks_total", "Commits whose answer was not a plain yes, so that the committed positions were read back.", "")
	readYes   = row(groupCommits, counter, "commit_readbacks_committed_total", "Those that turned out to have committed.", "")
	fencings  = row(groupCommits, counter, "fencings_total", "Times another process, or a timeout, took a transactional id away.", "")
	sessions  = row(groupCommits, counter, "sessions_total", "Clients that workers have made: one each, and one more whenever one had to be replaced.", "")
	rebalance = row(groupCommits, counter, "rebalances_total", "Times the group gave a worker other tasks.", "rebalance-total")

	restored = row(groupState, counter, "restored_records_total", "Records of changelogs and tables that went into stores when tasks were made.",
		"restore-total")
	restoreRemaining = row(groupState, gauge, "restore_remaining_records", "Offsets still to be read before a store is restored. There is none when it is.",
		"restore-remaining-records-total", "task", "store")
	stateBytes = row(groupState, gauge, "task_state_bytes", "Room that a task's stores take, on disk or in memory, as of some seconds ago.",
		"total-sst-files-size", "task")
	storesWiped   = row(groupState, counter, "stores_wiped_total", "Times a store was emptied and restored from the start of its topic.", "")
	statesDamaged = row(groupState, counter, "states_damaged_total", "Times the state of a task was found damaged on disk and thrown away.", "")
	trimmed       = row(groupState, counter, "trimmed_offsets_total", "Offsets deleted from internal topics, since nobody needs them any more.", "")

	bufferedProduced = row(groupClient, gauge, "client_buffered_produce_records", "Records that clients have not yet written.", "")
	bufferedFetched  = row(groupClient, gauge, "client_buffered_fetch_records", "Records that clients have fetched and nobody has taken.", "")
	_                = clientRow(counter, "connects_total", "Connections opened.", "connection-creation-total", "node_id")
	_                = clientRow(counter, "connect_errors_total", "Connections that could not be opened.", "failed-authentication-total", "node_id")
	_                = clientRow(counter, "disconnects_total", "Connections closed.", "connection-close-total", "node_id")
	_                = clientRow(counter, "write_bytes_total", "Bytes written to brokers.", "outgoing-byte-total", "node_id")
	_                = clientRow(counter, "write_errors_total", "Requests that could not be written.", "", "node_id")
	_                = clientRow(counter, "read_bytes_total", "Bytes read from brokers.", "incoming-byte-total", "node_id")
	_                = clientRow(counter, "read_errors_total", "Answers that could not be read.", "", "node_id")
	_                = clientRow(histogram, "request_duration_e2e_seconds", "From writing a request to having read its answer; fetches wait for records.",
		"request-latency-avg, -max", "node_id")
	_ = clientRow(histogram, "request_throttled_seconds", "How long brokers asked to wait.", "produce-throttle-time-avg, -max", "node_id")
	_ = clientRow(counter, "produce_compressed_bytes_total", "Bytes of batches written, as they were sent.", "outgoing-byte-total", "topic")
	_ = clientRow(counter, "produce_batches_total", "Batches written.", "", "topic")
	_ = clientRow(counter, "fetch_compressed_bytes_total", "Bytes of batches fetched, restores and rereads too, as they came.", "", "topic")
	_ = clientRow(counter, "fetch_batches_total", "Batches fetched.", "", "topic")
)
