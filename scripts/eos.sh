#!/usr/bin/env bash
# Exactly-once on a real Apache Kafka: two processes with their state on disk, killed,
# stopped and restarted by a plan, and everything that they wrote and kept checked.
# Exits 2, naming it, when a tool is missing. Needs Linux or another Unix for its signals.
# usage: [RECORDS=200000] [PLAN=full|short|none] [SEED=n] scripts/eos.sh [flags of internal/eos/run]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

missing() {
	echo "eos: $1" >&2
	exit 2
}
command -v java >/dev/null || missing "java is missing: install a JDK 17 or newer and put it into the PATH"
version=$(java -version 2>&1 | sed -nE 's/.* version "([0-9]+).*/\1/p' | head -n 1)
[ "${version:-0}" -ge 17 ] || missing "java 17 or newer is missing: $(command -v java) is version ${version:-unknown}"
command -v mvn >/dev/null || missing "mvn is missing: install Apache Maven and put it into the PATH; it fetches Kafka"

plan=${PLAN:-full}
records=${RECORDS:-}
if [ -z "$records" ]; then
	records=200000
	[ "$plan" = full ] || records=60000
fi
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
go build -tags failpoints -o "$bin/app" ./internal/eos/app
go build -o "$bin/run" ./internal/eos/run
"$bin/run" -app "$bin/app" -records "$records" -plan "$plan" -seed "${SEED:-0}" "$@"
