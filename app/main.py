"""The composition root: adapters are opened here and given to whoever needs them."""

import platform
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import SecretStr

from app import VERSION
from app.adapters.credentials import azure_credential, azure_identity
from app.adapters.embeddings import AzureEmbedder
from app.adapters.folder import folder_of, open_folder
from app.adapters.golden_files import GoldenFolder
from app.adapters.limiter import Limiter
from app.adapters.search import AzureSearch
from app.domain.clearance import Rules
from app.domain.errors import Fault, InputError
from app.gate.audit import AuditTrail
from app.gate.check_build import Checks
from app.gate.control import FlipLimits, LiveControl
from app.gate.execute import Execution, Limits
from app.gate.opened import OpenGate
from app.gate.ports import DocumentStore, LivePointer
from app.gate.records import RunRecords
from app.gate.start import Stamp
from app.gate.supervise import Supervisor
from app.gate.telemetry import Silent, Telemetry
from app.gate.watch import Watches
from app.settings import Auth, Settings, searching_faults, serving_faults

if TYPE_CHECKING:
    from fastapi import FastAPI

    from app.web.access import Access

_MONITOR = "azure.monitor"
_DEFAULT_RUNS = Path(".gate/runs")
_RECORDED = ("azure-search-documents", "azure-appconfiguration", "azure-core", "pydantic")


def starting_faults(settings: Settings, environment: Mapping[str, str]) -> list[Fault]:
    """What keeps `gate serve` from starting with these settings, on this machine."""
    found = [*serving_faults(settings, environment), *_unknown_sets(settings)]
    if settings.insights is not None and find_spec(_MONITOR) is None:
        message = (
            "is set, and what sends there is not installed: the extra `monitor` (requirements/monitor.txt)"
        )
        found.append(Fault(where="APPLICATIONINSIGHTS_CONNECTION_STRING", message=message))
    return found


def create_app(settings: Settings) -> "FastAPI":
    """The service. Its adapters are opened when it starts and closed when it stops."""
    telemetry = _telemetry(settings)  # before anything asks for a provider
    from app.web.api import create_api  # noqa: PLC0415 — a run at the command line serves nothing

    access = (lambda: open_access(settings)) if settings.auth is Auth.ENTRA else None
    return create_api(
        lambda: open_gate(settings, telemetry),
        version=VERSION,
        open_access=access,
        starts_per_hour=settings.starts_per_hour,
        tls=settings.tls,
        loopback=settings.auth is Auth.NONE,
    )


def _telemetry(settings: Settings) -> Telemetry:
    """Where the work is measured; it is sent to Application Insights from now on, where that is set."""
    connection_string = _secret(settings.insights)
    if connection_string is None:
        return Silent()
    from app.adapters.monitor import export  # noqa: PLC0415 — an optional extra
    from app.adapters.telemetry import OpenTelemetry  # noqa: PLC0415

    export(connection_string, settings.client_id)
    return OpenTelemetry()


@asynccontextmanager
async def open_access(settings: Settings) -> AsyncIterator["Access"]:
    """How callers sign in to the service: with Entra."""
    from app.adapters.directory import open_directory  # noqa: PLC0415 — a run at the command line serves nothing
    from app.adapters.sign_in import SignIn, by_identity, by_secret  # noqa: PLC0415
    from app.adapters.tokens import SigningKeys, TokenReader  # noqa: PLC0415
    from app.web.access import Access  # noqa: PLC0415
    from app.web.sessions import Sessions  # noqa: PLC0415

    secret, keys = _secret(settings.entra_client_secret), _secret(settings.session_keys)
    async with (
        open_directory(settings.entra_issuer) as directory,
        azure_identity(settings.client_id) as identity,
    ):
        tokens = TokenReader(
            issuer=settings.entra_issuer,
            tenant_id=settings.entra_tenant_id or "",
            audiences=settings.entra_audiences,
            keys=SigningKeys(directory.keys),
        )
        people = SignIn(
            directory=directory,
            tokens=tokens,
            client_id=settings.entra_client_id,
            redirect_uri=f"{settings.public_url}/sign-in/callback",
            prove=by_secret(secret) if secret else by_identity(identity),
        )
        sessions = Sessions((keys or "").split(","), tls=settings.tls)
        yield Access(tokens=tokens, people=people, sessions=sessions)


