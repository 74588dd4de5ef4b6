#!/usr/bin/env bash
# Runs the checks named on the command line, all of them by default, and says at the end which failed.
#
#   tools/check.sh              everything
#   tools/check.sh lint types   only these
#
# Steps: lint format imports types pytest lit. Others that run pytest: whole (all cases of the sweeps,
# of which pytest takes some), quick (without the slow tests) and sample (every hundred-and-sixtieth
# of the quick ones, and every fifth of lit's).
# The interpreter is $PYTHON, else .venv/bin/python, else python3.
set -uo pipefail

cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." || exit 2

python=${PYTHON:-}
if [[ -z $python ]]; then
  python=python3
  [[ -x .venv/bin/python ]] && python=.venv/bin/python
fi

if ! "$python" -c 'import pytest' 2>/dev/null; then
  echo "error: $python lacks the test tools; run 'make test' once, or name another with PYTHON=" >&2
  exit 2
fi

steps=("$@")
[[ $# -eq 0 ]] && steps=(lint format imports types pytest lit)

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

run_pytest() { # which cases of the sweeps, which marks, and of how many tests one is run
  local sweeps=$1 marks=$2 every=${3:-1}
  if ! command -v chromium chromium-browser google-chrome google-chrome-stable >/dev/null; then
    echo "note: no Chromium on the PATH; tests/py/compiler/test_report_in_browser.py is left out"
    marks="${marks:+$marks and }not browser"
  fi
  # Three workers for the two cores of CI: tests of several clients wait for time-outs.
  "$python" -m pytest -q -n 3 --dist worksteal --sweeps="$sweeps" --every="$every" -m "$marks"
}

run_lit() {
  "$python" -c 'from lit.main import main; main()' -sv --no-progress-bar "$@" tests/lit
}

run_step() {
  case $1 in
    lint) "$python" -m ruff check . ;;
    format) "$python" -m ruff format --check . ;;
    imports) "$python" -c 'from importlinter.cli import lint_imports_command as main; main()' --no-logo ;;
    types) "$python" -m mypy --num-workers 2 ;;
    pytest) run_pytest some "" ;;
    whole) run_pytest whole "" ;;
    quick) run_pytest some "not slow" ;;
    sample) run_pytest whole "not slow" 160 && run_lit --num-shards 5 --run-shard 1 ;;
    lit) run_lit ;;
    *) echo "error: no step '$1'; there are lint format imports types pytest whole quick sample lit" && return 2 ;;
  esac
}

# What pytest ("3 failed, 9 passed in 2.10s") and lit ("  Passed: 9 (100.00%)") say at their end.
count_tests() {
  cat "$logs"/pytest "$logs"/whole "$logs"/quick "$logs"/sample "$logs"/lit 2>/dev/null | awk '
    /^=* ?[0-9]+ [a-z]+.* in [0-9.]+s/ {
      for (i = 2; i <= NF; i++) {
        if ($i ~ /^passed/) passed += $(i - 1)
        if ($i ~ /^(failed|error)/) failed += $(i - 1)
        if ($i ~ /^(skipped|xfailed)/) skipped += $(i - 1)
      }
    }
    /^  (Passed|Passed With Retry) *:/ { passed += number() }
    /^  (Failed|Unresolved|Timed Out|Unexpectedly Passed) *:/ { failed += number() }
    /^  (Skipped|Unsupported|Expectedly Failed) *:/ { skipped += number() }
    function number(  parts) { split($0, parts, ":"); return parts[2] + 0 }
    END { printf "tests: %d passed, %d failed, %d skipped\n", passed, failed, skipped }'
}

failed=()
summary=()
for step in "${steps[@]}"; do
  printf '\n== %s\n' "$step"
  start=$SECONDS
  if run_step "$step" 2>&1 | tee "$logs/$step"; then result=ok; else result=FAILED && failed+=("$step"); fi
  summary+=("$(printf '%-8s %-6s %4d s' "$step" "$result" $((SECONDS - start)))")
done

printf '\n'
printf '%s\n' "${summary[@]}" "total           $(printf '%4d' "$SECONDS") s"
[[ ${#failed[@]} -gt 0 ]] && echo "failed: ${failed[*]}"
[[ " ${steps[*]} " =~ \ (pytest|whole|quick|sample|lit)\  ]] && count_tests
[[ ${#failed[@]} -eq 0 ]]
