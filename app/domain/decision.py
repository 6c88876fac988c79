"""The decision: from a run's policy, checks and stored questions to counts, lists, reasons and verdict.

Pure, in one pass over the questions, so that a run of any size is decided in the memory of its lists, and
so that a stored record can be decided again.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from datetime import date

from app.domain.causes import why
from app.domain.check import Level
from app.domain.measures import GatheredMeasures, Measures
from app.domain.newcomers import newcomers
from app.domain.noise import GatheredNoise, Noise
from app.domain.observation import forbidden_hits
from app.domain.outcome import (
    EVALUATED,
    Observed,
    Outcome,
    QuestionResult,
    Tally,
    critical_lost,
    failed,
    first_where,
    outcome,
    tally,
)
from app.domain.query import Queries, Side
from app.domain.reasons import Code, Reason, Verdict, ordered, verdict
from app.domain.run import Counts, Flip, Run, State
from app.domain.statistics import GatheredStatistics, Statistics
from app.domain.wording import headline


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What follows from a run's evidence; the names are those of the run record."""

    verdict: Verdict
    reasons: tuple[Reason, ...]
    counts: Counts
    lost: tuple[Flip, ...]
    gained: tuple[Flip, ...]
    measures: Measures
    statistics: Statistics
    noise: Noise


def results(questions: Iterable[Observed], queries: Queries) -> Iterator[QuestionResult]:
    """Each question with what follows from its observations, in the given order."""
    return (result(observed, queries) for observed in questions)


def result(observed: Observed, queries: Queries) -> QuestionResult:
    """One question with its outcome, and the forbidden documents that the candidate showed."""
    baseline = tally(observed, Side.BASELINE, queries.baseline)
    candidate = tally(observed, Side.CANDIDATE, queries.candidate)
    shown = (parent for each in observed.candidate for parent in forbidden_hits(observed, each))
    return QuestionResult(
        **{each.name: getattr(observed, each.name) for each in fields(Observed)},
        outcome=outcome(observed, baseline, candidate),
        critical_lost=critical_lost(observed, baseline, candidate),
        forbidden_hits=tuple(dict.fromkeys(shown)),
    )


def decide(run: Run, questions: Iterable[QuestionResult]) -> Decision:
    """The decision on a run: `run.policy`, `run.query` and `run.checks` are read, nothing derived is."""
    evidence = _Evidence()
    measures, statistics, noise = GatheredMeasures(), GatheredStatistics(), GatheredNoise()
    for each in questions:
        evidence.add(each, run.query)
        for gathered in (measures, statistics, noise):
            gathered.add(each, run.query)
    found = (*_from_checks(run), *_from_counts(run), *_from_documents(run), *_from_questions(run, evidence))
    reasons = ordered(_merged(found))
    return Decision(
        verdict=verdict(reasons),
        reasons=reasons,
        counts=evidence.counts(),
        lost=tuple(evidence.lost),
        gained=tuple(evidence.gained),
        measures=measures.summary(),
        statistics=statistics.summary(),
        noise=noise.summary(),
    )


def decided(run: Run, decision: Decision, *, on: date) -> Run:
    """The run, done, with its decision; `on` is the day on which an overdue review is judged."""
    done = replace(
        run,
        state=State.DONE,
        verdict=decision.verdict,
        reasons=decision.reasons,
        counts=decision.counts,
        lost=decision.lost,
        gained=decision.gained,
        measures=decision.measures,
        statistics=decision.statistics,
        noise=decision.noise,
    )
    return replace(done, headline=headline(done, on=on))


