#!/usr/bin/env bash
# Runs what the documents say: their commands in order, their programs, and the examples, which
# are modules of their own; checks links, names, and that what is generated is fresh. A real Kafka
# is used where Java and Maven are, else an embedded one. What is not run is listed at the end.
# usage: scripts/docs-check.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# tests DIR PATTERN ARGUMENTS...: go test there; of its output, the lines that match.
tests() {
	local dir=$1 pattern=$2 code=0
	shift 2
	(cd "$dir" && go test -count 1 -v "$@" 2>&1) >"$log.one" || code=$?
	cat "$log.one" >>"$log"
	if [ "$code" != 0 ]; then
		cat "$log.one" >&2
		echo "docs-check: go test $* in $dir failed" >&2
		exit "$code"
	fi
	grep -E "$pattern" "$log.one" || true
}
trap 'rm -f "$log" "$log.one"' EXIT

for mod in examples/*/go.mod; do
	dir=$(dirname "$mod")
	echo "$dir"
	(cd "$dir" && go mod tidy -diff && go vet ./...)
	tests "$dir" '^(--- |ok )' ./...
done
tests . '^ *--- (PASS|SKIP)|: (ran|run by make ci|not run): |^ok ' -timeout 10m ./internal/archtest -run '^Test(Docs|Readme)' -commands

echo "docs-check: $(grep -c ': ran: ' "$log") commands of documents run, $(grep -c ': run by make ci: ' "$log" || true) left to make ci"
sed -nE 's/.*(not run: .*)/docs-check: \1/p' "$log"
sed -nE 's/^--- SKIP: ([A-Za-z]+) .*/docs-check: not run: \1, which needs a Docker engine that has its image/p' "$log"
