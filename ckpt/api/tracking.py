# SPDX-License-Identifier: MIT
"""Track live objects: save them with every checkpoint, and restore them on rollback.

A save refuses an object that cannot be recreated from its stored form. A restore validates all
objects, then changes each in place; if one fails, all return to their previous state.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import PurePath
from typing import Any

from ckpt.codec import dump_state, load_state
from ckpt.errors import RollbackError, UsageError


class TrackedObjects:
    """The objects that one manager tracks, by name."""

    def __init__(self) -> None:
        self._things: dict[str, Any] = {}

    def add(self, name: str, thing: Any) -> None:
        if _kind(thing) is None:
            raise UsageError(
                f"'{name}' cannot be tracked: it is of type '{type(thing).__qualname__}'",
                hint="pass a dataclass, a pydantic model or a dict, or add capture() and restore()",
            )
        self._things[name] = thing

    def stored(self, *, forgiving: bool = False) -> dict[str, Any]:
        """Copy the values to store; raise UsageError for one that cannot be restored, or omit it if
        `forgiving`."""
        found = {}
        for name, thing in tuple(self._things.items()):
            try:
                found[name] = _copied(name, thing)
            except Exception:  # the object's own code may raise anything
                if not forgiving:
                    raise
        return found

    def differ(self, saved: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
        """Return whether restoring `saved` would change an object from its value in `now`."""
        known = [name for name in self._things if name in saved]
        return any(
            name not in now or dump_state(saved[name], name) != dump_state(now[name], name)
            for name in known
        )

    @contextmanager
    def put_back(self, saved: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
        """Restore the saved objects and yield their names; change none if one object fails or the
        block raises."""
        states = self._checked(saved)
        before: dict[str, Any] = {}
        failing = None
        try:
            for name in sorted(states):
                failing = name
                before[name] = _state(self._things[name])
                _put(self._things[name], states[name])
            failing = None
            yield tuple(sorted(states))
        except BaseException as error:
            lost = self._undo(before)
            if failing is None or not isinstance(error, Exception):
                raise
            hint = "nothing was changed; track(…) again, or leave the object out"
            raise RollbackError(
                f"cannot put '{failing}' back: {_first_line(error)}",
                hint=f"'{lost[0]}' could not be returned to what it was" if lost else hint,
                details={"object": failing, "lost": lost},
            ) from error

    def _checked(self, saved: Mapping[str, Any]) -> dict[str, Any]:
        """Return the validated states of the objects that were saved."""
        states = {}
        for name in [name for name in self._things if name in saved]:
            try:
                copy = load_state(dump_state(saved[name], name))
                states[name] = _made(self._things[name], copy)
            except Exception as error:  # a validator may raise anything
                raise RollbackError(
                    f"the saved state of '{name}' does not fit it: {_first_line(error)}",
                    hint="nothing was touched",
                    details={"object": name},
                ) from error
        return states

    def _undo(self, before: dict[str, Any]) -> list[str]:
        """Return objects to their previous state; return the names of those that failed."""
        lost = []
        for name in reversed(before):
            try:
                _put(self._things[name], before[name])
            except BaseException:  # even on Ctrl-C, continue with the other objects
                lost.append(name)
        return lost


def _copied(name: str, thing: Any) -> Any:
    try:
        copy = load_state(dump_state(_stored(thing), name))
        made = _made(thing, copy)
        state = made if _kind(thing) == "own" else _state(thing)
    except (AttributeError, TypeError, ValueError) as error:  # such as a field without a value
        raise UsageError(
            f"'{name}' cannot be captured: {_first_line(error)}",
            hint="give every field a value, or the object capture() and restore()",
        ) from error
    if not _is_same(state, made):
        keys = state if isinstance(state, dict) else ()
        places = [f"{name}.{key}" for key in keys if not _is_same(state[key], made.get(key))]
        place = places[0] if places else name
        raise UsageError(
            f"'{place}' would not come back as it is",
            hint="leave it out of what is tracked, or give the object capture() and restore()",
            details={"key": place},
        )
    return copy


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__


# -- Kinds of objects


def _kind(thing: Any) -> str | None:
    cls = type(thing)
    if callable(getattr(thing, "capture", None)) and callable(getattr(thing, "restore", None)):
        return "own"
    if hasattr(cls, "model_validate_json") and hasattr(cls, "model_dump_json"):
        return "model"
    if dataclasses.is_dataclass(cls):
        return "dataclass"
    return "container" if isinstance(thing, dict | list) else None


def _stored(thing: Any) -> Any:
    """Return the value to store."""
    match _kind(thing):
        case "own":
            return thing.capture()
        case "model":
            return json.loads(thing.model_dump_json(by_alias=True, round_trip=True))
        case "dataclass":
            return _plain(thing)
        case _:
            return thing


def _made(thing: Any, value: Any) -> Any:
    """Convert a stored value to a state of the object; raise if it does not fit."""
    match _kind(thing):
        case "model":
            return _state(type(thing).model_validate_json(json.dumps(value)))
        case "dataclass":
            return _fields_of(type(thing), value)
        case "container" if not isinstance(value, dict if isinstance(thing, dict) else list):
            raise ValueError(f"it was a {type(value).__name__}")
        case _:  # only the object's own code can check this value
            return value


def _state(thing: Any) -> Any:
    """Copy the fields or items of an object, or call its `capture`."""
    match _kind(thing):
        case "own":
            return load_state(dump_state(thing.capture(), "state"))
        case "dataclass":
            return {field.name: getattr(thing, field.name) for field in _fields(thing)}
        case _:  # a model is iterated by its fields
            return list(thing) if isinstance(thing, list) else dict(thing)


def _put(thing: Any, state: Any) -> None:
    """Set the state of an object in place."""
    match _kind(thing):
        case "own":
            thing.restore(state)
        case "model" | "dataclass":  # even if frozen
            extra = getattr(thing, "__pydantic_extra__", None)
            if extra is not None:
                names = type(thing).model_fields
                extra.clear()
                extra.update((name, state[name]) for name in state if name not in names)
                state = {name: state[name] for name in names}
            _set_fields(thing, state)
        case _:
            thing.clear()
            (thing.update if isinstance(thing, dict) else thing.extend)(state)


# -- Converting dataclasses to plain values, and back by their annotations


def _plain(value: Any) -> Any:
    """Replace dataclasses, enums and paths in a value by plain values."""
    cls = type(value)
    if dataclasses.is_dataclass(cls):
        return {field.name: _plain(getattr(value, field.name)) for field in _fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, PurePath):
        return str(value)
    # Copy containers first: another thread may add to them.
    if cls in (list, tuple, set, frozenset):
        return cls(map(_plain, tuple(value)))
    if cls is dict:
        return {_plain(key): _plain(item) for key, item in tuple(value.items())}
    return value


def _fields_of(cls: type[Any], value: Any) -> dict[str, Any]:
    """Convert a plain value to the fields of a dataclass; raise ValueError if it does not fit."""
    if not isinstance(value, dict):
        raise ValueError(f"'{type(value).__qualname__}' holds no fields")
    fields = {field.name: field for field in _fields(cls)}
    unknown = sorted(value.keys() - fields.keys(), key=str)
    if unknown:
        raise ValueError(f"{unknown[0]}: there is no such field any more")
    try:
        hints = typing.get_type_hints(cls)
    except Exception:  # names that only a type checker imports
        hints = {}
    found = {}
    for name, field in fields.items():
        if name in value:
            found[name] = _by_hint(hints.get(name), value[name])
        elif field.default is not dataclasses.MISSING:  # a field added to the class since
            found[name] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            found[name] = field.default_factory()
        else:
            raise ValueError(f"{name}: nothing was saved of this field")
    return found


def _by_hint(hint: Any, value: Any) -> Any:
    """Convert a plain value to the type of an annotation."""
    origin, wanted = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        for each in wanted:  # the first member that converts the value
            with suppress(Exception):
                found = _by_hint(each, value)
                if type(found) is not type(value) or found != value:
                    return found
        return value
    if origin is dict and isinstance(value, dict):
        return {_by_hint(wanted[0], key): _by_hint(wanted[1], item) for key, item in value.items()}
    if origin in (list, set, frozenset, tuple) and isinstance(value, origin):
        if origin is not tuple or wanted[1:] == (...,):
            wanted = wanted[:1] * len(value)
        return origin(_by_hint(each, item) for each, item in zip(wanted, value, strict=True))
    if not isinstance(hint, type):
        return value
    if dataclasses.is_dataclass(hint) and isinstance(value, dict):
        thing = object.__new__(hint)
        _set_fields(thing, _fields_of(hint, value))
        return thing
    return hint(value) if issubclass(hint, Enum | PurePath) else value


def _is_same(expected: Any, found: Any) -> bool:
    """Return whether two values are equal, and of the same types."""
    cls = type(expected)
    if cls is not type(found):
        return False
    if dataclasses.is_dataclass(cls):
        names = [field.name for field in _fields(cls)]
        return all(_is_same(getattr(expected, n), getattr(found, n)) for n in names)
    if cls is dict:
        is_equal = expected.keys() == found.keys()
        return is_equal and all(_is_same(expected[key], found[key]) for key in expected)
    if cls in (list, tuple):
        return len(expected) == len(found) and all(map(_is_same, expected, found))
    return bool(expected == found)


def _fields(of: Any) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(of)


def _set_fields(thing: Any, fields: Mapping[str, Any]) -> None:
    for name, value in fields.items():
        object.__setattr__(thing, name, value)
