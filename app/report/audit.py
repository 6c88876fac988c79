"""A record of the audit, and a clearance, in words: one line each, for pages and the terminal."""

from collections.abc import Iterator

from app.domain.audit import Kind, Record
from app.domain.clearance import Clearance
from app.domain.watch import Watched
from app.report.escaping import visible

_SAID = {
    Kind.PROMOTING: "a promotion began: {after} in place of {before}",
    Kind.PROMOTED: "promoted: {after} in place of {before}",
    Kind.ROLLING_BACK: "a roll back began: {after} in place of {before}",
    Kind.ROLLED_BACK: "rolled back: {after} in place of {before}",
    Kind.CLOSED: "came to nothing: {after} in place of {before}",
    Kind.REFUSED: "refused: {after} in place of {before}",
    Kind.OVERRIDE_USED: "an override was used for {after}",
    Kind.WATCHED: "watched {after}: {watch}",
    Kind.DRILLED: "drilled a roll back: {after} in place of {before}",
}


def what(record: Record) -> str:
    """What happened, without who and when. Text from outside is made visible."""
    watch = record.watch.state.value if record.watch is not None else "no result"
    return _SAID[record.kind].format(after=_index(record.after), before=_index(record.before), watch=watch)


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
