"""Runs made by hand, for tests of whatever shows or keeps a run. Each is decided by the domain itself; the
numbers in the comments were worked out by hand.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Any

from app.domain.change import Change, ChangeKind
from app.domain.check import Check, Level
from app.domain.decision import decide, decided, results
from app.domain.difference import Difference, difference
from app.domain.errors import FailureCode
from app.domain.fingerprint import Fingerprint, IndexFingerprint
from app.domain.index import Fields
from app.domain.inventory import InventoryRecord, Method
from app.domain.legs import Leg, LegProbe, LegRank, LegRanks
from app.domain.noise import ProbeResult
from app.domain.observation import Failure, Hit, Observation, answer_rank
from app.domain.outcome import Missing, Observed, QuestionResult
from app.domain.policy import Policy
from app.domain.query import Queries, QuerySettings
from app.domain.reasons import Code
from app.domain.run import GoldenRef, IndexSide, Inventories, Requests, Run

TODAY = date(2026, 11, 30)
STARTED = datetime(2026, 11, 30, 9, 0, tzinfo=UTC)

PASSAGES = {
    "leave-policy": "Employees may carry over five days of annual leave. They lapse on 31 March.",
    "leave-archive-2019": "Until 2019 unused leave lapsed on 31 December.",
    "travel-expenses": "Meals are refunded up to 45 euros a day. Receipts are due within 30 days.",
    "hotel-rates": "Hotel rates by city: Berlin 120, Paris 150, Madrid 110.",
    "visa-letters": "Visa letters are issued by the mobility desk within three days.",
    "parental-leave": "Parental pay is 80 % of the salary for twelve months, and 60 % after that.",
    "remote-work": "Up to eight days a month may be worked from home.",
    "badges": "Visitor badges are yellow, contractor badges are blue.",
    "it-hotline": "The IT hotline is 4711, weekdays from 7 to 19.",
    "canteen": "The canteen is open from 11:30 to 14:00.",
    "payroll": "Salaries are paid on the 25th of the month.",
    "onboarding": "New colleagues sign the data protection form and the safety form.",
    "safety": "The safety form is signed once a year.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A run with its questions, decided."""

    run: Run
    questions: tuple[Observed, ...]

    @property
    def results(self) -> Iterator[QuestionResult]:
        """A fresh pass over the questions."""
        return results(self.questions, self.run.query)


def example(run: Run, questions: Sequence[Observed]) -> Example:
    """The run, decided from these questions as of 30 November 2026."""
    decision = decide(run, results(questions, run.query))
    return Example(run=decided(run, decision, on=TODAY), questions=tuple(questions))


def a_run(**changes: Any) -> Run:
    """A run of the set `hr`, `kb-v2` against `kb-v1`, not yet decided."""
    fields = Fields(
        key="chunk_id", parent="parent_id", text="chunk", title="title", vectors=("content_vector",)
    )
    run = Run(
        id="01JDHR",
        baseline=IndexSide(
            requested="kb-live",
            index="kb-v1",
            alias="kb-live",
            etag='"0x8DD0AAA"',
            definition_digest="sha256:aaaa",
            documents=1204,
            documents_at_end=1204,
            fields=fields,
        ),
        candidate=IndexSide(
            requested="kb-v2",
            index="kb-v2",
            etag='"0x8DD0BBB"',
            definition_digest="sha256:bbbb",
            documents=1967,
            documents_at_end=1967,
            fields=fields,
        ),
        golden_set=GoldenRef(
            name="hr",
            digest="sha256:cccc",
            owner="hr-content@contoso.example",
            review_by=date(2027, 3, 1),
            deployed=True,
        ),
        query=Queries(baseline=QuerySettings(), candidate=QuerySettings()),
        policy=Policy(),
        trusted=True,
        change=Change(kind=(ChangeKind.CHUNKING,), summary="chunks of 500 instead of 1,000 characters"),
        requested_by="pipeline 77",
        requests=Requests(comparison=41, other=12, semantic=43, retries=2, throttled=2),
        manifest={"gate": "0.1.0", "seed": 7},
        created_at=STARTED,
        started_at=STARTED,
        finished_at=datetime(2026, 11, 30, 9, 4, tzinfo=UTC),
    )
    return replace(run, **changes)


