"""A record of the audit, and a clearance, in words: one line each, for pages and the terminal."""

from collections.abc import Iterator
from typing import assert_never

from app.domain.audit import Kind, Record
from app.domain.clearance import Clearance
from app.domain.watch import Watched
from app.report.escaping import visible


def what(record: Record) -> str:
    """What happened, without who and when. Text from outside is made visible."""
    before, after = _index(record.before), _index(record.after)
    match record.kind:
        case Kind.PROMOTING:
            return f"a promotion began: {after} in place of {before}"
        case Kind.PROMOTED:
            return f"promoted: {after} in place of {before}"
        case Kind.ROLLING_BACK:
            return f"a roll back began: {after} in place of {before}"
        case Kind.ROLLED_BACK:
            return f"rolled back: {after} in place of {before}"
        case Kind.CLOSED:
            return f"came to nothing: {after} in place of {before}"
        case Kind.REFUSED:
            return f"refused: {after} in place of {before}"
        case Kind.OVERRIDE_USED:
            return f"an override was used for {after}"
        case Kind.WATCHED:
            return f"watched {after}: {record.watch.state.value if record.watch else 'no result'}"
        case Kind.DRILLED:
            return f"drilled a roll back: {after} in place of {before}"
        case _:
            assert_never(record.kind)


def who(record: Record) -> str:
    return visible(record.actor or "somebody not signed in")


def why(record: Record) -> str:
    """The reason, and the conditions that did not hold; empty where there is none."""
    told = [record.reason or "", *(condition.message for condition in record.conditions)]
    return visible(" ".join(text for text in told if text))


def clearance_lines(found: Clearance) -> Iterator[str]:
    """A condition a line, then whether the run is cleared."""
    for condition in found.conditions:
        yield f"{'holds' if condition.holds else 'FAILS'}  {condition.code}: {visible(condition.message)}"
    yield f"{found.run} is {'cleared' if found.cleared else 'NOT cleared'} for promotion."


def watch_lines(watched: Watched) -> Iterator[str]:
    """The result of a watch, then a line for each question that does not simply hold."""
    yield f"watch: {watched.state.value}. {visible(watched.note)}"
    for each in watched.questions:
        if each.shown.value != "holds":
            ranks = f"rank {each.judged or 'none'} when judged, {each.rank or 'none'} now"
            shown = f", shows {', '.join(each.forbidden)}" if each.forbidden else ""
            said = f": {each.message}" if each.message else ""
            yield visible(f"  {each.id}  {each.shown.value}  {ranks}{shown}{said}")


def _index(name: str | None) -> str:
    return visible(name) if name is not None else "nothing"
