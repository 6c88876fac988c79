"""Labels against what the indexes hold: which documents are missing, what follows, and what was meant.

A *name* is a parent document as labels write it: the parent field's value after the side's `parent_names`.
A *raw* value is the field's own. A document that was neither found nor found missing is unverified, and never
taken for missing.
"""

import base64
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import chain, islice
from urllib.parse import quote, unquote

from app.domain.check import Check, Level
from app.domain.golden import Question
from app.domain.index import Definition
from app.domain.outcome import Missing, Observed, stale, tally
from app.domain.parents import decoded
from app.domain.query import ParentNames, QuerySettings, Side
from app.domain.reasons import Code

UNVERIFIED = "labels-unverified"  # the check that names documents of which nothing is known
_NAMED = 5  # documents that a message describes before it says how many more
_NAME_LENGTH = 160  # characters of a name that a message shows
_SIMILAR = 0.8  # how much of two file names must be alike, by difflib's ratio
_COMPARED = 5000  # names that are compared so for one label, which takes some 0.1 s
_SUGGESTED = 3  # names for one label
_DECODINGS: tuple[tuple[ParentNames, ...], ...] = (
    (),
    (ParentNames.BASE64URL,),
    (ParentNames.FILE_NAME,),
    (ParentNames.BASE64URL, ParentNames.FILE_NAME),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Near:
    """What an absent label probably means. Suggested, never applied.

    `names`: of the index, as labels would write them; `because`: what tells them from the label.
    `parent_names`: the setting under which the label itself is in the index, if there is one; `names` is then
    its raw value.
    """

    names: tuple[str, ...] = ()
    because: str
    parent_names: tuple[ParentNames, ...] | None = None

    def __str__(self) -> str:
        shown = " or ".join(quoted(name) for name in self.names)
        if self.parent_names is not None:
            return f"the index holds {shown}: {_setting(self.parent_names)} in the golden set's [query]"
        return f"did you mean {shown}? {self.because}" if self.names else self.because


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """What is known of the labelled and forbidden documents in one index, by name.

    `filtered_out`: by question, its answer documents that the index holds, but not under its filter.
    `clashes`: names that several raw values decode to, with these. `near`: what absent documents probably
    mean. `example`: a raw parent of the index, None where none was seen. `unknown`: what could not be looked
    up and why, in words.
    """

    index: str
    present: frozenset[str] = frozenset()
    absent: frozenset[str] = frozenset()
    filtered_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    clashes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    near: Mapping[str, Near] = field(default_factory=dict)
    example: str | None = None
    unknown: tuple[str, ...] = ()

    def unverified(self, documents: Iterable[str]) -> tuple[str, ...]:
        """Those of the documents of which nothing is known."""
        known = self.present | self.absent
        return tuple(each for each in documents if each not in known)


def documents(questions: Iterable[Question]) -> tuple[str, ...]:
    """Every answer and forbidden document once, in the order of the set."""
    return tuple(
        dict.fromkeys(name for each in questions for name in (*each.labelled_documents, *each.forbidden))
    )


def missing(question: Question, baseline: Holdings, candidate: Holdings) -> Missing:
    """The answer documents of the question that are known to be absent, by side."""
    return Missing(
        baseline=tuple(name for name in question.labelled_documents if name in baseline.absent),
        candidate=tuple(name for name in question.labelled_documents if name in candidate.absent),
    )


def filtered_out(question: Question, baseline: Holdings, candidate: Holdings) -> Missing:
    """The answer documents of the question that are there, but not under its filter, by side."""
    return Missing(
        baseline=baseline.filtered_out.get(question.id, ()),
        candidate=candidate.filtered_out.get(question.id, ()),
    )


# findings


def checks(questions: Sequence[Question], baseline: Holdings, candidate: Holdings) -> tuple[Check, ...]:
    """The findings about the labels of a run, those about both sides first."""
    sides = (baseline,) if candidate is baseline else (baseline, candidate)
    return (
        *_unresolved(questions, baseline, candidate),
        *_stale(questions, baseline, candidate),
        *_lost_by_candidate(questions, baseline, candidate),
        *_forbidden(questions, baseline, candidate),
        *chain.from_iterable(side_checks(questions, side) for side in sides),
    )


def side_checks(questions: Sequence[Question], side: Holdings) -> tuple[Check, ...]:
    """The findings about the labels in one index."""
    return (*_ambiguous(side), *_filtered(questions, side), *_unverified(questions, side), *_unknown(side))


def unguarded(questions: Iterable[Observed], query: QuerySettings) -> tuple[Check, ...]:
    """Critical questions whose answer the baseline had in context in no observation: they guard nothing yet.

    `query` is the baseline's. Stale ones and those with a failed observation are told elsewhere.
    """
    found = []
    for each in questions:
        if each.critical and each.answers and not stale(each, each.missing):
            seen = tally(each, Side.BASELINE, query)
            if seen.never:
                found.append(each.id)
    if not found:
        return ()
    message = (
        f"{_counted(len(found), 'critical question')} had no answer in the baseline's context, so that there is "
        f"nothing to lose: {_list(found)}. They guard nothing until the live index answers them."
    )
    return (Check(code="critical-absent", level=Level.WARNING, message=message, questions=tuple(found)),)


def _unresolved(questions: Sequence[Question], baseline: Holdings, candidate: Holdings) -> Iterator[Check]:
    labels = _answers(questions)
    if not labels or not baseline.absent.issuperset(labels) or not candidate.absent.issuperset(labels):
        return
    side = baseline if baseline.example is not None else candidate
    message = f"0 of {_counted(len(labels), 'answer id')} exist in either index."
    if side.example is not None:
        message += (
            f" One id of index {side.index!r} is {quoted(side.example)}; one label is {quoted(labels[0])}."
        )
    hint = next((near for name in labels for near in _nears(name, baseline, candidate)), None)
    if hint is not None:
        message += f" Suggestion: {hint}."
    yield Check(
        code=Code.LABELS_UNRESOLVED,
        level=Level.BLOCKING,
        message=message,
        measured=0,
        questions=_naming(questions, labels),
        documents=labels,
    )


def _stale(questions: Sequence[Question], baseline: Holdings, candidate: Holdings) -> Iterator[Check]:
    gone = baseline.absent & candidate.absent
    labels = tuple(name for name in _answers(questions) if name in gone)
    if labels:
        yield Check(
            code="stale-label",
            level=Level.WARNING,
            message=f"{_are(len(labels), 'answer document')} in neither index: "
            f"{_described(labels, baseline, candidate)}. Correct the golden set.",
            measured=len(labels),
            questions=_naming(questions, labels),
            documents=labels,
        )


def _lost_by_candidate(
    questions: Sequence[Question], baseline: Holdings, candidate: Holdings
) -> Iterator[Check]:
    gone = candidate.absent - baseline.absent
    labels = tuple(name for name in _answers(questions) if name in gone)
    if not labels:
        return
    unsure = baseline.unverified(labels)
    held = (
        f", of which {len(unsure)} could not be verified in the baseline"
        if unsure
        else ", in the baseline only"
    )
    yield Check(
        code="document-missing",
        level=Level.WARNING,
        message=f"{_are(len(labels), 'answer document')} missing from the candidate{held}: "
        f"{_described(labels, candidate)}.",
        index=candidate.index,
        measured=len(labels),
        questions=_naming(questions, labels),
        documents=labels,
    )


def _forbidden(questions: Sequence[Question], baseline: Holdings, candidate: Holdings) -> Iterator[Check]:
    gone = baseline.absent & candidate.absent
    for critical, code, level in (
        (True, Code.CRITICAL_STALE.value, Level.BLOCKING),
        (False, "forbidden-absent", Level.WARNING),
    ):
        naming = [
            each for each in questions if each.critical is critical and not gone.isdisjoint(each.forbidden)
        ]
        if not naming:
            continue
        labels = tuple(dict.fromkeys(name for each in naming for name in each.forbidden if name in gone))
        whose = "critical questions" if critical else "questions"
        yield Check(
            code=code,
            level=level,
            message=f"{_are(len(labels), 'forbidden document')} in neither index, so that {whose} guard nothing "
            f"with it: {_described(labels, baseline, candidate)}. Correct the golden set.",
            measured=len(labels),
            questions=tuple(each.id for each in naming),
            documents=labels,
        )


def _ambiguous(side: Holdings) -> Iterator[Check]:
    if not side.clashes:
        return
    told = [
        f"{_list([quoted(raw) for raw in raws], 'and')} are both {quoted(name)}"
        for name, raws in side.clashes.items()
    ]
    yield Check(
        code=Code.PARENT_AMBIGUOUS,
        level=Level.BLOCKING,
        message=f"Under parent_names different parents of index {side.index!r} become one name: "
        f"{_list(told, ';')}. Decode less, or label by the values of the parent field.",
        index=side.index,
        measured=len(side.clashes),
        setting="parent_names",
        documents=tuple(side.clashes),
    )


def _filtered(questions: Sequence[Question], side: Holdings) -> Iterator[Check]:
    naming = [each for each in questions if side.filtered_out.get(each.id)]
    labels = tuple(dict.fromkeys(name for each in naming for name in side.filtered_out[each.id]))
    if labels:
        told = [
            f"{_list([quoted(name) for name in side.filtered_out[each.id]])} ({each.id})" for each in naming
        ]
        yield Check(
            code="filtered-out",
            level=Level.WARNING,
            message=f"{_are(len(labels), 'answer document')} in index {side.index!r}, but not under the "
            f"question's filter: {_list(told)}.",
            index=side.index,
            measured=len(labels),
            questions=tuple(each.id for each in naming),
            documents=labels,
        )


def _unverified(questions: Sequence[Question], side: Holdings) -> Iterator[Check]:
    labels = side.unverified(documents(questions))
    if labels:
        yield _unverified_check(questions, side.index, labels)


def _unverified_check(questions: Sequence[Question], index: str | None, labels: tuple[str, ...]) -> Check:
    return Check(
        code=UNVERIFIED,
        level=Level.WARNING,
        message=f"{len(labels)} of {_counted(len(documents(questions)), 'labelled or forbidden document')} could not "
        f"be verified in index {index!r}: a missing one would pass for one that was not found.",
        index=index,
        measured=len(labels),
        questions=_naming(questions, labels),
        documents=labels,
    )


def verified(
    checks: Iterable[Check], questions: Sequence[Question], shown: Mapping[str, Collection[str]]
) -> Iterator[Check]:
    """The checks once the indexes have shown these documents in their answers, by index: those are verified."""
    for check in checks:
        seen = shown.get(check.index or "", ()) if check.code == UNVERIFIED else ()
        left = tuple(name for name in check.documents if name not in seen)
        if left == check.documents:
            yield check
        elif left:
            yield _unverified_check(questions, check.index, left)


def _unknown(side: Holdings) -> Iterator[Check]:
    for what in side.unknown:
        yield Check(code=Code.NOT_EVALUATED, level=Level.WARNING, message=what, index=side.index)


def _answers(questions: Iterable[Question]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for each in questions for name in each.labelled_documents))


