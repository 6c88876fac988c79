"""Analyzers by Azure's names: text into terms, the same way when indexing and when asking.

Words are cut as Lucene's standard tokenizer cuts them (don't, 3.14 and example.com are one word; Han and
Hiragana one word a character); stop words and stemmers are tantivy's. The Microsoft analyzers lemmatise and
segment; here they do what the Lucene ones of the same language do. Chinese, Japanese and Korean analyzers give
overlapping pairs of characters, as Lucene's cjk does.
"""

import functools
import re
from collections.abc import Callable
from typing import Any

from tantivy import Filter, TextAnalyzerBuilder, Tokenizer

Analyzer = Callable[[str], list[str]]
"""Text in, terms out, in order, repeats kept."""

_STEMMED = {
    "ar": "arabic", "da": "danish", "de": "german", "el": "greek", "en": "english", "es": "spanish",
    "fi": "finnish", "fr": "french", "hu": "hungarian", "it": "italian", "nb": "norwegian", "nl": "dutch",
    "no": "norwegian", "pt-BR": "portuguese", "pt-PT": "portuguese", "ro": "romanian", "ru": "russian",
    "sv": "swedish", "ta": "tamil", "tr": "turkish",
}  # fmt: skip
_WITHOUT_STOPWORDS = frozenset({"arabic", "greek", "romanian", "tamil", "turkish"})
_PAIRED = frozenset({"zh-Hans", "zh-Hant", "ja", "ko"})
_PLAIN = frozenset({"standard.lucene", "standard", "simple", "stop", "whitespace", "keyword", "cjk"})

_LETTER = r"[^\W\d]"
_SINGLE = "\u3040-\u309f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_UNSPACED = _SINGLE + "\u30a0-\u30ff\uac00-\ud7af"
_WORD = re.compile(rf"[{_SINGLE}]|(?:[^\W{_SINGLE}]|(?<={_LETTER})['’.](?={_LETTER})|(?<=\d)[.,](?=\d))+")
_RUN = re.compile(rf"[{_UNSPACED}]+|[^\W{_UNSPACED}]+")
_POSSESSIVE = re.compile(r"['’][sS]$")


def is_supported(name: str) -> bool:
    language, _, maker = name.rpartition(".")
    return name in _PLAIN or (maker in {"lucene", "microsoft"} and language in _STEMMED.keys() | _PAIRED)


@functools.cache
def analyzer(name: str) -> Analyzer:
    """The analyzer of a supported name."""
    language = name.rpartition(".")[0]
    if name == "cjk" or language in _PAIRED:
        return _pairs
    if language in _STEMMED:
        return _stemming(_STEMMED[language])
    return _PLAIN_ANALYZERS[name]()


def _stemming(language: str) -> Analyzer:
    stopwords = [] if language in _WITHOUT_STOPWORDS else [Filter.stopword(language)]
    chain = _filters([Filter.lowercase(), *stopwords, Filter.stemmer(language)])

    def analyze(text: str) -> list[str]:
        words = _WORD.findall(text)
        if language == "english":
            words = [_POSSESSIVE.sub("", word) for word in words]
        return chain(" ".join(words))

    return analyze


def _stop() -> Analyzer:
    chain = _filters([Filter.stopword("english")])
    return lambda text: chain(" ".join(_letters(text)))


def _filters(steps: list[Any]) -> Analyzer:
    """Tantivy's filters over words that are already cut."""
    builder = TextAnalyzerBuilder(Tokenizer.whitespace())
    for step in steps:
        builder = builder.filter(step)
    built = builder.build()
    return lambda text: list(built.analyze(text))


def _standard(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _letters(text: str) -> list[str]:
    return re.findall(rf"{_LETTER}+", text.lower())


def _pairs(text: str) -> list[str]:
    return [term for run in _RUN.findall(text.lower()) for term in _pairs_of(run)]


def _pairs_of(run: str) -> list[str]:
    """A word as it is; a run of unspaced script as its pairs (a single character as itself)."""
    if not re.match(rf"[{_UNSPACED}]", run) or len(run) == 1:
        return [run]
    return [run[start : start + 2] for start in range(len(run) - 1)]


_PLAIN_ANALYZERS: dict[str, Callable[[], Analyzer]] = {
    "standard.lucene": lambda: _standard,
    "standard": lambda: _standard,
    "simple": lambda: _letters,
    "stop": _stop,
    "whitespace": lambda: str.split,
    "keyword": lambda: lambda text: [text],
}