def hits(parents: Iterable[str | None], *, context_size: int = 5) -> tuple[Hit, ...]:
    """Chunks of these parents in this order; scores fall from 0.032 and 2.90, texts for the context only."""
    return tuple(
        Hit(
            rank=rank,
            key=f"{parent}-{rank}",
            parent=parent,
            score=0.033 - rank / 1000,
            reranker_score=3.0 - rank / 10,
            title=(parent or "").replace("-", " ").capitalize() or None,
            text=PASSAGES.get(parent or "", f"About {parent}.") if rank <= context_size else None,
        )
        for rank, parent in enumerate(parents, start=1)
    )


def fill(rank: int | None, answer: str, *, others: str = "other", of: int = 10) -> tuple[str, ...]:
    """Parents of `of` chunks: the answer at `rank` (None: nowhere), the others `other-1`, `other-2` …"""
    parents = [f"{others}-{place}" for place in range(1, of + 1)]
    if rank is not None:
        parents[rank - 1] = answer
    return tuple(parents)


def seen(question: Observed, parents: Iterable[str | None], *, ms: float = 120.0) -> Observation:
    """An observation whose answer holds chunks of these parents."""
    found = hits(parents)
    return Observation(rank=answer_rank(question, found), elapsed_ms=ms, attempts=1, hits=found)


def inventory(**changes: Any) -> InventoryRecord:
    """1,204 chunks of 312 documents, all of them read."""
    record = InventoryRecord(
        method=Method.KEY_RANGES,
        complete=True,
        note=None,
        chunks=1204,
        parents=312,
        without_parent=0,
        without_text=0,
        duplicates=0,
        tokens_median=220,
        tokens_95=250,
        tokens_most=256,
        digest="sha256:1111",
        requests=4,
    )
    return replace(record, **changes)


def inventories(**candidate: Any) -> Inventories:
    """Two inventories, which differ in what is given."""
    return Inventories(baseline=inventory(), candidate=inventory(**candidate))


def a_fingerprint() -> Fingerprint:
    """Of the indexes of `a_run`."""
    sides = [
        IndexFingerprint(
            index=f"kb-v{number}",
            definition_digest=f"sha256:def{number}",
            etag=f"etag-{number}",
            documents=documents,
            synonym_maps=None,
            inventory=f"sha256:inv{number}",
        )
        for number, documents in ((1, 1204), (2, 1967))
    ]
    return Fingerprint(
        baseline=sides[0],
        candidate=sides[1],
        golden_set="sha256:cccc",
        query="sha256:9999",
        policy="sha256:pppp",
    )


def failed(
    message: str = "503: the service is busy", code: FailureCode = FailureCode.THROTTLED
) -> Observation:
    return Observation(
        rank=None, elapsed_ms=30_000.0, attempts=4, throttled=4, error=Failure(code=code, message=message)
    )


def asked(
    question: Observed, baseline: Sequence[int | None], candidate: Sequence[int | None], **changes: Any
) -> Observed:
    """The question with its first answer document at these ranks, one observation each."""
    answer = question.labelled_documents[0] if question.labelled_documents else "nothing"
    return replace(
        question,
        baseline=tuple(seen(question, fill(rank, answer)) for rank in baseline),
        candidate=tuple(
            seen(question, fill(rank, answer, others="newer"), ms=200.0 + place)
            for place, rank in enumerate(candidate)
        ),
        **changes,
    )


