#!/usr/bin/env bash
# Deploys infra/main.bicep with an image, and waits until the new revision is ready.
#
# Read from the environment: RESOURCE_GROUP, PARAMETERS (a file), IMAGE (see image.sh), BUILD_ID,
# READY_SECONDS (how long to wait), PAUSE_SECONDS (between two looks; 5).
# Output variable "serviceUrl": where it answers.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=infra/pipelines/agent.sh
source "$here/agent.sh"

: "${RESOURCE_GROUP:?}" "${PARAMETERS:?}" "${IMAGE:?}" "${BUILD_ID:?}" "${READY_SECONDS:?}"

what=(--resource-group "$RESOURCE_GROUP" --template-file infra/main.bicep --parameters "@$PARAMETERS" "image=$IMAGE")
harmless az deployment group validate "${what[@]}" --output none
harmless az deployment group what-if "${what[@]}"
ask az deployment group create "${what[@]}" --name "search-index-gate-$BUILD_ID" \
  --query '[properties.outputs.serviceUrl.value, properties.outputs.serviceId.value]' --output tsv
{ read -r url && read -r id; } <<<"$ANSWER" || true
if [[ ! $url =~ ^https://[A-Za-z0-9.-]+$ || ! $id =~ ^/subscriptions/ ]]; then
  note "The deployment did not tell what it made: $ANSWER"
  exit 1
fi

# Until the new revision is ready the old one answers, so that asking the service itself proves nothing.
ready='properties.latestRevisionName == properties.latestReadyRevisionName'
while ask az resource show --ids "$id" --query "$ready" --output tsv && [[ ${ANSWER,,} != true ]]; do
  if ((SECONDS > READY_SECONDS)); then
    note 'The new revision is not ready: see its log. The one before goes on serving.'
    exit 1
  fi
  sleep "${PAUSE_SECONDS:-5}"
done
[[ ${ANSWER,,} == true ]]
tell 'task.setvariable variable=serviceUrl;isOutput=true' "$url"
