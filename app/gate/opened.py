"""What the doors, HTTP and command line, are given to work with."""

from collections.abc import Callable
from dataclasses import dataclass

from app.gate.execute import Execution
from app.gate.ports import LivePointer, SearchService
from app.gate.records import RunRecords
from app.gate.start import GoldenSets, Stamp
from app.gate.supervise import Supervisor


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenGate:
    """The gate, its adapters opened. `stamp` makes the id, time and seed of a new run.
    `live` None: where the live index's name is kept is not set.
    """

    records: RunRecords
    golden_sets: GoldenSets
    search: SearchService
    live: LivePointer | None = None
    execution: Execution
    supervisor: Supervisor
    stamp: Callable[[], Stamp]