def failing() -> Example:
    """FAIL. 14 questions, context of 5 chunks, each baseline asked twice.

    labelled 13 (all but smalltalk) = evaluated 11 + stale 1 + errors 1
    evaluated 11 = kept 4 (it-hotline, canteen-hours, two-forms, half-stale), absent 1 (org-chart),
    lost 3 (leave-carry-over, expense-limit, visa-letter), gained 1 (remote-days),
    noisy 2 (parental-pay, badge-colour)
    critical lost 2: leave-carry-over, and parental-pay, steady before and in context once out of twice after
    destabilised 1: parental-pay
    reasons: critical-lost (2, limit 0), net-loss (3 - 1 = 2, limit 0), slice-loss (table: 1 - 0 = 1)
    not reasons: evaluated 11/13 = 0.846 >= 0.8; errors 1 <= 1; noisy 2/11 = 0.182 <= 0.2
    observations 53 = 28 baselines (14 x 2) + 14 first candidates + 11 more: every question of `_again`
    changed: chunking twice (declared), content once (not declared); one expected document is gone
    """
    policy = Policy(protected_slices=("table",), max_question_errors=1, min_evaluated_share=0.8)
    checks = (
        Check(code="k-below-candidates", level=Level.WARNING, message="k (30) is below candidates (50)."),
        Check(
            code="counts", level=Level.INFO, message="The candidate holds 1,967 chunks, the baseline 1,204."
        ),
        Check(
            code="several-kinds",
            level=Level.WARNING,
            message="2 kinds of change at once (chunking, content): a regression cannot be attributed.",
        ),
        Check(
            code="undeclared-change",
            level=Level.WARNING,
            message="A change of content was found and not declared (chunking was).",
        ),
        Check(
            code="lost-documents",
            level=Level.WARNING,
            message="2 of 312 documents of the baseline (0.6%) are not in the candidate; 1 of them answer 1 questions.",
            measured=0.00641,
            questions=("visa-letter",),
            documents=("visa-letters", "old-canteen-menu"),
        ),
        Check(
            code="stale-label",
            level=Level.WARNING,
            message="2 answer documents are in neither index: 'hr-policy-2019' (did you mean 'hr-policy-2020'?), "
            "'travel-2018'. Correct the golden set.",
        ),
    )
    questions = (
        asked(
            Observed(
                id="it-hotline", question="What is the number of the IT hotline?", answers=("it-hotline",)
            ),
            (1, 1),
            (1,),
        ),
        replace(
            asked(
                Observed(
                    id="expense-limit",
                    question="How much may I spend on meals when travelling?",
                    answers=("travel-expenses",),
                    slice=("table", "lookup"),
                    owner="finance@contoso.example",
                ),
                (3, 5),
                (6, 6),
            ),
            candidate=(
                _expense(("hotel-rates", "hotel-rates", "canteen", "hotel-rates", "payroll")),
                _expense(("hotel-rates", "hotel-rates", "canteen", "hotel-rates", "payroll")),
            ),
        ),
        _leave(),
        asked(
            Observed(
                id="visa-letter",
                question="Who issues a visa letter?",
                answers=("visa-letters",),
                slice=("lookup",),
            ),
            (1, 1),
            (None, None),
            missing=Missing(candidate=("visa-letters",)),
        ),
        asked(
            Observed(
                id="parental-pay",
                question="How high is parental pay after the first year?",
                answers=("parental-leave",),
                critical=True,
                slice=("exception",),
            ),
            (3, 3),
            (5, 6),
        ),
        asked(
            Observed(
                id="remote-days",
                question="How many days a month may I work from home?",
                answers=("remote-work",),
                slice=("lookup",),
            ),
            (7, 7),
            (2, 2),
        ),
        asked(
            Observed(
                id="badge-colour",
                question="Which colour are visitor badges?",
                answers=("badges",),
                slice=("lookup",),
            ),
            (5, 6),
            (6, 6),
        ),
        asked(
            Observed(
                id="canteen-hours",
                question="When is the canteen open?",
                answers=("canteen",),
                critical=True,
                slice=("lookup",),
            ),
            (4, 4),
            (4, 3),
        ),
        asked(
            Observed(id="org-chart", question="Where is the organisation chart?", answers=("org-chart",)),
            (None, None),
            (None,),
        ),
        replace(
            asked(
                Observed(id="payroll-date", question="When are salaries paid?", answers=("payroll",)),
                (2, 2),
                (),
            ),
            candidate=(failed(),),
        ),
        asked(
            Observed(
                id="handbook",
                question="Where is the staff handbook?",
                answers=("hr-policy-2019",),
                missing=Missing(baseline=("hr-policy-2019",), candidate=("hr-policy-2019",)),
            ),
            (None, None),
            (None,),
        ),
        asked(
            Observed(id="smalltalk", question="How is the weather?", answers=(), note="Should be refused."),
            (None, None),
            (None,),
        ),
        _two_forms(),
        asked(
            Observed(
                id="half-stale",
                question="What is due within 30 days?",
                answers=("travel-expenses", "travel-2018"),
                missing=Missing(baseline=("travel-2018",), candidate=("travel-2018",)),
            ),
            (1, 1),
            (2,),
        ),
    )
    run = a_run(
        policy=policy,
        checks=checks,
        requests=Requests(comparison=49, other=12, semantic=51),
        differences=_rechunked(),
        inventories=inventories(
            chunks=1967,
            parents=310,
            tokens_median=118,
            tokens_95=125,
            tokens_most=128,
            duplicates=3,
            digest="sha256:2222",
        ),
        noise_probes=(
            ProbeResult(
                id="badge-colour", exhaustive=False, one_session=True, no_ranker=False, unchanged=False
            ),
        ),
        legs=(_keyword_lost("leave-carry-over", "leave-policy"),),
        fingerprint=a_fingerprint(),
    )
    return example(run, questions)


