"""S13 and S14: a store whose answers get lost, and processes that do not live to a run's end."""

import asyncio
import json
import signal
from collections import Counter
from typing import Any

import pytest

from app.adapters.blobs import open_blobs
from app.domain.errors import NotFoundError
from app.gate.records import unpacked
from tests.azurite import KEY as RUNS_KEY
from tests.e2e.programs import RUN, Gate, Process, lines, questions, until
from tests.e2e.proxies import Act, Passing, Proxy
from tests.scripted import Received, ScriptedSearch, ranked

NAMES = [f"q{place:02}" for place in range(1, 31)]
POLICY = "[policy]\nmax_net_loss = 30\n"
LOST, GAINED, CRITICAL = NAMES[:4], NAMES[4:6], NAMES[6:12]
ABSENT = NAMES[12:14]
GRACE_SECONDS = 60.0  # what infra/main.bicep gives a container to stop in


@pytest.fixture
def gate(gate: Gate) -> Gate:
    """Lost questions are not asked again by their legs, so that every request is an observation to be counted; what
    a killed process left is soon taken up.
    """
    gate.environment |= {"GATE_LEG_PROBES": "false", "GATE_TAKEOVER_SECONDS": "1"}
    return gate


def thirty(search: ScriptedSearch) -> dict[str, str]:
    """A set of 30 with 4 lost, 2 gained, 6 critical and kept, 2 absent, 16 kept; each with ranks of its own."""
    for place, name in enumerate(NAMES):
        inside, outside = ranked(1 + place % 5, "d1"), ranked(6 + place, "d1")
        before, after = inside, inside
        if name in LOST:
            after = outside
        elif name in GAINED:
            before = outside
        elif name in ABSENT:
            before = after = outside
        search.answer("kb-v1", f"about {name}", before)
        search.answer("kb-v2", f"about {name}", after)
    return {"name": "thirty", "jsonl": lines(set_of_thirty()), "toml": POLICY}


def set_of_thirty() -> list[dict[str, Any]]:
    return [{**each, "critical": each["id"] in CRITICAL} for each in questions(*NAMES)]


def planned() -> Counter[tuple[str, str]]:
    """Observations of each index and question in a whole run: one more of the baseline for noise, one more of
    the candidate where the question is critical or its first observations differ.
    """
    return Counter(
        {("kb-v1", f"about {name}"): 2 for name in NAMES}
        | {("kb-v2", f"about {name}"): 2 if name in (*LOST, *GAINED, *CRITICAL) else 1 for name in NAMES}
    )


def decided(record: dict[str, Any]) -> dict[str, Any]:
    """All of a record that must not depend on whether it was interrupted."""
    return {
        "verdict": record["verdict"],
        "reasons": record["reasons"],
        "counts": record["counts"],
        "lost": record["lost"],
        "gained": record["gained"],
        "comparison": record["requests"]["comparison"],
        "questions": [
            {
                "id": each["id"],
                "outcome": each["outcome"],
                **{side: [seen["rank"] for seen in each[side]] for side in ("baseline", "candidate")},
            }
            for each in record["questions"]
        ],
    }


def asked(received: list[Received]) -> Counter[tuple[str, str]]:
    return Counter(
        (each.index, each.question)
        for each in received
        if each.on == "search" and each.question[:6] == "about "
    )


def ended_at(search: ScriptedSearch, process: Process, number: int, how: signal.Signals) -> None:
    """Send the signal while the `number`-th question of a run is being asked."""
    sent = False

    def watch(received: Received) -> None:
        nonlocal sent
        if not sent and sum(asked(search.requests).values()) >= number:
            sent = True
            process.send(how)

    search.on_search = watch


def kept_in(journal: bytes) -> Counter[tuple[str, str]]:
    """The observations that a run's journal holds, by index and question."""
    found = Counter[tuple[str, str]]()
    for line in journal.split(b"\n"):
        try:
            entry = unpacked(line)
        except ValueError:
            continue
        index = "kb-v1" if entry.side == "baseline" else "kb-v2"
        found[index, f"about {entry.question}"] += 1
    return found


