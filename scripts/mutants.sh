#!/usr/bin/env bash
# Plants bugs in the library, each behind a build tag, and expects the checker that is
# named to find it in the plan that is named, or the simulation or a test to find it. A mutant that does not compile, crashes,
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

# build tag; the simulation finds them within the seeds of a submission. It also finds these, which have
# other checkers: mutant_uncommitted, mutant_counter_survives, mutant_no_freeze, mutant_position_first,
# mutant_repartition_time, mutant_report_early, mutant_reopen_window.
simulated=(
	"mutant_closed_late       # a window takes records after it has closed"
	"mutant_hold_no_grace     # what is told to the next operator leaves the grace out"
	"mutant_forward_early     # the watermark goes on while closed windows are still in the store"
	"mutant_back_from_changelog # windows that had closed come back with a restore, and stay"
	"mutant_timers_forgotten  # when a punctuation is due is forgotten at a restart"
	"mutant_clock_forgotten   # the time of an input partition is forgotten at a restart"
	"mutant_time_first        # a record moves the watermark before it is judged by it"
	"mutant_one_short         # a restore to an offset leaves out the record before it"
	"mutant_horizon_no_grace  # windows are corrected for less long than was said"
	"mutant_revision_stuck    # a correction has the revision of the result before it"
	"mutant_take_back_new     # a retraction has the new value, and not the one that was given"
	"mutant_closing_forgotten # how far the closing of windows has come is forgotten at a restart"
	"mutant_discard_nothing   # what was given is not discarded after a correction"
	"mutant_session_gap_once  # a session closes one gap too early"
	"mutant_session_part_left # the result of a session that another has absorbed is not taken back"
	"mutant_deleted_stay      # a restore takes no notice of tombstones"
)

# Bugs that few schedules of faults make visible, and the tests that find them. Changelogs are trimmed of nothing but windows that are gone,
# which operators delete again, so a store that missed the beginning of its log is seldom wrong; and tombstones are seldom needed so late.
tested=(
	"mutant_any_age ./internal/restore # a store may be older than tombstones are kept"
	"mutant_stale_kept ./internal/restore # a store from before the start of the log goes on from there"
)
seeds=3000

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
# judge looks into the output of a run that failed with a bug: a line like the verdict kills it, unless something else went wrong.
judge() { # tag, where it was run, pattern of the verdict, pattern of what proves nothing, what the run was to fail by, why
	local verdict
	verdict=$(grep -aE "$3" "$dir/out" | head -n 1 | sed 's/^ *//' || true)
	if [ -n "$verdict" ] && ! grep -qaE "$4" "$dir/out"; then
		killed=$((killed + 1))
		echo "$1: killed in $2: ${verdict:0:300}"
		return
	fi
	echo "$1: SURVIVED: $2 fails, but not by $5 ($6)"
	tail -n 25 "$dir/out" | sed 's/^/  /'
}
broken='timed out|panic:|build failed|setup failed' # go test

for line in "${mutants[@]}"; do
	read -r tag plan checker _ why <<<"$line"
	if plan "$tag" "$plan"; then
		echo "$tag: SURVIVED: the plan $plan passes ($why)"
		continue
	fi
	judge "$tag" "$plan" "violation: checker=$checker " "$broken" "the checker $checker" "$why"
done

if ! go run ./internal/sim/run -seeds "$seeds" >"$dir/out" 2>&1; then
	echo "the simulation does not pass without a planted bug, so nothing can be said:"
	tail -n 25 "$dir/out" | sed 's/^/  /'
	exit 1
fi
echo "$seeds seeds do not differ without a planted bug"
for line in "${simulated[@]}"; do
	read -r tag _ why <<<"$line"
	if go run -tags "$tag" ./internal/sim/run -seeds "$seeds" -limit 1 >"$dir/out" 2>&1; then
		echo "$tag: SURVIVED: $seeds seeds do not differ ($why)"
		continue
	fi
	judge "$tag" "the simulation" '^seed [0-9]+ differs: ' 'differs: .*panic:|^panic:|^fatal error:' "a difference" "$why"
done
for line in "${tested[@]}"; do
	read -r tag package _ why <<<"$line"
	if go test -tags "synctests $tag" -count 1 -timeout 2m "$package" >"$dir/out" 2>&1; then
		echo "$tag: SURVIVED: the tests of $package pass ($why)"
		continue
	fi
	judge "$tag" "$package" '^ *--- FAIL: ' "$broken" "a test" "$why"
done
all=$((${#mutants[@]} + ${#simulated[@]} + ${#tested[@]}))
echo "$killed of $all mutants killed"
[ "$killed" = "$all" ]
