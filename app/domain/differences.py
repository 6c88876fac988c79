"""What changed between the two sides, found without being told, and what follows for the run.

Each kind is judged on evidence of its own, so that its consequences are not taken for another one: how texts are
cut on documents whose text is the same, altered texts whatever the cuts, vectors by the parameters behind names.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.domain.change import ChangeKind
from app.domain.check import Check, Level
from app.domain.contents import inventory_differences
from app.domain.definitions import Defined, definition_differences, paired_vectors, vector_fields
from app.domain.difference import Difference
from app.domain.effective import query_differences
from app.domain.golden import Question
from app.domain.index import Definition, Fields
from app.domain.inventory import Inventory, not_taken
from app.domain.query import QuerySettings
from app.domain.reasons import Code

INPUT_LIMITS = {  # tokens that the model reads; what is beyond is not in the vector (model cards)
    "text-embedding-3": 8191,
    "text-embedding-ada-002": 8191,
    "all-minilm": 256,
    "bge-small": 512,
    "bge-base": 512,
    "bge-large": 512,
    "e5-small": 512,
    "e5-base": 512,
    "e5-large": 512,
    "cohere-embed-v3": 512,
    "embed-v3": 512,
}
_VECTORS_KEPT = (
    0.95  # least size of the vectors, against what so many of them need, that can be lag or rounding
)
_COUNT_LAG = 0.01  # by how much the statistics' count may be behind for their sizes to be used
_FAR_FEWER = 0.9  # of the baseline's count, below which the candidate's is told
_SHOWN = 50
_ORDER = {kind: place for place, kind in enumerate(ChangeKind)}


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorStorage:
    """What the service's statistics say; they lag by minutes. `vector_bytes` None: not said."""

    documents: int
    vector_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorSample:
    """Of `rows` rows looked at, so many have no vector in some field that is searched."""

    rows: int
    missing: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known of one side; None: could not be read."""

    index: str
    query: QuerySettings
    definition: Definition | None = None
    fields: Fields | None = None
    documents: int | None = None
    stored: VectorStorage | None = None
    sample: VectorSample | None = None
    inventory: Inventory | None = None

    @property
    def defined(self) -> Defined:
        return Defined(
            index=self.index, definition=self.definition or {}, fields=self.fields, query=self.query
        )

    @property
    def taken(self) -> Inventory:
        return not_taken("none was asked for.") if self.inventory is None else self.inventory


def differences(baseline: Facts, candidate: Facts) -> tuple[Difference, ...]:
    """In the order of `ChangeKind`."""
    found = query_differences(baseline.defined, candidate.defined)
    if baseline.definition is not None and candidate.definition is not None:
        found += definition_differences(baseline.defined, candidate.defined)
        found += _vectors_missing(baseline, candidate)
    if baseline.index != candidate.index:
        found += inventory_differences(baseline.taken, candidate.taken)
    return tuple(sorted(found, key=lambda each: _ORDER[each.kind]))


def kinds(found: Iterable[Difference]) -> tuple[ChangeKind, ...]:
    """Each once, in the order of `ChangeKind`."""
    named = {each.kind for each in found}
    return tuple(kind for kind in ChangeKind if kind in named)


# vectors


def _vectors_missing(baseline: Facts, candidate: Facts) -> list[Difference]:
    if baseline.index == candidate.index or not paired_vectors(baseline.defined, candidate.defined):
        return []
    before, after = vectors_missing(baseline), vectors_missing(candidate)
    if before is None or after is None or after <= max(before, 1 - _VECTORS_KEPT):
        return []
    message = (
        f"At least {after:.0%} of the vectors of index {candidate.index!r} are missing (of {baseline.index!r}: "
        f"{before:.0%}), so that those chunks are found by their words only."
    )
    return [
        Difference(
            kind=ChangeKind.EMBEDDING,
            what="vectors missing",
            baseline=round(before, 3),
            candidate=round(after, 3),
            message=message,
        )
    ]


def vectors_missing(side: Facts) -> float | None:
    """The least share of missing vectors, 0..1; None where it cannot be known.

    From a sample of rows if there is one, else from the size of the vectors in memory, which for HNSW is at least
    the bytes of its numbers. The statistics' own count is used, since both lag together.
    """
    if side.sample is not None and side.sample.rows:
        return side.sample.missing / side.sample.rows
    if side.stored is None or side.stored.vector_bytes is None or not side.stored.documents:
        return None
    count = side.stored.documents
    if side.documents is not None and abs(side.documents - count) > _COUNT_LAG * side.documents:
        return None
    sizes = [each.bytes for each in vector_fields(side.definition or {}).values() if each.algorithm == "hnsw"]
    known = [size for size in sizes if size is not None]
    if not known or len(known) < len(sizes):
        return None
    return max(0.0, 1 - side.stored.vector_bytes / (count * sum(known)))


def input_limit_checks(side: Facts) -> tuple[Check, ...]:
    """That chunks are longer than their model reads, where the model is a known one."""
    if side.definition is None or not side.query.by_vector:
        return ()
    fields = vector_fields(side.definition)
    found = []
    for name in side.defined.searched:
        model = fields[name].model if name in fields else None
        if model is None and side.query.embedding is not None:
            model = side.query.embedding.deployment
        limit = input_limit(model or "")
        above = 0 if limit is None else side.taken.lengths.above(limit)
        if above:
            message = (
                f"About {above} of {side.taken.lengths.total} chunks of index {side.index!r} are longer than the "
                f"{limit} tokens that {model} reads (at 4 characters a token): what is beyond is not in their vectors."
            )
            found.append(
                Check(
                    code="embedding-input-limit",
                    level=Level.WARNING,
                    message=message,
                    index=side.index,
                    measured=above,
                    limit=limit,
                )
            )
    return tuple(dict.fromkeys(found))


def input_limit(model: str) -> int | None:
    """Tokens that an embedding model of this name reads; None for an unknown one."""
    name = model.lower().replace("_", "-")
    return next((limit for part, limit in INPUT_LIMITS.items() if part in name), None)


# what follows


def change_checks(found: Sequence[Difference], declared: Sequence[ChangeKind] = ()) -> tuple[Check, ...]:
    """Several kinds at once; kinds found and not declared, and the reverse. Nothing declared: nothing to compare."""
    named = kinds(found)
    checks = []
    if len(named) > 1:
        message = (
            f"{len(named)} kinds of change at once ({', '.join(named)}): a regression cannot be attributed to one "
            "of them. Judge them one after the other where that is possible."
        )
        checks.append(
            Check(code="several-kinds", level=Level.WARNING, message=message, measured=list(map(str, named)))
        )
    for kind in named if declared else ():
        if kind not in declared:
            what = "; ".join(each.message.rstrip(".") for each in found if each.kind is kind)
            message = f"A change of {kind} was found and not declared ({', '.join(declared)} was): {what}."
            checks.append(
                Check(code="undeclared-change", level=Level.WARNING, message=message, measured=str(kind))
            )
    for kind in dict.fromkeys(declared):
        if kind not in named:
            message = f"A change of {kind} was declared, and none was found."
            checks.append(
                Check(code="declared-change-not-found", level=Level.INFO, message=message, measured=str(kind))
            )
    return tuple(checks)


def fewer_documents(baseline: Facts, candidate: Facts) -> Check | None:
    """That the candidate's count is far below the baseline's: it may still have to be filled, or the source was not
    read to its end. None where both inventories are whole and no parent is missing: its chunks are larger.
    """
    before, after = baseline.documents, candidate.documents
    if not before or after is None or after >= _FAR_FEWER * before:
        return None
    whole = baseline.taken.complete and candidate.taken.complete
    if whole and baseline.taken.parents.keys() <= candidate.taken.parents.keys():
        return None
    message = (
        f"Index {candidate.index!r} holds {after} documents, {after / before:.0%} of the {before} of "
        f"{baseline.index!r}. Unless its chunks are so much larger, it is not filled to the end."
    )
    return Check(
        code="fewer-documents",
        level=Level.WARNING,
        message=message,
        index=candidate.index,
        measured=after,
        limit=before,
    )


def lost_documents(baseline: Inventory, candidate: Inventory, questions: Iterable[Question]) -> Check | None:
    """The parent documents of the baseline that the candidate lacks, and the questions that they answer.

    A warning: whether it fails the run is the decision's to say, by the policy's max_lost_documents_share.
    `measured` is the share, 0..1; `documents` those that answer a question first, fifty at most. None: no
    document is lost, or an inventory is not whole.
    """
    lost = baseline.parents.keys() - candidate.parents.keys()
    if not lost or not (baseline.complete and candidate.complete):
        return None
    answered = {each.id: [name for name in each.labelled_documents if name in lost] for each in questions}
    touched = tuple(name for name, documents in answered.items() if documents)
    first = list(dict.fromkeys(each for documents in answered.values() for each in documents))
    share = len(lost) / len(baseline.parents)
    message = (
        f"{len(lost)} of {len(baseline.parents)} documents of the baseline ({share:.1%}) are not in the candidate; "
        f"{len(first)} of them answer {len(touched)} questions."
    )
    return Check(
        code=Code.LOST_DOCUMENTS,
        level=Level.WARNING,
        message=message,
        measured=round(share, 6),
        questions=touched,
        documents=tuple([*first, *sorted(lost - set(first))][:_SHOWN]),
    )
