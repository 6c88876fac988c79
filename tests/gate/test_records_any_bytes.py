"""Whatever a kept document holds, reading it gives its content or an error of ours that names it."""

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.domain.decision import results
from app.domain.errors import DamagedError, GateError
from app.domain.golden import GoldenTexts
from app.domain.overrides import OverrideDraft
from app.domain.reading import read_golden_set
from app.domain.review import ReviewDraft, Ruling, Signature
from app.gate.records import Claim, RunRecords, UnreadableRun
from app.gate.reviews import override, review
from app.report.run_json import run_json
from tests.fakes.store import MemoryStore
from tests.gate.executing import NOON, Executing, lines

_LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9)
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@cache
def kept() -> dict[str, bytes]:
    """The documents of a failed run with a review and an override, and of one that was cut off."""

    async def make() -> dict[str, bytes]:
        gate = Executing()
        gate.search.index("kb-v2").answer("question 1", ("x",) * 9)
        gate.search.index("kb-v2").stored = [{"chunk_id": "1", "parent_id": "d1", "chunk": "w"}]
        run = await gate.run(lines(2))
        draft = ReviewDraft(question="q1", decision=Ruling.REAL_LOSS)
        await review(gate.records, run.id, draft, Signature(by="ann", at=NOON, mark="m1"))
        given_ = OverrideDraft(reason="known", questions=("q1",), watch="the desk")
        await override(gate.records, run.id, given_, Signature(by="ann", at=NOON, mark="m2"))
        await gate.records.claim_key("key", "sha", run.id)
        journal, _ = await gate.records.journal(run.id, Claim(number=1, by="a"))
        await journal.append([b"eJxTKM5ILErVUchPTgcAGdwEkw=="])
        await gate.store.create(f"active/{run.id}", b'{"number":1,"by":"a","beat":7}')
        return gate.store.documents

    return asyncio.run(make())


async def read_all(records: RunRecords, run_id: str) -> None:
    """Everything that reads documents of a run; each may raise an error of ours."""

    async def listed() -> None:
        async for run in records.listed():
            assert isinstance(run, UnreadableRun) or run_json(run)

    async def shown() -> None:
        run, _ = await records.read(run_id)
        assert list(results(await records.evidence(run_id), run.query))

    async def parsed() -> None:
        run, _ = await records.read(run_id)
        read_golden_set(await records.texts(run))

    async def outlined() -> None:
        assert list(await records.outline(run_id))

    readers: list[Callable[[], Awaitable[Any]]] = [
        listed,
        shown,
        parsed,
        lambda: records.questions(run_id, ["q1"]),
        outlined,
        lambda: records.reviews(run_id),
        lambda: records.overrides(run_id),
        lambda: records.claim(run_id),
        lambda: records.claim_key("key", "sha", "run-002"),
        lambda: records.journal(run_id, Claim(number=2, by="b")),
        lambda: records.semantic_since(NOON),
    ]
    for reader in readers:
        try:
            await reader()
        except GateError as error:
            str(error).encode()  # can be printed and sent
    await listed()  # whatever is damaged, the list stands


async def store_of(documents: dict[str, bytes]) -> MemoryStore:
    store = MemoryStore()
    for name, data in documents.items():
        if name.endswith("/journal"):
            await store.append(name, data, 0)
        else:
            await store.create(name, data)
    return store


def read_with(name: str, data: bytes) -> None:
    async def run() -> None:
        await read_all(RunRecords(await store_of({**kept(), name: data})), "run-001")

    asyncio.run(run())


def execute_with(name: str, data: bytes) -> None:
    """The run of `begun()`, gone on with: it ends, or an error of ours says why not."""

    async def run() -> None:
        gate = Executing(store=await store_of({**begun(), name: data}))
        try:
            done = await gate.execution().execute("run-001", cancelled=asyncio.Event())
        except GateError as error:
            str(error).encode()
        else:
            assert done.verdict
            assert run_json(done)

    asyncio.run(run())


