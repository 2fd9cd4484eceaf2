#!/usr/bin/env bash
# Runs the micro-benchmarks of the hot paths, and compares bytes and allocations, never times, with
# bench/allocations.txt. Whatever its figures, a benchmark whose name ends in ZeroAlloc, or a
# sub-benchmark of one, fails this when it allocates.
# usage: [UPDATE=1] scripts/bench-ops.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
(cd bench && go build -o "$bin/ops" ./ops)
"$bin/ops" ${UPDATE:+-update}
