#!/usr/bin/env bash
# For a pull request: where it touches golden/, checks every golden set, and its labels against the live index.
#
# Read from the environment:
#   GATE_SEARCH_ENDPOINT                       the search service
#   APPCONFIG_ENDPOINT, LIVE_KEY, LIVE_LABEL   the setting that names the live index; an empty label is no label
#   LIVE_ALIAS                                 or else the alias that is live
#
# The checked-out commit is the pull request merged into its target, which is its first parent.
# Exit status 0: nothing is wrong, or nothing was touched. 2: a set has faults, or live lacks what it names.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=infra/pipelines/agent.sh
source "$here/agent.sh"

: "${GATE_SEARCH_ENDPOINT:?}"

status=0
git diff --quiet HEAD^1 HEAD -- golden || status=$?
case $status in
  0)
    note 'Golden sets are as they were.'
    exit 0
    ;;
  1) ;;
  *)
    note 'What the pull request changes cannot be told: check out two commits (fetchDepth: 2).'
    exit 2
    ;;
esac

if [[ -n ${LIVE_ALIAS-} ]]; then
  live=$LIVE_ALIAS
else
  setting=(--endpoint "${APPCONFIG_ENDPOINT:?}" --auth-mode login --key "${LIVE_KEY:?}")
  if [[ -n ${LIVE_LABEL-} ]]; then
    setting+=(--label "$LIVE_LABEL")
  fi
  ask az appconfig kv show "${setting[@]}" --query value --output tsv || exit 2
  live=$ANSWER
fi

worst=0
for file in golden/*.jsonl; do
  harmless gate golden check "$file" --index="$live" || worst=2
done
exit "$worst"
