"""What the commands of operations do: ask the service what is live, promote, watch, roll back, audit."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

from app.adapters.gate_service import GateService, open_gate_service
from app.adapters.logs import log_to_stderr
from app.domain.audit import Kind, Verification
from app.domain.errors import ConflictError, Fault, GateError, InputError, UnderWayError
from app.domain.watch import Watch
from app.gate.follow import Followed
from app.report.audit import clearance_lines, watch_lines, what, who, why
from app.report.escaping import visible
from app.settings import Settings, secrets_of

T = TypeVar("T")

DONE, REFUSED, FAILED = 0, 1, 2  # exit statuses
_PAUSE_SECONDS = 1.0
_GOOD = frozenset({Watch.HELD, Watch.NOTHING_TO_ASK})


@dataclass(frozen=True, slots=True, kw_only=True)
class Promoting:
    """`gate promote`, as it was typed."""

    run_id: str
    create: bool
    reason: str | None
    check: bool
    timeout: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RollingBack:
    """`gate rollback`, as it was typed."""

    to: str | None
    confirm_live: str | None
    drill: bool
    reason: str | None


def live_command(settings: Settings, service: str | None, *, name_only: bool) -> int:
    """What is live. With `name_only` nothing but the index's name, for scripts; 2 where nothing is."""

    async def tell(gate: GateService) -> int:
        found = await gate.live()
        if name_only:
            _say(*([visible(found.index)] if found.index else []))
            return DONE if found.index else FAILED
        _say(visible(found.message))
        for each in found.previous or ():
            until = f", live until {each.until:%Y-%m-%d %H:%M} UTC" if each.until else ""
            _say(f"could return to {visible(each.index)}: {each.documents} documents{until}")
        if found.watch is not None and found.watch.watch is not None:
            _say(*watch_lines(found.watch.watch))
        return DONE

    return _with_service(settings, service, tell)


def promote_command(settings: Settings, service: str | None, wanted: Promoting) -> int:
    """Promote and wait for the watch. 0: it is live and the watch holds. 1: the run is not cleared, somebody
    changed live in between, or the watch failed. 2: anything else, a watch that could not ask included.
    """

    async def go(gate: GateService) -> int:
        if wanted.check:
            found = await gate.clearance(wanted.run_id)
            _say(*clearance_lines(found))
            return DONE if found.cleared else REFUSED
        body = {"create": wanted.create, **({"reason": wanted.reason} if wanted.reason else {})}
        try:
            made = await _once_it_may(lambda: gate.promote(wanted.run_id, body))
        except ConflictError as error:
            _complain(str(error))
            return REFUSED
        again = " (it was already; nothing was changed)" if made.again else ""
        _say(f"{what(made.record)}{again}")
        return _ended(await _watched(gate, wanted))

    return _with_service(settings, service, go)


async def _once_it_may(ask: Callable[[], Awaitable[T]]) -> T:
    """The answer, when no other change of the live index is under way. That may be this very one, whose answer
    was lost: the same asked twice is one.
    """
    told = False
    while True:
        try:
            return await ask()
        except UnderWayError as error:
            if not told:
                sys.stderr.write(f"waiting: {visible(str(error))}\n")
            told = True
        await asyncio.sleep(_PAUSE_SECONDS)


async def _watched(gate: GateService, wanted: Promoting) -> Followed:
    sys.stderr.write("watching: the critical questions are asked of the live index\n")
    try:
        async with asyncio.timeout(wanted.timeout):
            while True:
                found = await gate.promotion(wanted.run_id)
                if found.ended:
                    return found
    except TimeoutError:
        raise GateError(
            f"it is live, and its watch has not ended after {wanted.timeout:g} seconds; the same command waits again"
        ) from None


def _ended(found: Followed) -> int:
    watched = found.watch.watch if found.watch is not None else None
    if watched is not None:
        _say(*watch_lines(watched))
    for each in (found.refused, found.undone):
        if each is not None:
            _say(f"{what(each)}, by {who(each)}. {why(each)}".rstrip())
    if found.undone is not None or watched is None:
        return REFUSED
    if watched.state in _GOOD:
        return DONE
    return FAILED if watched.state is Watch.ERROR else REFUSED


