"""S15, S16 and S18: what a pipeline meets: a slow run behind an ingress, a request sent twice, hostile text."""

import os
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx

from tests.azurite import KEY as RUNS_KEY
from tests.e2e.programs import DOCUMENTS, PLAIN, RUN, Gate, Served, junit, lines, outcomes, questions
from tests.e2e.proxies import Act, Passing, Proxy
from tests.report.reading import Page
from tests.scripted import Chunk

POLICY = f"[policy]\n{PLAIN}"


def test_s15_a_run_that_outlives_the_ingress(gate: Gate) -> None:
    """Polls are short; one of them gets a 504 from the ingress, one a reset, and the run goes on."""
    gate.search.latency = 0.15
    gate.golden("hr", questions(*(f"q{place}" for place in range(20))), POLICY)
    polls: list[Act | int] = [504, Act.RESET]

    def decide(passing: Passing) -> Act | int:
        return polls.pop(0) if passing.method == "GET" and "wait=" in passing.path and polls else Act.PASS

    with gate.serving(GATE_MAX_CONCURRENCY="2") as service, Proxy(service.url, decide) as ingress:
        ended = gate.run("--golden", "hr.jsonl", "--service", ingress.url, "--out", "out")
    assert ended.status == 0, ended.said
    assert ended.last_line.startswith("PASS: ")
    assert polls == []
    (started,) = [each for each in ingress.passed if each.method == "POST"]
    assert started.path == "/v1/runs"
    waits = [parse_qs(urlsplit(each.path).query).get("wait") for each in ingress.passed]
    held = [float(each[0]) for each in waits if each]
    assert len(held) >= 3
    assert max(held) <= 60, "well below an ingress's 240 s"
    record = gate.read("out")
    assert record["requests"]["comparison"] == 40
    assert gate.kept == [record["id"]]


def test_s15_the_start_is_answered_before_the_run_is_done(gate: Gate) -> None:
    gate.search.latency = 0.2
    golden = {"name": "hr", "jsonl": lines(questions(*(f"q{place}" for place in range(8)))), "toml": POLICY}
    body = {"candidate_index": "kb-v2", "baseline_index": "kb-v1", "golden": golden}
    with gate.serving(GATE_MAX_CONCURRENCY="1") as service:
        response = service.client.post("/v1/runs", json=body)
        assert response.status_code == 202
        assert response.json()["state"] != "done"
        assert response.headers["Location"] == f"/v1/runs/{response.json()['id']}"
        assert response.elapsed.total_seconds() < 2, "of at least 3.2 that the run takes"
        held = service.client.get(response.headers["Location"], params={"wait": 0.1})
        assert held.json()["state"] != "done"
        assert held.headers["Retry-After"]


def test_s16_one_key_is_one_run(gate: Gate) -> None:
    golden = {"name": "hr", "jsonl": lines(questions("q1", "q2")), "toml": POLICY}
    body = {"candidate_index": "kb-v2", "baseline_index": "kb-v1", "golden": golden}
    key = {"Idempotency-Key": uuid.uuid4().hex}

    with gate.serving() as service:

        def post(content: object = body, headers: dict[str, str] = key) -> httpx.Response:
            return service.client.post("/v1/runs", json=content, headers=headers)

        with ThreadPoolExecutor(2) as pool:
            first, second = pool.map(lambda _: post(), range(2))
        record = service.done(first.json()["id"])
        third = post()
        assert [each.status_code for each in (first, second, third)] == [202, 202, 202]
        assert {each.json()["id"] for each in (first, second, third)} == {record["id"]}
        assert third.json()["verdict"] == "PASS"
        assert gate.kept == [record["id"]]
        for name in ("kb-v1", "kb-v2"):
            assert [len(gate.search.searches(name, f"about {each}")) for each in ("q1", "q2")] == [1, 1]

        other = post({**body, "golden": {**golden, "jsonl": lines(questions("q1"))}})
        assert other.status_code == 409
        assert gate.kept == [record["id"]]
        keyless = [post(headers={}).json()["id"] for _ in range(2)]
        for each in keyless:
            service.done(each)
        assert sorted(gate.kept) == sorted([record["id"], *keyless]), "without a key every request is a run"


def test_s16_two_replicas_start_one_run(gate: Gate, container_url: str) -> None:
    """Asked at the same moment, and again while it runs and when it is done; each question is searched for once."""
    gate.environment |= {"GATE_RUNS_URL": container_url, "GATE_RUNS_KEY": RUNS_KEY}
    gate.search.latency = 0.05
    names = [f"q{place}" for place in range(8)]
    golden = {"name": "hr", "jsonl": lines(questions(*names)), "toml": POLICY}
    body = {"candidate_index": "kb-v2", "baseline_index": "kb-v1", "golden": golden}
    with gate.serving() as one, gate.serving() as other:

        def post(to: Served) -> httpx.Response:
            return to.client.post("/v1/runs", json=body, headers={"Idempotency-Key": "build-77"})

        with ThreadPoolExecutor(2) as pool:
            answers = list(pool.map(post, (one, other)))
        answers += [post(each) for each in (one, other)]
        records = [each.done(answers[0].json()["id"]) for each in (one, other)]
        answers += [post(each) for each in (one, other)]
        listed = [run["id"] for run in one.client.get("/v1/runs").json()["runs"]]
    assert {each.status_code for each in answers} == {202}
    assert {each.json()["id"] for each in answers} == {records[0]["id"]}
    assert listed == [records[0]["id"]]
    assert records[0] == records[1]
    assert (records[0]["verdict"], records[0]["manifest"]["starts"]) == ("PASS", 1)
    for index in ("kb-v1", "kb-v2"):
        assert [len(gate.search.searches(index, f"about {name}")) for name in names] == [1] * 8


