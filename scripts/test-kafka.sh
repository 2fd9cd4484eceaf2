#!/usr/bin/env bash
# Runs the tests that are behind the build tag kafka: on a real Apache Kafka, which
# they start themselves. Exits 2, naming it, when a tool is missing.
# usage: scripts/test-kafka.sh [regexp of test names]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
only=${1:-.}

missing() {
	echo "test-kafka: $1" >&2
	exit 2
}
command -v java >/dev/null || missing "java is missing: install a JDK 17 or newer and put it into the PATH"
version=$(java -version 2>&1 | sed -nE 's/.* version "([0-9]+).*/\1/p' | head -n 1)
[ "${version:-0}" -ge 17 ] || missing "java 17 or newer is missing: $(command -v java) is version ${version:-unknown}"
command -v mvn >/dev/null || missing "mvn is missing: install Apache Maven and put it into the PATH; it fetches Kafka"

# Only these: what needs no Kafka is what make test runs.
files=$(grep -rlE --include='*_test.go' '^//go:build kafka( |$)' . | sort)
ran=0
for dir in $(xargs -n 1 dirname <<<"$files" | sort -u); do
	names=$(grep -E "^$dir/[^/]+\$" <<<"$files" | xargs sed -nE 's/^func (Test[A-Za-z0-9_]+)\(.*/\1/p' | grep -E -- "$only" | paste -sd '|' - || true)
	[ -n "$names" ] || continue
	go test -tags 'synctests kafka' -count 1 -timeout 20m -v -run "^($names)\$" "$dir"
	ran=$((ran + 1))
done
if [ "$ran" = 0 ]; then
	echo "test-kafka: no test matches $only" >&2
	exit 1
fi
