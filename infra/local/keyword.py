"""Keyword search: BM25 by tantivy over terms cut by our own analyzers.

User text is never given to a query parser. It is read here into clauses (words, "phrases", +required,
-excluded, prefix*), each clause is analysed for every field, and the terms become term queries; so no text can
fail. Parentheses and | are read as spaces. In the simple syntax an excluded word is a clause like any other
("or lacks this word" under searchMode any), as in Azure; in the full syntax it is a condition.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tantivy import Document as Entry
from tantivy import Index, Occur, Query, SchemaBuilder, TextAnalyzerBuilder, Tokenizer

from infra.local.analysis import analyzer
from infra.local.definition import Field
from infra.local.query import QueryType
from infra.local.store import Document

_SEPARATOR = "\x1f"
_CLAUSE = re.compile(r"""(?P<sign>[+-]?)(?:"(?P<phrase>[^"]*)"?|(?P<word>[^\s"()|]+))""")
_PHRASE_POSITIONS = "position"
_WRITER_BYTES = 128_000_000
_ROW = "row"
_WORDS_AS_OPERATORS = {"AND": "+", "NOT": "-"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """One thing the user asked for. Excluded and required together: no row with it, whatever else matches."""

    text: str
    required: bool = False
    excluded: bool = False
    phrase: bool = False
    prefix: bool = False


class KeywordIndex:
    """An immutable index over rows 0..n-1."""

    def __init__(self, fields: Sequence[Field], documents: Sequence[Document]) -> None:
        self._fields = {field.path: (f"t{number}", field) for number, field in enumerate(fields)}
        builder = SchemaBuilder().add_integer_field(_ROW, fast=True)
        for name, _ in self._fields.values():
            builder = builder.add_text_field(name, tokenizer_name="terms", index_option=_PHRASE_POSITIONS)
        self._schema = builder.build()
        index = Index(self._schema)
        terms = TextAnalyzerBuilder(Tokenizer.regex(f"[^{_SEPARATOR}]+")).build()
        index.register_tokenizer("terms", terms)
        self._fill(index, documents)
        self._searcher = index.searcher()
        self._size = len(documents)

    def search(
        self,
        text: str,
        *,
        paths: Sequence[str],
        weights: Mapping[str, float],
        match_all: bool,
        kind: QueryType,
    ) -> list[tuple[int, float]]:
        """Every matching row and its BM25 score, best first, ties by row."""
        query = self._query(read_clauses(text, kind), paths, weights, match_all=match_all)
        if query is None or not self._size:
            return []
        hits = self._searcher.search(query, limit=self._size, count=False).hits
        rows = self._searcher.fast_field_values(_ROW, [address for _, address in hits])
        found = [(int(row or 0), float(score)) for row, (score, _) in zip(rows, hits, strict=True)]
        return sorted(found, key=lambda hit: (-hit[1], hit[0]))

    def _fill(self, index: Any, documents: Sequence[Document]) -> None:
        writer = index.writer(heap_size=_WRITER_BYTES, num_threads=1)
        for row, document in enumerate(documents):
            entry = Entry()
            entry.add_integer(_ROW, row)
            for path, (name, field) in self._fields.items():
                analyze = analyzer(field.index_analyzer)
                for text in texts_at(document.body, path):
                    entry.add_text(name, _SEPARATOR.join(analyze(text)))
            writer.add_document(entry)
        writer.commit()
        writer.wait_merging_threads()
        index.reload()

    def _query(
        self,
        clauses: Sequence[Clause],
        paths: Sequence[str],
        weights: Mapping[str, float],
        *,
        match_all: bool,
    ) -> Any | None:
        """All clauses together; None when nothing can match (only stop words, only punctuation)."""
        parts = []
        for clause in clauses:
            query = self._clause_query(clause, paths, weights, match_all=match_all)
            if query is None:
                continue
            if clause.excluded and clause.required:
                parts.append((Occur.MustNot, query))
                continue
            if clause.excluded:
                query = Query.boolean_query([(Occur.Must, Query.all_query()), (Occur.MustNot, query)])
            parts.append((Occur.Must if clause.required or match_all else Occur.Should, query))
        finds = any(occur != Occur.MustNot for occur, _ in parts)
        return Query.boolean_query(parts) if finds else None

    def _clause_query(
        self, clause: Clause, paths: Sequence[str], weights: Mapping[str, float], *, match_all: bool
    ) -> Any | None:
        """A clause in any of the fields, scores of the fields added."""
        queries = []
        for path in paths:
            query = self._field_query(clause, path, match_all=match_all)
            if query is not None:
                weight = weights.get(path, 1.0)
                queries.append((Occur.Should, query if weight == 1.0 else Query.boost_query(query, weight)))
        return Query.boolean_query(queries) if queries else None

    def _field_query(self, clause: Clause, path: str, *, match_all: bool) -> Any | None:
        name, field = self._fields[path]
        if clause.prefix:
            return Query.regex_query(self._schema, name, _literal(clause.text.lower()) + ".*")
        terms = [term for term in analyzer(field.search_analyzer)(clause.text) if term]
        if not terms:
            return None
        if clause.phrase and len(terms) > 1:
            return Query.phrase_query(self._schema, name, list(enumerate(terms)))
        occur = Occur.Must if match_all else Occur.Should
        return Query.boolean_query([(occur, Query.term_query(self._schema, name, term)) for term in terms])


def read_clauses(text: str, kind: QueryType) -> list[Clause]:
    """User text as clauses. With the full syntax the words AND, OR and NOT are operators."""
    clauses: list[Clause] = []
    pending = ""
    for found in _CLAUSE.finditer(text):
        sign, phrase, word = found["sign"] or pending, found["phrase"], found["word"] or ""
        if kind is QueryType.FULL and word in {"AND", "OR", "NOT"}:
            pending = _WORDS_AS_OPERATORS.get(word, "")
            if word == "AND" and clauses and not clauses[-1].excluded:
                clauses[-1] = _required(clauses[-1])
            continue
        pending = ""
        prefix = phrase is None and len(word) > 1 and word.endswith("*")
        clauses.append(
            Clause(
                text=phrase if phrase is not None else word.rstrip("*"),
                required=sign == "+" or (sign == "-" and kind is QueryType.FULL),
                excluded=sign == "-",
                phrase=phrase is not None,
                prefix=prefix,
            )
        )
    return clauses


def texts_at(body: Mapping[str, Any], path: str) -> list[str]:
    """The strings at a path, through complex types and collections."""
    values: list[Any] = [body]
    for name in path.split("/"):
        found = (value.get(name) for value in values if isinstance(value, dict))
        values = [item for value in found for item in (value if isinstance(value, list) else [value])]
    return [value for value in values if isinstance(value, str) and value]


def _literal(text: str) -> str:
    """The text as a regular expression of tantivy's, which is not Python's dialect."""
    return re.sub(r"[\\.+*?()|\[\]{}^$#&~-]", lambda found: "\\" + found[0], text)


def _required(clause: Clause) -> Clause:
    return Clause(text=clause.text, required=True, phrase=clause.phrase, prefix=clause.prefix)
