"""What the doors, HTTP and command line, are given to work with."""

from collections.abc import Callable
from dataclasses import dataclass

from app.gate.execute import Execution
from app.gate.ports import SearchService
from app.gate.records import RunRecords
from app.gate.start import GoldenSets, Stamp
from app.gate.supervise import Supervisor


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenGate:
    """The gate, its adapters opened. `stamp` makes the id, time and seed of a new run."""

    records: RunRecords
    golden_sets: GoldenSets
    search: SearchService
    execution: Execution
    supervisor: Supervisor
    stamp: Callable[[], Stamp]
