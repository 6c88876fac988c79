"""The kept run of the demo is what the demo still is."""

import lzma
import re
from pathlib import Path

from app.domain.decision import decide, decided
from app.domain.golden import GoldenTexts
from app.domain.reading import read_golden_set
from infra.local.demo import BASELINE, RECIPES
from tests import demo_run

ROOT = Path(__file__).parents[1]
CASE = demo_run.demo_run()


def test_its_evidence_decides_it_again() -> None:
    run = CASE.run
    assert run.finished_at is not None
    again = decided(run, decide(run, CASE.results), on=run.finished_at.date())
    assert (again.verdict, again.reasons, again.counts) == (run.verdict, run.reasons, run.counts)
    assert [each.id for each in again.lost] == [each.id for each in run.lost]
    assert again.headline == run.headline


def test_it_asked_the_demos_set_of_the_demos_indexes() -> None:
    jsonl, toml = (ROOT / "golden" / f"handbook.{kind}" for kind in ("jsonl", "toml"))
    texts = GoldenTexts(name="handbook", jsonl=jsonl.read_text("utf-8"), toml=toml.read_text("utf-8"))
    asked = [(each.id, each.question, each.answers) for each in read_golden_set(texts).questions]
    assert [(each.id, each.question, each.answers) for each in CASE.questions] == asked
    assert CASE.run.baseline.index == BASELINE
    assert CASE.run.candidate.index in RECIPES


def test_it_names_no_host_and_no_folder_of_the_machine_that_made_it() -> None:
    text = lzma.decompress((ROOT / "tests" / "demo_run.jsonl.xz").read_bytes()).decode()
    assert {re.sub(r":\d+$", "", url) for url in re.findall(r"https?://[^\"\s/]+", text)} == {
        "http://127.0.0.1"
    }
    assert re.findall(r"[\"\s](?:file:/)?/(?:home|root|tmp|usr|var|work|Users)/", text) == []
