"""`$filter`: Azure's subset of OData, read by odata-query and evaluated over plain rows.

A comparison with null follows OData: `x eq null` tells whether x is null, any other comparison with a null is
false, and `x ne 'a'` is true of a null.
"""

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from odata_query import ast
from odata_query.exceptions import ODataException
from odata_query.grammar import ODataLexer, ODataParser

from infra.local.definition import Definition
from infra.local.errors import ServiceError, bad_request, not_imitated, unknown_property

Row = Mapping[str, Any]
Predicate = Callable[[Row], bool]
_Value = Callable[[Row], Any]

_ORDER: dict[type, Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_MIRRORED: dict[type, type] = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}
_SPECIAL = {"INF": math.inf, "-INF": -math.inf, "NaN": math.nan}


def compile_filter(text: str, definition: Definition) -> Predicate:
    """The filter as a function of a row; `ServiceError` 400 where Azure would refuse it."""
    try:
        tree = ODataParser().parse(ODataLexer().tokenize(text))
    except ODataException as error:
        raise _invalid(str(error)) from error
    if tree is None:
        raise _invalid("the expression is empty")
    return _Compiler(definition).predicate(tree)


class _Compiler:
    """Turns the tree into closures. `variables` maps lambda variables to the path they range over."""

    def __init__(self, definition: Definition, variables: Mapping[str, str] | None = None) -> None:
        self._definition = definition
        self._variables = dict(variables or {})

    def predicate(self, node: Any) -> Predicate:
        match node:
            case ast.BoolOp(op=ast.And(), left=left, right=right):
                first, second = self.predicate(left), self.predicate(right)
                return lambda row: first(row) and second(row)
            case ast.BoolOp(op=ast.Or(), left=left, right=right):
                first, second = self.predicate(left), self.predicate(right)
                return lambda row: first(row) or second(row)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                inner = self.predicate(operand)
                return lambda row: not inner(row)
            case ast.Compare(comparator=comparator, left=left, right=right):
                return self._comparison(comparator, left, right)
            case ast.CollectionLambda(owner=owner, operator=quantifier, lambda_=body):
                return self._quantified(owner, quantifier, body)
            case ast.Call():
                return self._call(node)
            case ast.Boolean():
                value = bool(node.py_val)
                return lambda _: value
            case ast.Identifier() | ast.Attribute():
                read = self._boolean_field(node)
                return lambda row: read(row) is True
            case _:
                raise _invalid(f"'{type(node).__name__}' is not a condition")

    def _comparison(self, comparator: Any, left: Any, right: Any) -> Predicate:
        if _is_field(left) and _is_literal(right):
            return self._field_comparison(type(comparator), left, right)
        if _is_literal(left) and _is_field(right):
            return self._field_comparison(_MIRRORED.get(type(comparator), type(comparator)), right, left)
        if isinstance(left, ast.Call) or isinstance(right, ast.Call):
            raise not_imitated("comparing the result of a function in a filter.")
        raise _invalid("a comparison needs a field and a constant")

    def _field_comparison(self, comparator: type, node: Any, literal: Any) -> Predicate:
        path, read = self._path(node), self._reader(node)
        kind = self._kind(path, in_lambda=self._is_variable(node))
        if kind.startswith("Collection("):
            raise _invalid(f"the field '{path}' is a collection: use any or all")
        constant = _constant(literal, kind, path)
        if comparator is ast.Eq:
            return lambda row: bool(_typed(read(row), kind) == constant)
        if comparator is ast.NotEq:
            return lambda row: bool(_typed(read(row), kind) != constant)
        compare = _ORDER.get(comparator)
        if compare is None:
            raise _invalid(f"the operator '{comparator.__name__.lower()}' is not supported")
        if constant is None:
            return lambda _: False
        return lambda row: (value := _typed(read(row), kind)) is not None and compare(value, constant)

    def _quantified(self, owner: Any, quantifier: Any, body: Any) -> Predicate:
        read, path = self._reader(owner), self._path(owner)
        if not self._kind(path, in_lambda=self._is_variable(owner)).startswith("Collection("):
            raise _invalid(f"the field '{path}' is not a collection")
        if body is None:
            return lambda row: bool(read(row))
        name = body.identifier.name
        inner = _Compiler(self._definition, {**self._variables, name: path}).predicate(body.expression)
        test: Callable[[Iterable[bool]], bool] = any if isinstance(quantifier, ast.Any) else all
        return lambda row: test(inner({**row, f"${name}": item}) for item in read(row) or [])

    def _call(self, call: Any) -> Predicate:
        name = call.func.full_name()
        if name != "search.in":
            raise not_imitated(f"the function '{name}' in a filter.")
        if len(call.args) not in {2, 3} or not all(isinstance(part, ast.String) for part in call.args[1:]):
            raise _invalid("search.in takes a field, a string of values and, at most, a string of delimiters")
        field, values, *delimiters = call.args
        path = self._path(field)
        if self._kind(path, in_lambda=self._is_variable(field)) != "Edm.String":
            raise _invalid(f"search.in: the field '{path}' is not a string")
        wanted = _split(values.val, delimiters[0].val if delimiters else " ,")
        read = self._reader(field)
        return lambda row: read(row) in wanted

    def _boolean_field(self, node: Any) -> _Value:
        path = self._path(node)
        if self._kind(path, in_lambda=self._is_variable(node)) != "Edm.Boolean":
            raise _invalid(f"the field '{path}' is not a boolean")
        return self._reader(node)

    def _kind(self, path: str, *, in_lambda: bool) -> str:
        """The EDM type of a path; inside a lambda, of one item of the collection."""
        field = self._definition.fields.get(path)
        if field is None:
            raise unknown_property(path, "$filter")
        if not field.filterable and "ComplexType" not in field.type:
            raise _invalid(
                f"'{path}' is not a filterable field. Only filterable fields can be used in filter expressions."
            )
        return field.type.removeprefix("Collection(").removesuffix(")") if in_lambda else field.type

    def _path(self, node: Any) -> str:
        match node:
            case ast.Identifier(name=name):
                return self._variables.get(name, name)
            case ast.Attribute(owner=owner, attr=attribute):
                return f"{self._path(owner)}/{attribute}"
            case _:
                raise _invalid("expected a field")

    def _is_variable(self, node: Any) -> bool:
        return isinstance(node, ast.Identifier) and node.name in self._variables

    def _reader(self, node: Any) -> _Value:
        match node:
            case ast.Identifier(name=name):
                key = f"${name}" if name in self._variables else name
                return lambda row: row.get(key)
            case ast.Attribute(owner=owner, attr=attribute):
                outer = self._reader(owner)
                return lambda row: (outer(row) or {}).get(attribute)
            case _:
                raise _invalid("expected a field")