@cache
def begun() -> dict[str, bytes]:
    """The documents of a run that was ended in its middle."""

    async def make() -> dict[str, bytes]:
        gate = Executing()
        run = await gate.start(lines(2))
        gate.search.hold()
        going = asyncio.create_task(gate.execute(run))
        await gate.search.somebody_asked.wait()
        going.cancel()
        await asyncio.gather(going, return_exceptions=True)
        return gate.store.documents

    return asyncio.run(make())


def _names() -> list[str]:
    return sorted(kept())


def test_every_kind_of_document_is_tried() -> None:
    kinds = {name.split("/")[0] for name in _names()}
    assert kinds == {"status", "runs", "active", "keys", "reviews", "overrides", "decisions"}
    read_with("status/run-001.json", kept()["status/run-001.json"])


@given(st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_bytes(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(_names()))
    read_with(name, data.draw(_damaged(kept()[name])))


@given(st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_bytes_where_a_run_goes_on(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(begun())))
    execute_with(name, data.draw(_damaged(begun()[name])))


@given(st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_other_value_at_any_place(data: st.DataObject) -> None:
    name, content = data.draw(_changed(kept()))
    read_with(name, content)


@given(st.data())
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
def test_any_other_value_where_a_run_goes_on(data: st.DataObject) -> None:
    name, content = data.draw(_changed(begun()))
    execute_with(name, content)


def _damaged(whole: bytes) -> st.SearchStrategy[bytes]:
    """The document with some bytes taken out, and others put in."""
    starts = st.integers(0, len(whole))
    return st.builds(
        lambda start, cut, new: whole[:start] + new + whole[start + cut :],
        starts,
        st.integers(0, 20) | st.just(len(whole)),
        st.binary(max_size=20),
    )


@st.composite
def _changed(draw: st.DrawFn, documents: dict[str, bytes]) -> tuple[str, bytes]:
    """A JSON document with another value somewhere."""
    name = draw(st.sampled_from([each for each in sorted(documents) if _json_of(documents[each])]))
    content = _json_of(documents[name])
    at: Any = content
    while True:
        key = draw(st.sampled_from(sorted(at) if isinstance(at, dict) else list(range(len(at)))))
        inner = at[key]
        if not isinstance(inner, dict | list) or not inner or draw(st.booleans()):
            break
        at = inner
    at[key] = draw(_VALUES)
    text = json.dumps(content).encode()
    return name, gzip.compress(text) if name.endswith(".gz") else text


def _json_of(data: bytes) -> Any:
    """Its JSON object or list, of evidence the first question's; None where it holds none."""
    with suppress(ValueError, OSError):
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data).splitlines()[0]
        content = json.loads(data)
        return content if isinstance(content, dict | list) else None
    return None


@pytest.mark.parametrize(
    "manifest",
    [
        {},
        {"seed": "x"},
        {"seed": None},
        {"seed": 1, "starts": "x"},
        {"seed": 1, "starts": -5},
        {"seed": 1, "starts": 1e300},
        {"seed": 1, "starts": [], "claim": {}, "seconds": 3},
    ],
)
def test_any_manifest(manifest: dict[str, Any]) -> None:
    name = "status/run-001.json"
    content = {**json.loads(begun()[name]), "manifest": manifest}
    execute_with(name, json.dumps(content).encode())


async def test_a_damaged_document_is_named() -> None:
    documents = {**kept(), "runs/run-001/evidence.jsonl.gz": b"{"}
    with pytest.raises(DamagedError, match=r"runs/run-001/evidence\.jsonl\.gz is damaged"):
        list(await RunRecords(await store_of(documents)).evidence("run-001"))


def test_the_golden_texts_as_kept_can_be_anything() -> None:
    for text in ("", "{", "\x00", "[" * 5000):
        try:
            read_golden_set(GoldenTexts(name="hr", jsonl=text, toml=text))
        except GateError as error:
            str(error).encode()
