#!/usr/bin/env bash
# The reference app as it is deployed, against a real Apache Kafka: 20,000 flights are fed,
# two processes work on them with their state on disk, one is killed in the middle and
# started again, and everything that they wrote is verified.
# Exits 2, naming it, when a tool is missing.
# usage: [RECORDS=20000] [RATE=2000] scripts/product.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

missing() {
	echo "product: $1" >&2
	exit 2
}
command -v java >/dev/null || missing "java is missing: install a JDK 17 or newer and put it into the PATH"
version=$(java -version 2>&1 | sed -nE 's/.* version "([0-9]+).*/\1/p' | head -n 1)
[ "${version:-0}" -ge 17 ] || missing "java 17 or newer is missing: $(command -v java) is version ${version:-unknown}"
command -v mvn >/dev/null || missing "mvn is missing: install Apache Maven and put it into the PATH; it fetches Kafka"

dir=$(mktemp -d)
pids=()
broker=
finish() {
	code=$?
	for pid in "${pids[@]}"; do kill -9 "$pid" 2>/dev/null || true; done
	if [ -n "$broker" ]; then kill "$broker" 2>/dev/null || true; fi # in order, so that it removes its data
	wait 2>/dev/null || true
	if [ "$code" != 0 ]; then tail -n 5 "$dir"/*.log >&2 || true; fi
	rm -rf "$dir"
	exit "$code"
}
trap finish EXIT

# await SECONDS WHAT COMMAND...
await() {
	local end=$((SECONDS + $1)) what=$2
	shift 2
	until "$@"; do
		if [ "$SECONDS" -ge "$end" ]; then
			echo "product: waited in vain for $what" >&2
			exit 1
		fi
		sleep 0.1
	done
}

go build -o "$dir/sample-app" ./cmd/sample-app
app=$dir/sample-app
export HEADRACE_SESSION_TIMEOUT=6s HEADRACE_TRANSACTION_TIMEOUT=10s HEADRACE_STATE=pebble HEADRACE_FEED_RECORDS=${RECORDS:-20000}

"$app" broker -port 0 >"$dir/address" 2>"$dir/broker.log" &
broker=$!
await 180 "Kafka" test -s "$dir/address"
HEADRACE_BROKERS=$(cat "$dir/address")
export HEADRACE_BROKERS
echo "Kafka on $HEADRACE_BROKERS"

start() { # start NAME: a process with a directory of its own
	HEADRACE_STATE_DIR=$dir/state-$1 "$app" run 2>>"$dir/$1.log" &
	started=$!
	pids+=("$started")
}
works() { grep -q '"msg":"tasks".*"tasks":\["' "$dir/$1.log"; }

"$app" feed --rate "${RATE:-2000}" >"$dir/feed.out" 2>"$dir/feed.log" &
feed=$!
pids+=("$feed")
start a
a=$started
start b
b=$started
await 60 "process a to get tasks" works a
await 60 "process b to get tasks" works b
await 60 "the feed to be under way" grep -q '^fed ' "$dir/feed.log"
kill -0 "$feed" || {
	echo "product: the feed was over before anything was killed; give a smaller RATE" >&2
	exit 1
}
{
	kill -9 "$b"
	wait "$b" || true
} 2>/dev/null # without bash's own remark
echo "killed a process with kill -9: $(tail -n 1 "$dir/feed.log")"
start b
b=$started
wait "$feed"
cat "$dir/feed.out"
"$app" verify
kill -TERM "$a" "$b"
wait "$a"
wait "$b"
echo "both processes stopped in order"
