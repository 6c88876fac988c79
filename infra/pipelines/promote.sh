#!/usr/bin/env bash
# Has the service make the candidate live, and waits until the watch that follows is over.
#
# The service promotes a run only while its verdict still holds (its clearance), and only if nobody changed the live
# index meanwhile. Of several sets' runs the first is promoted: the sets in the service's GATE_REQUIRED_SETS are
# those that it wants a cleared run of as well.
#
# Read from the environment:
#   GATE_SERVICE_URL, GATE_SERVICE_SCOPE   as in gate.sh
#   RUNS, CANDIDATE                        its output variables "runs" and "candidate"
#
# Exit status 0: the candidate is live and what was watched holds. 1: it is not live; it was refused, or the watch
# failed and the index before it is live again. 2: it is not known; look at what the service says is live.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=infra/pipelines/agent.sh
source "$here/agent.sh"

: "${GATE_SERVICE_URL:?}" "${GATE_SERVICE_SCOPE:?}" "${RUNS:?}" "${CANDIDATE:?}"

status=0
harmless gate promote "${RUNS%% *}" --service="$GATE_SERVICE_URL" || status=$?
((status == 1)) || exit "$((status == 0 ? 0 : 2))"

# Refused, or the watch failed. Only where the candidate is live is there something to go back from: the service
# refuses a roll-back from anything else, so that nobody else's promotion is undone, and no roll-back done twice.
status=0
harmless gate rollback --service="$GATE_SERVICE_URL" --confirm-live="$CANDIDATE" || status=$?
case $status in
  0) note 'What was watched does not hold: the index before is live again.' ;;
  1) note 'The candidate is not live.' ;;
  *) exit 2 ;;
esac
exit 1