def _keyword_lost(question: str, document: str) -> LegProbe:
    """Keyword search has 2 → none, vector search 3 → 4, both together 2 → 9: the analyzer."""
    ranks: tuple[tuple[Leg, int, int | None], ...] = (
        (Leg.KEYWORD, 2, None),
        (Leg.VECTOR, 3, 4),
        (Leg.NO_RANKER, 2, 9),
    )
    return LegProbe(
        id=question,
        documents=(document,),
        legs=tuple(
            LegRanks(leg=leg, baseline=LegRank(rank=before), candidate=LegRank(rank=after))
            for leg, before, after in ranks
        ),
    )


def _rechunked() -> tuple[Difference, ...]:
    """1204 / 312 = 3.9 chunks a document, then 1967 / 310 = 6.3."""
    return (
        difference(ChangeKind.CHUNKING, "chunks a document", 3.9, 6.3),
        difference(ChangeKind.CHUNKING, "tokens a chunk", {"median": 220}, {"median": 118}),
        Difference(
            kind=ChangeKind.CONTENT,
            what="documents gone",
            baseline=2,
            candidate=0,
            message="Documents gone: 2 of 312, such as 'old-canteen-menu', 'visa-letters'.",
        ),
    )


def _leave() -> Observed:
    """2, 2 → 9, 9: an outdated document fills the context, the right one falls behind it."""
    question = Observed(
        id="leave-carry-over",
        question="How many days of leave can I take into next year?",
        answers=("leave-policy",),
        critical=True,
        slice=("lookup",),
        note="Asked every December.",
    )
    before = seen(question, ("parental-leave", "leave-policy", "remote-work", "leave-policy", "payroll"))
    after = seen(
        question,
        (
            *(
                "leave-archive-2019",
                "parental-leave",
                "leave-archive-2019",
                "remote-work",
                "leave-archive-2019",
            ),
            *("payroll", "canteen", "badges", "leave-policy"),
        ),
        ms=200.0,
    )
    return replace(question, baseline=(before, before), candidate=(after, replace(after, elapsed_ms=201.0)))


def _expense(before_it: tuple[str, ...]) -> Observation:
    question = Observed(id="expense-limit", question="-", answers=("travel-expenses",))
    return seen(question, (*before_it, "travel-expenses"), ms=210.0)


