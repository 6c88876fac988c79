"""Who asks, and what they may do."""

import re
from dataclasses import dataclass
from enum import StrEnum

_LONGEST_NAME = 100  # characters
_SIGNED = re.compile(r".* \[(?P<id>[^\[\]]+)\]", re.DOTALL)


class Role(StrEnum):
    """The app roles; an application or a person has any number of them."""

    READ = "Gate.Read"
    RUN = "Gate.Run"
    REVIEW = "Gate.Review"
    PROMOTE = "Gate.Promote"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """An application or a person. `id` never changes and is nobody else's; `name` is for readers only."""

    id: str
    name: str
    roles: frozenset[Role]

    @property
    def signature(self) -> str:
        """How the caller is recorded: `name [id]`, whatever the name holds."""
        return f"{shown_name(self.name)} [{self.id}]"


def shown_name(name: str) -> str:
    """A name on one line, that cannot pass for a signature."""
    plain = "".join(" " if each in "[]" or not each.isprintable() else each for each in name)
    return " ".join(plain.split())[:_LONGEST_NAME]


def same_caller(one: str | None, other: str | None) -> bool:
    """Whether two records were signed by one caller, even if its name was changed in between."""
    return _identity(one) == _identity(other)


def _identity(signature: str | None) -> str | None:
    found = _SIGNED.fullmatch(signature or "")
    return found["id"] if found else signature