def _naming(questions: Iterable[Question], labels: Collection[str]) -> tuple[str, ...]:
    """The questions that name any of the documents."""
    wanted = frozenset(labels)
    return tuple(each.id for each in questions if not wanted.isdisjoint(documents((each,))))


def _described(labels: Sequence[str], *sides: Holdings) -> str:
    return _list([described(name, _nears(name, *sides)) for name in labels])


def described(name: str, nears: Iterable[Near]) -> str:
    """The name of an absent document with what was probably meant."""
    hint = next(iter(nears), None)
    return quoted(name) if hint is None else f"{quoted(name)} ({hint})"


def _nears(name: str, *sides: Holdings) -> tuple[Near, ...]:
    return tuple(side.near[name] for side in sides if name in side.near)


def quoted(name: str) -> str:
    """The name in quotes, with whatever does not show itself as an escape; the middle of a long one left out."""
    if len(name) > _NAME_LENGTH:
        half = _NAME_LENGTH // 2
        name = f"{name[:half]}…{name[-half:]}"
    return repr(name)


def _list(parts: Sequence[str], mark: str = ",") -> str:
    between = f" {mark} " if mark.isalpha() else f"{mark} "
    shown = between.join(parts[:_NAMED])
    return shown if len(parts) <= _NAMED else f"{shown}{between}{len(parts) - _NAMED} more"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _are(number: int, what: str) -> str:
    return f"{_counted(number, what)} {'is' if number == 1 else 'are'}"