def _two_forms() -> Observed:
    question = Observed(
        id="two-forms",
        question="Which forms does a new colleague sign?",
        answers=("onboarding", ("safety", "safety-en")),
        require_all=True,
        slice=("multi-document",),
    )
    before = seen(question, ("onboarding", "x", "safety", "y"))  # ranks 1 and 3: answer rank 3
    after = seen(question, ("x", "safety-en", "y", "onboarding"))  # ranks 4 and 2: answer rank 4
    return replace(question, baseline=(before, before), candidate=(after,))


def passing() -> Example:
    """PASS. labelled = evaluated 3 = kept 2, gained 1; nothing lost."""
    questions = (
        asked(Observed(id="q1", question="When is the canteen open?", answers=("canteen",)), (1, 1), (1,)),
        asked(
            Observed(id="q2", question="When are salaries paid?", answers=("payroll",), critical=True),
            (5, 5),
            (5, 5),
        ),
        asked(Observed(id="q3", question="Which colour are badges?", answers=("badges",)), (6, 6), (5, 5)),
    )
    return example(a_run(), questions)


def same_again() -> Example:
    """PASS. 12 questions, all kept, nothing changed; both indexes were read whole.

    none of 12 lost: up to 1 - 0.05^(1/12) = 1 - exp(-2.9957 / 12) = 22.1 %
    """
    questions = [
        asked(Observed(id=f"q{number}", question=f"Question {number}?", answers=("d1",)), (1, 1), (1,))
        for number in range(1, 13)
    ]
    run = a_run(inventories=inventories(), change=None)
    return example(replace(run, candidate=replace(run.candidate, documents=1204)), questions)


def measured() -> Example:
    """FAIL: net-loss (1, limit 0). 4 labelled questions of one document each and 2 without an answer.

    answer ranks: m1 1, 1 → 1 · m2 2, 2 → 6, 6 (lost) · m3 5, 4 → 4 · m4 1, 1 → 1
    slices: lookup m1, m2; table m2, m3. Contexts are 5 chunks of 5 documents, which share the answer only, so
    that the overlap is 1/5 for kept questions: m1, m3 and m4 are churned; mean (3 x 0.2) / 4 = 0.15
    success: 4/4, 3/4 · reciprocal rank: (1 + 1/2 + 1/5 + 1) / 4 = 0.675, (1 + 1/4 + 1) / 4 = 0.5625
    nDCG: (1 + 0.63093 + 0.38685 + 1) / 4 = 0.754, (1 + 0.43068 + 1) / 4 = 0.608; difference -0.147
    context precision: 0.2, 3 x 0.2 / 4 = 0.15 · elapsed: 120 ms, 200 ms, of six questions
    1 of 4 lost: upper limit p of (1-p)^4 + 4p(1-p)^3 = 0.05, 0.751
    noise: flips 0 of 4, and 1 of 4 with the candidate; ranks moved by 1/4 = 0.25, and by (4 + 1) / 4 = 1.25
    scores of ranks 5 and 6 of m4: 2.5, 2.495, when asked again 2.52, 2.495: 0.005 apart, moved by 0.02;
    over the four 0.02 / 4 = 0.005, and 0.095 / 4 = 0.0238 with the candidate, where they are 2.5, 2.4
    watch list: m3 (rank 5), m4 (scores)
    top scores of the unlabelled: u1 1.2 → 2.0, u2 1.5 → 1.0; means 1.35 → 1.5
    """
    m4 = asked(Observed(id="m4", question="The fourth?", answers=("d4",)), (1, 1), (1,))
    questions = (
        asked(Observed(id="m1", question="The first?", answers=("d1",), slice=("lookup",)), (1, 1), (1,)),
        asked(
            Observed(id="m2", question="The second?", answers=("d2",), slice=("lookup", "table")),
            (2, 2),
            (6, 6),
        ),
        asked(Observed(id="m3", question="The third?", answers=("d3",), slice=("table",)), (5, 4), (4,)),
        replace(
            m4,
            baseline=tuple(
                _scored(each, {5: fifth, 6: 2.495})
                for each, fifth in zip(m4.baseline, (2.5, 2.52), strict=True)
            ),
        ),
        _unanswered("u1", 1.2, 2.0),
        _unanswered("u2", 1.5, 1.0),
    )
    return example(a_run(), questions)


