"""Semantic ranking: the cross-encoder over the first 50 rows, and extractive captions.

The score is 4 * sigmoid(logit): Azure's range of 0 to 4, not its calibration, and not its model. Rows past the
first 50 are not returned.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from infra.local.analysis import analyzer
from infra.local.definition import SemanticConfiguration
from infra.local.errors import semantic_not_available
from infra.local.keyword import texts_at
from infra.local.models import ModelMissingError
from infra.local.query import Captions
from infra.local.ranking import Ranked

DEPTH = 50
_SENTENCE = re.compile(r"[^.!?。！？؟\n]+[.!?。！？؟]*")
_WORD = re.compile(r"\w+")
_LONGEST_CAPTION = 600
_CAPTION_ANALYZER = "en.lucene"


class Judge(Protocol):
    """The cross-encoder."""

    def logits(self, query: str, passages: Sequence[str]) -> list[float]: ...

    def reranker_digest(self) -> str: ...


class ScoreCache(Protocol):
    """Logits by model, query and passage."""

    def scores(self, model: str, query: str, passages: Sequence[str]) -> dict[str, float]: ...

    def keep_scores(self, model: str, query: str, scores: Mapping[str, float]) -> None: ...


def rerank(
    ranked: Sequence[Ranked],
    query: str,
    passages: Mapping[int, str],
    judge: Judge,
    cache: ScoreCache,
) -> list[Ranked]:
    """The first 50 by reranker score, ties in the order they came; `passages` by row."""
    rows = list(ranked[:DEPTH])
    scores = _scores(query, [passages[hit.row] for hit in rows], judge, cache)
    for hit in rows:
        hit.reranker_score = scores[passages[hit.row]]
    return sorted(rows, key=lambda hit: -(hit.reranker_score or 0.0))


def passage(body: Mapping[str, Any], configuration: SemanticConfiguration) -> str:
    """What the cross-encoder reads of a row: title, content, keywords."""
    title = [configuration.title] if configuration.title else []
    paths = (*title, *configuration.content, *configuration.keywords)
    return "\n".join(text for path in paths for text in texts_at(body, path))


def captions(
    body: Mapping[str, Any], configuration: SemanticConfiguration, query: str, wanted: Captions
) -> list[dict[str, Any]]:
    """The sentence of the content that shares most words with the query, the first of equals."""
    sentences = [
        sentence.strip()[:_LONGEST_CAPTION]
        for path in configuration.content
        for text in texts_at(body, path)
        for sentence in _SENTENCE.findall(text)
        if sentence.strip()
    ]
    if not sentences:
        return []
    terms = set(analyzer(_CAPTION_ANALYZER)(query))
    best = max(sentences, key=lambda sentence: len(terms & set(analyzer(_CAPTION_ANALYZER)(sentence))))
    caption = {"text": best}
    if wanted.highlight:
        caption["highlights"] = _highlighted(best, terms)
    return [caption]


def _scores(query: str, passages: Sequence[str], judge: Judge, cache: ScoreCache) -> dict[str, float]:
    """0 to 4 by passage. Empty passages score 0: there is nothing to read."""
    try:
        model = judge.reranker_digest()
        texts = sorted({text for text in passages if text.strip()}, key=lambda text: (len(text), text))
        logits = cache.scores(model, query, texts)
        missing = [text for text in texts if text not in logits]
        if missing:
            judged = dict(zip(missing, judge.logits(query, missing), strict=True))
            cache.keep_scores(model, query, judged)
            logits |= judged
    except ModelMissingError as error:
        raise semantic_not_available() from error
    return {text: 4 / (1 + math.exp(-logits[text])) if text in logits else 0.0 for text in passages}


def _highlighted(sentence: str, terms: set[str]) -> str:
    """The sentence with matching words in <em>; empty when none matches, as Azure does."""
    analyze = analyzer(_CAPTION_ANALYZER)

    def marked(word: re.Match[str]) -> str:
        return f"<em>{word[0]}</em>" if terms & set(analyze(word[0])) else word[0]

    text = _WORD.sub(marked, sentence)
    return text if text != sentence else ""