async def document(url: str, name: str) -> bytes:
    """A document of the container at that address."""
    async with open_blobs(url, key=RUNS_KEY) as blobs:
        return (await blobs.read(name))[0]


def test_s13_every_write_whose_answer_is_lost_recognises_itself(gate: Gate, container_url: str) -> None:
    lost = set[tuple[str, str, str | None]]()

    def decide(passing: Passing) -> Act:
        write = (passing.method, passing.path, passing.headers.get("x-ms-blob-condition-appendpos"))
        if passing.method not in ("PUT", "DELETE") or write in lost:
            return Act.PASS
        lost.add(write)
        return Act.LOSE

    golden = thirty(gate.search)
    with (
        Proxy(container_url, decide) as proxy,
        gate.serving(GATE_RUNS_URL=proxy.url, GATE_RUNS_KEY=RUNS_KEY) as service,
    ):
        record = service.done(service.start(key="once", golden=golden)["id"])
        assert [each["id"] for each in service.client.get("/v1/runs").json()["runs"]] == [record["id"]]
        undisturbed = service.done(service.start(golden=golden)["id"])
    names = {(method, path.split("?")[0].rsplit("/", maxsplit=1)[-1]) for method, path, _ in lost}
    written = {f"{record['id']}.json", "golden.jsonl", "journal", "evidence.jsonl.gz", "outline-1.jsonl.gz"}
    assert {*(("PUT", name) for name in written), ("DELETE", "journal")} <= names
    assert record["verdict"] == "PASS"
    assert decided(record) == decided(undisturbed)
    assert asked(gate.search.requests) == planned() + planned(), "each run asked what it had to, once"
    with pytest.raises(NotFoundError):
        asyncio.run(document(container_url, f"active/{record['id']}"))


def test_s14_a_killed_service_is_gone_on_with_by_the_next(gate: Gate, container_url: str) -> None:
    gate.environment |= {"GATE_RUNS_URL": container_url, "GATE_RUNS_KEY": RUNS_KEY}
    golden = thirty(gate.search)
    gate.search.latency = 0.005
    with gate.serving(HOSTNAME="replica-1") as first:
        run_id = first.start(golden=golden)["id"]
        ended_at(gate.search, first.process, 24, signal.SIGKILL)  # 12 of 30 questions, on both sides
        assert first.process.ended().status == -signal.SIGKILL
    left = json.loads(asyncio.run(document(container_url, f"status/{run_id}.json")))
    assert (left["state"], left["verdict"]) == ("running", None), "12 questions are no verdict"
    kept = kept_in(asyncio.run(document(container_url, f"runs/{run_id}/journal")))
    assert 12 <= kept.total() <= 24, "all but what was under way, to the index or to the store"
    before = len(gate.search.requests)

    gate.search.on_search = None
    with gate.serving(HOSTNAME="replica-2") as second:
        resumed = second.done(run_id)
        again = asked(gate.search.requests[before:])
        undisturbed = second.done(second.start(golden=golden)["id"])
    assert again == planned() - kept, "what was kept is not asked again, the rest once"
    assert decided(resumed) == decided(undisturbed)
    assert resumed["counts"]["questions"] == 30
    assert (resumed["counts"]["lost"], resumed["counts"]["gained"]) == (4, 2)
    assert resumed["verdict"] == "PASS"
    assert resumed["manifest"]["starts"] == 2


def test_s14_a_stopped_service_ends_soon_and_the_next_goes_on(gate: Gate) -> None:
    """It answers whoever waits for the run at that moment, instead of letting them wait or cutting them off."""
    golden = thirty(gate.search)
    gate.search.latency = 0.02
    with gate.serving() as first:
        run_id = first.start(golden=golden)["id"]
        ended_at(gate.search, first.process, 24, signal.SIGTERM)
        until(
            lambda: gate.search.on_search is not None and first.process.popen.poll() is not None, "its end", 5
        )
        ended = first.process.ended()
        assert ended.status == 0
        assert "Traceback" not in ended.said
    kept = kept_in((gate.runs / "runs" / run_id / "journal").read_bytes())
    before = len(gate.search.requests)
    gate.search.on_search = None
    with gate.serving() as second:
        resumed = second.done(run_id)
    assert asked(gate.search.requests[before:]) == planned() - kept
    assert resumed["requests"]["comparison"] == planned().total()
    assert (resumed["counts"]["lost"], resumed["counts"]["gained"]) == (4, 2)
    assert resumed["verdict"] == "PASS"


