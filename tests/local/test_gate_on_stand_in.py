"""The gate itself, run against the stand-in as its users run it: settings alone tell it where the service is."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from azure.appconfiguration import AzureAppConfigurationClient, ConfigurationSetting

from infra.local.configuration import Account
from tests.local.conftest import KEY, VERSION, StandIn, definition

ROOT = Path(__file__).parents[2]
QUESTIONS = [
    {"id": "holiday", "question": "How many days of paid holiday do I get?", "answers": ["leave"]},
    {
        "id": "baby",
        "question": "How long may a new father stay at home?",
        "answers": ["parental"],
        "critical": True,
    },
    {"id": "glasses", "question": "Does the company pay for glasses?", "answers": ["vision"]},
    {"id": "moon", "question": "Who owns the moon?", "answers": []},
]


def without_vectorizer(name: str) -> dict[str, Any]:
    """An index whose application brings its own vectors."""
    body = definition(name)
    body["vectorSearch"] = {
        **body["vectorSearch"],
        "profiles": [{"name": "profile", "algorithm": "graph"}],
        "vectorizers": [],
    }
    return body


def run_gate(
    stand_in: StandIn, folder: Path, toml: str, *, baseline: str | None = "handbook", **settings: str
) -> tuple[int, dict[str, Any], str]:
    """Exit status, run.json, standard output."""
    lines = "\n".join(json.dumps(question) for question in QUESTIONS)
    (folder / "staff.jsonl").write_text(lines, encoding="utf-8")
    (folder / "staff.toml").write_text(toml, encoding="utf-8")
    arguments = ["--candidate", "bare", "--golden", "staff.jsonl", "--out", "out"]
    if baseline is not None:
        arguments += ["--baseline", baseline]
    ended = subprocess.run(
        [sys.executable, "-m", "app", "run", *arguments],
        cwd=folder,
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith("GATE_")},
            "PYTHONPATH": str(ROOT),
            "GATE_SEARCH_ENDPOINT": stand_in.url,
            "GATE_SEARCH_API_KEY": KEY,
            "GATE_EMBEDDING_API_KEY": KEY,
            "GATE_SETTLE_SECONDS": "0",
            **settings,
        },
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    record = folder / "out" / "run.json"
    return (
        ended.returncode,
        json.loads(record.read_text()) if record.exists() else {},
        ended.stdout + ended.stderr,
    )


@pytest.fixture
def bare(stand_in: StandIn) -> StandIn:
    """The stand-in, with an index without a vectorizer beside `handbook`."""
    stand_in.fill(without_vectorizer("bare"))
    stand_in.call("DELETE", "/_requests")
    return stand_in


def test_an_index_without_a_vectorizer_is_asked_with_vectors_of_an_embeddings_endpoint(
    bare: StandIn, tmp_path: Path
) -> None:
    embedding = f'endpoint = "{bare.url}"\ndeployment = "wordllama-256"'
    status, run, said = run_gate(
        bare, tmp_path, f"[query]\nsemantic = false\n[query.candidate.embedding]\n{embedding}\n"
    )
    assert (status, run["verdict"]) == (0, "PASS"), said
    # the same chunks, vectors and words: the same ranks, whoever made the question's vector
    for question in run["questions"]:
        keys = [
            [hit["key"] for hit in side[0]["hits"]] for side in (question["baseline"], question["candidate"])
        ]
        assert keys[0] == keys[1], question["id"]
    # one for each question, however often it is observed, and one for the probe
    assert bare.counts()["wordllama-256"]["embeddings"] == len(QUESTIONS) + 1


def test_an_index_without_a_vectorizer_and_without_an_endpoint_is_one_finding(
    bare: StandIn, tmp_path: Path
) -> None:
    status, run, said = run_gate(bare, tmp_path, "[query]\nsemantic = false\n")
    assert status == 2
    assert "no-vectorizer" in [reason["code"] for reason in run["reasons"]], said
    assert run["requests"]["comparison"] == 0


def test_a_model_that_is_not_there_is_an_error_and_never_a_verdict(bare: StandIn, tmp_path: Path) -> None:
    embedding = f'endpoint = "{bare.url}"\ndeployment = "text-embedding-9"'
    status, run, said = run_gate(
        bare, tmp_path, f"[query]\nsemantic = false\n[query.candidate.embedding]\n{embedding}\n"
    )
    assert status == 2
    assert "vectorizer-failed" in [reason["code"] for reason in run["reasons"]], said


KEYWORD = '[query]\nmode = "keyword"\nsemantic = false\n'


def of_store(stand_in: StandIn, **settings: str) -> dict[str, str]:
    connection = Account().connection_string(stand_in.configuration_url)
    return {"GATE_APPCONFIG_CONNECTION_STRING": connection, "GATE_LIVE_KEY": "search:live-index", **settings}


def test_a_run_without_a_baseline_compares_with_what_a_setting_names(bare: StandIn, tmp_path: Path) -> None:
    given = of_store(bare, GATE_LIVE_LABEL="prod")
    with AzureAppConfigurationClient.from_connection_string(
        given["GATE_APPCONFIG_CONNECTION_STRING"]
    ) as store:
        store.set_configuration_setting(
            ConfigurationSetting(key="search:live-index", label="prod", value="handbook")
        )
    status, run, said = run_gate(bare, tmp_path, KEYWORD, baseline=None, **given)
    assert (status, run["verdict"]) == (0, "PASS"), said
    assert (run["baseline"]["requested"], run["baseline"]["index"]) == ("handbook", "handbook")
    host = bare.configuration_url.removeprefix("http://")
    assert run["manifest"]["baseline_from"] == f"key search:live-index, label prod, of {host}"
    assert Account().secret not in said + json.dumps(run)


def test_a_run_without_a_baseline_compares_with_what_an_alias_names(bare: StandIn, tmp_path: Path) -> None:
    bare.call("PUT", f"/aliases('staff')?{VERSION}", {"name": "staff", "indexes": ["handbook"]})
    try:
        status, run, said = run_gate(bare, tmp_path, KEYWORD, baseline=None, GATE_LIVE_ALIAS="staff")
    finally:
        bare.call("DELETE", f"/aliases('staff')?{VERSION}")
    assert (status, run["verdict"]) == (0, "PASS"), said
    sides = run["baseline"]
    assert (sides["requested"], sides["alias"], sides["index"]) == ("staff", "staff", "handbook")


def test_no_run_is_made_where_what_is_live_cannot_be_known(bare: StandIn, tmp_path: Path) -> None:
    unknown = of_store(bare, GATE_LIVE_KEY="search:nothing")
    secret = Account(secret="b3RoZXI=").connection_string(bare.configuration_url)
    wrong = of_store(bare, GATE_APPCONFIG_CONNECTION_STRING=secret)
    for settings, words in (
        ({}, "GATE_LIVE_KEY"),
        (unknown, "names no index yet"),
        (wrong, "GATE_APPCONFIG_CONNECTION_STRING"),
    ):
        status, run, said = run_gate(bare, tmp_path, KEYWORD, baseline=None, **settings)
        assert (status, run) == (2, {}), said
        assert words in said
        assert "Traceback" not in said
        assert "b3RoZXI=" not in said
        assert not list(tmp_path.glob(".gate/runs/*/*"))
