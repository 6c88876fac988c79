"""What the doors, HTTP and command line, are given to work with."""

from collections.abc import Callable
from dataclasses import dataclass

from app.gate.audit import AuditTrail
from app.gate.check_build import Checks
from app.gate.control import LiveControl
from app.gate.execute import Execution
from app.gate.ports import LivePointer, SearchService
from app.gate.records import RunRecords
from app.gate.start import GoldenSets, Stamp
from app.gate.supervise import Supervisor
from app.gate.watch import Watches


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenGate:
    """The gate, its adapters opened. `stamp` makes the id, time and seed of a new run.

    `trail`: the audit. `live`: what names the live index; `control`, `watches`: what it takes to change it, and to
    watch it. None where no setting says where the live index name is kept. `checks`: those of Azure DevOps; None
    where none are taken.
    """

    records: RunRecords
    golden_sets: GoldenSets
    search: SearchService
    live: LivePointer | None = None
    execution: Execution
    supervisor: Supervisor
    stamp: Callable[[], Stamp]
    trail: AuditTrail
    control: LiveControl | None = None
    watches: Watches | None = None
    checks: Checks | None = None
