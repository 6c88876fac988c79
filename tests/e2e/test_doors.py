"""`gate run` from the outside: both doors, statuses and last lines, several sets, time-outs, signals, slices."""

import gzip
import hashlib
import shlex
import signal
import subprocess
from pathlib import Path
from typing import Any

from tests.e2e.programs import (
    DOCUMENTS,
    PLAIN,
    RUN,
    SEARCH_KEY,
    Ended,
    Gate,
    ids,
    junit,
    outcomes,
    questions,
    until,
)
from tests.scripted import Chunk, Rows, ScriptedSearch, ranked

IN, OUT = ranked(2, "d1"), ranked(8, "d1")
POLICY = f"[policy]\n{PLAIN}"

# the answers of the baseline and of the candidate in turn, whatever the order in which questions are asked
STORY: dict[str, tuple[list[Rows], list[Rows]]] = {
    "kept": ([IN], [ranked(4, "d1")]),
    "absent": ([OUT], [OUT]),
    "lost": ([IN], [OUT]),
    "lost-2": ([IN], [ranked(0, "d1")]),
    "gained": ([OUT], [IN]),
    "noisy": ([IN, OUT], [IN]),
    "critical": ([IN], [IN, OUT]),
    "critical-kept": ([IN], [IN]),
}


def told(search: ScriptedSearch) -> list[dict[str, Any]]:
    for name, sides in STORY.items():
        for index, answers in zip(("kb-v1", "kb-v2"), sides, strict=True):
            search.answer(index, f"about {name}", *answers)
    return [{**each, "critical": each["id"].startswith("critical")} for each in questions(*STORY)]


def decided(record: dict[str, Any]) -> dict[str, Any]:
    """What both doors must agree on."""
    ranks = {
        each["id"]: [[seen["rank"] for seen in each[side]] for side in ("baseline", "candidate")]
        for each in record["questions"]
    }
    names = ("verdict", "reasons", "headline", "counts", "lost", "gained")
    return {**{name: record[name] for name in names}, "outcomes": outcomes(record), "ranks": ranks}


def test_both_doors_come_to_the_same(gate: Gate, search: ScriptedSearch, tmp_path: Path) -> None:
    gate.golden("hr", told(search))
    here, by_process = gate.record("--golden", "hr.jsonl")
    with ScriptedSearch(key=SEARCH_KEY) as afresh:
        for index in ("kb-v1", "kb-v2"):
            afresh.index(index)
        told(afresh)
        with gate.serving(GATE_SEARCH_ENDPOINT=afresh.url) as service:
            there, by_service = gate.record(
                "--golden", "hr.jsonl", "--service", service.url, GATE_SEARCH_ENDPOINT=None
            )
    assert decided(by_process) == decided(by_service)
    assert by_process["manifest"]["seed"] != by_service["manifest"]["seed"]
    assert ids(by_process["lost"]) == ["lost", "lost-2", "critical"]
    assert ids(by_process["gained"]) == ["gained"]
    assert ids(by_process["reasons"]) == ["critical-lost", "too-noisy", "net-loss"]
    assert (here.status, there.status) == (1, 1)
    assert here.last_line == there.last_line
    assert _without_id(here, by_process) == _without_id(there, by_service)
    assert "took its place" in here.out
    folders = sorted(tmp_path.glob("record-*"))
    assert [sorted(each.name for each in folder.iterdir()) for folder in folders] == [sorted(DOCUMENTS)] * 2


def _without_id(ended: Ended, record: dict[str, Any]) -> str:
    return ended.out.replace(record["id"], "<id>")


