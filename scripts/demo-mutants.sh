#!/usr/bin/env bash
# Plants faults in the demo, each behind a build tag, and expects the demo's own
# checker to find every one of them. Only the checker's verdict counts: a mutant
# that does not compile, crashes or hangs proves nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mutants=(
	mutant_repartition_time # W is taken from the repartition records' own timestamps
	mutant_report_early     # a report carries W at the time of writing, not at the commit's cut
	mutant_reopen_window    # a late record opens its closed window again
)
limit=180 # seconds for one run; the demo itself gives up earlier

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

run() { # run the command, ended after the limit where the system can do that
	if command -v timeout >/dev/null; then
		timeout "$limit" "$@"
	else
		"$@"
	fi
}

caught=0
for mutant in "${mutants[@]}"; do
	if ! go build -tags "$mutant" -o "$dir/$mutant" ./cmd/sample-app; then
		echo "$mutant: does not compile, so nothing was caught"
		continue
	fi
	code=0
	run "$dir/$mutant" demo "$@" >"$dir/out" 2>"$dir/err" </dev/null || code=$?
	verdict=$(grep -F 'not verified' "$dir/out" | tail -n 1 || true)
	if [ "$code" = 1 ] && [ -n "$verdict" ]; then
		caught=$((caught + 1))
		echo "$mutant: caught: $verdict"
		continue
	fi
	case $code in
	0) echo "$mutant: NOT CAUGHT: the demo says that all is well" ;;
	124) echo "$mutant: NOT CAUGHT: no verdict after $limit s" ;;
	*) echo "$mutant: NOT CAUGHT: exit code $code without the checker's verdict" ;;
	esac
	sed 's/^/  stdout: /' <(tail -n 15 "$dir/out")
	sed 's/^/  stderr: /' <(tail -n 15 "$dir/err")
done
echo "$caught of ${#mutants[@]} mutants caught"
[ "$caught" = "${#mutants[@]}" ]
