"""Look up what a golden set names in the indexes: for a run before its first question, or for a check alone.

What is asked of an index, bounded by the numbers of `Effort`:

| for | requests |
| --- | --- |
| membership | a lookup for each `batch` documents, and one more for each 1,000 chunks that they have |
| the same, where the parent field cannot be looked up | at most `scan_pages` pages of 1,000 chunks |
| filters | lookups as above for each different filter, for at most `filters` of them |
| near misses, where documents are absent | `sample_pages` pages, and lookups of variants of the first `varied` |
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from app.domain import labels
from app.domain.check import Check, Level
from app.domain.errors import BrokenError
from app.domain.golden import GoldenSet, Question
from app.domain.index import Definition, Fields, resolve
from app.domain.labels import Catalogue, Holdings, Near, documents
from app.domain.outcome import Missing
from app.domain.parents import decoded, parent_of
from app.domain.query import ParentNames, QuerySettings, joined_filter
from app.domain.reasons import Code
from app.gate.inspect import blocking
from app.gate.ports import Listing, Page, SearchService

_PAGE = 1000  # rows: the most that the service gives at once
_LAST_SKIP = 100_000  # rows: the most that it skips
_MARKS = "|;,~^!*"  # what may stand between the values of a lookup
_FEW_OF = 4  # batches of variants are so much larger: hardly one of them is there
_LONGEST = 30_000  # characters of values in a lookup
_OF_THE_FILTER = (Code.FIELD_MISSING, Code.INDEX_MISSING)  # a refused filter; other filters may still be good


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much an audit asks for; see the table above. `similar`: absent documents for which slips of the pen
    are considered.
    """

    batch: int = 50
    scan_pages: int = 20
    filters: int = 200
    sample_pages: int = 3
    varied: int = 50
    similar: int = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedIndex:
    """One index under one side's query. `definition` None: it may not be read."""

    index: str
    fields: Fields
    query: QuerySettings
    definition: Definition | None

    def same_labels(self, other: "AuditedIndex") -> bool:
        """Whether an audit of the other finds the same."""
        return _bearing(self) == _bearing(other)


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What an audit of both sides found. `missing` and `filtered_out` hold the questions that have any, by id."""

    baseline: Holdings
    candidate: Holdings
    missing: Mapping[str, Missing]
    filtered_out: Mapping[str, Missing]
    checks: tuple[Check, ...]
    requests: int


async def audit(
    questions: Sequence[Question],
    baseline: AuditedIndex,
    candidate: AuditedIndex,
    *,
    search: SearchService,
    deadline: float,
    effort: Effort = Effort(),
) -> Audit:
    """Every answer and forbidden document looked up on both sides. A service that refuses or does not answer
    is a check `not-evaluated`, and what was not found by then unverified.
    """
    before, requests = await look_up(questions, baseline, search=search, deadline=deadline, effort=effort)
    after, more = before, 0
    if not candidate.same_labels(baseline):
        after, more = await look_up(questions, candidate, search=search, deadline=deadline, effort=effort)
    return Audit(
        baseline=before,
        candidate=after,
        missing=_any((each.id, labels.missing(each, before, after)) for each in questions),
        filtered_out=_any((each.id, labels.filtered_out(each, before, after)) for each in questions),
        checks=labels.checks(questions, before, after),
        requests=requests + more,
    )


async def look_up(
    questions: Sequence[Question],
    audited: AuditedIndex,
    *,
    search: SearchService,
    deadline: float,
    effort: Effort = Effort(),
) -> tuple[Holdings, int]:
    """What one index holds of the documents that the questions name, and the requests that it took."""
    look = _Look(audited=audited, search=search, deadline=deadline, effort=effort)
    return await look.holdings(questions), look.requests


def _bearing(audited: AuditedIndex) -> tuple[str, str, tuple[ParentNames, ...], str]:
    """What the answer to an audit depends on."""
    return audited.index, audited.fields.parent, audited.query.parent_names, audited.query.filter


def _any(pairs: Iterable[tuple[str, Missing]]) -> dict[str, Missing]:
    return {name: found for name, found in pairs if found != Missing()}


# one index


@dataclass(slots=True, kw_only=True)
class _Look:
    """The audit of one index while it is made."""

    audited: AuditedIndex
    search: SearchService
    deadline: float
    effort: Effort
    requests: int = 0
    filterable: bool = False
    scanned: bool = False
    raws: dict[str, None] = field(default_factory=dict)  # seen, in order
    by_name: dict[str, list[str]] = field(default_factory=dict)
    absent: frozenset[str] = frozenset()
    unknown: list[str] = field(default_factory=list)

    @property
    def index(self) -> str:
        return self.audited.index

    @property
    def decodings(self) -> tuple[ParentNames, ...]:
        return self.audited.query.parent_names

    async def holdings(self, questions: Sequence[Question]) -> Holdings:
        """All that is found out about the questions' documents."""
        names = documents(questions)
        filtered_out: Mapping[str, tuple[str, ...]] = {}
        near: Mapping[str, Near] = {}
        try:
            await self._find_members(names)
            filtered_out = await self._find_filtered_out(questions)
        except BrokenError as error:
            self.unknown.append(f"which documents of the golden set index {self.index!r} holds ({error})")
        with suppress(BrokenError):  # suggestions only
            near = await self._find_near([name for name in names if name in self.absent])
        return Holdings(
            index=self.index,
            present=frozenset(name for name in names if name in self.by_name),
            absent=self.absent - self.by_name.keys(),
            filtered_out=filtered_out,
            clashes={name: tuple(raws) for name, raws in self.by_name.items() if len(raws) > 1},
            near=near,
            example=next(iter(self.raws), None),
            unknown=tuple(self.unknown),
        )

    # membership

    async def _find_members(self, names: Sequence[str]) -> None:
        """Learn which names are present, and which are absent for certain."""
        if not names:
            return
        parent = self.audited.fields.parent
        self.filterable = labels.is_filterable(self.audited.definition, parent) is not False
        if self.filterable and ParentNames.FILE_NAME not in self.decodings:
            try:
                self.absent = await self._absent(names)
            except BrokenError as error:
                if error.code != Code.FIELD_MISSING:
                    raise
                self.filterable = False
            else:
                return
        if await self._scan(names):
            self.absent = frozenset(name for name in names if name not in self.by_name)

    async def _absent(self, names: Sequence[str]) -> frozenset[str]:
        """The names of which no raw value is in the index; notes the others."""
        by_name = {name: labels.preimages(name, self.decodings) for name in names}
        values = [raw for raws in by_name.values() for raw in raws]
        most = max((len(raws) for raws in by_name.values()), default=1)
        found, unsure = await self._among(values, self.effort.batch * most)
        return frozenset(
            name for name, raws in by_name.items() if found.isdisjoint(raws) and unsure.isdisjoint(raws)
        )

    async def _among(
        self, values: Iterable[str], batch: int, within: str | None = None
    ) -> tuple[set[str], set[str]]:
        """Which of the raw values the index holds (under a filter), and of which that cannot be said.

        A page that does not show all rows is followed by a lookup of what it did not show.
        """
        found: set[str] = set()
        unsure: set[str] = set()
        waiting = list(_batches(values, batch))
        while waiting:
            asked = waiting.pop()
            page = await self._list(filter=_joined(within, _lookup(self.audited.fields.parent, asked)))
            shown = self._note(page)
            rest = [value for value in asked if value not in shown]
            found.update(value for value in asked if value in shown)
            if page.complete or not rest:
                continue
            if len(rest) < len(asked):
                waiting.append(rest)
            elif len(rest) > 1:
                waiting.extend((rest[: len(rest) // 2], rest[len(rest) // 2 :]))
            else:
                unsure.update(rest)
        return found, unsure

    async def _scan(self, names: Sequence[str]) -> bool:
        """Page through the index; whether all of its parents were seen for certain.

        Without an order the service may show a chunk twice and another one never, so the keys are counted.
        """
        fields, definition = self.audited.fields, self.audited.definition
        order = next(
            (path for path in (fields.parent, fields.key) if path and labels.is_sortable(definition, path)),
            None,
        )
        keys: set[object] = set()
        self.scanned, skip = True, 0
        for number in range(self.effort.scan_pages):
            page = await self._list(key=order is None, order_by=order, skip=skip)
            self._note(page)
            skip += len(page.rows)
            if fields.key is not None:
                keys.update(row.get(fields.key) for row in page.rows)
            if page.complete:
                return order is not None or number == 0 or len(keys) == skip
            all_found = not self.decodings and all(name in self.by_name for name in names)
            if not page.rows or skip > _LAST_SKIP or all_found:
                break
        return False

    # filters

    async def _find_filtered_out(self, questions: Sequence[Question]) -> dict[str, tuple[str, ...]]:
        """By question, its answer documents that are present, but not under its filter."""
        groups: dict[str, list[Question]] = {}
        for each in questions:
            under = joined_filter(self.audited.query.filter, each.filter)
            if under is not None and any(name in self.by_name for name in each.labelled_documents):
                groups.setdefault(under, []).append(each)
        if groups and not self.filterable:
            self._leave_out(groups.values(), "the parent field cannot stand in a filter")
            return {}
        out: dict[str, tuple[str, ...]] = {}
        refused: list[list[Question]] = []
        why = ""
        for number, (under, group) in enumerate(groups.items()):
            if number == self.effort.filters:
                self._leave_out([*groups.values()][number:], f"more than {number} different filters")
                break
            try:
                out.update(await self._filtered_out(under, group))
            except BrokenError as error:
                if error.code not in _OF_THE_FILTER:
                    self._leave_out([*groups.values()][number:], str(error))
                    break
                refused.append(group)
                why = why or str(error)
        if refused:
            self._leave_out(refused, why)
        return out

    async def _filtered_out(self, under: str, group: Sequence[Question]) -> dict[str, tuple[str, ...]]:
        here = {
            name: self.by_name[name]
            for each in group
            for name in each.labelled_documents
            if name in self.by_name
        }
        raws = [raw for raws in here.values() for raw in raws]
        found, unsure = await self._among(raws, self.effort.batch, within=under)
        gone = {name for name, raws in here.items() if found.isdisjoint(raws) and unsure.isdisjoint(raws)}
        out = {each.id: tuple(name for name in each.labelled_documents if name in gone) for each in group}
        return {question: names for question, names in out.items() if names}

    def _leave_out(self, groups: Iterable[Sequence[Question]], why: str) -> None:
        number = sum(len(group) for group in groups)
        self.unknown.append(
            f"whether index {self.index!r} shows the answers of {number} questions under their filters ({why})"
        )

    # near misses

    async def _find_near(self, absent: Sequence[str]) -> dict[str, Near]:
        """What absent names probably mean, by what a sample of the index and some lookups show."""
        if not absent:
            return {}
        with suppress(BrokenError):
            await self._sample(absent)
        return await asyncio.to_thread(self._near, absent, Catalogue(self.raws, self.decodings))

    async def _sample(self, absent: Sequence[str]) -> None:
        if not self.scanned:
            skip = 0
            for _ in range(self.effort.sample_pages):
                page = await self._list(skip=skip)
                self._note(page)
                skip += len(page.rows)
                if page.complete or not page.rows:
                    break
        if self.filterable:
            values = (other for name in absent[: self.effort.varied] for other in labels.variants(name))
            await self._among(dict.fromkeys(values), self.effort.batch * _FEW_OF)

    def _near(self, absent: Sequence[str], catalogue: Catalogue) -> dict[str, Near]:
        found = (
            (name, catalogue.near(name, similar=number < self.effort.similar))
            for number, name in enumerate(absent)
        )
        return {name: near for name, near in found if near is not None}

    # requests

    async def _list(
        self,
        *,
        filter: str | None = None,  # noqa: A002 — the service's name for it
        key: bool = False,
        order_by: str | None = None,
        skip: int = 0,
    ) -> Page:
        self.requests += 1
        fields = self.audited.fields
        names = (fields.parent.split("/")[0], fields.key if key else None)
        listing = Listing(
            select=tuple(dict.fromkeys(name for name in names if name)),
            filter=filter,
            order_by=order_by,
            skip=skip,
            top=_PAGE,
        )
        return await self.search.list_documents(self.index, listing, self.deadline)

    def _note(self, page: Page) -> frozenset[str]:
        """The raw parents of the page, each noted."""
        parents = [parent_of(row, self.audited.fields.parent) for row in page.rows]
        shown = dict.fromkeys(raw for raw in parents if raw is not None)
        for raw in shown:
            if raw not in self.raws:
                self.raws[raw] = None
                self.by_name.setdefault(decoded(raw, self.decodings), []).append(raw)
        return frozenset(shown)


def _batches(values: Iterable[str], most: int) -> Iterator[list[str]]:
    """The values in lookups that have a mark in common which is in none of them; alone where there is none."""
    by_mark: dict[str | None, list[str]] = {}
    for value in values:
        by_mark.setdefault(_mark([value]), []).append(value)
    for mark, group in by_mark.items():
        batch: list[str] = []
        length = 0
        for value in group:
            if batch and (mark is None or len(batch) >= most or length + len(value) > _LONGEST):
                yield batch
                batch, length = [], 0
            batch.append(value)
            length += len(value)
        if batch:
            yield batch


def _mark(values: Sequence[str]) -> str | None:
    """A character that may stand between the values; None where they must be compared one by one."""
    if any(value != value.strip() for value in values):
        return None  # the service may trim what it splits
    return next((mark for mark in _MARKS if not any(mark in value for value in values)), None)


def _lookup(field_: str, values: Sequence[str]) -> str:
    """The filter for rows with any of the values."""
    mark = _mark(values)
    if mark is None:
        return f"{field_} eq '{_escaped(values[0])}'"
    return f"search.in({field_}, '{_escaped(mark.join(values))}', '{mark}')"


def _escaped(text: str) -> str:
    return text.replace("'", "''")


def _joined(within: str | None, lookup: str) -> str:
    return lookup if within is None else f"({within}) and {lookup}"


# a check alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """A document that an index lacks: who names it, and what was probably meant, if anything is near.

    `suggestions`: names of the index; `parent_names`: the setting under which the label itself would be found;
    `hint`: both as a sentence.
    """

    document: str
    questions: tuple[str, ...]
    critical: bool
    forbidden: bool
    suggestions: tuple[str, ...] = ()
    parent_names: tuple[ParentNames, ...] | None = None
    hint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexLabels:
    """A golden set's labels against one index. `requested` is the name asked for, `index` the concrete one.

    `documents`: how many the set names, answers and forbidden ones; `found`: how many of them the index holds.
    `checks`: what is wrong otherwise; blocking where the index could not be asked.
    """

    requested: str
    index: str
    documents: int
    found: int = 0
    absent: tuple[Absent, ...] = ()
    unverified: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    requests: int = 0

    @property
    def clean(self) -> bool:
        """Whether nothing is known to be wrong; unverified documents are not."""
        return not self.absent and not any(
            each.level is Level.BLOCKING or each.code == Code.NOT_EVALUATED for each in self.checks
        )


async def check_labels(
    golden: GoldenSet, name: str, *, search: SearchService, deadline: float
) -> IndexLabels:
    """The set's labels against the index or alias of that name, as a run would look them up.

    An index may be either side of a run. Where the set's query differs between the sides, the settings under
    which more of the documents are found count.
    """
    named = documents(golden.questions)
    unseen = IndexLabels(requested=name, index=name, documents=len(named))
    try:
        described = await search.describe(name, deadline)
    except BrokenError as error:
        return _refused(unseen, (blocking(error),), requests=1)
    unseen = IndexLabels(requested=name, index=described.name, documents=len(named))
    found: list[IndexLabels] = []
    refused: tuple[Check, ...] = ()
    tried: list[AuditedIndex] = []
    requests = 1
    for query in dict.fromkeys((golden.baseline_query, golden.candidate_query)):
        resolution = resolve(described.definition, query, described.name)
        if resolution.fields is None:
            refused = refused or resolution.checks
            continue
        audited = AuditedIndex(
            index=described.name,
            fields=resolution.fields,
            query=query,
            definition=described.definition,
        )
        if any(audited.same_labels(each) for each in tried):
            continue
        tried.append(audited)
        holdings, more = await look_up(golden.questions, audited, search=search, deadline=deadline)
        requests += more
        found.append(_told(unseen, golden.questions, holdings))
    if not found:
        return _refused(unseen, refused, requests=requests)
    return replace(max(found, key=lambda each: each.found), requests=requests)


def _refused(unseen: IndexLabels, checks: tuple[Check, ...], *, requests: int) -> IndexLabels:
    return replace(unseen, checks=checks, requests=requests)


def _told(unseen: IndexLabels, questions: Sequence[Question], holdings: Holdings) -> IndexLabels:
    naming: dict[str, list[Question]] = {}
    for each in questions:
        for name in documents((each,)):
            naming.setdefault(name, []).append(each)
    return replace(
        unseen,
        found=sum(name in holdings.present for name in naming),
        absent=tuple(
            _absent(name, by, holdings.near.get(name))
            for name, by in naming.items()
            if name in holdings.absent
        ),
        unverified=holdings.unverified(naming),
        checks=labels.side_checks(questions, holdings),
    )


def _absent(name: str, naming: Sequence[Question], near: Near | None) -> Absent:
    return Absent(
        document=name,
        questions=tuple(each.id for each in naming),
        critical=any(each.critical for each in naming),
        forbidden=any(name in each.forbidden for each in naming),
        suggestions=near.names if near else (),
        parent_names=near.parent_names if near else None,
        hint=str(near) if near else None,
    )
