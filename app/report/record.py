"""The record of a run as labelled lines: what was compared, under which settings, at what cost. Plain text."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime
from typing import Any

from app.domain.change import Change
from app.domain.fingerprint import IndexFingerprint
from app.domain.index import Fields
from app.domain.query import QuerySettings, Side
from app.domain.run import Counts, IndexSide, Requests, Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One line of the record."""

    label: str
    value: str


def facts(run: Run) -> tuple[Fact, ...]:
    """The whole record, in reading order; what is not known says so."""
    pairs = (*_compared(run), *_settings(run), *_fingerprint(run), *_conduct(run))
    return tuple(Fact(label=label, value=value) for label, value in pairs)


def day(run: Run) -> date:
    """The day on which the run was judged, or created while it is not."""
    return (run.finished_at or run.created_at).date()


def _compared(run: Run) -> Iterator[tuple[str, str]]:
    yield "Run", run.id
    for side in Side:
        yield side.capitalize(), _side(run.side(side))
    if run.noise_study:
        yield "Kind", "noise study: both sides are the same index, nothing can be promoted"
    golden = run.golden_set
    deployed = "a deployed set" if golden.deployed else "not a deployed set"
    yield "Golden set", f"{golden.name}, {deployed}, digest {golden.digest}"
    yield "Owner of the golden set", golden.owner or "unknown: the set names no owner"
    yield "Review of the golden set", _review(run)
    if golden.slices:
        yield "Asked", f"the questions of {', '.join(golden.slices)} only"
    yield "Trusted", "yes" if run.trusted else "no: this run cannot be promoted"
    if run.change is not None:
        yield "Change", _change(run.change)


def _side(side: IndexSide) -> str:
    parts = [side.index]
    if side.requested != side.index:
        parts.append(f"asked for as {side.requested}{' (an alias)' if side.alias else ''}")
    parts.append(_documents(side.documents, side.documents_at_end))
    parts.append(f"etag {side.etag}" if side.etag else "etag not known")
    if side.definition_digest:
        parts.append(f"definition {side.definition_digest}")
    if side.fields is not None:
        parts.append(_fields(side.fields))
    return "; ".join(parts)


def _documents(start: int | None, end: int | None) -> str:
    if start is None:
        return "number of chunks not known"
    return f"{start:,} chunks" if end in (start, None) else f"{start:,} chunks, {end:,} at the end"


def _fields(used: Fields) -> str:
    named = (
        ("key", used.key),
        ("parent", used.parent),
        ("text", used.text),
        ("title", used.title),
        ("vectors", " and ".join(used.vectors)),
        ("semantic configuration", used.semantic_configuration),
    )
    return "fields: " + ", ".join(f"{part} {name}" for part, name in named if name)


def _review(run: Run) -> str:
    review_by = run.golden_set.review_by
    if review_by is None:
        return "no date set"
    return f"OVERDUE since {review_by}" if run.golden_set.overdue(day(run)) else f"due by {review_by}"


def _change(change: Change) -> str:
    named = (
        ("", ", ".join(change.kind)),
        ("", change.summary),
        ("commit ", change.commit),
        ("build ", change.build_id),
        ("", change.build_url),
    )
    return "; ".join(f"{word}{value}" for word, value in named if value) or "not described"


def _settings(run: Run) -> Iterator[tuple[str, str]]:
    query = run.query
    if query.baseline == query.candidate:
        yield "Query of both sides", query_in_short(query.candidate)
    else:
        for side in Side:
            yield f"Query of the {side}", query_in_short(query.of(side))
    values = ((each.name, getattr(run.policy, each.name)) for each in fields(run.policy))
    yield "Policy", "; ".join(f"{name} {_setting(value)}" for name, value in values)


def query_in_short(query: QuerySettings) -> str:
    """The settings that every query has, then those that differ from the defaults."""
    ranker = f"semantic ranker ({query.semantic_configuration or 'default configuration'})"
    parts = [str(query.mode), ranker if query.semantic else "no semantic ranker", f"top {query.candidates}"]
    if query.by_vector:
        parts.append(f"k {query.k}")
    parts.append(f"context {query.context_size} chunks")
    told = {"mode", "semantic", "semantic_configuration", "candidates", "k", "context_size"}
    plain = QuerySettings()
    for each in fields(query):
        value = getattr(query, each.name)
        if each.name not in told and value != getattr(plain, each.name):
            parts.append(f"{each.name} {_setting(value)}")
    return "; ".join(parts)


def _setting(value: object) -> str:
    match value:
        case None:
            return "not set"
        case bool():
            return str(value).lower()
        case tuple():
            return ", ".join(str(each) for each in value) or "none"
        case _:
            return str(value)


def _fingerprint(run: Run) -> Iterator[tuple[str, str]]:
    """By what promotion recognises what was judged."""
    taken = run.fingerprint
    if taken is None:
        yield "Fingerprint", "not taken"
        return
    for side, index in ((Side.BASELINE, taken.baseline), (Side.CANDIDATE, taken.candidate)):
        yield f"Fingerprint of the {side}", _index_fingerprint(index)
    yield (
        "Fingerprint of what was asked",
        f"golden set {taken.golden_set}; query {taken.query}; policy {taken.policy}",
    )


def _index_fingerprint(index: IndexFingerprint) -> str:
    parts = (
        ("definition", index.definition_digest),
        ("etag", index.etag),
        ("chunks", None if index.documents is None else f"{index.documents:,}"),
        ("synonym maps", index.synonym_maps),
        ("inventory", index.inventory),
    )
    return "; ".join((index.index, *(f"{name} {value or 'not known'}" for name, value in parts)))


def _conduct(run: Run) -> Iterator[tuple[str, str]]:
    yield "Requests", requests_in_short(run.requests)
    yield "Requested by", run.requested_by or "not known"
    yield "Created", _time(run.created_at)
    yield "Started", _time(run.started_at)
    yield "Finished", _time(run.finished_at)
    for name, value in sorted(run.manifest.items()):
        yield f"Manifest: {name}", _manifest(value)


def requests_in_short(requests: Requests) -> str:
    """The requests sent, by kind."""
    return (
        f"{requests.comparison:,} comparison queries, {requests.other:,} others, {requests.semantic:,} charged "
        f"as semantic, {requests.retries:,} retries, {requests.throttled:,} throttled"
    )


def _time(when: datetime | None) -> str:
    return when.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z") if when else "not yet"


def _manifest(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_manifest(each)}" for key, each in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_manifest(each) for each in value)
    return str(value)


def counts_in_short(counts: Counts) -> str:
    """How the labelled questions ended, adding up to all of them."""
    return (
        f"{counts.questions} questions, {counts.labelled} of them labelled: {counts.kept} kept, "
        f"{counts.absent} absent from both, {counts.lost} lost, {counts.gained} gained, {counts.noisy} noisy, "
        f"{counts.errors} with errors, {counts.stale} stale"
    )
