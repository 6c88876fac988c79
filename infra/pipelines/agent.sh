# shellcheck shell=bash
# How the scripts beside this one talk to the pipeline's agent. To be sourced.
#
# The agent obeys "##vso[...]" wherever it stands in a line that a step prints, on either stream. So nothing that
# another program or service has written reaches the log with a "#" in it, and commands are printed by tell alone.

# Text for the log.
note() {
  printf '%s\n' "${*//#/(#)}"
}

# A command to the agent: tell NAME VALUE.
tell() {
  printf '\n##vso[%s]%s\n' "$1" "$2"
}

# Runs a command, everything that it prints made harmless line by line; leaves its exit status, or 2 if the
# output could not be passed on. All of the output is out when this returns.
harmless() {
  local status=0 filter
  exec 3> >(LC_ALL=C exec sed -u 's/#/(#)/g')
  filter=$!
  "$@" >&3 2>&3 3>&- || status=$?
  exec 3>&-
  wait "$filter" || status=2
  return "$status"
}

# What a command prints on standard output goes to the variable ANSWER; its errors go to the log, made harmless.
ask() {
  local errors status=0
  errors=$(mktemp)
  # shellcheck disable=SC2034 # it is read by who sources this
  ANSWER=$("$@" 2>"$errors") || status=$?
  if [[ -s $errors ]]; then
    note "$(tr -d '\000' <"$errors")"
  fi
  rm -f -- "$errors"
  return "$status"
}

# The command line signs in to the service by itself, and again when its token is about to expire: as whoever the
# task has signed in to az, and as nobody else whom it may find on the machine.
export AZURE_TOKEN_CREDENTIALS=AzureCliCredential
