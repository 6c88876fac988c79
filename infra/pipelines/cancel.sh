#!/usr/bin/env bash
# After the pipeline was cancelled: cancels at the service what gate.sh left under way.
#
# The agent kills the waiting command without giving it time to do this. Here the same command, with the same
# idempotency key, joins its run again, and is asked to stop: the command line then cancels the run.
#
# Read from the environment: GATE_SERVICE_SCOPE, UNDER_WAY (as in gate.sh), JOIN_SECONDS.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=infra/pipelines/agent.sh
source "$here/agent.sh"

: "${GATE_SERVICE_SCOPE:?}" "${UNDER_WAY:?}" "${JOIN_SECONDS:?}"

if [[ ! -d $UNDER_WAY ]]; then
  note 'No run was started.'
  exit 0
fi
for file in "$UNDER_WAY"/*; do
  [[ -f $file ]] || continue
  mapfile -d '' -t command <"$file"
  note "Cancelling the run for ${file##*/}."
  harmless timeout --signal=TERM --kill-after=60 "$JOIN_SECONDS" "${command[@]}" || true # whatever its verdict
  rm -f -- "$file"
done
