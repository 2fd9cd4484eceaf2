#!/usr/bin/env bash
# Holds windowed counts and sums to Kafka Streams' own TopologyTestDriver, case by case: bench/oracle/README.md.
# Exits 2, naming it, when a tool is missing.
# usage: [N=5000] [SEED=123] scripts/oracle.sh     with SEED only that case, and all that is answered to it
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

missing() {
	echo "oracle: $1" >&2
	exit 2
}
command -v java >/dev/null || missing "java is missing: install a JDK 17 or newer and put it into the PATH"
version=$(java -version 2>&1 | sed -nE 's/.* version "([0-9]+).*/\1/p' | head -n 1)
[ "${version:-0}" -ge 17 ] || missing "java 17 or newer is missing: $(command -v java) is version ${version:-unknown}"
command -v javac >/dev/null || missing "javac is missing: install a JDK 17 or newer, not only its runtime, and put it into the PATH"
command -v mvn >/dev/null || missing "mvn is missing: install Apache Maven and put it into the PATH; it fetches Kafka Streams"

flags=(-n "${N:-5000}")
[ -z "${SEED:-}" ] || flags=(-first "$SEED" -one)
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
(cd bench && go build -o "$bin/oracle" ./oracle)
"$bin/oracle" "${flags[@]}" "$@"
