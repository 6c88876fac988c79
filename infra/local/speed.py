"""`python -m infra.local.speed`: how long the cross-encoder takes for the 50 rows of one semantic query here."""

import random
import time
from collections.abc import Sequence

from infra.local.models import CrossEncoder
from infra.local.semantic import DEPTH

_TEXT = "the employee plan covers leave for care of a child and pays half the cost of glasses each year"
_PASSAGE_WORDS = 150
_QUERY = "how many days of leave do I get in the first year"
_ROUNDS = 3


def passages(seed: int) -> list[str]:
    """50 made-up passages of 150 words."""
    draw = random.Random(seed)
    return [" ".join(draw.choices(_TEXT.split(), k=_PASSAGE_WORDS)) for _ in range(DEPTH)]


def seconds(encoder: CrossEncoder, texts: Sequence[str]) -> float:
    """The best of three rounds: other work on the machine only adds."""
    rounds = []
    for _ in range(_ROUNDS):
        started = time.perf_counter()
        for text in texts:
            encoder.logit(_QUERY, text)
        rounds.append(time.perf_counter() - started)
    return min(rounds)


def main() -> None:
    for max_tokens in (512, 256, 128):
        encoder = CrossEncoder(threads=2, max_tokens=max_tokens)
        print(
            f"{DEPTH} passages of {_PASSAGE_WORDS} words, at most {max_tokens} tokens: ", end="", flush=True
        )
        print(f"{seconds(encoder, passages(seed=1)):.2f} s")


if __name__ == "__main__":
    main()
