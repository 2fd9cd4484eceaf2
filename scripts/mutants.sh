#!/usr/bin/env bash
# Plants bugs in the library, each behind a build tag, and expects the checker that is
# named to find it in the plan that is named. A mutant that does not compile, crashes,
# hangs or runs out of time proves nothing, and so does one that another checker finds.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# build tag, plan, checker
mutants=(
	"mutant_outputs_after_end  crash-after-commit              fold      # outputs are handed over after the end of their transaction"
	"mutant_keep_overlay       aborts                          fold      # the overlay outlives an abort"
	"mutant_moved_offsets_only zombie-with-timers              timers    # the offset is left out when nothing moved"
	"mutant_trust_no           committed-but-refused           fold      # (false, nil) is believed to mean not committed"
	"mutant_trust_callbacks    two-rebalances-in-a-transaction timers    # ownership is the sum of the revoke callbacks"
	"mutant_keep_queue         join-with-deep-queues           fold      # the queue outlives an empty abort"
	"mutant_uncommitted        crash-before-commit             fold      # a restore reads uncommitted data"
	"mutant_offset_by_one      restart                         fold      # committed offsets are one too low"
	"mutant_counter_survives   aborts                          counters  # a counter in the engine survives an abort"
	"mutant_no_freeze          writes-while-committing         fold      # what is written during a commit is taken for a part of it"
	"mutant_position_first     power-loss                      fold      # a position is on disk before its data"
)

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

plan() { # tags, plan: run one, at most two minutes of it
	go test -tags "synctests $1" -count 1 -timeout 2m -run "^TestPlan\$/^$2\$" ./internal/eos >"$dir/out" 2>&1
}

if ! go test -tags synctests -count 1 -timeout 5m -run '^TestPlan$' ./internal/eos >"$dir/out" 2>&1; then
	echo "the plans do not pass without a planted bug, so nothing can be said:"
	sed 's/^/  /' "$dir/out"
	exit 1
fi
echo "all plans pass without a planted bug"

killed=0
for line in "${mutants[@]}"; do
	read -r tag plan checker _ why <<<"$line"
	if plan "$tag" "$plan"; then
		echo "$tag: SURVIVED: the plan $plan passes ($why)"
		continue
	fi
	verdict=$(grep -F "violation: checker=$checker " "$dir/out" | head -n 1 | sed 's/^ *//' || true)
	if [ -n "$verdict" ] && ! grep -qE 'timed out|panic:|build failed|setup failed' "$dir/out"; then
		killed=$((killed + 1))
		echo "$tag: killed in $plan: $verdict"
		continue
	fi
	echo "$tag: SURVIVED: $plan fails, but not by the checker $checker ($why)"
	tail -n 25 "$dir/out" | sed 's/^/  /'
done
echo "$killed of ${#mutants[@]} mutants killed"
[ "$killed" = "${#mutants[@]}" ]
