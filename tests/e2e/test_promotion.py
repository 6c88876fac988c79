"""S23, S24 and all that a promotion goes through, by the commands that operations type, before a running service.

The live index is named by a key of the configuration stand-in, or by an alias of the scripted search service.
"""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from infra.local.configuration import Account
from infra.local.key_values import KeyValue
from tests.e2e.programs import PLAIN, Ended, Gate, Process, Served, lines, questions, until
from tests.e2e.proxies import Act, Passing, Proxy
from tests.live_places import ANY, KEY, LABEL, Fault, Stood, open_setting
from tests.scripted import Fault as SearchFault
from tests.scripted import Received, ranked

TAGS = {"owner": "search-team"}
TYPE = "text/plain"
INSIDE, OUTSIDE = ranked(2, "d1"), ranked(20, "d1")
SET = [*questions("q1", critical=True), *questions("q2")]


@contextmanager
def standing(folder: Path) -> Iterator[Stood]:
    """The configuration stand-in in a thread of its own; its key has a content type and tags."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def done(work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(30)

    opened = open_setting(folder)
    stood = done(opened.__aenter__())
    try:
        stood.values.put(KEY, LABEL, {"value": "kb-v1", "content_type": TYPE, "tags": TAGS}, ANY)
        yield stood
    finally:
        done(opened.__aexit__(None, None, None))
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stood]:
    with standing(tmp_path / "configuration") as stood:
        yield stood


@pytest.fixture
def gate(gate: Gate, place: Stood) -> Gate:
    """The set hr is deployed: q1, which is critical, and q2."""
    (gate.folder / "golden").mkdir()
    deploy(gate, "hr")
    gate.environment |= {
        "GATE_APPCONFIG_CONNECTION_STRING": Account().connection_string(place.url),
        "GATE_LIVE_KEY": KEY,
        "GATE_LIVE_LABEL": LABEL,
        "GATE_PROPAGATION_SECONDS": "0",
        "GATE_WATCH_PAUSE_SECONDS": "0",
        "GATE_LEG_PROBES": "false",
    }
    return gate


def deploy(gate: Gate, name: str, policy: str = "") -> None:
    gate.golden(f"golden/{name}", SET, f"[policy]\n{PLAIN}{policy}")


def judged(service: Served, gate: Gate, *candidates: str, **body: Any) -> list[str]:
    """Runs of these candidates, which show what the others do unless a test says otherwise; their ids."""
    runs = []
    for name in candidates:
        gate.search.index(name, otherwise=INSIDE)
        started = service.start(**{"golden_set": "hr", **body, "candidate_index": name})
        runs.append(str(started["id"]))
    for run in runs:
        service.done(run)
    return runs


def named(place: Stood) -> str:
    return place.state()[0]


def setting(place: Stood) -> KeyValue:
    assert place.values is not None
    found = place.values.get(KEY, LABEL)
    assert found is not None
    return found


def records(service: Served) -> list[dict[str, Any]]:
    """All of the audit, the oldest first."""
    found = service.client.get("/v1/audit", params={"limit": 200}).json()["records"]
    return list(reversed(found))


def kinds(service: Served) -> list[str]:
    return [each["kind"] for each in records(service)]


def flips(service: Served) -> list[tuple[str, str]]:
    ends = ("promoted", "rolled-back")
    return [(each["before"], each["after"]) for each in records(service) if each["kind"] in ends]


def whole(service: Served) -> bool:
    found = service.client.get("/v1/audit/verification").json()
    return bool(found["faults"] == [] and found["records"] == len(records(service)))


def ended(gate: Gate, service: Served, *command: str) -> Ended:
    return gate.ended(*command, "--service", service.url)


def together(gate: Gate, service: Served, *commands: tuple[str, ...]) -> list[Ended]:
    return gate.together(*((*each, "--service", service.url) for each in commands))


def promoted(service: Served, run: str) -> None:
    """Over HTTP, its watch ended."""
    service.client.post(f"/v1/runs/{run}/promote", json={}).raise_for_status()
    assert service.client.get(f"/v1/runs/{run}/promotion", params={"wait": 30}).json()["ended"]


def rolled_back(service: Served, live: str) -> None:
    service.client.post("/v1/live/rollback", json={"confirm_live": live}).raise_for_status()


def refused(found: Ended, *words: str) -> None:
    """With status 1, saying so, and nothing on standard output."""
    assert found.status == 1, found.said
    assert found.out == ""
    for word in words:
        assert word in found.err


# from clearance to audit -----------------------------------------------------------------------------------


def test_a_release_from_its_clearance_to_its_roll_back_and_the_audit_of_it(gate: Gate, place: Stood) -> None:
    with gate.serving() as service:
        (run,) = judged(service, gate, "kb-v2")
        live, name, check = together(
            gate, service, ("live",), ("live", "--name"), ("promote", run, "--check")
        )
        assert [each.status for each in (live, name, check)] == [0, 0, 0], live.said + check.said
        assert "Live is 'kb-v1'" in live.out
        assert "No change of it is recorded here." in live.out
        assert name.out == "kb-v1\n"
        assert check.last_line == f"{run} is cleared for promotion."
        assert named(place) == "kb-v1"

        made = ended(gate, service, "promote", run, "--reason", "release 7")
        assert made.status == 0, made.said
        first, watched = made.out.splitlines()
        assert first == "promoted: kb-v2 in place of kb-v1"
        assert watched.startswith("watch: held. 1 question asked of 'kb-v2': 1 holds.")
        now = setting(place)
        assert (now.value, now.content_type, now.tags) == ("kb-v2", TYPE, TAGS)

        again, drill, retire, live = together(
            gate, service, ("promote", run), ("rollback", "--drill"), ("retire",), ("live",)
        )
        assert [each.status for each in (again, drill, retire, live)] == [0, 0, 0, 0], again.said + drill.said
        assert "(it was already; nothing was changed)" in again.out
        assert "would have become 'kb-v1'" in drill.out
        assert "keep              kb-v1: " in retire.out
        assert f"promoted on run {run}" in live.out
        assert "could return to kb-v1: 1000 documents" in live.out
        assert setting(place) == now

        back = ended(gate, service, "rollback", "--reason", "users complain")
        assert (back.status, named(place)) == (0, "kb-v1"), back.said
        assert "Live is 'kb-v1' again" in back.out
        refused(ended(gate, service, "rollback"), "nothing further to roll back to")
        assert kinds(service) == [
            *("promoting", "promoted", "watched", "drilled"),
            *("rolling-back", "rolled-back", "refused"),
        ]
        listed, there, here = together(gate, service, ("audit",), ("audit", "verify"), ("audit", "verify"))
        assert [each.status for each in (listed, there, here)] == [0, 0, 0]
        assert listed.out.count("\n") == 7
        assert "users complain" in listed.out
        assert there.last_line.startswith("audit: whole, 7 records; head ")
        altered = gate.runs / "audit" / "00000002.json"
        altered.write_text(altered.read_text("utf-8").replace("kb-v2", "kb-v3"), "utf-8")
        for found in (ended(gate, service, "audit", "verify"), gate.ended("audit", "verify")):
            assert found.status == 2
            assert "audit/00000002.json: was altered" in found.err
            assert found.last_line.startswith("audit: BROKEN, 7 records")


def test_lost_answers_are_asked_for_again_and_nothing_happens_twice(gate: Gate, place: Stood) -> None:
    """S24: those of the service to the command, and those of the store to the service."""
    lost: list[str] = []

    def decide(passing: Passing) -> Act:
        if passing.method == "POST" and passing.path not in lost:
            lost.append(passing.path)
            return Act.LOSE
        return Act.PASS

    with gate.serving() as service, Proxy(service.url, decide) as proxy:
        first, second = judged(service, gate, "kb-v2"), judged(service, gate, "kb-v3", baseline_index="kb-v2")
        made = gate.ended("promote", *first, "--service", proxy.url)
        assert made.status == 0, made.said
        assert "(it was already; nothing was changed)" in made.out
        place.wire.faults.append(Fault(method="PUT", lost=True))
        made = ended(gate, service, "promote", *second)
        assert (made.status, place.wire.faults) == (0, []), made.said
        assert flips(service) == [("kb-v1", "kb-v2"), ("kb-v2", "kb-v3")]
        back = gate.ended("rollback", "--service", proxy.url)
        assert back.status == 0, back.said
        assert "it was done before" in back.out
        assert (named(place), flips(service)[2:]) == ("kb-v2", [("kb-v3", "kb-v2")])
        assert len(lost) == 2
        assert whole(service)


def test_a_change_by_hand_is_told_and_must_be_confirmed_to_be_replaced(gate: Gate, place: Stood) -> None:
    gate.search.index("kb-v9", otherwise=INSIDE)
    with gate.serving() as service:
        promoted(service, *judged(service, gate, "kb-v2"))
        place.put("kb-v9")
        live, back, unknown = together(gate, service, ("live",), ("rollback",), ("promote", "run-none"))
        unknown.refused("There is no run 'run-none'")
        assert "It was changed by hand: the last change here, record 2, made it 'kb-v2'." in live.out
        refused(back, "Live was changed by hand: it is 'kb-v9'")
        assert named(place) == "kb-v9"
        assert ended(gate, service, "rollback", "--confirm-live", "kb-v9").status == 0
        assert named(place) == "kb-v1"


# what is refused -------------------------------------------------------------------------------------------


def test_s23_what_was_not_judged_so_is_not_promoted(gate: Gate, place: Stood) -> None:
    """Rebuilt under the same name, other in number, failed, under a looser policy, by an easy set sent along,
    and compared with what is no longer live.
    """
    easy = {"name": "hr", "jsonl": lines(questions("q1")), "toml": f"[policy]\n{PLAIN}"}
    for question in ("about q1", "about q2"):
        gate.search.answer("kb-v5", question, OUTSIDE)
    with gate.serving() as service:
        rebuilt, grown, loser, good = judged(service, gate, "kb-v3", "kb-v4", "kb-v5", "kb-v2")
        (loose,) = judged(service, gate, "kb-v2", policy={"max_net_loss": 5})
        (sent,) = judged(service, gate, "kb-v2", golden=easy, golden_set=None)
        gate.search.indexes["kb-v3"].etag = "0x2"  # deleted, and built again
        gate.search.indexes["kb-v4"].documents += 1
        found = together(gate, service, ("promote", rebuilt), ("promote", loose), ("promote", sent))
        refused(found[0], "kb-v3", "0x1", "0x2")
        refused(found[1], "looser than the set's own in max_net_loss")
        refused(found[2], "was sent along, not deployed")
        for run, words in ((grown, "1001"), (loser, "The verdict is FAIL, and must be PASS")):
            answer = service.client.post(f"/v1/runs/{run}/promote", json={})
            assert answer.status_code == 409
            assert words in answer.json()["detail"]
        place.put("kb-v9")
        check, late = together(gate, service, ("promote", good, "--check"), ("promote", good))
        assert check.status == 1
        assert "FAILS  baseline-live" in check.out
        refused(late, "compared with 'kb-v1', and live is 'kb-v9' now")
        assert place.wire.writes == []
        assert kinds(service) == ["refused"] * 6
        assert {each["run"] for each in records(service)} == {rebuilt, loose, sent, grown, loser, good}


def test_s24_a_key_that_is_changed_meanwhile_locked_missing_or_of_another_label(
    gate: Gate, place: Stood
) -> None:
    async def somebody_else() -> None:
        place.put("kb-v9")

    assert place.values is not None
    with gate.serving() as service, gate.serving(GATE_LIVE_LABEL="staging") as elsewhere:
        (run,) = judged(service, gate, "kb-v2")
        read = setting(place).etag
        place.wire.faults.extend([Fault(method="GET"), Fault(method="GET", meanwhile=somebody_else)])
        refused(ended(gate, service, "promote", run), "changed by somebody else and names 'kb-v9'")
        assert named(place) == "kb-v9"
        assert [each.headers["If-Match"].strip('"') for each in place.wire.writes] == [read]
        assert kinds(service) == ["promoting", "closed"]
        place.put("kb-v1")
        place.values.lock(KEY, LABEL, ANY, locked=True)
        locked = ended(gate, service, "promote", run)
        refused(locked, "locked")
        assert setting(place).value == "kb-v1"
        other = ended(gate, elsewhere, "promote", run)
        other.refused("label staging", "is not there, but the key has label prod: check GATE_LIVE_LABEL")
        place.values.lock(KEY, LABEL, ANY, locked=False)
        place.remove()
        missing = service.client.post(f"/v1/runs/{run}/promote", json={})
        assert missing.status_code == 409
        assert "nothing is live" in missing.text
        assert place.values.get(KEY, LABEL) is None
        place.wire.requests.clear()
        made = ended(gate, service, "promote", run, "--create")
        assert (made.status, named(place)) == (0, "kb-v2"), made.said
        (write,) = place.wire.writes
        assert (write.headers.get("If-None-Match"), "If-Match" in write.headers) == ("*", False)
        assert place.values.get(KEY, "staging") is None
        assert whole(service)


# two at once -----------------------------------------------------------------------------------------------


def test_s24_two_replicas_promote_at_once_and_one_of_them_does(gate: Gate, place: Stood) -> None:
    with gate.serving() as one, gate.serving() as two:
        first, second = judged(one, gate, "kb-v2", "kb-v3")
        found = gate.together(
            ("promote", first, "--service", one.url), ("promote", second, "--service", two.url)
        )
        assert sorted(each.status for each in found) == [0, 1], found[0].said + found[1].said
        winner, loser = ("kb-v2", found[1]) if found[0].status == 0 else ("kb-v3", found[0])
        refused(loser)
        assert named(place) == winner
        assert flips(one) == flips(two) == [("kb-v1", winner)]
        (write,) = place.wire.writes
        assert "If-Match" in write.headers
        run = first if winner == "kb-v2" else second
        same = gate.together(("promote", run, "--service", one.url), ("promote", run, "--service", two.url))
        assert [each.status for each in same] == [0, 0]
        assert len(place.wire.writes) == 1
        assert whole(one)


# processes that die ----------------------------------------------------------------------------------------


def dying(process: Process) -> Any:
    """What a stand-in does in the middle of a request: end the process as the kernel does."""

    async def kill() -> None:
        process.kill()
        process.popen.wait()

    return kill


@contextmanager
def started_again(gate: Gate, port: int = 0) -> Iterator[Served]:
    """The service as it starts after its end, which settles what is open without long waiting."""
    with gate.serving(GATE_FLIP_SETTLE_SECONDS="0.1", GATE_PORT=str(port)) as service:
        until(lambda: service.client.get("/v1/live").json()["under_way"] is None, "nothing is under way")
        yield service


def promoted_to_its_death(service: Served, run: str) -> None:
    with pytest.raises(httpx.TransportError):
        service.client.post(f"/v1/runs/{run}/promote", json={})
    assert service.process.popen.wait(30) == -9


def test_a_promotion_that_is_killed_at_any_step_is_completed_or_closed_by_the_next_start(
    gate: Gate, place: Stood
) -> None:
    """Before its intent is recorded, before its write, after it, and while it is watched. A command that waited
    for the service that died is answered by the next.
    """
    with gate.serving() as service:
        one, two, three, four = judged(service, gate, "kb-v2", "kb-v3", "kb-v4", "kb-v5")
        place.wire.faults.append(Fault(method="GET", meanwhile=dying(service.process)))
        promoted_to_its_death(service, one)
    with gate.serving() as service:
        assert (named(place), kinds(service)) == ("kb-v1", []), "it had not begun"
        place.wire.faults.append(Fault(method="PUT", reaches=False, meanwhile=dying(service.process)))
        promoted_to_its_death(service, two)
    with started_again(gate) as service:
        assert (named(place), kinds(service)) == ("kb-v1", ["promoting", "closed"])
        assert "nothing was written" in records(service)[-1]["reason"]
    with gate.serving() as service:
        place.wire.faults.append(Fault(method="PUT", meanwhile=dying(service.process)))
        with gate.command("promote", three, "--service", service.url) as command:
            assert service.process.popen.wait(30) == -9
            with started_again(gate, port=service.port):
                made = command.ended(60)
                assert made.status == 0, made.said
                assert "promoted: kb-v4 in place of kb-v1" in made.out
    with gate.serving() as service:
        assert kinds(service)[2:] == ["promoting", "promoted", "watched"]
        assert "Completed by the gate itself" in records(service)[-2]["reason"]
        assert (named(place), flips(service)) == ("kb-v4", [("kb-v1", "kb-v4")])
        assert service.client.get("/v1/live").json()["as_recorded"]
        rolled_back(service, "kb-v4")
        gate.search.on_search = killed_by_a_question(service.process, "kb-v5")
        service.client.post(f"/v1/runs/{four}/promote", json={}).raise_for_status()
        assert service.process.popen.wait(30) == -9
        gate.search.on_search = None
    with started_again(gate) as service:
        until(lambda: kinds(service)[-1] == "watched", "the promotion is watched")
        assert (named(place), kinds(service).count("watched")) == ("kb-v5", 2)
        assert flips(service) == [("kb-v1", "kb-v4"), ("kb-v4", "kb-v1"), ("kb-v1", "kb-v5")]
        assert whole(service)


def killed_by_a_question(process: Process, index: str) -> Any:
    def kill(received: Received) -> None:
        if received.index == index:
            process.kill()

    return kill


# the watch -------------------------------------------------------------------------------------------------


def test_a_watch_that_fails_is_reported_and_rolled_back_where_the_policy_says_so(
    gate: Gate, place: Stood
) -> None:
    deploy(gate, "it", "auto_rollback = true\n")
    with gate.serving() as service:
        told, undone = judged(service, gate, "kb-v2"), judged(service, gate, "kb-v3", golden_set="it")
        silent = judged(service, gate, "kb-v4", golden_set="it")
        for index in ("kb-v2", "kb-v3"):
            gate.search.answer(index, "about q1", OUTSIDE)
        gate.search.fault("kb-v4", SearchFault(status=400, message="out of order"), question="about q1")
        failed = ended(gate, service, "promote", *told)
        assert (failed.status, named(place)) == (1, "kb-v2"), failed.said
        assert "watch: failed" in failed.out
        assert "q1  failed  rank 2 when judged, 20 now" in failed.out
        rolled_back(service, "kb-v2")
        failed = ended(gate, service, "promote", *undone)
        assert (failed.status, named(place)) == (1, "kb-v1"), failed.said
        assert "rolled back: kb-v1 in place of kb-v3, by the gate itself. auto_rollback: " in failed.out
        unknown = ended(gate, service, "promote", *silent)
        assert (unknown.status, named(place)) == (2, "kb-v4"), unknown.said
        assert "watch: error" in unknown.out
        assert whole(service)


# an alias --------------------------------------------------------------------------------------------------


def test_an_alias_is_promoted_watched_and_rolled_back_by_the_same_commands(gate: Gate) -> None:
    environment = {
        "GATE_LIVE_ALIAS": "live",
        **dict.fromkeys(("GATE_APPCONFIG_CONNECTION_STRING", "GATE_LIVE_KEY", "GATE_LIVE_LABEL")),
    }
    gate.search.alias("live", "kb-v1")
    with gate.serving(**environment) as service:
        (run,) = judged(service, gate, "kb-v2", baseline_index=None)
        assert service.done(run)["baseline"]["index"] == "kb-v1"
        made = ended(gate, service, "promote", run)
        assert made.status == 0, made.said
        assert "asked of 'live'" in made.out
        assert gate.search.aliases == {"live": "kb-v2"}
        rolled_back(service, "kb-v2")
        assert gate.search.aliases == {"live": "kb-v1"}
        writes = [each for each in gate.search.requests if each.on == "write-alias"]
        assert [each.headers["if-match"] for each in writes] == ['"0x1"', '"0x2"']
        gate.search.aliases.clear()
        assert service.client.post(f"/v1/runs/{run}/promote", json={}).status_code == 409
        assert ended(gate, service, "promote", run, "--create").status == 0
        assert gate.search.aliases == {"live": "kb-v2"}
        assert flips(service) == [("kb-v1", "kb-v2"), ("kb-v2", "kb-v1"), (None, "kb-v2")]
        assert whole(service)