def test_s16_the_command_line_makes_its_key_once(gate: Gate) -> None:
    gate.golden("hr", questions("q1"), POLICY)
    lost: list[Act | int] = [Act.LOSE, 503]

    def decide(passing: Passing) -> Act | int:
        return lost.pop(0) if passing.method == "POST" and lost else Act.PASS

    with gate.serving() as service, Proxy(service.url, decide) as proxy:
        run = (*RUN, "--golden", "hr.jsonl", "--service", proxy.url)
        first = gate.ended(*run)
        others = gate.together(run, *[(*run, "--idempotency-key", "build-77")] * 2)
    assert [each.status for each in (first, *others)] == [0, 0, 0, 0]
    keys = [each.headers["idempotency-key"] for each in proxy.passed if each.method == "POST"]
    assert len(keys) == 3 + 3
    assert len(set(keys[:3])) == 1, "one key through all repetitions"
    assert keys[0] not in keys[3:], "and a new one for a new invocation"
    assert keys[3:].count("build-77") == 2
    assert len(gate.kept) == 3


HOSTILE = {
    "id": 'q<1>&"',
    "question": "a\u000b\u001b[31m b ]]> \uffff & <c> ##vso[task.complete result=Succeeded;] | `x` <script>1</script>",
    "answers": ["d\t1"],
    "slice": ["<b>lookup</b>"],
}


def test_s18_text_that_xml_cannot_hold(gate: Gate) -> None:
    """Once by the command line, and the documents of the same run as the service gives them."""
    text = str(HOSTILE["question"])
    half = Chunk(parent="x\ud83d", text="]]>\u0000\u001b \ud83d<i>", title="\u202e\ud83d</td>")
    gate.search.answer("kb-v1", text, [half, "d\t1"])
    gate.search.answer("kb-v2", text, [half, half])
    gate.golden("hr", [HOSTILE, *questions("q2", 'q<1>&"2')], POLICY)
    ended = gate.run("--golden", "hr.jsonl", "--out", "out")
    assert ended.status == 1, ended.said
    assert ended.last_line.startswith("FAIL: ")
    assert not set("\u000b\u001b\uffff") & set(ended.said)
    assert "##vso[" not in ended.said
    read_back(gate, gate.folder / "out")

    with gate.serving() as service:
        for name in DOCUMENTS:
            response = service.client.get(f"/v1/runs/{gate.kept[0]}/{name}")
            assert response.status_code == 200
            served = gate.folder / "served"
            served.mkdir(exist_ok=True)
            (served / name).write_bytes(response.content)
        page = service.client.get(f"/runs/{gate.kept[0]}")
        assert page.status_code == 200
        Page(page.text)
    read_back(gate, gate.folder / "served")


def read_back(gate: Gate, folder: Path) -> None:
    for name in DOCUMENTS:
        (folder / name).read_bytes().decode("utf-8")
    record = gate.read(folder.name)
    assert outcomes(record) == {'q<1>&"': "lost", "q2": "kept", 'q<1>&"2': "kept"}
    assert record["lost"][0]["question"] == HOSTILE["question"]
    assert record["questions"][0]["answers"] == ["d\t1"]
    suite = junit(folder)
    cases = list(suite.iter("testcase"))
    failing = [each for each in cases if each.find("failure") is not None]
    assert int(suite.get("tests") or 0) == len(cases)
    assert int(suite.get("failures") or 0) == len(failing)
    assert (suite.get("errors"), suite.get("skipped")) == ("0", "0")
    assert len({each.get("name") for each in cases}) == len(cases)
    lost = next(each for each in failing if (each.get("name") or "").startswith('q<1>&": '))
    assert "\\u000b" in str(lost.get("name")) + str(lost.get("message")) + "".join(lost.itertext())
    page = Page((folder / "report.html").read_text(encoding="utf-8"))
    assert "\\u000b\\u001b[31m b ]]> \\uffff & <c>" in page.text
    assert page.count("script") == 1  # our own, which the policy names by its hash
    assert page.count("c") == page.count("i") == 0
    assert "##vso[" not in (folder / "report.md").read_text(encoding="utf-8")


def test_s18_an_argument_that_is_no_text_is_refused(gate: Gate) -> None:
    gate.golden("hr", questions("q1"), POLICY)
    ended = gate.run(
        "--golden", "hr.jsonl", "--change-summary", os.fsdecode(b"caf\xe9"), "--commit", "\udce9"
    )
    ended.refused("--change-summary: is not UTF-8", "--commit: is not UTF-8")
    assert gate.kept == []


def test_s18_half_a_surrogate_pair_is_refused_with_its_line(gate: Gate) -> None:
    (gate.folder / "half.jsonl").write_text(
        '{"id": "q1", "question": "sound", "answers": ["d1"]}\n'
        '{"id": "q2", "question": "half \\ud83d", "answers": ["d1"]}\n'
    )
    ended = gate.run("--golden", "half.jsonl")
    ended.refused("half.jsonl:2: ", "surrogate")
    assert gate.kept == []
