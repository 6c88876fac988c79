#!/usr/bin/env bash
# Has the service judge the candidate with each golden set, and gives the pipeline one verdict.
#
# Read from the environment:
#   GATE_SERVICE_URL, GATE_SERVICE_SCOPE   the service, and what to ask a token for: api://<application>/.default
#   CANDIDATE_INDEX, GOLDEN_SETS, CHANGE_KINDS   the last two: names separated by spaces
#   BUILD_ID, STAGE_ATTEMPT, BUILD_URL, COMMIT   where the change comes from
#   WAIT_SECONDS   how long to wait for one set's verdict
#   REPORTS        folder for the reports, without passages; one folder for each set
#   UNDER_WAY      folder that holds, while a run is under way, the command that joins it (see cancel.sh)
#
# Exit status and output variable "verdict": 0 PASS, 1 FAIL, 2 ERROR. The worst set decides. Whatever goes wrong
# on the way is ERROR, and so is a status without the record that belongs to it. Output variables "runs", the runs'
# ids in the order of the sets, and "candidate", the index that they judged.
set -euo pipefail

verdict=ERROR
runs=()
candidate=
finish() {
  tell 'task.setvariable variable=candidate;isOutput=true' "$candidate"
  tell 'task.setvariable variable=runs;isOutput=true' "${runs[*]}"
  tell 'task.setvariable variable=verdict;isOutput=true' "$verdict"
  case $verdict in
    PASS) exit 0 ;;
    FAIL) exit 1 ;;
    *) exit 2 ;;
  esac
}
trap finish EXIT

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=infra/pipelines/agent.sh
source "$here/agent.sh"

: "${GATE_SERVICE_URL:?}" "${GATE_SERVICE_SCOPE:?}" "${CANDIDATE_INDEX:?}" "${GOLDEN_SETS:?}" "${BUILD_ID:?}" \
  "${STAGE_ATTEMPT:?}" "${BUILD_URL:?}" "${COMMIT:?}" "${WAIT_SECONDS:?}" "${REPORTS:?}" "${UNDER_WAY:?}"

read -r -d '' -a sets <<<"$GOLDEN_SETS" || true
read -r -d '' -a kinds <<<"${CHANGE_KINDS-}" || true

# Puts the id of a run's record, and the index that it judged, in "run"; 1 where the file is no record.
read_record() {
  local reading='import json, sys; run = json.load(open(sys.argv[1])); print(run["id"], run["candidate"]["index"])'
  ask python3 -X utf8 -c "$reading" "$1" || return 1
  [[ $ANSWER =~ ^[a-z0-9][a-z0-9-]{0,63}\ [a-z0-9][a-z0-9_-]{1,127}$ ]] || return 1
  read -r -a run <<<"$ANSWER"
}

judge() {
  local set=$1 kind status=0 run=()
  if [[ ! $set =~ ^[A-Za-z0-9][A-Za-z0-9._-]*$ ]]; then
    note "Not the name of a golden set: $set"
    return 2
  fi
  rm -rf -- "${REPORTS:?}/$set"
  mkdir -p -- "$REPORTS/$set" "$UNDER_WAY"

  local command=(
    gate run
    --service="$GATE_SERVICE_URL"
    --candidate="$CANDIDATE_INDEX"
    --golden="$set"
    --out="$REPORTS/$set"
    --no-passages
    --timeout="$WAIT_SECONDS"
    --idempotency-key="$BUILD_ID-$STAGE_ATTEMPT-$set"
    --commit="$COMMIT"
    --build-id="$BUILD_ID"
    --build-url="$BUILD_URL"
  )
  for kind in "${kinds[@]}"; do
    command+=(--change-kind="$kind")
  done

  printf '%s\0' "${command[@]}" >"$UNDER_WAY/$set" || return 2
  harmless "${command[@]}" || status=$?
  rm -f -- "$UNDER_WAY/$set"

  if read_record "$REPORTS/$set/run.json"; then
    runs+=("${run[0]}")
    candidate=${run[1]}
    # The summary tab keeps one file of a name.
    printf '%s\n\n[This run at the service](%s/runs/%s): with the passages, for those who may read them.\n' \
      "$(<"$REPORTS/$set/report.md")" "$GATE_SERVICE_URL" "${run[0]}" >"$REPORTS/gate-$set.md" &&
      tell task.uploadsummary "$REPORTS/gate-$set.md"
  elif ((status < 2)); then
    note "The gate ended with status $status for $set and left no record."
    return 2
  fi
  return "$status"
}

if ((${#sets[@]} == 0)); then
  note 'No golden set is named.'
  exit 2
fi
mkdir -p -- "$REPORTS"
REPORTS=$(cd -- "$REPORTS" && pwd)

worst=0
for set in "${sets[@]}"; do
  status=0
  judge "$set" || status=$?
  note "$set: exit status $status"
  case $status in
    0) ;;
    1) ((worst == 2)) || worst=1 ;;
    *) worst=2 ;;
  esac
done

case $worst in
  0) verdict=PASS ;;
  1) verdict=FAIL ;;
esac
