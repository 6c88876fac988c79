#!/usr/bin/env bash
# Builds the image in the registry, and names it by what it holds.
#
# Read from the environment: REGISTRY (its name), TAG.
# Output variable "image": repository and digest, the parameter "image" of infra/main.bicep.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=infra/pipelines/agent.sh
source "$here/agent.sh"

: "${REGISTRY:?}" "${TAG:?}"

repository=search-index-gate
harmless az acr build --registry "$REGISTRY" --image "$repository:$TAG" --only-show-errors .
ask az acr repository show --name "$REGISTRY" --image "$repository:$TAG" --query digest --output tsv
if [[ ! $ANSWER =~ ^sha256:[0-9a-f]{64}$ ]]; then
  note "The registry gave no digest: $ANSWER"
  exit 1
fi
tell 'task.setvariable variable=image;isOutput=true' "$repository@$ANSWER"