def test_documents_quote_nothing_where_passages_are_not_wanted(gate: Gate, search: ScriptedSearch) -> None:
    """By both doors; what is decided, and on which rank what stood, is told all the same."""
    quoted = ("the wording of a passage", "the title of a document")
    chunk = Chunk(parent="d1", text=quoted[0], title=quoted[1])
    search.answer("kb-v1", "about q1", ["x", chunk])
    search.answer("kb-v2", "about q1", [*["x"] * 7, chunk])
    search.answer("kb-v1", "about q2", ["x"])
    search.answer("kb-v2", "about q2", [chunk])
    span = {"document": "d1", "start": 4, "end": 11, "text": "wording"}
    gate.golden("hr", questions("q1", "q2", spans=[span]), POLICY)
    with gate.serving() as service:
        runs = [
            gate.record("--golden", "hr.jsonl", *service_or_not, *passages)
            for service_or_not in ((), ("--service", service.url))
            for passages in ((), ("--no-passages",))
        ]
    folders = sorted(gate.folder.glob("record-*"))
    texts = [{name: (folder / name).read_text() for name in DOCUMENTS} for folder in folders]
    told = [name for whole in texts[::2] for name, text in whole.items() if quoted[0] in text]
    assert set(told) == {"run.json", "report.html"}
    for name, text in [each for bare in texts[1::2] for each in bare.items()]:
        assert not [words for words in (*quoted, '"wording"') if words in text], name
    assert len({str(decided(record)) for _, record in runs}) == 1
    ends = [
        [hit["text_sha256"] for hit in record["questions"][1]["candidate"][0]["hits"]] for _, record in runs
    ]
    digest = hashlib.sha256(quoted[0].encode()).hexdigest()
    assert ends == [[None], [digest], [None], [digest]]


def test_where_no_passages_are_kept_none_appears_anywhere(gate: Gate, search: ScriptedSearch) -> None:
    """`evidence_text = false`, by both doors: in no document, page, line of a log, or file but the set's own."""
    passages = ("the wording of a passage", "the title of a document", "a neighbour's wording")
    chunk = Chunk(parent="d1", text=passages[0], title=passages[1])
    other = Chunk(parent="x", text=passages[2], title=passages[1])
    search.answer("kb-v1", "about q1", [other, chunk])
    search.answer("kb-v2", "about q1", [*[other] * 7, chunk])
    quote = passages[0][4:11]
    assert quote == "wording"
    gate.golden(
        "hr",
        questions("q1", "q2", spans=[{"document": "d1", "start": 4, "end": 11, "text": quote}]),
        f"{POLICY}evidence_text = false\n",
    )
    with gate.serving() as service:
        ended, record = gate.record("--golden", "hr.jsonl")
        there, same = gate.record("--golden", "hr.jsonl", "--service", service.url)
        paths = [f"/runs/{record['id']}{rest}" for rest in ("", "/lost", "/unchanged")]
        paths += [
            f"/v1/runs/{record['id']}{rest}" for rest in ("", "/reviews", *(f"/{name}" for name in DOCUMENTS))
        ]
        pages = {path: service.client.get(path, headers={"accept": "text/html"}) for path in ("/", *paths)}
    assert (ended.status, there.status) == (1, 1)
    assert decided(record) == decided(same)
    assert {path: page.status_code for path, page in pages.items()} == dict.fromkeys(pages, 200)
    texts = {path: page.text for path, page in pages.items()}
    for file in gate.folder.rglob("*"):
        if file.is_file() and file.name not in ("hr.jsonl", "golden.jsonl"):
            content = file.read_bytes()
            plain = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
            texts[str(file.relative_to(gate.folder))] = plain.decode()
    found = {
        name: [words for words in (*passages, "wording") if words in text] for name, text in texts.items()
    }
    assert {name: words for name, words in found.items() if words} == {}
    first = record["questions"][0]["baseline"][0]["hits"][0]
    assert (first["title"], first["text"]) == (None, None)
    assert first["text_sha256"] == hashlib.sha256(passages[2].encode()).hexdigest()


