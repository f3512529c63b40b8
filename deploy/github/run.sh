#!/usr/bin/env bash
# Run COMMAND under docket and exit as it does; status, report and run directory become outputs of the step.
set -uo pipefail
docket=$RUNNER_TEMP/docket/bin/docket
report=$RUNNER_TEMP/docket-report.md
flags=(--label "$LABEL" --summary-file "$report")
[[ -z $MAX_USD ]] || flags+=(--max-usd "$MAX_USD")
[[ -z $POLICY ]] || flags+=(--policy "$POLICY")
rm -f "$report"
"$docket" run "${flags[@]}" -- sh -c "$COMMAND"
status=$?
{
  echo "status=$status"
  if [[ -e $report ]]; then
    echo "report=$report"
    echo "run=$(cd .docket/latest && pwd -P)"
  fi
} >>"$GITHUB_OUTPUT"
exit "$status"
