#!/usr/bin/env bash
# Verify the record RUN and pack it into one file that verifies as it is. A record that does not hold fails the job.
set -uo pipefail
docket=$RUNNER_TEMP/docket/bin/docket
archive=$RUNNER_TEMP/$(basename "$RUN").tar
"$docket" verify "$RUN"
status=$?
case $status in
  0) verdict=verified ;;
  1) verdict=failed ;;
  2) verdict=unreadable ;;
  *) verdict=incomplete ;;
esac
echo "verdict=$verdict" >>"$GITHUB_OUTPUT"
if "$docket" archive "$RUN" --output "$archive"; then
  echo "archive=$archive" >>"$GITHUB_OUTPUT"
fi
((status == 0 || status == 3))
