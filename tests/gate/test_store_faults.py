"""A store that fails at one call, at any of them, before or after its effect, or whose disk is full: the run
ends as it would have, or as ERROR `storage-unavailable`, and what is kept of it is whole.
"""

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from app.adapters.folder import open_folder
from app.domain.errors import ConflictError, GateError, StorageError
from app.domain.golden import GoldenTexts
from app.domain.reasons import Code, Verdict
from app.domain.run import Run
from app.gate.start import Stamp, StartRequest, start
from tests.fakes.store import When
from tests.gate.executing import NOON, Executing, codes, lines


def undisturbed() -> Executing:
    gate = Executing()
    gate.search.index("kb-v2").answer("question 1", ("x",) * 9)
    return gate


async def ended(gate: Executing, run: Run) -> Run:
    """Taken up again where its store failed, as the watching service does."""
    for _ in range(4):
        try:
            return await gate.execute(run)
        except GateError:
            continue
    raise AssertionError("never done")


async def calls_of_a_run() -> int:
    gate = undisturbed()
    run = await gate.start(lines(3))
    before = len(gate.store.calls)
    done = await gate.execute(run)
    assert codes(done) == [Code.NET_LOSS]
    return len(gate.store.calls) - before


@pytest.mark.parametrize("when", list(When))
@pytest.mark.parametrize("conflict", [False, True])
async def test_every_call_of_a_run_failing_once(when: When, conflict: bool) -> None:
    """Also as a 412 or 409 that nobody else's write explains: an answer lost for good."""
    for nth in range(1, await calls_of_a_run() + 1):
        gate = undisturbed()
        run = await gate.start(lines(3))
        gate.store.fail(nth, when, error=ConflictError("changed") if conflict else None)
        done = await ended(gate, run)
        if done.verdict is Verdict.ERROR:
            assert Code.STORAGE_UNAVAILABLE in codes(done), nth
        else:
            assert (done.verdict, codes(done)) == (Verdict.FAIL, [Code.NET_LOSS]), nth
            assert [each.id for each in done.lost] == ["q1"]
            gate.store._faults.clear()  # a run made fewer calls
            evidence = await gate.evidence(done)
            assert [(each.id, len(each.baseline), len(each.candidate)) for each in evidence] == [
                (f"q{n}", 1, 1) for n in (1, 2, 3)
            ]
            assert done.requests.comparison == 6


@pytest.mark.parametrize("when", [When.BEFORE, When.AFTER])
async def test_every_call_of_a_start_failing_once_and_repeated_with_its_key(when: When) -> None:
    for nth in range(1, 8):
        gate = Executing()
        gate.store.fail(nth, when)
        started: set[str] = set()
        for attempt in range(3):
            with suppress(StorageError):
                run, _ = await start(
                    StartRequest(
                        candidate_index="kb-v2",
                        baseline_index="kb-v1",
                        golden=GoldenTexts(name="hr", jsonl=lines(1)),
                    ),
                    records=gate.records,
                    golden_sets=gate.deployed,
                    stamp=Stamp(run_id=f"run-{attempt}", now=NOON, seed=1, manifest={}),
                    idempotency_key="once",
                )
                started.add(run.id)
        kept = [name for name in gate.store.documents if name.startswith("status/")]
        assert kept == [f"status/{name}.json" for name in started], nth


async def test_a_disk_that_is_full_at_any_write_serves_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, left = os.write, [-1]

    def write(descriptor: int, data: Any) -> int:
        left[0] -= 1
        if left[0] == 0:
            real(descriptor, bytes(data)[: len(data) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, data)

    for nth in range(1, 15):
        async with open_folder(tmp_path / f"{nth}") as folder:
            gate = undisturbed()
            gate.store = folder  # type: ignore[assignment]  # a store as good
            run = await gate.start(lines(3))
            left[0] = nth
            monkeypatch.setattr("app.adapters.folder.os.write", write)
            done = await ended(gate, run)
            monkeypatch.undo()
            left[0] = -1
            kept, _ = await gate.records.read(run.id)
            assert kept == done
            assert len(await gate.evidence(done)) == 3
            if done.verdict is Verdict.ERROR:
                assert Code.STORAGE_UNAVAILABLE in codes(done), nth
            else:
                assert codes(done) == [Code.NET_LOSS], nth
