#!/usr/bin/env bash
# Has the service make the candidate live, and waits until the watch that follows is over.
#
# The service promotes a run only while its verdict still holds (its clearance), and only if nobody changed the live
# index meanwhile. Of several sets' runs the first is promoted: the sets in the service's GATE_REQUIRED_SETS are
# those that it wants a cleared run of as well.
#
# Read from the environment:
#   GATE_SERVICE_URL, GATE_SERVICE_SCOPE   as in gate.sh
#   RUNS                                   its output variable "runs"
#
# Exit status 0: the candidate is live and what was watched holds. 1: it was live, the watch failed, and the index
# before it is live again. 2: it was refused, or it is not known what is live now.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=infra/pipelines/agent.sh
source "$here/agent.sh"

: "${GATE_SERVICE_URL:?}" "${GATE_SERVICE_SCOPE:?}" "${RUNS:?}"

status=0
harmless gate promote "${RUNS%% *}" --service="$GATE_SERVICE_URL" || status=$?
case $status in
  0) exit 0 ;;
  1) ;;
  *)
    note 'Nothing was promoted, or it is not known: see above, and what the service says is live.'
    exit 2
    ;;
esac
note 'What was watched does not hold: rolling back.'
harmless gate rollback --service="$GATE_SERVICE_URL" || {
  note 'The roll-back failed as well: look at what the service says is live.'
  exit 2
}
exit 1