def _unanswered(name: str, before: float, after: float) -> Observed:
    question = asked(Observed(id=name, question=f"Weather {name}?", answers=()), (None, None), (None,))
    rest = dict.fromkeys(range(2, 11), 0.5)
    return replace(
        question,
        baseline=tuple(_scored(each, {1: before, **rest}) for each in question.baseline),
        candidate=tuple(_scored(each, {1: after, **rest}) for each in question.candidate),
    )


def _scored(observation: Observation, scores: dict[int, float]) -> Observation:
    """With these reranker scores, by rank."""
    found = (
        replace(hit, reranker_score=scores.get(hit.rank, hit.reranker_score)) for hit in observation.hits
    )
    return replace(observation, hits=tuple(found))


def unknown_rule() -> Example:
    """PASS with a rule of which nothing can be said, and inventories that are not whole."""
    check = Check(
        code=Code.NOT_EVALUATED,
        level=Level.WARNING,
        message="Stale labels could not be looked up in index 'kb-v1': the parent field is not filterable.",
        index="kb-v1",
    )
    stopped = "200000 rows were read, which is the most that is read of an index."
    found = inventories(complete=False, note=stopped, chunks=200_000, method=Method.SKIP, tokens_median=None)
    return example(a_run(checks=(check,), inventories=found), passing().questions)


def unmeasured() -> Example:
    """ERROR. 12 labelled questions, all failed on the candidate: 0 evaluated.

    reasons: nothing-evaluated (0), too-few-evaluated (0/12 = 0 < 0.9), question-errors (12, limit 0)
    """
    questions = [
        replace(
            asked(Observed(id=f"q{number}", question=f"Question {number}?", answers=("d1",)), (1, 1), ()),
            candidate=(failed(),),
        )
        for number in range(1, 13)
    ]
    return example(a_run(), questions)


def broken() -> Example:
    """ERROR before the first question: reasons index-missing (a blocking check) and nothing-evaluated.

    nothing-evaluated comes first in the contract's order and decides.
    """
    check = Check(
        code=Code.INDEX_MISSING,
        level=Level.BLOCKING,
        message="Index 'kb-v2' does not exist.",
        index="kb-v2",
    )
    candidate = IndexSide(requested="kb-v2", index="kb-v2")
    return example(a_run(candidate=candidate, checks=(check,), requests=Requests(other=2)), ())


def empty() -> Example:
    """ERROR. No question at all: nothing-evaluated (0), no division by zero."""
    return example(a_run(), ())


def unlabelled_only() -> Example:
    """ERROR. 12 questions, none labelled: nothing-evaluated (0)."""
    questions = [
        asked(Observed(id=f"q{number}", question=f"Question {number}?", answers=()), (None,), (None,))
        for number in range(1, 13)
    ]
    return example(a_run(), questions)


def stale_critical() -> Example:
    """ERROR (S05). q003 is critical and its document is in neither index; the other four are kept.

    evaluated 4 of 5 = 0.8 < 0.9: too-few-evaluated decides, then critical-stale (1, limit 0).
    """
    gone = ("hr-policy-2019",)
    questions = [
        asked(Observed(id=f"q00{number}", question=f"Question {number}?", answers=("d1",)), (1, 1), (1,))
        for number in (1, 2, 4, 5)
    ]
    stale = asked(
        Observed(
            id="q003",
            question="Which rules held in 2019?",
            answers=gone,
            critical=True,
            missing=Missing(baseline=gone, candidate=gone),
        ),
        (None, None),
        (None, None),
    )
    return example(a_run(), [*questions[:2], stale, *questions[2:]])