@asynccontextmanager
async def open_search(settings: Settings) -> AsyncIterator[AzureSearch]:
    """The search service alone. InputError if a setting that it needs is missing."""
    faults = searching_faults(settings)
    if faults or settings.search_endpoint is None:
        raise InputError(faults)
    key = _secret(settings.search_api_key)
    async with (
        azure_credential(key, client_id=settings.client_id) as credential,
        AzureSearch(
            endpoint=settings.search_endpoint,
            credential=credential,
            audience=settings.search_audience,
            client_id=settings.client_id,
            limiter=_limiter(settings),
            query_timeout_seconds=settings.query_timeout_seconds,
        ) as search,
    ):
        yield search


@asynccontextmanager
async def open_live(settings: Settings) -> AsyncIterator[LivePointer | None]:
    """What names the live index; None where no setting says. Nothing is asked of it yet. InputError if a
    setting that it needs is missing.
    """
    async with AsyncExitStack() as stack:
        if settings.live_alias is not None:
            if settings.search_endpoint is None:
                raise InputError(searching_faults(settings))
            from app.adapters.live_alias import open_live_alias  # noqa: PLC0415 — its client is loaded where it is used

            credential = await stack.enter_async_context(
                azure_credential(_secret(settings.search_api_key), client_id=settings.client_id)
            )
            yield await stack.enter_async_context(
                open_live_alias(
                    endpoint=settings.search_endpoint,
                    credential=credential,
                    alias=settings.live_alias,
                    audience=settings.search_audience,
                )
            )
        elif settings.live_key is not None:
            from app.adapters.live_setting import open_live_setting  # noqa: PLC0415 — its client is loaded where it is used

            identity = await stack.enter_async_context(azure_identity(settings.client_id))
            yield await stack.enter_async_context(
                open_live_setting(
                    key=settings.live_key,
                    label=settings.live_label,
                    endpoint=settings.appconfig_endpoint,
                    credential=identity,
                    connection_string=_secret(settings.appconfig_connection_string),
                )
            )
        else:
            yield None


@asynccontextmanager
async def open_gate(settings: Settings, telemetry: Telemetry | None = None) -> AsyncIterator[OpenGate]:
    """The gate over the real world. InputError if a setting that it needs is missing."""
    faults = [*searching_faults(settings), *_unknown_sets(settings)]
    if faults:
        raise InputError(faults)
    async with AsyncExitStack() as stack:
        search = await stack.enter_async_context(open_search(settings))
        embedding = await stack.enter_async_context(
            azure_credential(_secret(settings.embedding_api_key), client_id=settings.client_id)
        )
        embedder = await stack.enter_async_context(
            AzureEmbedder(
                credential=embedding,
                limiter=_limiter(settings),
                query_timeout_seconds=settings.query_timeout_seconds,
            )
        )
        store = await _store(settings, stack)
        records, trail = RunRecords(store), AuditTrail(store)
        golden_sets = GoldenFolder(Path(settings.golden_dir))
        live = await stack.enter_async_context(open_live(settings))
        execution = Execution(
            records=records,
            search=search,
            embedder=embedder,
            limits=Limits(
                concurrency=settings.max_concurrency,
                run_timeout_seconds=settings.run_timeout_seconds,
                settle_seconds=settings.settle_seconds,
                inventory_rows=settings.inventory_limit,
                semantic_allowance=settings.semantic_allowance,
                leg_probes=settings.leg_probes,
                takeover_seconds=settings.takeover_seconds,
            ),
            now=_now,
            new_claim=lambda: secrets.token_hex(8),
            telemetry=telemetry or Silent(),
        )
        control = None
        if live is not None:
            control = LiveControl(
                pointer=live,
                trail=trail,
                records=records,
                golden_sets=golden_sets,
                search=search,
                embedder=embedder,
                now=_now,
                rules=_rules(settings),
                limits=_flip_limits(settings),
            )
        yield OpenGate(
            records=records,
            golden_sets=golden_sets,
            search=search,
            live=live,
            execution=execution,
            supervisor=Supervisor(records=records, execution=execution),
            stamp=lambda: _stamp(settings),
            trail=trail,
            control=control,
            watches=None if control is None else Watches(control=control),
            checks=await _checks(settings, control, stack),
        )


