"""Noisy questions asked again in variants of the query, and what their noise is then consistent with."""

from dataclasses import dataclass, replace

import pytest

from app.domain.errors import FailureCode, QueryError
from app.domain.noise import consistent_with
from app.domain.reasons import Verdict
from app.gate.ports import Answer, Ask
from tests.fakes.search import FakeSearch
from tests.gate.executing import Executing, codes, lines

NOISE = "[policy]\nnoise_runs = 1\nconfirm_runs = 1\nmax_noisy_share = 1.0\n"
IN, OUT = ("d1", "x", "x", "x", "x", "x"), ("x", "x", "x", "x", "x", "d1")


@dataclass
class Unsteady(FakeSearch):
    """A service whose baseline flips for as long as the query has the cause of it."""

    cause: str = "graph"

    async def ask(self, ask: Ask, deadline: float) -> Answer:
        steady = {
            "graph": bool(ask.query.exhaustive),
            "replicas": ask.session is not None,
            "ranker": not ask.query.semantic,
            "writing": False,
            "passing": self.index(ask.index).answered[ask.text] >= 2,
        }[self.cause]
        answer = await super().ask(ask, deadline)
        if steady and ask.index == "kb-v1":
            self.index(ask.index).answered[ask.text] = 2  # the first of the two again
            answer = await super().ask(ask, deadline)
        return replace(answer, rows=tuple(replace(row, key=f"{row.parent} {row.key}") for row in answer.rows))


def unsteady(cause: str, questions: int = 1) -> Executing:
    gate = Executing(search=Unsteady(cause=cause))
    for place in range(1, questions + 1):
        gate.search.index("kb-v1").answer(f"question {place}", IN, OUT)
    return gate


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        ("graph", "approximate vector search"),
        ("replicas", "replicas that answer differently"),
        ("ranker", "the semantic ranker"),
        ("writing", "something else"),
        ("passing", "nothing can be said"),
    ],
)
async def test_what_the_noise_is_consistent_with(cause: str, words: str) -> None:
    gate = unsteady(cause)
    run = await gate.run(lines(3), toml=NOISE)
    assert run.verdict is Verdict.PASS
    assert run.counts.noisy == 1
    assert [probe.id for probe in run.noise_probes] == ["q1"]
    assert words in consistent_with(run.noise_probes)


async def test_each_variant_is_asked_three_times_of_the_noisy_side_alone() -> None:
    gate = unsteady("writing")
    run = await gate.run(lines(1), toml=NOISE)
    probes = [each for each in gate.search.asked if each.text == "question 1"][run.requests.comparison :]
    assert {each.index for each in probes} == {"kb-v1"}
    seen = [(each.query.exhaustive, each.session, each.query.semantic) for each in probes]
    assert seen == [
        *[(None, None, True)] * 3,
        *[(True, None, True)] * 3,
        *[(None, "run-001-probe", True)] * 3,
        *[(None, None, False)] * 3,
    ]
    # beside the comparison's and the preflight's two probes: what asked for the ranker
    assert run.requests.semantic == run.requests.comparison + 2 + 9


async def test_at_most_ten_questions_are_probed() -> None:
    gate = unsteady("writing", questions=14)
    run = await gate.run(lines(14), toml=NOISE)
    assert run.counts.noisy == 14
    assert [probe.id for probe in run.noise_probes] == [f"q{place}" for place in range(1, 11)]
    assert len(gate.asked) - run.requests.comparison == 10 * 12


async def test_steady_questions_are_not_probed() -> None:
    gate = Executing()
    run = await gate.run(lines(3), toml=NOISE)
    assert run.noise_probes == ()
    assert len(gate.asked) == run.requests.comparison == 9


async def test_variants_that_would_change_nothing_are_not_asked() -> None:
    gate = unsteady("writing")
    keyword = '[query]\nmode = "keyword"\nsemantic = false\n'
    run = await gate.run(lines(1), toml=keyword + NOISE)
    (probe,) = run.noise_probes
    assert (probe.exhaustive, probe.one_session, probe.no_ranker, probe.unchanged) == (
        None,
        False,
        None,
        False,
    )


async def test_an_application_that_keeps_a_session_is_probed_within_its_own() -> None:
    gate = unsteady("writing")
    run = await gate.run(lines(1), toml=f'[query]\nsession = "run"\n{NOISE}')
    (probe,) = run.noise_probes
    assert probe.one_session is None, "the query has one session already"
    assert {each.session for each in gate.search.asked} == {"run-001"}


async def test_a_probe_that_fails_is_not_known_and_no_reason() -> None:
    @dataclass
    class Failing(Unsteady):
        async def ask(self, ask: Ask, deadline: float) -> Answer:
            if ask.query.exhaustive:
                raise QueryError(FailureCode.REJECTED, "exhaustive is not allowed here")
            return await super().ask(ask, deadline)

    gate = Executing(search=Failing(cause="ranker"))
    gate.search.index("kb-v1").answer("question 1", IN, OUT)
    run = await gate.run(lines(1), toml=NOISE)
    (probe,) = run.noise_probes
    assert (probe.exhaustive, probe.no_ranker) == (None, True)
    assert run.verdict is Verdict.PASS


async def test_the_noise_floor_stands_beside_the_change() -> None:
    gate = Executing()
    gate.search.index("kb-v1").answer("question 1", IN, OUT)
    gate.search.index("kb-v2").answer("question 2", OUT)
    run = await gate.run(lines(4), toml=f"{NOISE}max_net_loss = 1\n")
    assert run.noise is not None
    assert (run.noise.baseline.pairs, run.noise.baseline.flips, run.noise.baseline.flip_share) == (4, 1, 0.25)
    assert run.noise.baseline.rank_movement == 5 / 4  # q1 from 1 to 6, three stand still
    assert (run.noise.candidate.pairs, run.noise.candidate.flips) == (4, 1)
    assert [(each.id, each.reasons[0]) for each in run.noise.watch] == [("q1", "near-rank")]


async def test_an_index_that_is_too_noisy_is_not_judged() -> None:
    gate = unsteady("writing", questions=2)
    run = await gate.run(lines(4), toml="[policy]\nmax_noisy_share = 0.4\n")
    assert (run.verdict, codes(run)) == (Verdict.ERROR, ["too-noisy"])


async def test_a_study_of_noise_is_never_trusted() -> None:
    gate = unsteady("writing")
    run = await gate.run(lines(4), toml=NOISE, candidate_index="kb-v1", baseline_index=None, noise_study=True)
    assert run.noise_study
    assert not run.trusted
    assert (run.headline or "").startswith("noise study of kb-v1")
