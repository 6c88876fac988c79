"""What a golden set tolerates, and which of two policies is looser."""

from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """`[policy]` of a golden set; names and meanings are the contract's. Shares are 0..1."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)

    max_net_loss: Count = 0
    protected_slices: tuple[str, ...] = ()
    max_question_errors: Count = 0
    noise_runs: Annotated[int, Field(ge=0, le=20)] = 1
    confirm_runs: Annotated[int, Field(ge=0, le=20)] = 1
    max_noisy_share: Share = 0.2
    min_evaluated_share: Share = 0.9
    max_lost_documents_share: Share | None = None
    max_net_destabilised: Count | None = None
    max_documents_changed: Count = 0
    max_verdict_age_hours: Annotated[float, Field(gt=0, le=1_000_000, allow_inf_nan=False)] = 72
    evidence_text: bool = True
    auto_rollback: bool = False


_HIGHER_IS_LOOSER = (
    "max_net_loss",
    "max_question_errors",
    "max_noisy_share",
    "max_lost_documents_share",
    "max_net_destabilised",
    "max_documents_changed",
    "max_verdict_age_hours",
)
_LOWER_IS_LOOSER = ("noise_runs", "confirm_runs", "min_evaluated_share")


def looser_settings(policy: Policy, than: Policy) -> tuple[str, ...]:
    """The settings in which `policy` allows more than `than` does. An unset limit allows everything."""
    return tuple(field.name for field in fields(Policy) if _looser(field.name, policy, than))


def _looser(name: str, policy: Policy, than: Policy) -> bool:
    ours: Any = getattr(policy, name)
    theirs: Any = getattr(than, name)
    if name == "protected_slices":
        return not set(theirs) <= set(ours)
    if name == "evidence_text":
        return False
    if name == "auto_rollback":
        return bool(theirs and not ours)
    if name in _LOWER_IS_LOOSER:
        return bool(ours < theirs)
    assert name in _HIGHER_IS_LOOSER, name  # noqa: S101 — a new setting must say which way is looser
    if ours is None or theirs is None:
        return ours is None and theirs is not None
    return bool(ours > theirs)