def errors_are_no_losses() -> Example:
    """ERROR (S21). q1 critical: 2 before, 503 after. q2: timed out before, 1 after. q3, q4 kept.

    lost 0, gained 0, errors 2; evaluated 2 of 4.
    """
    q1 = Observed(id="q1", question="First?", answers=("d1",), critical=True)
    q2 = Observed(id="q2", question="Second?", answers=("d1",))
    late = failed("no answer within 30 s", FailureCode.TIMED_OUT)
    questions = (
        replace(asked(q1, (2, 2), ()), candidate=(failed(), failed())),
        replace(asked(q2, (), (1,)), baseline=(late, late)),
        asked(Observed(id="q3", question="Third?", answers=("d1",)), (1, 1), (1,)),
        asked(Observed(id="q4", question="Fourth?", answers=("d1",)), (1, 1), (1,)),
    )
    return example(a_run(), questions)


def unsteady() -> Example:
    """FAIL (S22). q07: 5, 6 → 6, 6 is noisy and no loss. q08, critical: 3, 3 → 5, 6 is critical lost.

    18 others kept; noisy 2 of 20 = 0.1; reasons: critical-lost (1, limit 0) alone.
    """
    questions = [
        asked(Observed(id=f"q{number:02}", question=f"Question {number}?", answers=("d1",)), (1, 1), (1,))
        for number in (*range(1, 7), *range(9, 21))
    ]
    q07 = asked(Observed(id="q07", question="The seventh?", answers=("d1",)), (5, 6), (6, 6))
    q08 = asked(Observed(id="q08", question="The eighth?", answers=("d1",), critical=True), (3, 3), (5, 6))
    return example(a_run(), [*questions[:6], q07, q08, *questions[6:]])


def forbidden() -> Example:
    """FAIL: the candidate shows a forbidden document at 7 for q1 (kept) and at 2 for q2 (unlabelled).

    reasons: forbidden-hit (2, limit 0) alone; evaluated 1 of 1.
    """
    q1 = Observed(id="q1", question="What does a manager earn?", answers=("d1",), forbidden=("board-pay",))
    q2 = Observed(id="q2", question="What does the board earn?", answers=(), forbidden=("board-pay",))
    shows = ("d1", "a", "b", "c", "d", "e", "board-pay")
    questions = (
        replace(q1, baseline=(seen(q1, ("d1",)),) * 2, candidate=(seen(q1, shows),)),
        replace(q2, baseline=(seen(q2, ("a",)),) * 2, candidate=(seen(q2, ("a", "board-pay")),)),
    )
    return example(a_run(), questions)


def forbidden_today() -> Example:
    """PASS: the baseline shows a forbidden document at 3, when asked again at 2; the candidate shows it nowhere."""
    q1 = Observed(id="q1", question="What does a manager earn?", answers=("d1",), forbidden=("board-pay",))
    before = (seen(q1, ("d1", "a", "board-pay")), seen(q1, ("d1", "board-pay")))
    return example(a_run(), (replace(q1, baseline=before, candidate=(seen(q1, ("d1", "a")),)),))


S18_ID = 'q<1>&"'
S18_QUESTION = "a\u000b\u001b[31m b \ud83d ]]> \uffff & <c>"
SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(2)>"
MARKDOWN_LINK = (
    "[click](https://evil.example/x) ![p](https://evil.example/p.png) <https://evil.example> `x` **b** | c"
)
PIPELINE = "##vso[task.setvariable variable=verdict]PASS\n##vso[task.complete result=Succeeded]\n##[error]x"
REVERSED = "invoice\u202egpj.exe\u202c \u2066x\u2069 \u200b"
ANSI = "\x1b[2J\x1b[31mred\x1b[0m\x07\x9b1m"
LONG_PASSAGE = "Eine lange Passage. " * 1_000  # 20,000 characters


