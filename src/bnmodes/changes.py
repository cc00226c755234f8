"""Changes of nested settings by dotted names: {"norm.bn_epsilon": 1e-3}."""

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from bnmodes.errors import UsageError
from bnmodes.nearest import nearest
from bnmodes.protocol import alpha

Record = TypeVar("Record")


def with_changes(record: Record, changes: Mapping[str, Any], prefix: str = "") -> Record:
    """A copy of a frozen dataclass in which the named fields have the given values.

    `a.b` is the field `b` of the record in field `a`. All changes of one record are made at once,
    so that two which are only valid together can be given together. An optional float is an update
    weight, and can be given as Flax momentum: "flax:0.99".
    """
    nested: dict[str, dict[str, Any]] = {}
    own: dict[str, Any] = {}
    hints = get_type_hints(type(record))
    for name, value in changes.items():
        first, _, rest = name.partition(".")
        if first not in hints:
            raise UsageError(_unknown(record, first, prefix))
        if rest:
            nested.setdefault(first, {})[rest] = value
        else:
            own[first] = _checked(hints[first], value, prefix + first)
    for name, inner in nested.items():
        value = own.get(name, getattr(record, name))
        if not is_dataclass(value):
            raise UsageError(
                f"{prefix}{name} is {value!r}, which has no field '{next(iter(inner))}': change "
                f"{prefix}{name} itself."
            )
        own[name] = with_changes(value, inner, f"{prefix}{name}.")
    return cast(Record, replace(cast(Any, record), **own))


def dotted(record: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The values of a nested record by dotted names, such as "norm.kind"."""
    flat: dict[str, Any] = {}
    for name, value in record.items():
        nested = isinstance(value, Mapping)
        flat |= dotted(value, f"{prefix}{name}.") if nested else {prefix + name: value}
    return flat


def _unknown(record: Any, name: str, prefix: str) -> str:
    known = [f.name for f in fields(record)]
    near = nearest(name, known)
    hint = f"did you mean '{prefix}{near}'?" if near else f"choose from {', '.join(known)}."
    return f"there is no setting '{prefix}{name}': {hint}"


def _checked(hint: Any, value: Any, name: str) -> Any:
    """The value for a field of this type, or a refusal."""
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    if get_origin(hint) in (Union, types.UnionType):
        kinds = [kind for kind in get_args(hint) if kind is not type(None)]
        if value is None and type(None) in get_args(hint):
            return None
        if kinds == [float] and isinstance(value, str):
            return alpha(value)
        hint = kinds[0]
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            choices = ", ".join(map(str, get_args(hint)))
            raise UsageError(f"{name} is {value!r}, but must be one of {choices}.")
        return value
    if not isinstance(hint, type):
        return value
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise UsageError(f"{name} is {value!r}, but must be of type {hint.__name__}.")
    return value
