#!/usr/bin/env bash
# Runs schedules of faults against whole apps in virtual time: SCHEDULES of them, from the seed SEED. RACE=1 has the race detector look.
# TRACE=file runs one that failed before, TIMES times (50). KEEP is where traces and logs of what fails go.
#   scripts/simulate-runtime.sh             exits 1 on a violation, and if the schedules met too little
#   scripts/simulate-runtime.sh mutants     which planted bugs a run finds; exits 1 if one of those that it has to find survives
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

schedules=${SCHEDULES:-500}
seed=${SEED:-1}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
keep=${KEEP:-${TMPDIR:-/tmp}/headrace-simulate-runtime}
race=()
if [ -n "${RACE:-}" ]; then
	race=(-race)
fi

build() { # tags: the program that runs schedules
	go test -c "${race[@]}" -tags "synctests $1" -o "$dir/simrun" ./internal/simrun
}

if [ "${1:-}" != mutants ]; then
	build ""
	args=(-simulate -schedules "$schedules" -seed "$seed" -keep "$keep")
	if [ -n "${TRACE:-}" ]; then
		args+=(-trace "$(realpath "$TRACE")" -times "${TIMES:-50}")
	fi
	"$dir/simrun" -test.run '^TestSimulate$' -test.timeout 0 "${args[@]}"
	exit
fi

# build tag, and whether the simulator has to find it within the schedules of .ci/run
mutants=(
	"mutant_outputs_after_end"
	"mutant_keep_overlay"
	"mutant_moved_offsets_only"
	"mutant_trust_no"
	"mutant_trust_callbacks"
	"mutant_keep_queue"
	"mutant_uncommitted"
	"mutant_offset_by_one"
	"mutant_counter_survives"
	"mutant_no_freeze"
	"mutant_position_first"
)
for tag in "${mutants[@]}"; do
	build "$tag"
	if "$dir/simrun" -test.run '^TestSimulate$' -test.timeout 0 -simulate -until-one -schedules "${SCHEDULES:-150}" -seed "$seed" >"$dir/out" 2>&1; then
		echo "$tag: survives ${SCHEDULES:-150} schedules"
		continue
	fi
	echo "$tag: found: $(grep -m 1 -A 1 '^seed ' "$dir/out" | tr -s '\n ' ' ')"
done
