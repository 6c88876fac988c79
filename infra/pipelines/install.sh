#!/usr/bin/env bash
# A virtual environment from a lock, every file checked against its hash: install.sh FOLDER LOCK
#
# It gets the command "gate" as well, as a line of shell: installing the project itself would fetch a build backend
# that no lock pins. The command is to be run from the top of the repository.
set -euo pipefail

folder=$1
lock=$2

python3 -m venv "$folder"
folder=$(cd -- "$folder" && pwd)
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps --requirement "$lock"
"$folder/bin/python" -m pip check
printf '#!/bin/sh\nexec "%s/bin/python" -m app "$@"\n' "$folder" >"$folder/bin/gate"
chmod +x "$folder/bin/gate"
printf '##vso[task.prependpath]%s\n' "$folder/bin"
