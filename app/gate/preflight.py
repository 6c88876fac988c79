"""What is looked at before the first question, once both indexes are found and their fields known.

Each failure is one blocking finding that names index and field or role, and the next step, after a handful
of requests: never a hundred questions that fail for one reason.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from app.domain.check import Check, Level
from app.domain.errors import BrokenError, FailureCode, QueryError
from app.domain.filters import filter_fields
from app.domain.golden import Question
from app.domain.index import Definition
from app.domain.query import Session, Side
from app.domain.reasons import Code
from app.domain.run import Run
from app.gate.compare import SERVICE_FAILURES
from app.gate.inspect import blocking
from app.gate.ports import Ask, Embedder, Listing, Page, SearchService

COST = "cost"  # the check that says what a run will cost
PROBE = "search index gate probe"  # asked once of each side: the whole query of a question, with no answer expected


@dataclass(slots=True, kw_only=True)
class Findings:
    """What was found, and the requests that it took: `semantic` of them asked for the ranker."""

    checks: list[Check] = field(default_factory=list)
    requests: int = 0
    semantic: int = 0

    @property
    def blocked(self) -> bool:
        return any(check.level is Level.BLOCKING for check in self.checks)

    def add(self, more: "Findings") -> None:
        self.checks.extend(more.checks)
        self.requests += more.requests
        self.semantic += more.semantic

    def count(self, requests: int, *, semantic: bool) -> None:
        self.requests += requests
        self.semantic += requests if semantic else 0

    def block(self, code: Code, message: str, index: str | None = None) -> None:
        self.checks.append(Check(code=code, level=Level.BLOCKING, message=message, index=index))


async def check_filters(
    run: Run,
    questions: Sequence[Question],
    definitions: Mapping[Side, Definition | None],
    search: SearchService,
    deadline: float,
) -> Findings:
    """Each field that a filter names exists, is filterable, and is not empty, on each side."""
    found = Findings()
    for side in Side:
        index, definition = run.side(side).index, definitions[side]
        if definition is None:
            continue
        for name in _filtered(run, side, questions):
            fault = _unusable(definition, name)
            listing = None if fault else _valued(definition, name)
            if listing is not None:
                found.requests += 1
                try:
                    fault = _empty(await search.list_documents(index, listing, deadline))
                except BrokenError as error:
                    if error.code == Code.FIELD_MISSING:  # not retrievable: nothing says that it is empty
                        continue
                    found.checks.append(blocking(error))
                    break  # what refuses one field refuses all
            if fault is not None:
                found.block(Code.FIELD_MISSING, f"Index {index!r}: the filter field {name!r} {fault}.", index)
    return found


def _filtered(run: Run, side: Side, questions: Iterable[Question]) -> tuple[str, ...]:
    filters = (run.query.of(side).filter, *(question.filter for question in questions))
    return tuple(dict.fromkeys(name for each in filters for name in filter_fields(each)))


def _unusable(definition: Definition, name: str) -> str | None:
    known = {str(each.get("name")): each for each in definition.get("fields") or []}
    if name not in known:
        return f"does not exist; the index has: {', '.join(known)}"
    if not known[name].get("fields") and known[name].get("filterable") is False:
        return "is not filterable: make it filterable and fill the index again"
    return None


def _valued(definition: Definition, name: str) -> Listing | None:
    """One document with a value in the field; None for a complex one, whose parts hold the values."""
    kinds = {str(each.get("name")): str(each.get("type")) for each in definition.get("fields") or []}
    kind = kinds.get(name, "")
    if kind.startswith("Edm.Complex"):
        return None
    has_value = f"{name}/any()" if kind.startswith("Collection(") else f"{name} ne null"
    return Listing(select=(name,), filter=has_value, top=1)


def _empty(page: Page) -> str | None:
    if page.rows:
        return None
    return "is empty in every document, so that a filter on it lets nothing through: fill it as the other index does"


async def probe(run: Run, search: SearchService, embedder: Embedder, deadline: float) -> Findings:
    """The whole query asked once of each side, so that what is wrong with it shows once."""
    found = Findings()
    for each in await asyncio.gather(*(_probe(run, side, search, embedder, deadline) for side in Side)):
        found.add(each)
    return found


async def _probe(
    run: Run, side: Side, search: SearchService, embedder: Embedder, deadline: float
) -> Findings:
    found, query, at = Findings(), run.query.of(side), run.side(side)
    if at.fields is None:
        return found
    try:
        vector = None
        if query.embedding is not None:
            vector = await embedder.embed(query.embedding, PROBE, deadline)
        found.count(1, semantic=query.semantic)
        answer = await search.ask(
            Ask(
                index=at.index,
                text=PROBE,
                query=query,
                fields=at.fields,
                filter=query.filter.strip() or None,
                vector=vector,
                session=run.id if query.session is Session.RUN else None,
            ),
            deadline,
        )
        found.count(answer.attempts - 1, semantic=query.semantic)
    except BrokenError as error:
        found.checks.append(blocking(error))
    except QueryError as error:
        found.count(max(error.attempts - 1, 0), semantic=query.semantic)
        found.block(_code(error.code), f"A probe of index {at.index!r} failed: {error}", at.index)
    return found


def _code(failure: FailureCode) -> Code:
    """A probe that is refused as such is a query that no question can be asked with."""
    return SERVICE_FAILURES.get(failure, Code.FIELD_MISSING)


async def stand_still(run: Run, search: SearchService, deadline: float, *, at_earliest: float) -> Findings:
    """Both counts once more, not before `at_earliest` on the loop's clock: an index being filled is not judged."""
    found = Findings()
    await asyncio.sleep(max(at_earliest - asyncio.get_running_loop().time(), 0))
    before = {at.index: at.documents for at in (run.baseline, run.candidate)}
    for index, documents in before.items():
        found.requests += 1
        try:
            now = await search.document_count(index, deadline)
        except BrokenError as error:
            found.checks.append(blocking(error))
            continue
        if documents is not None and now != documents:
            message = (
                f"Index {index!r} does not stand still: {documents} documents, {now} moments later. Wait until it "
                "is filled, then run again."
            )
            found.block(Code.INDEX_CHANGED, message, index)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Requests that a run sends at most, its repetitions after failures aside."""

    queries: int
    semantic: int
    embeddings: int


def cost(run: Run, questions: Sequence[Question]) -> Cost:
    """What the comparison costs at most, noise and confirming observations included."""
    baseline = len(questions) * (1 + run.policy.noise_runs)
    candidate = len(questions) * (1 + run.policy.confirm_runs)
    sides = ((run.query.baseline, baseline), (run.query.candidate, candidate))
    models = {query.embedding for query, _ in sides if query.embedding is not None}
    vectorized = sum(number for query, number in sides if query.by_vector and query.embedding is None)
    return Cost(
        queries=baseline + candidate,
        semantic=sum(number for query, number in sides if query.semantic),
        embeddings=vectorized + len(models) * len(questions),
    )


def cost_check(expected: Cost, *, used: int | None, allowance: int | None) -> Check:
    """The cost in words; blocking where the month's allowance of semantic queries cannot cover it."""
    message = (
        f"At most {expected.queries} comparison queries, {expected.semantic} of them semantic, and "
        f"{expected.embeddings} embedding calls (the vectorizer's included)."
    )
    if allowance is None or used is None:
        return Check(code=COST, level=Level.INFO, message=message, measured=expected.semantic)
    left = max(allowance - used, 0)
    message += f" Runs kept here used {used} of this month's {allowance} semantic queries."
    if expected.semantic <= left:
        return Check(code=COST, level=Level.INFO, message=message, measured=expected.semantic, limit=left)
    return Check(
        code=Code.QUOTA_EXCEEDED,
        level=Level.BLOCKING,
        message=f"{message} {left} are left, so the run could not finish.",
        measured=expected.semantic,
        limit=left,
        setting="GATE_SEMANTIC_ALLOWANCE",
    )
