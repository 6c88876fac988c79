"""What the commands do: run here or on the service, write the documents, say how it ended."""

import asyncio
import gc
import logging
import os
import shlex
import signal
import socket
import sys
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from app.adapters.golden_files import read_golden_files
from app.adapters.logs import log_to_stderr
from app.adapters.run_files import DOCUMENTS, prepared, write
from app.domain.change import Change, ChangeKind
from app.domain.check import Level
from app.domain.decision import results
from app.domain.errors import Fault, GateError, InputError
from app.domain.golden import GoldenSet, GoldenTexts
from app.domain.labels import quoted
from app.domain.outcome import QuestionResult, without_passages
from app.domain.overrides import Override
from app.domain.reading import decoded, read_golden_set, read_policy_table
from app.domain.reasons import Verdict
from app.domain.run import Run, State
from app.domain.schema import adapter
from app.gate.claims import until_free
from app.gate.execute import OnProgress
from app.gate.judge import judged, judged_since
from app.gate.labels import IndexLabels, check_labels
from app.gate.opened import OpenGate
from app.gate.preflight import COST
from app.gate.reviews import waiver_of
from app.gate.start import StartRequest, start
from app.main import create_app, open_gate, open_records, open_search, starting_faults
from app.report.escaping import visible
from app.report.html import html
from app.report.junit import junit
from app.report.markdown import markdown
from app.report.run_json import json_chunks
from app.settings import Settings, read_settings, secrets_of
from app.web.decisions import decisions_of

if TYPE_CHECKING:
    import uvicorn
    from fastapi import FastAPI

    from app.adapters.gate_service import GateService

STATUS = {Verdict.PASS: 0, Verdict.FAIL: 1, Verdict.ERROR: 2}
_PLAIN_WIDTH = 120  # columns of a table where standard output is no terminal
_LINE_EVERY_SECONDS = 5.0  # progress where standard error is no terminal
_BEGIN_SECONDS = 5.0  # how long the start of a run may still take after a signal
_SWITCH_SECONDS = 0.001  # a verdict is worked out in a thread; callers wait so long for it to give way
_CANCEL_SECONDS = 30.0  # how long a cancelled run of the service may take to end

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """`gate run`, as it was typed."""

    candidate: str | None
    baseline: str | None
    golden: tuple[str, ...]
    service: str | None
    out: Path | None
    noise_runs: int | None
    confirm_runs: int | None
    noise_study: bool
    slices: tuple[str, ...]
    timeout: float | None
    resume: str | None
    idempotency_key: str | None
    kinds: tuple[str, ...]
    change_summary: str | None
    commit: str | None
    build_id: str | None
    build_url: str | None
    passages: bool


class Runner(Protocol):
    """Where runs are executed: this process, or the service."""

    async def begin(self, request: StartRequest, key: str) -> str:
        """The id of the run that is now started, or was by the same key."""
        ...

    async def finish(self, run_id: str, cancelled: asyncio.Event, on_progress: OnProgress) -> Run:
        """The run, done; cancelled if the event is set before."""
        ...

    async def document(self, run: Run, name: str, *, passages: bool) -> Iterable[bytes]:
        """One of the run's documents, in pieces; with what it quotes of the documents, or without."""
        ...

    async def waiver(self, run: Run) -> Override | None:
        """The override that clears the run, which failed; None where none does."""
        ...

    def again(self, run_id: str) -> str:
        """The command that goes on with the run, or waits for it again."""
        ...


def run_command(options: RunOptions, settings: Settings) -> int:
    """Run every golden set; the exit status of the worst."""
    log_to_stderr(settings.log_level, secrets_of(settings))
    url = settings.service(options.service)
    _refuse_bytes(options)
    requests = [] if options.resume else _requests(options)
    if options.out is not None:
        prepared(options.out)
    return asyncio.run(_run_all(options, settings, url, requests))


def _refuse_bytes(options: RunOptions) -> None:
    """InputError for arguments that are no text: the system hands them over with half characters in them."""
    flags = {"slices": "slice", "kinds": "change-kind"}
    faults = [
        Fault(where=f"--{flags.get(each.name, each.name).replace('_', '-')}", message="is not UTF-8 text")
        for each in fields(options)
        if not _is_text(getattr(options, each.name))
    ]
    if faults:
        raise InputError(faults)


def _is_text(value: object) -> bool:
    match value:
        case str() | Path():
            return str(value) == str(value).encode("utf-8", "replace").decode()
        case tuple():
            return all(_is_text(each) for each in value)
        case _:
            return True


