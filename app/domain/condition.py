"""What must hold before a candidate becomes the live index."""

from dataclasses import dataclass
from enum import StrEnum


class Need(StrEnum):
    """The conditions of a promotion, in the order in which they are told; `clearance` decides them."""

    VERDICT = "verdict"
    TRUSTED = "trusted"
    SOMETHING_TO_PROMOTE = "something-to-promote"
    RECOGNISABLE = "recognisable"
    BASELINE_LIVE = "baseline-live"
    BASELINE_UNCHANGED = "baseline-unchanged"
    CANDIDATE_UNCHANGED = "candidate-unchanged"
    SET_CURRENT = "set-current"
    QUERY_CURRENT = "query-current"
    AGE = "age"
    REQUIRED_SET = "required-set"  # one condition for each set
    FOUR_EYES = "four-eyes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One of them with its state. The message tells what was found; where it does not hold, both values and
    the next step.
    """

    code: Need
    holds: bool
    message: str