def hostile() -> Example:
    """FAIL. Every text from outside is an attack; all 7 questions are lost, so all are shown in full.

    Index names, differences, notes of inventories, findings and documents are attacks too.

    reasons: net-loss (7, limit 0)
    """
    texts = (
        (S18_ID, S18_QUESTION),
        ("a\u000bb", SCRIPT),
        ("a\\u000bb", MARKDOWN_LINK),  # looks like the id above once that is escaped
        ("##vso[x]", PIPELINE),
        ("q|5", REVERSED),
        ("`q6`\nline", ANSI),
        (
            "1. q7",
            "# heading\n- list\n<details open>\nwww.evil.example someone@evil.example #42 C:\\dir {{ 7*7 }}",
        ),
    )
    questions = [_hostile(name, text) for name, text in texts]
    check = Check(code="x|y", level=Level.WARNING, message=f"{PIPELINE} {SCRIPT} {MARKDOWN_LINK}")
    run = a_run(
        golden_set=GoldenRef(
            name="hr<b>|`x`", digest="sha256:cccc", owner=MARKDOWN_LINK, review_by=date(2026, 1, 1)
        ),
        change=Change(summary=SCRIPT, build_url="javascript:alert(1)"),
        requested_by=PIPELINE,
        manifest={"model": ["\ud83d", ANSI, float("nan")]},
        checks=(check, *_hostile_checks()),
        differences=_hostile_differences(),
        inventories=inventories(complete=False, note=f"{SCRIPT}\n{PIPELINE}", method=Method.NOT_TAKEN),
        noise_probes=(
            ProbeResult(id=MARKDOWN_LINK, exhaustive=True, one_session=None, no_ranker=None, unchanged=False),
        ),
        fingerprint=replace(a_fingerprint(), golden_set=SCRIPT, query=PIPELINE),
    )
    baseline = replace(run.baseline, index=SCRIPT, requested=MARKDOWN_LINK, alias=MARKDOWN_LINK)
    candidate = replace(run.candidate, index=f"{PIPELINE}|{ANSI}", etag=REVERSED)
    return example(replace(run, baseline=baseline, candidate=candidate), questions)


def _hostile_checks() -> tuple[Check, ...]:
    named = (
        ("several-kinds", SCRIPT),
        ("undeclared-change", MARKDOWN_LINK),
        ("lost-documents", f"{PIPELINE} {ANSI}"),
        (Code.NOT_EVALUATED, f"{MARKDOWN_LINK}\n# heading {REVERSED}"),
    )
    return tuple(
        Check(code=code, level=Level.WARNING, message=text, documents=(f"{SCRIPT}|", "d\t1"))
        for code, text in named
    )


def _hostile_differences() -> tuple[Difference, ...]:
    texts = (SCRIPT, MARKDOWN_LINK, PIPELINE, REVERSED, ANSI, "\ud83d", "1. x\n\n# heading\n| a | b |")
    return tuple(difference(ChangeKind.SCHEMA, f"{text} a", {text: [text]}, text) for text in texts)


def _hostile(name: str, text: str) -> Observed:
    question = Observed(
        id=name,
        question=text,
        answers=("d\t1",),
        slice=("a|b\u001b<i>",) if name == S18_ID else (),
        note=text,
        owner=PIPELINE,
    )
    intruder = Hit(
        rank=1,
        key=text,
        parent=text,
        score=float("nan"),
        title=f"{SCRIPT} {text}",
        text=f"{text}\n{LONG_PASSAGE}",
    )
    before = seen(question, ("d\t1",))
    after = Observation(rank=None, elapsed_ms=250.0, attempts=1, hits=(intruder,))
    return replace(question, baseline=(before, before), candidate=(after, after))


def without_passages() -> Example:
    """FAIL like `failing`, with `evidence_text = false`: hashes stand in the place of passages, and no title."""
    found = failing()
    run = replace(found.run, policy=replace(found.run.policy, evidence_text=False))
    return example(run, [_hashed(each) for each in found.questions])


def _hashed(question: Observed) -> Observed:
    def bare(observation: Observation) -> Observation:
        found = (
            replace(hit, title=None, text=None, text_sha256="0123456789abcdef" * 4 if hit.text else None)
            for hit in observation.hits
        )
        return replace(observation, hits=tuple(found))

    return replace(
        question,
        baseline=tuple(bare(each) for each in question.baseline),
        candidate=tuple(bare(each) for each in question.candidate),
    )