def rollback_command(settings: Settings, service: str | None, wanted: RollingBack) -> int:
    """Roll back, or drill it. 0: done. 1: refused, with what to do. 2: anything else."""

    async def go(gate: GateService) -> int:
        confirmed = wanted.confirm_live or await _found(gate)
        given = {
            "to": wanted.to,
            "confirm_live": confirmed,
            "drill": wanted.drill or None,
            "reason": wanted.reason,
        }
        body = {name: value for name, value in given.items() if value is not None}
        try:
            made = await _once_it_may(lambda: gate.rollback(body))
        except ConflictError as error:
            _complain(str(error))
            return REFUSED
        _say(visible(made.message))
        return DONE

    return _with_service(settings, service, go)


async def _found(gate: GateService) -> str | None:
    """What is to be gone back from, so that a request that is sent twice goes back once; None where it was
    changed by hand, which only the person who types may confirm.
    """
    found = await gate.live()
    under_way = found.under_way
    if under_way is not None:  # a roll back: the same, asked before, which is completed, or made now
        return under_way.before if under_way.kind is Kind.ROLLING_BACK else found.index
    return found.index if found.as_recorded else None


def retire_command(settings: Settings, service: str | None) -> int:
    """Name the indexes that are of no use any more. Nothing is deleted."""

    async def tell(gate: GateService) -> int:
        found = await gate.retirement()
        for each in found.retirable:
            _say(f"could be deleted  {visible(each.index)}: {visible(each.why)}")
        for name, reason in found.kept.items():
            _say(f"keep              {visible(name)}: {visible(reason)}")
        if not found.listed:
            _say("The service's identity may not list indexes: only those are named that the gate knows.")
        return DONE

    return _with_service(settings, service, tell)


def audit_command(settings: Settings, service: str | None) -> int:
    """Every record of the audit, the newest first."""

    async def tell(gate: GateService) -> int:
        async for each in gate.audit():
            told = f"{each.number}  {each.at:%Y-%m-%d %H:%M:%S} UTC  {who(each)}  {what(each)}"
            run = f"  run {visible(each.run)}" if each.run else ""
            _say(f"{told}{run}  {why(each)}".rstrip())
        return DONE

    return _with_service(settings, service, tell)


def verify_command(settings: Settings, service: str | None) -> int:
    """Check every link of the audit: as the service reads it, or without one in the place where runs are kept.

    0: whole. 2: not, every broken link named.
    """
    log_to_stderr(settings.log_level, secrets_of(settings))
    if service or settings.service_url:
        return _with_service(settings, service, lambda gate: _verified(gate.verification()))

    from app.main import open_trail  # noqa: PLC0415 — all that the service is made of, which nothing else here needs

    async def here() -> int:
        async with open_trail(settings) as trail:
            return await _verified(trail.verify())

    return asyncio.run(here())


async def _verified(verifying: Awaitable[Verification]) -> int:
    found = await verifying
    for fault in found.faults:
        _complain(str(fault))
    state = "whole" if found.whole else "BROKEN"
    _say(f"audit: {state}, {found.records} records; head {found.head or 'none'}")
    return DONE if found.whole else FAILED


def _with_service(
    settings: Settings, service: str | None, act: Callable[[GateService], Awaitable[int]]
) -> int:
    log_to_stderr(settings.log_level, secrets_of(settings))
    url = settings.service(service)
    if url is None:
        message = "is needed, or GATE_SERVICE_URL: the service keeps what is live and its audit"
        raise InputError([Fault(where="--service", message=message)])

    async def go() -> int:
        async with _opened(settings, url) as gate:
            return await act(gate)

    return asyncio.run(go())


@asynccontextmanager
async def _opened(settings: Settings, url: str) -> AsyncIterator[GateService]:
    token = settings.service_token.get_secret_value() if settings.service_token else None
    async with open_gate_service(url, token=token, scope=settings.service_scope) as service:
        yield service


def _say(*lines: str) -> None:
    sys.stdout.writelines(f"{line}\n" for line in lines)
    sys.stdout.flush()


def _complain(text: str) -> None:
    sys.stderr.write(f"error: {visible(text)}\n")
