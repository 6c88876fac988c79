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
from app.domain.errors import FailureCode
from app.domain.index import Fields
from app.domain.observation import Failure, Hit, Observation, answer_rank
from app.domain.outcome import Missing, Observed, QuestionResult
from app.domain.policy import Policy
from app.domain.query import Queries, QuerySettings
from app.domain.reasons import Code
from app.domain.run import GoldenRef, IndexSide, Requests, Run

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
    """
    policy = Policy(protected_slices=("table",), max_question_errors=1, min_evaluated_share=0.8)
    checks = (
        Check(code="k-below-candidates", level=Level.WARNING, message="k (30) is below candidates (50)."),
        Check(
            code="counts", level=Level.INFO, message="The candidate holds 1,967 chunks, the baseline 1,204."
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
    run = a_run(policy=policy, checks=checks, requests=Requests(comparison=49, other=12, semantic=51))
    return example(run, questions)


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
        checks=(check,),
    )
    return example(run, questions)


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
    """FAIL like `failing`, with `evidence_text = false`: hashes stand in the place of passages."""
    found = failing()
    run = replace(found.run, policy=replace(found.run.policy, evidence_text=False))
    return example(run, [_hashed(each) for each in found.questions])


def _hashed(question: Observed) -> Observed:
    def bare(observation: Observation) -> Observation:
        found = (
            replace(hit, text=None, text_sha256="0123456789abcdef" * 4 if hit.text else None)
            for hit in observation.hits
        )
        return replace(observation, hits=tuple(found))

    return replace(
        question,
        baseline=tuple(bare(each) for each in question.baseline),
        candidate=tuple(bare(each) for each in question.candidate),
    )
