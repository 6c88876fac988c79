#!/usr/bin/env bash
# Makes the candidate the live index, if the runs of this pipeline allow it and nothing has moved since.
#
# Read from the environment:
#   APPCONFIG_ENDPOINT, LIVE_KEY, LIVE_LABEL   the setting that names the live index; an empty label is no label
#   CANDIDATE_INDEX, GOLDEN_SETS, REPORTS      what was judged, and the folder that gate.sh filled
#   READ_BACK_SECONDS                          pause between attempts to read the new value (default 2)
#
# Exit status 0: the candidate is live. Anything else: it was refused, or could not be seen to be live.
# Between the last look at the old value and the new one, someone else may write: the environment's exclusive
# lock keeps other runs of the pipeline out.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=infra/pipelines/agent.sh
source "$here/agent.sh"

: "${APPCONFIG_ENDPOINT:?}" "${LIVE_KEY:?}" "${CANDIDATE_INDEX:?}" "${GOLDEN_SETS:?}" "${REPORTS:?}"

setting=(--endpoint "$APPCONFIG_ENDPOINT" --auth-mode login --key "$LIVE_KEY")
if [[ -n ${LIVE_LABEL-} ]]; then
  setting+=(--label "$LIVE_LABEL")
fi

read_live() {
  ask az appconfig kv show "${setting[@]}" --query value --output tsv
}

ask python3 "$here/judged.py"
baseline=$ANSWER

read_live
if [[ $ANSWER == "$CANDIDATE_INDEX" ]]; then
  note "Already live: $CANDIDATE_INDEX"
  exit 0
fi
if [[ $ANSWER != "$baseline" ]]; then
  note "Refused: live is $ANSWER, but the candidate was compared with $baseline."
  exit 1
fi

harmless az appconfig kv set "${setting[@]}" --value "$CANDIDATE_INDEX" --yes --output none

for attempt in 1 2 3 4 5; do
  ((attempt == 1)) || sleep "${READ_BACK_SECONDS:-2}"
  read_live
  if [[ $ANSWER == "$CANDIDATE_INDEX" ]]; then
    note "Live: $CANDIDATE_INDEX (before: $baseline)"
    exit 0
  fi
done
note "Set, but the store still answers $ANSWER."
exit 1