def _requests(options: RunOptions) -> list[StartRequest]:
    faults = [
        Fault(where=f"--{name}", message="is needed")
        for name, value in (("candidate", options.candidate), ("golden", options.golden))
        if not value
    ]
    requests = []
    for named in options.golden:
        try:
            requests.append(_request(options, named))
        except InputError as error:
            faults.extend(error.faults)
    names = Counter(_name(request) for request in requests)
    faults.extend(
        Fault(where="--golden", message=f"{number} sets are named {name!r}: their documents have one folder")
        for name, number in names.items()
        if number > 1
    )
    if faults:
        raise InputError(faults)
    return requests


def _name(request: StartRequest) -> str:
    return request.golden.name if request.golden else request.golden_set or ""


def _request(options: RunOptions, named: str) -> StartRequest:
    golden, golden_set = (_checked(Path(named)), None) if named.endswith(".jsonl") else (None, named)
    policy = {"noise_runs": options.noise_runs, "confirm_runs": options.confirm_runs}
    return StartRequest(
        candidate_index=options.candidate or "",
        baseline_index=options.baseline,
        golden=golden,
        golden_set=golden_set,
        policy={name: value for name, value in policy.items() if value is not None},
        noise_study=options.noise_study,
        slices=options.slices,
        change=_change(options),
    )


def _checked(path: Path) -> GoldenTexts:
    texts = read_golden_files(path)
    try:
        read_golden_set(texts)
    except InputError as error:
        raise InputError([_with_folder(fault, path) for fault in error.faults]) from None
    return texts


def _with_folder(fault: Fault, path: Path) -> Fault:
    return Fault(where=str(path.with_name(fault.where)), line=fault.line, message=fault.message)


def _change(options: RunOptions) -> Change | None:
    said = (options.change_summary, options.commit, options.build_id, options.build_url)
    if not options.kinds and not any(said):
        return None
    return Change(
        kind=tuple(ChangeKind(kind) for kind in options.kinds),
        summary=options.change_summary,
        commit=options.commit,
        build_id=options.build_id,
        build_url=options.build_url,
    )


async def _run_all(
    options: RunOptions, settings: Settings, url: str | None, requests: list[StartRequest]
) -> int:
    cancelled = asyncio.Event()
    with _signals(cancelled):
        async with _runner(settings, url) as runner:
            ended: list[Run] = []
            if options.resume is not None:
                ended.append(await _one(options, runner, options.resume, cancelled, options.out))
            for place, request in enumerate(requests):
                key = options.idempotency_key or uuid.uuid4().hex
                own = key if len(requests) == 1 else f"{key}-{place}"
                run_id = await _begun(options, runner.begin(request, own), own, cancelled)
                ended.append(
                    await _one(options, runner, run_id, cancelled, _folder(options, request, len(requests)))
                )
    worst_last = sorted(ended, key=_status)
    for run in worst_last:
        _tell_shortly(run)
    sys.stdout.flush()
    return _status(worst_last[-1])


async def _begun(
    options: RunOptions, beginning: Coroutine[Any, Any, str], key: str, cancelled: asyncio.Event
) -> str:
    """The id of the run, begun. GateError if it is not within the time-out, or soon after a signal."""
    again = (
        f"the same command with --idempotency-key {shlex.quote(key)} starts it once, however often it is sent"
    )
    task, cancelling = asyncio.create_task(beginning), asyncio.create_task(cancelled.wait())
    try:
        await asyncio.wait({task, cancelling}, timeout=options.timeout, return_when=asyncio.FIRST_COMPLETED)
        if cancelled.is_set():  # what is on its way may still arrive: a run that is begun can be cancelled
            await asyncio.wait({task}, timeout=_BEGIN_SECONDS)
        if task.done():
            return task.result()
        if cancelled.is_set():
            raise GateError(f"stopped before a run was known to be started; {again}")
        raise GateError(f"no run was started within {options.timeout:g} seconds; {again}")
    finally:
        task.cancel()
        cancelling.cancel()
        await asyncio.gather(task, cancelling, return_exceptions=True)


def _status(run: Run) -> int:
    return STATUS[run.verdict] if run.verdict is not None else STATUS[Verdict.ERROR]


def _folder(options: RunOptions, request: StartRequest, sets: int) -> Path | None:
    if options.out is None or sets == 1:
        return options.out
    return options.out / _name(request)