def _setting(decodings: tuple[ParentNames, ...]) -> str:
    if not decodings:
        return "leave parent_names out"
    listed = ", ".join(f'"{each}"' for each in decodings)
    return f"add parent_names = [{listed}]"


# the parent field


def is_filterable(definition: Definition | None, path: str) -> bool | None:
    """Whether the field at that path may stand in a filter with strings; None where that is not known."""
    return _attribute(definition, path, "filterable")


def is_sortable(definition: Definition | None, path: str) -> bool:
    """Whether the definition says that listings may be ordered by it."""
    return _attribute(definition, path, "sortable") is True


def _attribute(definition: Definition | None, path: str, name: str) -> bool | None:
    if definition is None:
        return None
    fields, found = definition.get("fields"), None
    for part in path.split("/"):
        found = next((each for each in fields or () if each.get("name") == part), None)
        fields = None if found is None else found.get("fields")
    if found is None or found.get("type") != "Edm.String":
        return False  # inside a JSON string, or no string at all
    value = found.get(name)
    return value if isinstance(value, bool) else None


def encodings(name: str) -> tuple[str, str]:
    """The name as the indexers encode it: a digit for the padding (their default), and the plain form."""
    plain = base64.urlsafe_b64encode(name.encode()).decode()
    body = plain.rstrip("=")
    return f"{body}{len(plain) - len(body)}", plain


