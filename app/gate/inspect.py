"""Look at both indexes before the first question, and again after the last."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace

from app.domain.check import Check, Level, once
from app.domain.definitions import Defined
from app.domain.effective import effective
from app.domain.errors import BrokenError
from app.domain.fingerprint import Fingerprint, IndexFingerprint, json_digest, maps_digest
from app.domain.index import Definition, definition_digest, resolve
from app.domain.policy import Policy
from app.domain.query import QuerySettings, Side, queries_digest
from app.domain.reasons import Code
from app.domain.run import IndexSide, Run
from app.domain.schema import adapter
from app.gate.ports import SearchService


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """Both sides as they are now, what was found, and how many requests that took."""

    baseline: IndexSide
    candidate: IndexSide
    definitions: Mapping[Side, Definition | None]
    checks: tuple[Check, ...]
    requests: int

    @property
    def blocked(self) -> bool:
        return any(check.level is Level.BLOCKING for check in self.checks)


async def inspect(run: Run, search: SearchService, deadline: float) -> Inspection:
    """Both indexes looked up, their fields found, their documents counted; every fault of both at once."""
    baseline, candidate = await asyncio.gather(
        *(_inspect_side(run, side, search, deadline) for side in (Side.BASELINE, Side.CANDIDATE))
    )
    checks = [*baseline.checks, *candidate.checks]
    if _nothing_to_compare(run, baseline, candidate):
        message = f"Both sides are the index {candidate.side.index!r} with the same query."
        checks.append(Check(code=Code.SAME_INDEX, level=Level.BLOCKING, message=message))
    return Inspection(
        baseline=baseline.side,
        candidate=candidate.side,
        definitions={Side.BASELINE: baseline.definition, Side.CANDIDATE: candidate.definition},
        checks=once(checks),
        requests=baseline.requests + candidate.requests,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    side: IndexSide
    checks: tuple[Check, ...]
    requests: int
    definition: Definition | None = None

    def asked(self, query: QuerySettings) -> tuple[object, ...]:
        """The index and what is asked of it, whatever the settings leave to the service."""
        at = self.side
        of = Defined(index=at.index, definition=self.definition or {}, fields=at.fields, query=query)
        return at.index, effective(of), query.embedding


def _nothing_to_compare(run: Run, baseline: _Found, candidate: _Found) -> bool:
    if run.noise_study:
        return False
    return baseline.asked(run.query.baseline) == candidate.asked(run.query.candidate)


async def _inspect_side(run: Run, side: Side, search: SearchService, deadline: float) -> _Found:
    """One side; a service that refuses ends the look at this side with a blocking finding."""
    before, query = run.side(side), run.query.of(side)
    requests = 1
    try:
        described = await search.describe(before.requested, deadline)
        found = replace(
            before,
            index=described.name,
            alias=described.alias,
            etag=described.etag,
            definition_digest=None
            if described.definition is None
            else definition_digest(described.definition),
        )
        requests += 1
        found = replace(found, documents=await search.document_count(found.index, deadline))
    except BrokenError as error:
        return _Found(side=before, checks=(blocking(error),), requests=requests)
    return _resolved(found, described.definition, query, requests)


def _resolved(side: IndexSide, definition: Definition | None, query: QuerySettings, requests: int) -> _Found:
    resolution = resolve(definition, query, side.index)
    checks = [*resolution.checks]
    if side.documents == 0:
        message = f"Index {side.index!r} holds no documents: fill it before it is judged."
        checks.append(Check(code=Code.INDEX_EMPTY, level=Level.BLOCKING, message=message, index=side.index))
    checks.extend(
        Check(code="query", level=Level.WARNING, message=f"{text}.", index=side.index)
        for text in query.warnings()
    )
    if definition is None:
        message = (
            f"The definition of index {side.index!r} may not be read (403): configured field names are used, and "
            "a change of the definition during the run cannot be noticed."
        )
        checks.append(
            Check(code="definition-unreadable", level=Level.WARNING, message=message, index=side.index)
        )
    return _Found(
        side=replace(side, fields=resolution.fields),
        checks=tuple(checks),
        requests=requests,
        definition=definition,
    )


def blocking(error: BrokenError) -> Check:
    """A run-ending error as the finding that the record keeps."""
    return Check(code=error.code, level=Level.BLOCKING, message=str(error), index=error.index)


def changed(run: Run, now: Inspection) -> list[Check]:
    """What makes the sides other indexes than those that the run knows; each is `index-changed`.

    How far counts moved is not judged here: the decision does that, by the policy in force.
    """
    checks = [check for check in now.checks if check.level is Level.BLOCKING and check not in run.checks]
    for before, after in ((run.baseline, now.baseline), (run.candidate, now.candidate)):
        what = _difference(before, after)
        if what is not None:
            message = f"Index {before.index!r}: {what}."
            checks.append(
                Check(code=Code.INDEX_CHANGED, level=Level.BLOCKING, message=message, index=before.index)
            )
    return list(once(checks))


def _difference(before: IndexSide, after: IndexSide) -> str | None:
    if before.index != after.index:
        return f"the alias {before.alias!r} now names {after.index!r}"
    if before.definition_digest != after.definition_digest:
        return "its definition changed"
    if before.etag != after.etag:
        return f"it was updated or built anew (etag {before.etag}, now {after.etag})"
    return None


def at_end(run: Run, now: Inspection) -> Run:
    """The run with both sides' counts as they are now, after the last question or where it is taken up again."""
    return replace(
        run,
        baseline=replace(run.baseline, documents_at_end=now.baseline.documents),
        candidate=replace(run.candidate, documents_at_end=now.candidate.documents),
    )


def fingerprint(
    run: Run, *, synonym_maps: Mapping[str, str] | None, inventories: Mapping[Side, str | None]
) -> Fingerprint:
    """What the run judges, as it is now. `synonym_maps`: etags by name; `inventories`: digests by side."""

    def of(side: Side) -> IndexFingerprint:
        at = run.side(side)
        return IndexFingerprint(
            index=at.index,
            definition_digest=at.definition_digest,
            etag=at.etag,
            documents=at.documents,
            synonym_maps=maps_digest(synonym_maps),
            inventory=inventories.get(side),
        )

    return Fingerprint(
        baseline=of(Side.BASELINE),
        candidate=of(Side.CANDIDATE),
        golden_set=run.golden_set.digest,
        query=queries_digest(run.query),
        policy=json_digest(adapter(Policy).dump_python(run.policy, mode="json")),
    )