async def _one(
    options: RunOptions, runner: Runner, run_id: str, cancelled: asyncio.Event, out: Path | None
) -> Run:
    """Wait for one run, write its documents, tell it."""
    with _progress(run_id) as on_progress:
        try:
            async with asyncio.timeout(options.timeout):
                run = await runner.finish(run_id, cancelled, on_progress)
        except TimeoutError:
            raise GateError(
                f"no verdict after {options.timeout:g} seconds; to go on: {runner.again(run_id)}"
            ) from None
    if out is not None:
        for name in DOCUMENTS:
            write(prepared(out) / name, await runner.document(run, name, passages=options.passages))
        sys.stderr.write(f"The report is {out / 'report.html'}\n")
    _tell(run, await runner.waiver(run) if run.verdict is Verdict.FAIL else None)
    return run


@contextmanager
def _signals(cancelled: asyncio.Event) -> Iterator[None]:
    """SIGINT and SIGTERM ask for the run's end; a second SIGINT ends the program."""
    loop = asyncio.get_running_loop()

    def cancel() -> None:
        sys.stderr.write("cancelling the run …\n")
        cancelled.set()
        loop.remove_signal_handler(signal.SIGINT)

    with _handling(loop, cancel):
        yield


@contextmanager
def _handling(loop: asyncio.AbstractEventLoop, handler: Callable[[], None]) -> Iterator[None]:
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


