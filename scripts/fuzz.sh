#!/usr/bin/env bash
# Runs every fuzz target of this module for a while, one after the other.
# usage: scripts/fuzz.sh [executions or duration, default 50000x] [regexp of packages or targets]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
duration=${1:-50000x}
only=${2:-.}

list() { # lines of "package target"
	local pkg dir target
	go list -tags synctests -f '{{.ImportPath}} {{.Dir}}' ./... | while read -r pkg dir; do
		{ grep -hoE '^func Fuzz[A-Za-z0-9_]*\(' "$dir"/*_test.go 2>/dev/null || true; } |
			sed -E 's/^func (Fuzz[A-Za-z0-9_]*)\($/\1/' | sort -u |
			while read -r target; do echo "$pkg $target"; done
	done
}

targets=$(list | grep -E -- "$only" || true)
if [ -z "$targets" ]; then
	echo "fuzz: no target matches $only" >&2
	exit 1
fi
n=0
while read -r pkg target; do
	echo "fuzz: $pkg $target for $duration"
	go test -tags synctests -run '^$' -fuzz "^$target\$" -fuzztime "$duration" "$pkg" </dev/null
	n=$((n + 1))
done <<<"$targets"
echo "fuzz: $n targets ran"
