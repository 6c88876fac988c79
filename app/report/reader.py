"""Who looks at a served page, and what it offers to them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """`name`: None where nobody signs in. `proof`: what every form of theirs carries, empty where none does."""

    name: str | None = None
    proof: str = ""
    may_review: bool = True
