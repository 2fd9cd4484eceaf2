#!/usr/bin/env bash
# Measures this library beside a franz-go loop without a framework and beside Kafka Streams, on a real Apache Kafka.
# With WORK, RECORDS or ROUNDS it is a quick look, which writes no page and judges no target; wrong outputs fail it anyway.
# Exits 2, naming it, when a tool is missing.
# usage: [WORK=map,count,…] [RECORDS=2000000] [ROUNDS=3] scripts/bench.sh [flags of bench]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

missing() {
	echo "bench: $1" >&2
	exit 2
}
command -v java >/dev/null || missing "java is missing: install a JDK 17 or newer and put it into the PATH"
version=$(java -version 2>&1 | sed -nE 's/.* version "([0-9]+).*/\1/p' | head -n 1)
[ "${version:-0}" -ge 17 ] || missing "java 17 or newer is missing: $(command -v java) is version ${version:-unknown}"
command -v javac >/dev/null || missing "javac is missing: install a JDK 17 or newer, not only its runtime, and put it into the PATH"
command -v mvn >/dev/null || missing "mvn is missing: install Apache Maven and put it into the PATH; it fetches Kafka and Kafka Streams"

flags=()
[ -z "${WORK:-}" ] || flags+=(-work "$WORK")
[ -z "${RECORDS:-}" ] || flags+=(-records "$RECORDS")
[ -z "${ROUNDS:-}" ] || flags+=(-rounds "$ROUNDS")
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
(cd bench && go build -o "$bin/bench" .)
"$bin/bench" "${flags[@]}" "$@"
