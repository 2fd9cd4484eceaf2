#!/usr/bin/env bash
# Runs the benchmarks that promise not to allocate, briefly: times of so short a run mean
# nothing. A benchmark whose name ends in ZeroAlloc, or a sub-benchmark of one, fails
# this when it allocates.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
out=$(mktemp)
trap 'rm -f "$out"' EXIT
go test -run '^$' -bench ZeroAlloc -benchmem -benchtime 2000x ./... | tee "$out" | { grep -vE 'no test files|^ok|^PASS' || true; }
awk '
	/^Benchmark/ && $1 ~ /ZeroAlloc(-[0-9]+)?$|ZeroAlloc\// {
		n++
		for (i = 2; i <= NF; i++) if ($i == "allocs/op" && $(i-1) != 0) { print "allocates: " $0; bad++ }
	}
	END {
		printf "bench-alloc: %d benchmarks promise no allocations, %d of them allocate\n", n, bad
		exit n == 0 || bad > 0
	}' "$out"
