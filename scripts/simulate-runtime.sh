#!/usr/bin/env bash
# Runs schedules of faults against whole apps in virtual time: SCHEDULES of them, from the seed SEED. RACE=1 has the race detector look.
# TRACE=file runs one that failed before, TIMES times (50). KEEP is where traces and logs of what fails go.
#   scripts/simulate-runtime.sh             exits 1 on a violation, and if the schedules met too little
#   scripts/simulate-runtime.sh mutants     which planted bugs a run finds; exits 1 if one of those that it has to find survives
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

schedules=${SCHEDULES:-500}
if [ "${1:-}" = mutants ]; then
	schedules=${SCHEDULES:-150}
fi
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

# Those that it has to find. Not among them: mutant_trust_callbacks, which needs two rebalances in one transaction to tell of the first only, and
# mutant_counter_survives, which keeps its counters in a map that all apps of a process would share.
mutants=(
	mutant_outputs_after_end mutant_keep_overlay mutant_moved_offsets_only mutant_trust_no mutant_keep_queue mutant_uncommitted
	mutant_offset_by_one mutant_no_freeze mutant_position_first mutant_clocks_forgotten
)
found=0
for tag in "${mutants[@]}"; do
	build "$tag"
	if "$dir/simrun" -test.run '^TestSimulate$' -test.timeout 0 -simulate -until-one -schedules "$schedules" -seed "$seed" >"$dir/out" 2>&1; then
		echo "$tag: SURVIVED $schedules schedules"
	elif ! grep -m 1 -A 1 '^seed ' "$dir/out" >"$dir/first" || grep -q 'fell over' "$dir/first"; then
		echo "$tag: SURVIVED: the simulator fails, but not by a violation"
		tail -n 25 "$dir/out" | sed 's/^/  /'
	else
		found=$((found + 1))
		echo "$tag: found by $(tr -s '\n ' ' ' <"$dir/first")"
	fi
done
echo "$found of ${#mutants[@]} planted bugs found"
[ "$found" = "${#mutants[@]}" ]