@dataclass(slots=True)
class _Evidence:
    """What the rules need to know of all questions, gathered one by one."""

    outcomes: Counter[Outcome] = field(default_factory=Counter)
    lost: list[Flip] = field(default_factory=list)
    gained: list[Flip] = field(default_factory=list)
    critical_lost: list[str] = field(default_factory=list)
    critical_stale: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    failed_guarded: int = 0  # of them critical or with forbidden documents, to which no tolerance applies
    forbidden: dict[str, tuple[str, ...]] = field(default_factory=dict)
    noisy: list[str] = field(default_factory=list)
    destabilised: list[str] = field(default_factory=list)
    stabilised: list[str] = field(default_factory=list)
    lost_by_slice: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    gained_by_slice: Counter[str] = field(default_factory=Counter)
    asked: bool = False
    ever_in_context: bool = False

    def add(self, each: QuestionResult, queries: Queries) -> None:
        self.outcomes[each.outcome] += 1
        baseline = tally(each, Side.BASELINE, queries.baseline)
        candidate = tally(each, Side.CANDIDATE, queries.candidate)
        self.asked |= baseline.total + candidate.total > 0
        self.ever_in_context |= baseline.inside + candidate.inside > 0
        if each.outcome is Outcome.STALE and each.critical:
            self.critical_stale.append(each.id)
        if failed(each):
            self.failed.append(each.id)
            self.failed_guarded += each.critical or bool(each.forbidden)
        if each.forbidden_hits:
            self.forbidden[each.id] = each.forbidden_hits
        self._add_flips(each, queries)
        self._add_steadiness(each, baseline, candidate)

    def _add_flips(self, each: QuestionResult, queries: Queries) -> None:
        if each.critical_lost:
            self.critical_lost.append(each.id)
        if each.critical_lost or each.outcome is Outcome.LOST:
            self.lost.append(_flip(each, queries, lost=True))
        if each.outcome is Outcome.LOST:
            for name in each.slice:
                self.lost_by_slice[name].append(each.id)
        if each.outcome is Outcome.GAINED:
            self.gained.append(_flip(each, queries, lost=False))
            self.gained_by_slice.update(each.slice)

    def _add_steadiness(self, each: QuestionResult, baseline: Tally, candidate: Tally) -> None:
        if each.outcome is Outcome.NOISY:
            self.noisy.append(each.id)
        if each.outcome not in EVALUATED or min(baseline.total, candidate.total) < 2:  # noqa: PLR2004
            return
        if _steady(baseline) and not _steady(candidate):
            self.destabilised.append(each.id)
        if not _steady(baseline) and _steady(candidate):
            self.stabilised.append(each.id)

    def counts(self) -> Counts:
        count = self.outcomes
        evaluated = sum(count[each] for each in EVALUATED)
        return Counts(
            questions=count.total(),
            labelled=evaluated + count[Outcome.STALE] + count[Outcome.ERROR],
            evaluated=evaluated,
            kept=count[Outcome.KEPT],
            absent=count[Outcome.ABSENT],
            lost=count[Outcome.LOST],
            gained=count[Outcome.GAINED],
            noisy=count[Outcome.NOISY],
            unlabelled=count[Outcome.UNLABELLED],
            stale=count[Outcome.STALE],
            errors=count[Outcome.ERROR],
            critical_lost=len(self.critical_lost),
            forbidden_hits=len(self.forbidden),
            destabilised=len(self.destabilised),
        )


def _steady(side: Tally) -> bool:
    return side.always or side.never


def _flip(each: QuestionResult, queries: Queries, *, lost: bool) -> Flip:
    """The question with the first observations that show it lost, or else gained."""
    before = first_where(each, Side.BASELINE, queries.baseline, inside=lost)
    after = first_where(each, Side.CANDIDATE, queries.candidate, inside=not lost)
    found = why(each, queries) if lost else None
    return Flip(
        id=each.id,
        question=each.question,
        critical=each.critical,
        slice=each.slice,
        unstable=each.outcome not in (Outcome.LOST, Outcome.GAINED),
        baseline_rank=before.rank if before else None,
        candidate_rank=after.rank if after else None,
        cause=found.cause if found else None,
        also=found.also if found else (),
        evidence=found.evidence if found else None,
        took_its_place=newcomers(each, queries) if lost else None,
    )


def _from_checks(run: Run) -> Iterator[Reason]:
    """A blocking check is a reason of the same code."""
    for check in run.checks:
        if check.level is Level.BLOCKING:
            yield Reason(
                code=Code(check.code),
                measured=check.measured,
                limit=check.limit,
                setting=check.setting,
                questions=check.questions,
                documents=check.documents,
            )


def _from_counts(run: Run) -> Iterator[Reason]:
    """An index whose count of documents moved further than the policy allows is not the one that was judged."""
    limit = run.policy.max_documents_changed
    for side in (run.baseline, run.candidate):
        if side.documents is None or side.documents_at_end is None:
            continue
        moved = abs(side.documents_at_end - side.documents)
        if moved > limit:
            yield Reason(
                code=Code.INDEX_CHANGED, measured=moved, limit=limit, setting="max_documents_changed"
            )


def _from_documents(run: Run) -> Iterator[Reason]:
    """Parents of the baseline that the candidate lacks, where the policy limits their share."""
    limit = run.policy.max_lost_documents_share
    if limit is None:
        return
    lost = next((check for check in run.checks if check.code == Code.LOST_DOCUMENTS), None)
    whole = run.inventories is not None and all(
        each.complete for each in (run.inventories.baseline, run.inventories.candidate)
    )
    if lost is not None and lost.measured is not None and lost.measured > limit:
        yield Reason(
            code=Code.LOST_DOCUMENTS,
            measured=lost.measured,
            limit=limit,
            setting="max_lost_documents_share",
            questions=lost.questions,
            documents=lost.documents,
        )
    elif not whole:
        yield Reason(code=Code.NOT_EVALUATED, setting="max_lost_documents_share")