async def _checks(settings: Settings, control: LiveControl | None, stack: AsyncExitStack) -> Checks | None:
    """The checks of Azure DevOps; None where none are taken."""
    secret = _secret(settings.check_secret)
    if secret is None or control is None:
        return None
    from app.adapters.azure_devops import open_azure_devops  # noqa: PLC0415 — few services take checks

    return Checks(
        control=control,
        callbacks=await stack.enter_async_context(open_azure_devops(settings.check_organizations)),
        secret=secret,
        patience_seconds=settings.run_timeout_seconds,
    )


def _rules(settings: Settings) -> Rules:
    return Rules(
        required_sets=settings.required_sets,
        sent_sets=settings.promote_sent_sets,
        four_eyes=settings.four_eyes,
    )


def _flip_limits(settings: Settings) -> FlipLimits:
    return FlipLimits(
        settle_seconds=settings.flip_settle_seconds,
        watch_pause_seconds=settings.watch_pause_seconds,
        watch_concurrency=settings.max_concurrency,
        propagation_seconds=settings.propagation_seconds,
        retire_after=timedelta(hours=settings.retire_after_hours),
    )


def _unknown_sets(settings: Settings) -> list[Fault]:
    """Required sets that are not deployed: no run could ever be promoted."""
    deployed = GoldenFolder(Path(settings.golden_dir)).names()
    missing = [name for name in settings.required_sets if name not in deployed]
    if not missing:
        return []
    message = f"names sets that are not deployed in {settings.golden_dir}: {', '.join(missing)}"
    return [Fault(where="GATE_REQUIRED_SETS", message=message)]


@asynccontextmanager
async def open_records(settings: Settings) -> AsyncIterator[RunRecords]:
    """The kept runs alone, for what needs no search service."""
    async with AsyncExitStack() as stack:
        yield RunRecords(await _store(settings, stack))


@asynccontextmanager
async def open_trail(settings: Settings) -> AsyncIterator[AuditTrail]:
    """The audit alone."""
    async with AsyncExitStack() as stack:
        yield AuditTrail(await _store(settings, stack))


async def _store(settings: Settings, stack: AsyncExitStack) -> DocumentStore:
    if settings.runs_url is None:
        return await stack.enter_async_context(open_folder(_DEFAULT_RUNS))
    if settings.runs_url.startswith("file:"):
        return await stack.enter_async_context(open_folder(folder_of(settings.runs_url)))
    from app.adapters.blobs import open_blobs  # noqa: PLC0415 — its client is loaded where it is used

    key = _secret(settings.runs_key)
    if key is not None:
        return await stack.enter_async_context(open_blobs(settings.runs_url, key=key))
    identity = await stack.enter_async_context(azure_identity(settings.client_id))
    return await stack.enter_async_context(open_blobs(settings.runs_url, credential=identity))


def _limiter(settings: Settings) -> Limiter:
    return Limiter(ceiling=settings.max_concurrency, share=settings.capacity_share)


def _secret(value: SecretStr | None) -> str | None:
    return None if value is None else value.get_secret_value()


def _now() -> datetime:
    return datetime.now(UTC)


def _stamp(settings: Settings) -> Stamp:
    now = _now()
    return Stamp(
        run_id=f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}",
        now=now,
        seed=secrets.randbelow(2**31),
        manifest={
            "gate": VERSION,
            "python": platform.python_version(),
            "packages": {name: version(name) for name in _RECORDED},
            "settings": {
                "search_endpoint": settings.search_endpoint,
                "max_concurrency": settings.max_concurrency,
                "capacity_share": settings.capacity_share,
                "query_timeout_seconds": settings.query_timeout_seconds,
                "run_timeout_seconds": settings.run_timeout_seconds,
            },
        },
    )