@contextmanager
def _progress(run_id: str) -> Iterator[OnProgress]:
    """Shows progress on standard error: a bar in a terminal, a line now and then elsewhere. What the run found
    before its first question, its cost too, is said once.
    """
    sys.stderr.write(f"run {run_id}: looking at both indexes\n")
    if not sys.stderr.isatty():
        yield _Lines().note
        return
    from rich.console import Console  # noqa: PLC0415 — only where somebody looks on
    from rich.progress import (  # noqa: PLC0415 — likewise
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    columns = (TextColumn("asking both indexes"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    lines = _Lines(counting=False)
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=None)

        def note(run: Run) -> None:
            lines.note(run)
            bar.update(task, completed=run.progress.done, total=run.progress.planned or None)

        yield note


@dataclass(slots=True)
class _Lines:
    counting: bool = True
    said_at: float = 0.0
    said: int = 0
    told: int = 0  # checks

    def note(self, run: Run) -> None:
        for check in run.checks[self.told :]:
            if check.level is Level.WARNING or check.code == COST:
                sys.stderr.write(f"{check.code}: {visible(check.message)}\n")
        self.told = len(run.checks)
        done, planned = run.progress.done, run.progress.planned
        now = asyncio.get_running_loop().time()
        if (
            self.counting
            and done != self.said
            and (done == planned or now - self.said_at >= _LINE_EVERY_SECONDS)
        ):
            self.said, self.said_at = done, now
            sys.stderr.write(f"{done} of {planned} observations\n")


@asynccontextmanager
async def _runner(settings: Settings, url: str | None) -> AsyncIterator[Runner]:
    if url is None:
        async with open_gate(settings) as opened:
            yield Here(opened)
        return
    from app.adapters.gate_service import open_gate_service  # noqa: PLC0415 — its client is loaded where it is used

    token = settings.service_token.get_secret_value() if settings.service_token else None
    async with open_gate_service(url, token=token, scope=settings.service_scope) as service:
        yield There(service, url)


@dataclass(frozen=True, slots=True)
class Here:
    """Runs executed in this process."""

    opened: OpenGate

    async def begin(self, request: StartRequest, key: str) -> str:
        run, _ = await start(
            request,
            records=self.opened.records,
            golden_sets=self.opened.golden_sets,
            stamp=self.opened.stamp(),
            live=self.opened.live,
            idempotency_key=key,
        )
        return run.id

    async def finish(self, run_id: str, cancelled: asyncio.Event, on_progress: OnProgress) -> Run:
        execution = self.opened.execution
        seen = await until_free(
            self.opened.records, run_id, look_every=execution.limits.look_every, cancelled=cancelled
        )
        return await execution.execute(run_id, cancelled=cancelled, on_progress=on_progress, seen=seen)

    async def document(self, run: Run, name: str, *, passages: bool) -> Iterable[bytes]:
        evidence: Iterable[QuestionResult] = results(await self.opened.records.evidence(run.id), run.query)
        if not (passages and run.policy.evidence_text):
            evidence = map(without_passages, evidence)
        match name:
            case "run.json":
                return json_chunks(run, evidence)
            case "report.html":
                decisions = await decisions_of(self.opened, run)
                return (piece.encode() for piece in html(run, evidence, decisions))
            case "report.md":
                return [markdown(run, evidence, await self.waiver(run)).encode()]
            case "junit.xml":
                return [junit(run, evidence, await self.waiver(run))]
            case _:
                raise AssertionError(name)

    async def waiver(self, run: Run) -> Override | None:
        return await waiver_of(self.opened.records, run)

    def again(self, run_id: str) -> str:
        return f"gate run --resume {run_id}"


@dataclass(frozen=True, slots=True)
class There:
    """Runs executed by the service at `url`."""

    service: "GateService"
    url: str

    async def begin(self, request: StartRequest, key: str) -> str:
        return (await self.service.start(_body(request), key)).id

    async def finish(self, run_id: str, cancelled: asyncio.Event, on_progress: OnProgress) -> Run:
        waiting = asyncio.create_task(self._until_done(run_id, on_progress))
        cancelling = asyncio.create_task(cancelled.wait())
        try:
            await asyncio.wait({waiting, cancelling}, return_when=asyncio.FIRST_COMPLETED)
            if cancelling.done() and not waiting.done():
                return await self._cancelled(run_id, waiting)
            return await waiting
        finally:
            for task in (waiting, cancelling):
                task.cancel()

    async def _cancelled(self, run_id: str, waiting: asyncio.Task[Run]) -> Run:
        try:
            async with asyncio.timeout(_CANCEL_SECONDS):
                await self.service.cancel(run_id)
                return await waiting
        except TimeoutError:
            raise GateError(
                f"the service did not end the run within {_CANCEL_SECONDS:g} seconds; to see what became of it: "
                f"{self.again(run_id)}"
            ) from None

    async def _until_done(self, run_id: str, on_progress: OnProgress) -> Run:
        while True:
            run = await self.service.wait(run_id)
            on_progress(run)
            if run.state is State.DONE:
                return run

    async def document(self, run: Run, name: str, *, passages: bool) -> Iterable[bytes]:
        return [chunk async for chunk in self.service.document(run.id, name, passages=passages)]

    async def waiver(self, run: Run) -> Override | None:
        return await self.service.waiver(run.id)

    def again(self, run_id: str) -> str:
        return f"gate run --service {shlex.quote(self.url)} --resume {run_id}"


def _body(request: StartRequest) -> dict[str, Any]:
    """The request as the API takes it: what was not asked for is left out."""
    body = adapter(StartRequest).dump_python(request, mode="json", exclude_none=True)
    return {name: value for name, value in body.items() if value not in ({}, [], False)}


def check_command(path: Path, indexes: tuple[str, ...], settings: Settings | None) -> int:
    """Read a golden set, and look its labels up in the indexes; InputError with everything wrong with the set.

    `settings` are needed where indexes are named. The status is 0 where every document that the set names is in
    every index, or could not be verified for want of a filterable field, else 2.
    """
    golden = read_golden_set(_checked(path))
    critical = sum(1 for question in golden.questions if question.critical)
    unlabelled = sum(1 for question in golden.questions if not question.answers)
    sys.stdout.write(
        f"{visible(golden.name)}: {len(golden.questions)} questions, {critical} critical, {unlabelled} without an "
        f"answer; owner {visible(golden.owner or 'unknown')}; review by {golden.review_by or 'no date'}\n"
        f"{golden.digest}\n"
    )
    if not indexes or settings is None:
        return 0
    log_to_stderr(settings.log_level, secrets_of(settings))
    found = asyncio.run(_check_labels(golden, indexes, settings))
    return 0 if all(each.clean for each in found) else STATUS[Verdict.ERROR]


async def _check_labels(golden: GoldenSet, indexes: tuple[str, ...], settings: Settings) -> list[IndexLabels]:
    found = []
    async with open_search(settings) as search:
        deadline = asyncio.get_running_loop().time() + settings.run_timeout_seconds
        for name in dict.fromkeys(indexes):
            found.append(await check_labels(golden, name, search=search, deadline=deadline))
            for line in _told_labels(found[-1]):
                sys.stdout.write(f"{visible(line)}\n")
    return found


def _told_labels(found: IndexLabels) -> Iterator[str]:
    name = found.index if found.index == found.requested else f"{found.requested} ({found.index})"
    counts = [f"{found.found} of {found.documents} documents found"]
    counts += [
        f"{number} {what}"
        for number, what in ((len(found.absent), "absent"), (len(found.unverified), "unverified"))
        if number
    ]
    yield f"{name}: {', '.join(counts)}"
    for each in found.absent:
        kinds = [
            what for what, holds in (("forbidden", each.forbidden), ("critical", each.critical)) if holds
        ]
        hint = f": {each.hint}" if each.hint else ""
        yield f"  absent {quoted(each.document)} ({', '.join((*kinds, *each.questions))}){hint}"
    for check in found.checks:
        yield f"  {check.level} {check.code}: {check.message}"


def judge_command(run_id: str | None, policy: Path, since: datetime | None, settings: Settings) -> int:
    """Decide again: one run, told in full, or all since a day, a line each. The exit status is the worst."""
    changes = read_policy_table(decoded(_bytes(policy), str(policy)), str(policy))
    return asyncio.run(_judge(run_id, changes, since, settings))


async def _judge(
    run_id: str | None, changes: Mapping[str, Any], since: datetime | None, settings: Settings
) -> int:
    async with open_records(settings) as records:
        if run_id is not None:
            run = await judged(records, run_id, changes)
            _tell(run)
            _tell_shortly(run)
            return _status(run)
        day = (since or datetime(1, 1, 1, tzinfo=UTC)).replace(tzinfo=UTC)
        found = []
        async for before, after in judged_since(records, day, changes):
            now = after.verdict.value if after.verdict else "no verdict"
            was = "" if before.verdict is after.verdict else f" (was {before.verdict})"
            sys.stdout.write(f"{before.id}  {now}{was}  {visible(after.headline or '')}\n")
            found.append(_status(after))
    if not found:  # nothing judged is no PASS
        raise GateError(f"no run that is done was started since {day:%Y-%m-%d}: there is nothing to judge")
    return max(found)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError([Fault(where=str(path), message=f"cannot be read: {error.strerror}")]) from None


def _tell(run: Run, waived: Override | None = None) -> None:
    from rich.console import Console  # noqa: PLC0415 — nothing is told so by `gate serve`

    from app.report.terminal import terminal  # noqa: PLC0415 — likewise

    width = None if sys.stdout.isatty() else _PLAIN_WIDTH
    Console(highlight=False, markup=False, width=width).print(terminal(run, waived))


def _tell_shortly(run: Run) -> None:
    from app.report.terminal import last_line  # noqa: PLC0415 — likewise

    sys.stdout.write(f"{last_line(run)}\n")


def serve_command() -> int:
    """Serve until SIGTERM or SIGINT; InputError if the settings or the port do not allow it, StorageError if
    the place where runs are kept does not.
    """
    settings = read_settings(lambda found: starting_faults(found, os.environ))
    log_to_stderr(settings.log_level, secrets_of(settings), as_json=True)
    sys.setswitchinterval(_SWITCH_SECONDS)
    with _listening(settings.host, settings.port) as listening:
        asyncio.run(_serve(settings, listening))
    return 0


async def _serve(settings: Settings, listening: socket.socket) -> None:
    """The application is opened and closed here, so that what keeps it from opening is told as any error is."""
    import uvicorn  # noqa: PLC0415 — only this command serves

    api = create_app(settings)
    server = uvicorn.Server(
        uvicorn.Config(
            api,
            lifespan="off",
            log_config=None,
            timeout_graceful_shutdown=10,
            server_header=False,
            proxy_headers=False,
        )
    )
    host, port = listening.getsockname()[:2]
    with suppress(asyncio.CancelledError), _stopping(server, api):
        async with api.router.lifespan_context(api):
            gc.freeze()  # what is there now stays: looking through all of it again would hold every caller up
            gc.enable()
            log.info("gate serves http://%s:%d", host, port)
            await server.serve(sockets=[listening])


@contextmanager
def _stopping(server: "uvicorn.Server", api: "FastAPI") -> Iterator[None]:
    """SIGINT and SIGTERM end the serving, with what is held at that moment, or the opening before it."""
    loop, opening = asyncio.get_running_loop(), asyncio.current_task()

    def stop() -> None:
        if server.started:
            server.should_exit = True
            api.state.gate.supervisor.let_go()
        elif opening is not None:
            opening.cancel()

    with _handling(loop, stop):
        yield


def _listening(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        message = f"{host}:{port} cannot be listened on: {error.strerror}; choose another GATE_PORT"
        raise InputError([Fault(where="GATE_PORT", message=message)]) from None
    # Connections have it from here: asyncio sets it on sockets that name their protocol, which these do not. Without
    # it an answer's body waits until the caller has acknowledged its head, 40 ms where the caller takes its time.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening
