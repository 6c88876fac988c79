"""Start a run: check what was asked for, and keep it, so that it can be executed here or after a restart."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Protocol

from app.domain.change import Change
from app.domain.errors import ConflictError, Fault, InputError, NotFoundError
from app.domain.golden import GoldenSet, GoldenTexts, Question
from app.domain.policy import Policy, looser_settings
from app.domain.query import Queries
from app.domain.reading import overridden, read_golden_set
from app.domain.run import GoldenRef, IndexSide, Progress, Run
from app.domain.schedule import planned
from app.domain.schema import adapter
from app.gate.ports import LivePointer
from app.gate.records import RunRecords, request_digest

LIVE_SECONDS = 30.0  # for asking what is live


class GoldenSets(Protocol):
    """The golden sets that were deployed with the service."""

    def names(self) -> tuple[str, ...]: ...

    def texts(self, name: str) -> GoldenTexts:
        """NotFoundError for an unknown name."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRequest:
    """What a caller asks for. Exactly one of `golden_set`, a deployed set's name, and `golden`, the texts."""

    candidate_index: str
    baseline_index: str | None = None
    golden_set: str | None = None
    golden: GoldenTexts | None = None
    policy: Mapping[str, Any] = field(default_factory=dict)
    noise_study: bool = False
    change: Change | None = None
    slices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """What a new run gets from outside: its id, the time, a seed, and what to write into its manifest."""

    run_id: str
    now: datetime
    seed: int
    manifest: Mapping[str, Any]


async def start(
    request: StartRequest,
    *,
    records: RunRecords,
    golden_sets: GoldenSets,
    stamp: Stamp,
    live: LivePointer | None = None,
    idempotency_key: str | None = None,
    requested_by: str | None = None,
) -> tuple[Run, bool]:
    """The run, kept and queued, and whether it is a new one; not new where the idempotency key had started it,
    whatever is live by now. Without a baseline the run compares with what `live` names at this moment.

    InputError with every fault of the request and the set; NotFoundError for an unknown set; ConflictError
    for a key that was used for another request; LiveError where it cannot be known what is live. Nothing is
    kept then.
    """
    texts, golden = await asyncio.to_thread(_golden, request, golden_sets)  # a large set takes seconds
    if request.noise_study and golden.baseline_query != golden.candidate_query:
        message = (
            "noise_study: the set's query differs between the sides, so that this would be no study of noise"
        )
        raise InputError([Fault(where="request", message=message)])
    run = _new_run(request, golden, stamp, requested_by)
    digest = request_digest(adapter(StartRequest).dump_python(request, mode="json"))
    if idempotency_key is not None:
        with suppress(NotFoundError):  # unknown, or claimed by a process that died before it kept the run
            return (await records.read(await records.claimed(idempotency_key, digest)))[0], False
    run = await _against_live(run, request, live)
    if idempotency_key is not None:
        run = replace(run, id=await records.claim_key(idempotency_key, digest, run.id))
    try:
        await records.create(run, texts)
    except ConflictError:
        if idempotency_key is None:
            raise
        return (await records.read(run.id))[0], False  # the same request, sent at the same moment, was first
    return run, True


async def _against_live(run: Run, request: StartRequest, live: LivePointer | None) -> Run:
    """The run with what is live as its baseline, where the request names none."""
    if request.baseline_index is not None or request.noise_study:
        return run
    if live is None:
        raise _no_baseline(
            "since neither GATE_LIVE_KEY nor GATE_LIVE_ALIAS says where the live index's name is kept"
        )
    value = await live.read(asyncio.get_running_loop().time() + LIVE_SECONDS)
    if value is None:
        raise _no_baseline(f"since the {live.where} names no index yet")
    baseline = IndexSide(requested=live.alias or value.index, index=value.index, alias=live.alias)
    return replace(run, baseline=baseline, manifest={**run.manifest, "baseline_from": live.where})


def _no_baseline(why: str) -> InputError:
    return InputError([Fault(where="request", message=f"baseline_index: is needed, {why}")])


def _golden(request: StartRequest, golden_sets: GoldenSets) -> tuple[GoldenTexts, GoldenSet]:
    faults = [Fault(where="request", message=message) for message in _request_faults(request)]
    if faults:
        raise InputError(faults)
    texts = request.golden or golden_sets.texts(request.golden_set or "")
    return texts, read_golden_set(texts)


def _request_faults(request: StartRequest) -> list[str]:
    found = []
    if (request.golden_set is None) == (request.golden is None):
        found.append("exactly one of golden_set (a deployed name) and golden (texts) is needed")
    if request.noise_study and request.baseline_index not in (None, request.candidate_index):
        found.append("noise_study compares an index with itself: leave baseline_index out")
    return found


def _new_run(request: StartRequest, golden: GoldenSet, stamp: Stamp, requested_by: str | None) -> Run:
    policy = overridden(golden.policy, request.policy, "request") if request.policy else golden.policy
    _refuse_unknown_slices(policy, golden)
    baseline = request.baseline_index or request.candidate_index
    deployed = request.golden_set is not None and not request.slices
    return Run(
        id=stamp.run_id,
        baseline=IndexSide(requested=baseline, index=baseline),
        candidate=IndexSide(requested=request.candidate_index, index=request.candidate_index),
        golden_set=GoldenRef(
            name=golden.name,
            digest=golden.digest,
            owner=golden.owner,
            review_by=golden.review_by,
            deployed=deployed,
            slices=request.slices,
        ),
        query=Queries(baseline=golden.baseline_query, candidate=golden.candidate_query),
        policy=policy,
        trusted=not request.noise_study and trusted(deployed=deployed, policy=policy, of_set=golden.policy),
        noise_study=request.noise_study,
        change=request.change,
        requested_by=requested_by,
        manifest={**stamp.manifest, "seed": stamp.seed},
        progress=Progress(planned=planned(asked(golden, request.slices), policy)),
        created_at=stamp.now,
    )


def _refuse_unknown_slices(policy: Policy, golden: GoldenSet) -> None:
    """InputError for protected slices that no question is in: nothing could ever be lost there."""
    known = {name for question in golden.questions for name in question.slice}
    faults = [
        Fault(where="request", message=f"policy.protected_slices: no question is in the slice {name!r}")
        for name in policy.protected_slices
        if golden.questions and name not in known
    ]
    if faults:
        raise InputError(faults)


def trusted(*, deployed: bool, policy: Policy, of_set: Policy) -> bool:
    """Whether a run may be promoted: a deployed set, unaltered and whole, and no looser policy than its own."""
    return deployed and not looser_settings(policy, of_set)


def asked(golden: GoldenSet, slices: tuple[str, ...]) -> tuple[Question, ...]:
    """The questions that a run asks: all, or those in any of the named slices."""
    if not slices:
        return golden.questions
    return tuple(question for question in golden.questions if set(slices) & set(question.slice))
