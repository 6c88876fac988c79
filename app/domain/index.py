"""What an index definition tells: its fields' parts in the comparison, its semantic configuration, its digest.

A definition is the service's JSON as it stands (`GET /indexes('name')`); unknown properties are kept.
Shapes that are recognised without being configured: the portal's import wizard, index projections,
knowledge sources, azure-search-openai-demo, LangChain, LlamaIndex, Haystack.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.domain.check import Check, Level
from app.domain.fingerprint import json_digest
from app.domain.query import QuerySettings
from app.domain.reasons import Code

Definition = Mapping[str, Any]

_PARENT_NAMES = (
    "parent_id",
    "snippet_parent_id",
    "sourcefile",
    "doc_id",
    "document_id",
    "parent_document_id",
    "source_document_id",
)
_TEXT_NAMES = ("chunk", "content", "snippet", "text", "page_content")
_TITLE_NAMES = ("title",)
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,126}[a-z0-9]")
_METADATA_PARENT = "metadata/source"  # LangChain keeps the source inside a JSON string


def is_index_name(text: str) -> bool:
    """Whether an index or alias may have this name: 2 to 128 of `a-z0-9_-`, the first and last a letter or digit."""
    return _NAME.fullmatch(text) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """The fields that a side's query uses. `parent` may be a path, `field/key`, into a complex field or into
    a JSON string. `semantic_configuration` None: the query names none, or the ranker is off.
    """

    key: str | None = None
    parent: str
    text: str | None = None
    title: str | None = None
    vectors: tuple[str, ...] = ()
    semantic_configuration: str | None = None

    @property
    def selected(self) -> tuple[str, ...]:
        """The top-level fields to ask for, once each."""
        names = (self.key, self.parent.split("/")[0], self.text, self.title)
        return tuple(dict.fromkeys(name for name in names if name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """The fields of one side, or the blocking findings that say why there are none."""

    fields: Fields | None
    checks: tuple[Check, ...] = ()


def definition_digest(definition: Definition) -> str:
    """`sha256:…` over the definition without its etag and secrets; the order of keys makes no difference."""
    return json_digest(_without_secrets(definition))


_SECRETS = frozenset({"apiKey", "authIdentity", "applicationSecret", "@odata.etag", "e_tag"})


def _without_secrets(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_secrets(each) for key, each in value.items() if key not in _SECRETS}
    if isinstance(value, list):
        return [_without_secrets(each) for each in value]
    return value


def resolve(definition: Definition | None, query: QuerySettings, index: str) -> Resolution:
    """The fields of the query on this index: configured names first, else found in the definition.

    `definition` None: it may not be read; then the configured names alone must do.
    """
    if definition is None:
        return _from_names(query, index)
    finder = _Finder(index=index, definition=definition, query=query)
    fields = Fields(
        key=finder.key(),
        parent=finder.parent() or "",
        text=finder.text(),
        title=finder.title(),
        vectors=finder.vectors() if query.by_vector else (),
        semantic_configuration=finder.semantic_configuration() if query.semantic else None,
    )
    finder.refuse_permissions()
    checks = tuple(finder.checks)
    return Resolution(fields=None if checks else fields, checks=checks)


def _from_names(query: QuerySettings, index: str) -> Resolution:
    absent = [
        name
        for name, value in (("parent_field", query.parent_field), ("text_field", query.text_field))
        if value is None
    ]
    if query.by_vector and query.vector_fields is None:
        absent.append("vector_fields")
    if absent or query.parent_field is None:
        message = (
            f"The definition of index {index!r} may not be read (403), and the golden set's [query] does not "
            f"name {', '.join(absent)}: name them there, or give the identity a role with "
            "Microsoft.Search/searchServices/indexes/read."
        )
        check = Check(code=Code.FIELD_MISSING, level=Level.BLOCKING, message=message, index=index)
        return Resolution(fields=None, checks=(check,))
    fields = Fields(
        key=query.key_field,
        parent=query.parent_field,
        text=query.text_field,
        title=query.title_field,
        vectors=query.vector_fields or () if query.by_vector else (),
        semantic_configuration=query.semantic_configuration if query.semantic else None,
    )
    return Resolution(fields=fields)


@dataclass(slots=True, kw_only=True)
class _Finder:
    """Finds one index's fields, collecting what is wrong."""

    index: str
    definition: Definition
    query: QuerySettings
    checks: list[Check] = field(default_factory=list)

    # what the definition holds

    def all(self) -> list[Mapping[str, Any]]:
        return list(self.definition.get("fields") or [])

    def named(self, name: str) -> Mapping[str, Any] | None:
        return next((each for each in self.all() if each.get("name") == name), None)

    def strings(self) -> Iterable[Mapping[str, Any]]:
        return (each for each in self.all() if each.get("type") == "Edm.String" and _retrievable(each))

    def semantic(self) -> Mapping[str, Any]:
        return self.definition.get("semantic") or {}

    def prioritized(self) -> Mapping[str, Any]:
        """The prioritized fields of the semantic configuration that the query uses, if any."""
        wanted = self.query.semantic_configuration or self.semantic().get("defaultConfiguration")
        configurations = self.semantic().get("configurations") or []
        if wanted is None and len(configurations) == 1:
            wanted = configurations[0].get("name")
        for each in configurations:
            if each.get("name") == wanted:
                return each.get("prioritizedFields") or {}
        return {}

    # what the query needs

    def key(self) -> str | None:
        if self.query.key_field is not None:
            return self.configured("key_field", self.query.key_field)
        name = next((each["name"] for each in self.all() if each.get("key")), None)
        found = self.named(name) if name else None
        return name if found is not None and _retrievable(found) else None

    def parent(self) -> str | None:
        if self.query.parent_field is not None:
            return self.configured("parent_field", self.query.parent_field)
        choices = [each["name"] for each in self.strings() if each["name"] in _PARENT_NAMES]
        if not choices:
            choices = self.filterable_strings()
        if not choices and any(each["name"] == "metadata" for each in self.strings()):
            return _METADATA_PARENT
        return self.only_one("parent_field", choices)

    def filterable_strings(self) -> list[str]:
        """Filterable, non-key strings that no semantic configuration uses."""
        used = {*self.texts(), self.title()}
        return [
            each["name"]
            for each in self.strings()
            if each.get("filterable") and not each.get("key") and each["name"] not in used
        ]

    def text(self) -> str | None:
        if self.query.text_field is not None:
            return self.configured("text_field", self.query.text_field)
        return self.only_one("text_field", self.texts() or self.searchable_strings())

    def texts(self) -> list[str]:
        """What is known to be text: the configured field, else the semantic configuration's first content
        field, else all fields of a usual name.
        """
        if self.query.text_field is not None:
            return [self.query.text_field]
        known = [each["name"] for each in self.strings()]
        content = [each.get("fieldName") for each in self.prioritized().get("prioritizedContentFields") or []]
        first = [name for name in content if name in known][:1]
        return first or [name for name in known if name in _TEXT_NAMES]

    def searchable_strings(self) -> list[str]:
        """Searchable, non-key strings other than the title."""
        title = self.title()
        return [
            each["name"]
            for each in self.strings()
            if each.get("searchable") and not each.get("key") and each["name"] != title
        ]

    def title(self) -> str | None:
        if self.query.title_field is not None:
            return self.configured("title_field", self.query.title_field)
        semantic = (self.prioritized().get("titleField") or {}).get("fieldName")
        known = [each["name"] for each in self.strings()]
        return next((str(name) for name in (semantic, *_TITLE_NAMES) if name in known), None)

    def vectors(self) -> tuple[str, ...]:
        if self.query.vector_fields is not None:
            names = [
                self.configured("vector_fields", name, is_vector=True) for name in self.query.vector_fields
            ]
            found = tuple(name for name in names if name is not None)
        else:
            every = [each["name"] for each in self.all() if _is_vector(each)]
            usable = (
                [name for name in every if self.vectorizer(name)] if self.query.embedding is None else every
            )
            one = self.only_one("vector_fields", usable or every)
            found = (one,) if one else ()
        if self.query.embedding is None:
            for name in found:
                self.need_vectorizer(name)
        return found

    def vectorizer(self, name: str) -> str | None:
        """The name of the vectorizer that turns a question's text into a vector for this field."""
        profile = (self.named(name) or {}).get("vectorSearchProfile")
        for each in (self.definition.get("vectorSearch") or {}).get("profiles") or []:
            if each.get("name") == profile:
                vectorizer = each.get("vectorizer")
                return str(vectorizer) if vectorizer else None
        return None

    def need_vectorizer(self, name: str) -> None:
        if not self.vectorizer(name):
            self.block(
                Code.NO_VECTORIZER,
                f"The vector field {name!r} of index {self.index!r} has no vectorizer, so it cannot be asked "
                "with a question's text: give its profile a vectorizer, or the golden set a [query.embedding].",
            )

    def semantic_configuration(self) -> str | None:
        names = [str(each.get("name")) for each in self.semantic().get("configurations") or []]
        default = self.semantic().get("defaultConfiguration")
        wanted = self.query.semantic_configuration or default or (names[0] if len(names) == 1 else None)
        if wanted in names:
            return str(wanted)
        if wanted is not None:
            what = f"has no semantic configuration {wanted!r}; it has: {', '.join(names) or 'none'}"
        elif names:
            what = f"has no default semantic configuration; choose one of {', '.join(names)}"
        else:
            what = "has no semantic configuration"
        self.block(
            Code.SEMANTIC_UNAVAILABLE,
            f"Index {self.index!r} {what} (semantic_configuration in the golden set's [query], or semantic = "
            "false if the application does not use the ranker).",
        )
        return None

    def refuse_permissions(self) -> None:
        option = str(self.definition.get("permissionFilterOption") or "disabled").lower()
        fields = [str(each.get("name")) for each in self.all() if each.get("permissionFilter")]
        if option == "enabled" or fields:
            self.block(
                Code.ACCESS_CONTROLLED,
                f"Index {self.index!r} filters by the caller's permissions "
                f"({', '.join(fields) or 'permissionFilterOption'}): an application's identity sees its public "
                "documents only, so every other answer would look lost.",
            )

    # findings

    def configured(self, setting: str, path: str, *, is_vector: bool = False) -> str | None:
        """The configured field if it can be used, else None and a finding."""
        name = path.split("/", maxsplit=1)[0]
        found = self.named(name)
        if found is None:
            self.block(
                Code.FIELD_MISSING,
                f"Index {self.index!r} has no field {name!r} ({setting}); it has: {self.names()}.",
            )
            return None
        if not is_vector and not _retrievable(found):
            self.block(
                Code.FIELD_MISSING,
                f"The field {name!r} ({setting}) of index {self.index!r} is not retrievable, so its value "
                "cannot be compared.",
            )
            return None
        if is_vector and not _is_vector(found):
            self.block(
                Code.FIELD_MISSING,
                f"The field {name!r} ({setting}) of index {self.index!r} is not a vector field.",
            )
            return None
        return path

    def only_one(self, setting: str, choices: list[str]) -> str | None:
        """The only choice; several, or none, are a finding that names them."""
        if len(choices) == 1:
            return choices[0]
        what = f"could be any of {', '.join(choices)}" if choices else "was not found"
        self.block(
            Code.FIELD_MISSING,
            f"In index {self.index!r} the field for {setting} {what}: set {setting} in the golden set's [query] "
            f"(or in [query.baseline] or [query.candidate] for one side). The index has: {self.names()}.",
        )
        return None

    def names(self) -> str:
        return ", ".join(str(each.get("name")) for each in self.all()) or "no fields"

    def block(self, code: Code, message: str) -> None:
        check = Check(code=code, level=Level.BLOCKING, message=message, index=self.index)
        if check not in self.checks:
            self.checks.append(check)


def _retrievable(field_: Mapping[str, Any]) -> bool:
    return field_.get("retrievable") is not False and field_.get("hidden") is not True


def _is_vector(field_: Mapping[str, Any]) -> bool:
    return str(field_.get("type", "")).startswith("Collection(") and bool(field_.get("dimensions"))