def test_a_run_that_was_overridden_is_told_as_waived_by_both_doors(
    gate: Gate, search: ScriptedSearch
) -> None:
    """Its verdict stays, and with it the status."""
    search.answer("kb-v1", "about q1", IN)
    search.answer("kb-v2", "about q1", OUT)
    gate.golden("hr", questions("q1", "q2"), POLICY)
    with gate.serving() as service:
        ended, record = gate.record("--golden", "hr.jsonl")
        given = {"reason": "the set is old", "watch": "the help desk", "questions": ["q1"]}
        answer = service.client.post(f"/v1/runs/{record['id']}/overrides", json=given)
        assert answer.status_code == 201, answer.text
        again = ("run", "--resume", record["id"], "--out")
        later = gate.together((*again, "here"), (*again, "there", "--service", service.url))
    assert "WAIVED" not in ended.said
    for each, folder in zip(later, ("here", "there"), strict=True):
        assert each.status == 1
        assert each.last_line.startswith("FAIL: ")
        assert "WAIVED. Waived by: somebody who was not signed in" in each.out
        texts = [
            (gate.folder / folder / name).read_text() for name in ("report.html", "report.md", "junit.xml")
        ]
        assert not [text for text in texts if "WAIVED" not in text or "the set is old" not in text]


def test_a_label_fix_applies_to_the_file_as_it_is_on_disk(gate: Gate, search: ScriptedSearch) -> None:
    """With a mark at its start, carriage returns, letters outside ASCII and no line end at its end; by both doors."""
    search.answer("kb-v1", "ä q2", IN)
    search.answer("kb-v2", "ä q2", ["new"])
    lines = [f'{{"id": "q{n}" ,  "question": "ä q{n}", "answers":["d1"]}}' for n in (1, 2, 3)]
    received = ("\ufeff" + "\r\n".join(lines)).encode()
    (gate.folder / "golden").mkdir()
    path = gate.folder / "golden" / "hr.jsonl"
    (gate.folder / "golden" / "hr.toml").write_text(POLICY)
    subprocess.run(["git", "init", "-q"], cwd=gate.folder, check=True)
    with gate.serving() as service:
        for door in ((), ("--service", service.url)):
            path.write_bytes(received)
            _, record = gate.record("--golden", "golden/hr.jsonl", *door)
            address = f"/v1/runs/{record['id']}"
            fix = {"question": "q2", "decision": "label-out-of-date", "answers": ["new"]}
            assert service.client.post(f"{address}/reviews", json=fix).status_code == 201
            whole = service.client.get(f"{address}/golden.jsonl").content
            change = service.client.get(f"{address}/golden.patch").content
            assert whole == received.replace(b'q2", "answers":["d1"]', b'q2", "answers":["new"]')
            subprocess.run(["git", "apply", "-"], cwd=gate.folder, input=change, check=True)
            assert path.read_bytes() == whole


def test_a_set_of_the_service_is_named(gate: Gate) -> None:
    (gate.folder / "golden").mkdir()
    gate.golden("golden/hr", questions("q1"), 'owner = "hr@contoso.example"\n')
    with gate.serving() as service:
        there = (*RUN, "--service", service.url, "--golden")
        ended, absent, here = gate.together(
            (*there, "hr", "--out", "there"), (*there, "it"), (*RUN, "--golden", "hr", "--out", "here")
        )
    assert (ended.status, here.status) == (0, 0)
    absent.refused("'it'", "hr")
    record, own = gate.read("there"), gate.read("here")
    assert record["golden_set"] == own["golden_set"]
    assert record["golden_set"]["deployed"] is record["trusted"] is True