def preimages(name: str, decodings: Sequence[ParentNames]) -> tuple[str, ...]:
    """Every raw value that decodes to the name. Of a file name there is no end of them: those without a path."""
    raws = {name: None}
    for _ in decodings:
        raws = dict.fromkeys(chain.from_iterable((raw, *encodings(raw)) for raw in raws))
    return tuple(raw for raw in raws if decoded(raw, decodings) == name)


# near misses


_CHUNK_KEY = re.compile(r"[0-9A-Fa-f]{8,}_(?P<parent>.+?)_(?:normalized_images|[A-Za-z]+)_\d+", re.DOTALL)
_ENDING = re.compile(r"(?<=.)\.[A-Za-z0-9]{1,5}\Z", re.DOTALL)
_SELECTORS = re.compile("[\ufe00-\ufe0f]")


def chunk_parent(label: str) -> str | None:
    """The parent's raw value inside what looks like the key of an indexer's chunk, `<hash>_<parent>_pages_N`."""
    found = _CHUNK_KEY.fullmatch(label)
    return None if found is None else found["parent"]


def variants(label: str) -> tuple[str, ...]:
    """Raw values that an index may hold in place of the label, itself left out."""
    spelled = dict.fromkeys(
        (
            label.lower(),
            label.upper(),
            label.casefold(),
            *(unicodedata.normalize(form, label) for form in ("NFC", "NFD", "NFKC")),
            _spaced(label),
            _shown(label),
            _folded(label),
            unquote(label),
            quote(label, safe="/:"),
            *(part for part in (chunk_parent(label),) if part),
        )
    )
    bare = dict.fromkeys(chain.from_iterable((each, _unwrapped(each)) for each in (label, *spelled)))
    tails = dict.fromkeys(chain.from_iterable((_tail(each), _stem(each)) for each in bare))
    encoded = chain.from_iterable(encodings(each) for each in bare)
    every = dict.fromkeys((*bare, *tails, *encoded))
    return tuple(each for each in every if each not in {label, ""})


