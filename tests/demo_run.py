"""The failing run of the demo, as it was kept: a real one, for tests that cannot wait for it to be made.

    make demo
    .venv/bin/python -m tests.demo_run .local/demo/runs

reads the demo's newest failing run and writes it beside this file: the run on the first line, then a question a
line with all of its evidence.
"""

import asyncio
import lzma
import sys
from pathlib import Path

from pydantic import TypeAdapter

from app.adapters.folder import open_folder
from app.domain.outcome import Observed
from app.domain.reasons import Verdict
from app.domain.run import Run
from app.gate.records import RunRecords
from tests.examples import Example

_PATH = Path(__file__).with_suffix(".jsonl.xz")
_RUN = TypeAdapter(Run)
_QUESTION = TypeAdapter(Observed)


def demo_run() -> Example:
    """The run with its questions."""
    run, *questions = lzma.decompress(_PATH.read_bytes()).splitlines()
    return Example(
        run=_RUN.validate_json(run), questions=tuple(_QUESTION.validate_json(each) for each in questions)
    )


async def _lines(folder: Path) -> list[bytes]:
    async with open_folder(folder) as store:
        records = RunRecords(store)
        async for run in records.newest_first():
            if run.verdict is Verdict.FAIL:
                questions = await records.evidence(run.id)
                lines = [_QUESTION.dump_json(each, exclude_defaults=True) for each in questions]
                return [_RUN.dump_json(run), *lines]
    sys.exit(f"no failing run is kept in {folder}")


if __name__ == "__main__":
    kept = b"\n".join(asyncio.run(_lines(Path(sys.argv[1]))))
    _PATH.write_bytes(lzma.compress(kept, preset=9 | lzma.PRESET_EXTREME))