def test_the_worst_of_several_sets_decides(gate: Gate) -> None:
    gate.search.answer("kb-v2", "about bad", OUT)
    gate.golden("failing", questions("bad"), POLICY)
    gate.golden("passing", questions("good"), POLICY)
    gate.golden("empty", "", POLICY)
    two = [part for name in ("failing", "passing") for part in ("--golden", f"{name}.jsonl")]
    three = [part for name in ("failing", "empty", "passing") for part in ("--golden", f"{name}.jsonl")]
    ended, worse = gate.together((*RUN, *two), (*RUN, *three, "--out", "three"))
    assert ended.status == 1
    assert [line[:6] for line in ended.out.splitlines()[-2:]] == ["PASS: ", "FAIL: "]
    assert worse.status == 2
    assert [line.partition(":")[0] for line in worse.out.splitlines()[-3:]] == ["PASS", "FAIL", "ERROR"]
    for name, verdict in (("failing", "FAIL"), ("empty", "ERROR"), ("passing", "PASS")):
        assert sorted(each.name for each in (gate.folder / "three" / name).iterdir()) == sorted(DOCUMENTS)
        record = gate.read(f"three/{name}")
        assert (record["verdict"], record["golden_set"]["name"]) == (verdict, name)
        assert record["headline"] in worse.out


def test_the_last_line_is_the_verdict_and_the_headline_and_the_record_what_was_changed(gate: Gate) -> None:
    gate.golden("hr", questions("q1"), POLICY)
    said = ("--change-kind", "chunking", "--change-kind", "embedding", "--change-summary", "500 tokens")
    build = ("--commit", "4f1c2d", "--build-id", "77", "--build-url", "https://ci.example/77")
    ended, record = gate.record("--golden", "hr.jsonl", *said, *build)
    assert (ended.status, ended.last_line) == (0, f"PASS: {record['headline']}")
    assert ended.out.endswith("\n")
    assert f"run {record['id']}" in ended.err
    assert record["change"] == {
        "kind": ["chunking", "embedding"],
        "summary": "500 tokens",
        "commit": "4f1c2d",
        "build_id": "77",
        "build_url": "https://ci.example/77",
    }


def test_a_time_out_prints_the_command_that_waits_again(gate: Gate) -> None:
    gate.search.latency = 0.3
    gate.golden("hr", questions(*(f"q{place}" for place in range(12))), POLICY)
    ended = gate.run("--golden", "hr.jsonl", "--timeout", "0.8", "--out", "out")
    assert ended.status == 2
    assert ended.out == ""
    assert list((gate.folder / "out").iterdir()) == []
    command = shlex.split(ended.err.splitlines()[-1].partition(": gate ")[2])
    again = gate.ended(*command, "--out", "out")
    assert again.status == 0, again.said
    assert gate.read("out")["requests"]["comparison"] == 24
    assert gate.kept == [gate.read("out")["id"]]


def test_a_time_out_at_the_service_leaves_the_run_going(gate: Gate) -> None:
    gate.search.latency = 0.3
    gate.golden("hr", questions(*(f"q{place}" for place in range(12))), POLICY)
    with gate.serving() as service:
        ended = gate.run("--golden", "hr.jsonl", "--timeout", "0.8", "--service", service.url)
        assert (ended.status, ended.out) == (2, "")
        command = shlex.split(ended.err.splitlines()[-1].partition(": gate ")[2])
        assert ("--service", service.url) == (command[1], command[2])
        again = gate.ended(*command)
    assert again.status == 0, again.said
    assert again.last_line.startswith("PASS: ")
    for place in range(12):
        assert len(gate.search.searches("kb-v2", f"about q{place}")) == 1


def test_a_service_that_is_not_there_is_not_waited_for_beyond_the_time_out(gate: Gate) -> None:
    gate.golden("hr", questions("q1"), POLICY)
    ended = gate.run("--golden", "hr.jsonl", "--service", "http://127.0.0.1:9", "--timeout", "0.7")
    assert (ended.status, ended.out) == (2, "")
    assert "http://127.0.0.1:9 does not answer" in ended.err
    assert "no run was started within 0.7 seconds" in ended.err
    assert "--idempotency-key" in ended.err
    assert "Traceback" not in ended.err