def _is_field(node: Any) -> bool:
    return isinstance(node, ast.Identifier | ast.Attribute) and not _is_special(node)


def _is_literal(node: Any) -> bool:
    return not isinstance(node, ast.Identifier | ast.Attribute | ast.Call) or _is_special(node)


def _is_special(node: Any) -> bool:
    return isinstance(node, ast.Identifier) and node.name in _SPECIAL


def _constant(literal: Any, kind: str, path: str) -> Any:
    """The constant as a value of the field's type; 400 when the types do not meet."""
    if isinstance(literal, ast.Null):
        return None
    if _is_special(literal):
        return _SPECIAL[literal.name]
    if not isinstance(literal, _LITERALS.get(kind, ())):
        raise _invalid(f"the field '{path}' of type '{kind}' cannot be compared with this constant")
    value = literal.py_val
    return moment(literal.val) if kind == "Edm.DateTimeOffset" else value


_LITERALS: Mapping[str, tuple[type[Any], ...]] = {
    "Edm.String": (ast.String,),
    "Edm.Boolean": (ast.Boolean,),
    "Edm.Int32": (ast.Integer, ast.Float),
    "Edm.Int64": (ast.Integer, ast.Float),
    "Edm.Double": (ast.Integer, ast.Float),
    "Edm.DateTimeOffset": (ast.DateTime, ast.Date),
}


def _typed(value: Any, kind: str) -> Any:
    """The value in a form that compares: dates as moments, NaN and INF, which arrive as text, as numbers."""
    if kind == "Edm.DateTimeOffset" and isinstance(value, str):
        return moment(value)
    return float(value) if kind == "Edm.Double" and isinstance(value, str) else value


def moment(text: str) -> datetime:
    """A date as a moment in UTC, so that moments written with different offsets compare."""
    try:
        value = datetime.fromisoformat(text)
    except ValueError as error:
        raise bad_request(f"'{text}' is not a date with an offset.") from error
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def _split(values: str, delimiters: str) -> frozenset[str]:
    """The values of search.in: an empty delimiter string means the whole text is one value."""
    if not delimiters:
        return frozenset({values})
    parts = re.split(f"[{re.escape(delimiters)}]", values)
    return frozenset(part for part in parts if part)


def _invalid(why: str) -> ServiceError:
    return bad_request(f"Invalid expression: {why}.\r\nParameter name: $filter")
