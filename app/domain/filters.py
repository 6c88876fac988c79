"""Which fields an OData filter reads."""

import re

_LITERAL = re.compile(r"'(?:[^']|'')*'")
_RANGE_VARIABLE = re.compile(r"/(?:any|all)\s*\(\s*([A-Za-z_]\w*)\s*:")
_PATH = re.compile(r"(?<![\w.])[A-Za-z_]\w*(?:/\w+)*")
_CALL = re.compile(r"(?:search|geo)\.\w+(?=\s*\()")
_WORDS = frozenset(
    {"and", "or", "not", "eq", "ne", "gt", "ge", "lt", "le", "null", "true", "false", "geography"}
)


def filter_fields(filter_: str) -> tuple[str, ...]:
    """The top-level fields that the filter names, once each, in order. Not a parser: literals, functions,
    operators and the variables of `any` and `all` are left out, what remains are fields.
    """
    bare = _CALL.sub(" ", _LITERAL.sub(" ", filter_))
    variables = set(_RANGE_VARIABLE.findall(bare))
    paths = (found[0].split("/")[0] for found in _PATH.finditer(bare))
    names = (name for name in paths if name not in _WORDS | variables)
    return tuple(dict.fromkeys(names))