def test_a_signal_cancels_the_run(gate: Gate) -> None:
    """Here by SIGINT and by SIGTERM, and at the service."""
    gate.search.latency = 0.2
    gate.golden("hr", questions(*(f"q{place}" for place in range(200))), POLICY)
    with gate.serving() as service:
        run = (*RUN, "--golden", "hr.jsonl", "--out")
        with (
            gate.command(*run, "int") as by_int,
            gate.command(*run, "term") as by_term,
            gate.command(*run, "there", "--service", service.url) as there,
        ):
            for process in (by_int, by_term, there):
                assert process.run_id
            until(lambda: len(gate.search.searches("kb-v2")) > 2, "some questions asked")
            by_int.send(signal.SIGINT)
            by_term.send(signal.SIGTERM)
            there.send(signal.SIGTERM)
            ended = [each.ended(seconds=15) for each in (by_int, by_term, there)]
        kept = service.client.get(f"/v1/runs/{gate.read('there')['id']}").json()
    assert (kept["state"], kept["verdict"]) == ("done", "ERROR")
    for name, each in zip(("int", "term", "there"), ended, strict=True):
        assert each.status == 2
        assert each.last_line.startswith("ERROR: ")
        record = gate.read(name)
        assert (record["state"], record["verdict"]) == ("done", "ERROR")
        assert ids(record["reasons"])[0] == "cancelled"
        assert record["requests"]["comparison"] < 400
        assert record["lost"] == record["gained"] == []
        assert junit(gate.folder / name).get("failures") == "0"


def test_a_slice_alone(gate: Gate) -> None:
    story = [*questions("q1", slice="table"), *questions("q2", slice=["lookup", "table"]), *questions("q3")]
    gate.golden("hr", story, POLICY)
    with gate.serving() as service:
        run = (*RUN, "--golden", "hr.jsonl", "--out")
        ended, at_service = gate.together(
            (*run, "here", "--slice", "table"),
            (*run, "there", "--slice", "lookup", "--slice", "none", "--service", service.url),
        )
    assert [ended.status, at_service.status] == [0, 0]
    record = gate.read("here")
    assert list(outcomes(record)) == ["q1", "q2"]
    assert record["golden_set"]["slices"] == ["table"]
    assert record["trusted"] is False
    assert gate.search.searches("kb-v2", "about q3") == []
    assert list(outcomes(gate.read("there"))) == ["q2"]


def test_one_index_is_compared_with_itself_only_as_a_noise_study(gate: Gate) -> None:
    gate.search.answer("kb-v2", "about q1", IN, OUT)
    gate.golden("hr", questions("q1", "q2"))
    named = ("run", "--candidate", "kb-v2", "--golden", "hr.jsonl", "--out")
    same, study = gate.together(
        (*named, "same", "--baseline", "kb-v2"), (*named, "study", "--noise-study", "--noise-runs", "2")
    )
    assert same.status == 2
    record = gate.read("same")
    assert "same-index" in ids(record["reasons"])
    assert record["lost"] == record["gained"] == []
    assert record["requests"]["comparison"] == 0, "told before the first question"

    record = gate.read("study")
    assert record["noise_study"] is True
    assert outcomes(record)["q2"] == "kept"
    assert len(record["questions"][1]["baseline"]) == 3
    assert "noise study" in study.last_line
    assert record["trusted"] is False, "one index is nothing to promote"


def test_one_index_with_two_queries_is_an_ordinary_comparison(gate: Gate) -> None:
    gate.golden("hr", questions("q1"), f"[query.candidate]\nsemantic = false\n{POLICY}")
    ended, record = gate.record("--golden", "hr.jsonl", "--baseline", "kb-v2")
    assert ended.status == 0, ended.said
    assert (record["baseline"]["index"], record["candidate"]["index"]) == ("kb-v2", "kb-v2")
    assert [each.body.get("queryType") for each in gate.search.searches("kb-v2", "about q1")].count(
        "semantic"
    ) == 1