def _merged(reasons: Iterable[Reason]) -> list[Reason]:
    """Several reasons of one code as one: the first's numbers, everybody's questions and documents."""
    by_code: dict[Code, Reason] = {}
    for reason in reasons:
        before = by_code.get(reason.code)
        by_code[reason.code] = reason if before is None else _both(before, reason)
    return list(by_code.values())


def _both(first: Reason, second: Reason) -> Reason:
    numbers = first if first.measured is not None else second
    settings = dict.fromkeys(each for each in (first.setting, second.setting) if each)
    return replace(
        numbers,
        setting=", ".join(settings) or None,
        questions=tuple(dict.fromkeys((*first.questions, *second.questions))),
        documents=tuple(dict.fromkeys((*first.documents, *second.documents))),
    )


def _from_questions(run: Run, evidence: _Evidence) -> Iterator[Reason]:
    counts = evidence.counts()
    if evidence.forbidden:
        documents = (parent for parents in evidence.forbidden.values() for parent in parents)
        yield Reason(
            code=Code.FORBIDDEN_HIT,
            measured=len(evidence.forbidden),
            limit=0,
            questions=tuple(evidence.forbidden),
            documents=tuple(dict.fromkeys(documents)),
        )
    if evidence.critical_lost:
        yield Reason(
            code=Code.CRITICAL_LOST,
            measured=len(evidence.critical_lost),
            limit=0,
            questions=tuple(evidence.critical_lost),
        )
    if not counts.evaluated or not evidence.ever_in_context:
        yield Reason(code=Code.NOTHING_EVALUATED, measured=counts.evaluated)
    if evidence.asked:  # else the reason that kept every question from being asked says it all
        yield from _unmeasured(run, evidence, counts)
    if evidence.critical_stale:
        yield Reason(
            code=Code.CRITICAL_STALE,
            measured=len(evidence.critical_stale),
            limit=0,
            questions=tuple(evidence.critical_stale),
        )
    yield from _regressions(run, evidence, counts)


def _unmeasured(run: Run, evidence: _Evidence, counts: Counts) -> Iterator[Reason]:
    policy = run.policy
    if counts.labelled and counts.evaluated / counts.labelled < policy.min_evaluated_share:
        yield Reason(
            code=Code.TOO_FEW_EVALUATED,
            measured=counts.evaluated / counts.labelled,
            limit=policy.min_evaluated_share,
            setting="min_evaluated_share",
        )
    if evidence.failed_guarded or len(evidence.failed) > policy.max_question_errors:
        yield Reason(
            code=Code.QUESTION_ERRORS,
            measured=len(evidence.failed),
            limit=0 if evidence.failed_guarded else policy.max_question_errors,
            setting="max_question_errors",
            questions=tuple(evidence.failed),
        )
    if counts.evaluated and counts.noisy / counts.evaluated > policy.max_noisy_share:
        yield Reason(
            code=Code.TOO_NOISY,
            measured=counts.noisy / counts.evaluated,
            limit=policy.max_noisy_share,
            setting="max_noisy_share",
            questions=tuple(evidence.noisy),
        )


def _regressions(run: Run, evidence: _Evidence, counts: Counts) -> Iterator[Reason]:
    policy = run.policy
    if policy.max_net_destabilised is not None and not (policy.noise_runs and policy.confirm_runs):
        yield Reason(code=Code.NOT_EVALUATED, setting="max_net_destabilised")
    if counts.lost - counts.gained > policy.max_net_loss:
        yield Reason(
            code=Code.NET_LOSS,
            measured=counts.lost - counts.gained,
            limit=policy.max_net_loss,
            setting="max_net_loss",
            questions=tuple(flip.id for flip in evidence.lost if not flip.unstable),
        )
    by_slice = {
        name: len(evidence.lost_by_slice[name]) - evidence.gained_by_slice[name]
        for name in policy.protected_slices
    }
    losing = {name: net for name, net in by_slice.items() if net > 0}
    if losing:
        asked = {question for name in losing for question in evidence.lost_by_slice[name]}
        yield Reason(
            code=Code.SLICE_LOSS,
            measured=losing,
            limit=0,
            setting="protected_slices",
            questions=tuple(flip.id for flip in evidence.lost if flip.id in asked),
        )
    net = len(evidence.destabilised) - len(evidence.stabilised)
    if policy.max_net_destabilised is not None and net > policy.max_net_destabilised:
        yield Reason(
            code=Code.DESTABILISED,
            measured=net,
            limit=policy.max_net_destabilised,
            setting="max_net_destabilised",
            questions=tuple(evidence.destabilised),
        )