def test_s14_a_stopped_service_hands_its_run_to_one_that_is_up_already(
    gate: Gate, container_url: str
) -> None:
    """As where a new revision starts before the old one is stopped; over the store that is deployed."""
    gate.environment |= {
        "GATE_RUNS_URL": container_url,
        "GATE_RUNS_KEY": RUNS_KEY,
        "GATE_TAKEOVER_SECONDS": "15",  # its end is told, and not waited for
    }
    golden = thirty(gate.search)
    gate.search.latency = 0.02
    with gate.serving() as second, gate.serving() as first:
        run_id = first.start(golden=golden)["id"]
        ended_at(gate.search, first.process, 24, signal.SIGTERM)
        ended = first.process.ended(GRACE_SECONDS)
        assert ended.status == 0, ended.said
        gate.search.on_search = None
        resumed = second.done(run_id)
    twice = asked(gate.search.requests) - planned()
    assert planned() <= asked(gate.search.requests)
    assert twice.total() <= 4, "what was under way when it was stopped"
    assert (resumed["verdict"], resumed["manifest"]["starts"]) == ("PASS", 2)
    assert resumed["requests"]["comparison"] == planned().total()


def test_s14_the_command_line_waits_through_a_restart(gate: Gate) -> None:
    thirty(gate.search)
    gate.golden("thirty", set_of_thirty(), POLICY)
    gate.search.latency = 0.005
    with gate.serving() as first:
        arguments = ("--golden", "thirty.jsonl", "--service", first.url, "--out", "out")
        ended_at(gate.search, first.process, 24, signal.SIGKILL)
        with gate.command(*RUN, *arguments) as waiting:
            first.process.ended()
            gate.search.on_search = None
            with gate.serving(GATE_PORT=str(first.port)):
                ended = waiting.ended()
    assert ended.status == 0, ended.said
    assert ended.last_line.startswith("PASS: ")
    record = gate.read("out")
    assert gate.kept == [record["id"]]
    assert record["counts"]["lost"] == 4
    assert record["requests"]["comparison"] == planned().total()


def test_s14_a_killed_command_is_gone_on_with_by_resume(gate: Gate) -> None:
    thirty(gate.search)
    path = gate.golden("thirty", set_of_thirty(), POLICY)
    gate.search.latency = 0.005
    with gate.command(*RUN, "--golden", path, "--out", "never") as first:
        ended_at(gate.search, first, 24, signal.SIGKILL)
        assert first.ended().status == -signal.SIGKILL
        run_id = first.run_id
    assert list((gate.folder / "never").iterdir()) == [], "nothing half-written"
    gate.search.on_search = None
    kept = kept_in((gate.runs / "runs" / run_id / "journal").read_bytes())
    before = len(gate.search.requests)
    resumed = gate.ended("run", "--resume", run_id, "--out", "resumed")
    assert resumed.status == 0, resumed.said
    assert asked(gate.search.requests[before:]) == planned() - kept
    undisturbed, again = gate.together(
        (*RUN, "--golden", path, "--out", "undisturbed"), ("run", "--resume", run_id)
    )
    assert decided(gate.read("resumed")) == decided(gate.read("undisturbed"))
    assert resumed.last_line == undisturbed.last_line
    assert (again.status, again.last_line) == (0, resumed.last_line), "a run that is done stays as it is"


def test_s14_an_index_that_changed_meanwhile_is_no_pass(gate: Gate) -> None:
    thirty(gate.search)
    path = gate.golden("thirty", set_of_thirty(), POLICY)
    with gate.command(*RUN, "--golden", path) as first:
        ended_at(gate.search, first, 24, signal.SIGKILL)
        first.ended()
        run_id = first.run_id
    gate.search.on_search = None
    gate.search.index("kb-v2").documents += 1
    resumed = gate.ended("run", "--resume", run_id, "--out", "resumed")
    assert resumed.status == 2
    assert "index-changed" in [each["code"] for each in gate.read("resumed")["reasons"]]