class Catalogue:
    """The parents seen in an index, to find what absent labels mean. `decodings` are the side's."""

    def __init__(self, raws: Iterable[str], decodings: tuple[ParentNames, ...]) -> None:
        self._names = {raw: decoded(raw, decodings) for raw in sorted(raws)}
        self._others: dict[tuple[ParentNames, ...], dict[str, str]] = {
            other: {decoded(raw, other): raw for raw in self._names}
            for other in _DECODINGS
            if other != decodings
        }
        self._forms: list[dict[str, list[str]]] = []
        for form, _ in _FORMS:
            by_form: dict[str, list[str]] = {}
            for name in dict.fromkeys(self._names.values()):
                by_form.setdefault(form(name), []).append(name)
            self._forms.append(by_form)

    def near(self, label: str, *, similar: bool = True) -> Near | None:
        """What the label probably means; None if nothing is near. `similar` allows for slips of the pen, which
        takes its time.
        """
        for other, names in self._others.items():
            if label in names:
                return Near(names=(names[label],), because="it is encoded", parent_names=other)
        parent = chunk_parent(label)
        if parent is not None:
            return self._near_chunk(parent)
        return self._same(label) or (self._similar(label) if similar else None)

    def _near_chunk(self, parent: str) -> Near:
        because = "it looks like the key of a chunk, and labels name parent documents"
        readable = _unwrapped(parent)
        if parent in self._names and self._names[parent] == parent != readable:
            because += f'; under parent_names = ["base64url"] that is {quoted(readable)}'
        if parent in self._names:
            return Near(names=(self._names[parent],), because=because)
        same = self._same(readable)
        if same is not None:
            return Near(names=same.names, because=because)
        return Near(because=f"{because}; its parent {quoted(readable)} is not there either")

    def _same(self, label: str) -> Near | None:
        for (form, because), names in zip(_FORMS, self._forms, strict=True):
            found = names.get(form(label))
            if found:
                why = _difference(label, found[0]) if form is _folded else because
                return Near(names=tuple(found[:_SUGGESTED]), because=why)
        return None

    def _similar(self, label: str) -> Near | None:
        tails = self._forms[_TAIL]
        some = islice(tails, _COMPARED)
        close = get_close_matches(_FORMS[_TAIL][0](label), some, n=1, cutoff=_SIMILAR)
        return Near(names=tuple(tails[close[0]][:1]), because="it is spelled alike") if close else None


def _spaced(text: str) -> str:
    return " ".join(text.split())


def _shown(text: str) -> str:
    """Without what is not seen: format and control characters, variation selectors."""
    return "".join(
        each for each in _SELECTORS.sub("", text) if unicodedata.category(each) not in {"Cf", "Cc"}
    )


def _folded(text: str) -> str:
    """One form for all that look alike but for letter case."""
    plain = unicodedata.normalize("NFKC", _shown(_spaced(text)))
    return _spaced(unicodedata.normalize("NFKC", plain.casefold()))


def _unwrapped(text: str) -> str:
    return decoded(text, (ParentNames.BASE64URL,))


def _tail(text: str) -> str:
    return decoded(text, (ParentNames.BASE64URL, ParentNames.FILE_NAME))


def _stem(text: str) -> str:
    return _ENDING.sub("", _tail(text))


def _folded_unwrapped(text: str) -> str:
    return _folded(_unwrapped(text))


def _folded_tail(text: str) -> str:
    return _folded(_tail(text))


def _folded_stem(text: str) -> str:
    return _folded(_stem(text))


_FORMS = (
    (_folded, "it looks alike"),
    (_folded_unwrapped, "one of them is encoded as the indexers do it"),
    (_folded_tail, "its file name is the same"),
    (_folded_stem, "its file name is the same but for the ending"),
)
_TAIL = 2  # place of file names in it


def _difference(label: str, name: str) -> str:
    """What tells two names apart that fold to the same."""
    for what, form in (
        ("its Unicode form", _normalized),
        ("letter case", str.casefold),
        ("spaces", _spaced),
        ("invisible characters", _shown),
    ):
        if form(label) == form(name):
            return f"it differs in {what}"
    return "it differs in letter case, spaces, Unicode form or invisible characters"


def _normalized(text: str) -> str:
    return unicodedata.normalize("NFKC", text)
