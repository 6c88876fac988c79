"""Short ways to write questions, observations and runs in these tests."""

import json
from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import Any

import pytest

from app.domain.check import Check, Level
from app.domain.decision import Decision, decide, results
from app.domain.errors import FailureCode, InputError
from app.domain.golden import GoldenSet, GoldenTexts
from app.domain.observation import Failure, Hit, Observation
from app.domain.outcome import Missing, Observed
from app.domain.policy import Policy
from app.domain.query import Queries, QuerySettings
from app.domain.reading import read_golden_set
from app.domain.reasons import Code
from app.domain.run import GoldenRef, IndexSide, Run

NO_MISSING = Missing()


# golden texts


def line(name: str = "q1", **keys: Any) -> str:
    """One line of a golden set, plain unless `keys` say otherwise."""
    return json.dumps({"id": name, "question": f"what about {name}?", "answers": ["d1"], **keys})


def read(*lines: str, toml: str | None = None) -> GoldenSet:
    return read_golden_set(GoldenTexts(name="hr", jsonl="\n".join(lines), toml=toml))


def faults(*lines: str, toml: str | None = None) -> list[str]:
    """The faults as people see them, `file:line: message`; the reading must fail."""
    with pytest.raises(InputError) as caught:
        read(*lines, toml=toml)
    return [str(fault) for fault in caught.value.faults]


# observations


def hit(rank: int, parent: str | None, *, score: float | None = None, reranker: float | None = None) -> Hit:
    return Hit(rank=rank, key=f"chunk-{rank}", parent=parent, score=score, reranker_score=reranker)


def chunks(*parents: str | None) -> tuple[Hit, ...]:
    """Hits of these parents, ranked 1, 2, 3 …"""
    return tuple(hit(rank, parent) for rank, parent in enumerate(parents, start=1))


def at(rank: int | None, parent: str = "d1") -> Observation:
    """An observation with the answer `parent` at this rank; None: only another document was found."""
    hits = (hit(1, "x"),) if rank is None else (hit(rank, parent),)
    return Observation(rank=rank, elapsed_ms=10.0, attempts=1, hits=hits)


def broken() -> Observation:
    """An observation whose attempts are used up."""
    failure = Failure(code=FailureCode.THROTTLED, message="503 Service Unavailable")
    return Observation(rank=None, elapsed_ms=10.0, attempts=5, throttled=5, error=failure)


Ranks = Iterable[int | str | None]  # a rank, None for not found, "!" for a failed observation


def observations(ranks: Ranks) -> tuple[Observation, ...]:
    return tuple(broken() if isinstance(rank, str) else at(rank) for rank in ranks)


def asked(
    name: str, baseline: Ranks, candidate: Ranks, *, missing: Missing = NO_MISSING, **keys: Any
) -> Observed:
    """A question answered by d1, with d1's rank in every observation of both sides."""
    golden = {"question": f"what about {name}?", "answers": ("d1",), **keys}
    return Observed(
        id=name,
        missing=missing,
        baseline=observations(baseline),
        candidate=observations(candidate),
        **golden,
    )


def kept(name: str, **keys: Any) -> Observed:
    return asked(name, [1, 1], [1], **keys)


def absent(name: str, **keys: Any) -> Observed:
    return asked(name, [None, None], [None], **keys)


def lost(name: str, **keys: Any) -> Observed:
    return asked(name, [2, 2], [6, 6], **keys)


def gained(name: str, **keys: Any) -> Observed:
    return asked(name, [6, 6], [2, 2], **keys)


def noisy(name: str, **keys: Any) -> Observed:
    return asked(name, [5, 6], [5], **keys)


def erring(name: str, **keys: Any) -> Observed:
    return asked(name, [1, 1], ["!"], **keys)


def stale(name: str, **keys: Any) -> Observed:
    both = Missing(baseline=("d1",), candidate=("d1",))
    return asked(name, [None, None], [None], missing=both, **keys)


def unlabelled(name: str, **keys: Any) -> Observed:
    return asked(name, [None, None], [None], answers=(), **keys)


# runs


def run_of(
    policy: Policy | None = None,
    *,
    checks: tuple[Check, ...] = (),
    context_size: int = 5,
    owner: str | None = "hr@contoso.example",
    review_by: date | None = None,
    noise_study: bool = False,
) -> Run:
    query = QuerySettings(context_size=context_size)
    return Run(
        id="run-1",
        baseline=IndexSide(requested="kb-v1", index="kb-v1"),
        candidate=IndexSide(requested="kb-v2", index="kb-v2"),
        golden_set=GoldenRef(name="hr", digest="sha256:0", owner=owner, review_by=review_by),
        query=Queries(baseline=query, candidate=query),
        policy=policy or Policy(),
        checks=checks,
        noise_study=noise_study,
        created_at=datetime(2027, 1, 1, tzinfo=UTC),
    )


def judged(
    questions: Iterable[Observed], policy: Policy | None = None, *, checks: tuple[Check, ...] = ()
) -> Decision:
    run = run_of(policy, checks=checks)
    return decide(run, results(questions, run.query))


def codes(decision: Decision) -> list[Code]:
    return [reason.code for reason in decision.reasons]


def blocking(code: str, **about: Any) -> Check:
    return Check(code=code, level=Level.BLOCKING, message=f"{code} was found.", **about)
