"""Says which index this pipeline's runs compared the candidate with, if they allow it to be promoted.

Reads REPORTS/<set>/run.json for every set in GOLDEN_SETS. Prints the baseline's name, or else every reason
why not, and ends with 1. Standard library only: the promoting job installs nothing.
"""

import json
import math
import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

MAX_AGE_HOURS = 72  # the policy's own default, for a record that does not say


def baseline_index(record: Mapping[str, Any]) -> str | None:
    """The index that the run compared with; None where the record does not say."""
    name = _part(record, "baseline").get("index")
    return name if isinstance(name, str) and name else None


def obstacles(record: Mapping[str, Any], candidate: str, now: datetime) -> list[str]:
    """Why this run does not allow the candidate to be promoted; empty if it does."""
    judged = _part(record, "candidate").get("index")
    found = []
    if (record.get("state"), record.get("verdict")) != ("done", "PASS"):
        found.append(f"state {record.get('state')!r}, verdict {record.get('verdict')!r}")
    if record.get("trusted") is not True:
        found.append("the run is not trusted: not a deployed set, or a looser policy than the set's own")
    if judged != candidate:
        found.append(f"judged {judged!r}, not {candidate!r}")
    if baseline_index(record) is None:
        found.append("no baseline in the record")
    elif baseline_index(record) == judged:
        found.append("baseline and candidate are the same index: nothing to promote")
    found.extend(_too_old(record, now))
    return found


def _too_old(record: Mapping[str, Any], now: datetime) -> list[str]:
    hours = _part(record, "policy").get("max_verdict_age_hours", MAX_AGE_HOURS)
    if isinstance(hours, bool) or not isinstance(hours, int | float) or not math.isfinite(hours):
        return [f"max_verdict_age_hours is {hours!r}"]
    try:
        finished = datetime.fromisoformat(str(record.get("finished_at")))
        age = now - finished
        limit = timedelta(hours=hours)
    except (ValueError, TypeError, OverflowError):
        return [f"finished_at is {record.get('finished_at')!r}"]
    if age > limit:
        return [f"the verdict is older than {hours} hours: {finished.isoformat()}"]
    return []


def _part(record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = record.get(name)
    return part if isinstance(part, dict) else {}


def main() -> int:
    reports, candidate = Path(os.environ["REPORTS"]), os.environ["CANDIDATE_INDEX"]
    now = datetime.now(UTC)
    baselines: set[str | None] = set()
    refused = []
    for name in os.environ["GOLDEN_SETS"].split():
        try:
            record = json.loads((reports / name / "run.json").read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            refused.append(f"{name}: {error}")
            continue
        if not isinstance(record, dict):
            refused.append(f"{name}: not a run record")
            continue
        refused.extend(f"{name}: {obstacle}" for obstacle in obstacles(record, candidate, now))
        baselines.add(baseline_index(record))
    if not refused and len(baselines) != 1:
        refused.append(f"not one baseline, but {len(baselines)}")
    for reason in refused:
        sys.stderr.write(f"Refused: {reason}\n")
    if refused:
        return 1
    sys.stdout.write(f"{baselines.pop()}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
