# SPDX-License-Identifier: MIT
"""Dataclasses to plain values and back, by the annotations of their fields.

What stands in a field may itself be a dataclass, a pydantic model, an enum or a path, alone or in
a list, tuple, set or dict, with or without `| None`. Everything else is left to `state`. No
`__init__` and no `__post_init__` is run: an object is what its fields are.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from enum import Enum
from pathlib import PurePath

from ckpt.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class NotLike(Exception):
    """A value that an object cannot have been made of."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(where, reason)
        self.where = where
        self.reason = reason


def taken_apart(value: Any, where: str) -> Any:
    """A value in which dataclasses, models, enums and paths are plain values."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: taken_apart(_field(value, field.name, where), f"{where}.{field.name}")
            for field in dataclasses.fields(value)
        }
    if isinstance(value, Enum):
        return taken_apart(value.value, where)
    if isinstance(value, PurePath):
        return str(value)
    if _is_model(type(value)):
        return taken_apart(value.model_dump(round_trip=True), where)
    if type(value) in (list, tuple):
        return type(value)(taken_apart(v, f"{where}[{n}]") for n, v in enumerate(tuple(value)))
    if type(value) is dict:
        return {
            _hashable(key, where): taken_apart(item, f"{where}.{key}")
            for key, item in tuple(value.items())
        }
    if type(value) in (set, frozenset):
        return type(value)(_hashable(item, where) for item in tuple(value))
    return value


def _field(thing: Any, name: str, where: str) -> Any:
    try:
        return getattr(thing, name)
    except AttributeError:
        raise UsageError(
            f"'{name}' of '{where.lstrip('.') or type(thing).__qualname__}' has no value yet",
            hint="give every field a value before the object is saved",
        ) from None


def _hashable(value: Any, where: str) -> Any:
    """A key, or an item of a set; a dataclass would be a dict there, which nothing holds."""
    plain = taken_apart(value, where)
    try:
        hash(plain)
    except TypeError:
        raise UsageError(
            f"'{where.lstrip('.')}' has a '{type(value).__qualname__}' in a set or for a key",
            hint="use a list, or give the object capture() and restore()",
        ) from None
    return plain


def fields_of(cls: type[Any], value: Any, where: str) -> dict[str, Any]:
    """The fields of a dataclass made of what `taken_apart` gave; NotLike if they do not fit."""
    if not isinstance(value, dict):
        raise NotLike(where, f"'{type(value).__qualname__}' holds no fields")
    fields = {field.name: field for field in dataclasses.fields(cls)}
    unknown = sorted(value.keys() - fields.keys(), key=str)
    if unknown:
        raise NotLike(f"{where}.{unknown[0]}", "there is no such field any more")
    hints = _hints(cls)
    return {
        name: made(hints.get(name), value[name], f"{where}.{name}")
        if name in value
        else _default(field, f"{where}.{name}")
        for name, field in fields.items()
    }


def _hints(cls: type[Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(cls)
    except Exception:  # names that only a type checker imports
        return {}


def _default(field: dataclasses.Field[Any], where: str) -> Any:
    """Of a field that the class has got since."""
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    raise NotLike(where, "nothing was saved of this field")


def made(hint: Any, value: Any, where: str) -> Any:
    """A value as an annotation wants it, made of its plain form."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _one_of(arguments, value, where)
    if origin is typing.Annotated:
        return made(arguments[0], value, where)
    if isinstance(value, dict) and origin is dict and len(arguments) == 2:
        key, item = arguments
        return {made(key, k, where): made(item, v, f"{where}.{k}") for k, v in value.items()}
    if isinstance(value, list) and origin is list:
        return [made(arguments[0], item, f"{where}[{n}]") for n, item in enumerate(value)]
    if isinstance(value, set | frozenset) and origin in (set, frozenset):
        return origin(made(arguments[0], item, where) for item in value)
    if isinstance(value, tuple) and origin is tuple:
        return _made_tuple(arguments, value, where)
    return _made_one(hint, value, where) if isinstance(hint, type) else value


def _made_one(cls: type[Any], value: Any, where: str) -> Any:
    if dataclasses.is_dataclass(cls) and isinstance(value, dict):
        thing = object.__new__(cls)
        for name, field in fields_of(cls, value, where).items():
            object.__setattr__(thing, name, field)
        return thing
    if _is_model(cls) and isinstance(value, dict):
        return cls.model_validate(value)
    if issubclass(cls, Enum):
        try:
            return cls(value)
        except ValueError as error:
            raise NotLike(where, str(error)) from None
    return cls(value) if issubclass(cls, PurePath) and isinstance(value, str) else value


def _made_tuple(arguments: tuple[Any, ...], value: tuple[Any, ...], where: str) -> tuple[Any, ...]:
    if len(arguments) == 2 and arguments[1] is ...:
        arguments = (arguments[0],) * len(value)
    if len(arguments) != len(value):
        return value
    return tuple(
        made(hint, item, f"{where}[{number}]")
        for number, (hint, item) in enumerate(zip(arguments, value, strict=True))
    )


def _one_of(hints: tuple[Any, ...], value: Any, where: str) -> Any:
    """Of several annotations, the first that a plain value can become something else by."""
    if value is None:
        return None
    for hint in hints:
        try:
            found = made(hint, value, where)
        except Exception:  # a validator may raise what it likes; another may take it
            continue
        if type(found) is not type(value) or found != value:
            return found
    return value


def _is_model(cls: type[Any]) -> bool:
    return hasattr(cls, "model_validate") and hasattr(cls, "model_dump")
