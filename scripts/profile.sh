#!/usr/bin/env bash
# Profiles one run of this library at a work of the bench: CPU, allocations, blocking and locks, with a table of the top of each.
# Exits 2, naming it, when a tool is missing.
# usage: WORK=count [PEER=headrace-memory|headrace-pebble|raw] [RECORDS=2000000] [OUT=bin/profile-count] scripts/profile.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=${WORK:-count}
WORK=$work exec scripts/bench.sh -profile "${OUT:-bin/profile-$work}" -peer "${PEER:-headrace-memory}"
