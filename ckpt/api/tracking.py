# SPDX-License-Identifier: MIT
"""Live objects that are saved with every checkpoint and put back with it.

Each is captured as a value that `state` can hold, and it is checked at once whether the object
could be made of that again: what cannot come back is refused at the save. To put objects back,
all are validated first; then each is changed in place, and if one fails, all are made again what
they were.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import partial
from pathlib import PurePath
from typing import Any

from ckpt import state
from ckpt.errors import RollbackError, UsageError
from ckpt.git import record

_LONGEST_NAME = 100
_MODEL_PARTS = ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__")


class NotLike(Exception):
    """A value that an object cannot have been made of."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(where, reason)
        self.where = where
        self.reason = reason


class TrackedObjects:
    """The objects that one manager tracks, by name."""

    def __init__(self) -> None:
        self._tracked: dict[str, Tracked] = {}
        self._turns: dict[str, str] = {}
        self._checked: dict[str, bytes] = {}

    def add(self, name: str, thing: Any, turn: str | None) -> None:
        if not name or len(name) > _LONGEST_NAME or not name.isprintable():
            raise UsageError(
                f"'{name}' is no name for an object",
                hint=f"pass printable text of at most {_LONGEST_NAME} characters",
            )
        kind = _kind_of(name, thing)
        if turn is not None:
            _turn_of(name, thing, turn)
        self.remove(name)
        self._tracked[name] = kind
        if turn is not None:
            self._turns[name] = turn

    def remove(self, name: str) -> None:
        for known in (self._tracked, self._turns, self._checked):
            known.pop(name, None)

    def turn(self) -> int | None:
        """The turn that an object says it is in, of several the first's."""
        for name, word in self._turns.items():
            return _turn_of(name, self._tracked[name].thing, word)
        return None

    def texts(self, *, forgiving: bool = False) -> record.Texts:
        """All of them as they will be stored; UsageError names what could not come back, or if
        `forgiving`, that is left out: it may be what is being undone."""
        found: record.Texts = {}
        for name, tracked in self._tracked.items():
            try:
                found |= self._text(name, tracked)
            except Exception:  # of the object's own code, too
                if not forgiving:
                    raise
        return found

    def _text(self, name: str, tracked: Tracked) -> record.Texts:
        refused = UsageError(f"'{name}' gives no state", hint="see what capture() returns")
        try:
            for value in tracked.captures():
                try:
                    texts = record.tracked_text(name, value)
                    (text,) = texts.values()
                    if self._checked.get(name) != text:
                        tracked.check(state.load(text))
                except UsageError as error:
                    refused = error
                except NotLike as error:
                    place = name + error.where
                    refused = UsageError(
                        f"'{place}' would not come back as it is: {error.reason}",
                        hint="leave it out of what is tracked, or give the object capture() and "
                        "restore()",
                        details={"key": place},
                    )
                else:
                    self._checked[name] = text
                    return texts
        except (AttributeError, TypeError) as error:  # a field without a value, an odd key
            raise UsageError(
                f"'{name}' cannot be captured: {error}",
                hint="give every field a value, or the object capture() and restore()",
            ) from error
        raise refused

    def prepare(self, states: Mapping[str, Any]) -> Restoration:
        """Validate what shall be put back; objects of which nothing was saved stay as they are."""
        changes = []
        texts: record.Texts = {}
        for name, tracked in self._tracked.items():
            if name in states:
                stored = record.tracked_text(name, states[name])
                texts |= stored
                (text,) = stored.values()  # for a copy of its own
                changes.append((name, tracked, _prepared(name, tracked, state.load(text))))
        # What can fail comes before what cannot.
        changes.sort(key=lambda change: not change[1].may_fail)
        return Restoration(changes, texts)


class Restoration:
    """Validated states on their way into objects: all of them, or none."""

    def __init__(
        self, changes: list[tuple[str, Tracked, Callable[[], None]]], texts: record.Texts
    ) -> None:
        self._changes = changes
        self._texts = texts
        self._ways_back: list[tuple[str, Callable[[], None]]] = []

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(name for name, _, _ in self._changes))

    def differs(self, now: record.Texts) -> bool:
        """Whether an object will change, if all are as these texts say now."""
        return any(now.get(path) != text for path, text in self._texts.items())

    def apply(self) -> None:
        """Put all of them back; if one fails, none has changed."""
        name = ""
        try:
            for name, tracked, put in self._changes:
                self._ways_back.append((name, tracked.way_back()))
                put()
        except BaseException as error:
            lost = self.revert()
            if not isinstance(error, Exception):
                raise
            raise RollbackError(
                f"cannot put '{name}' back: {_said(error)}",
                hint=f"'{lost[0]}' could not be returned to what it was"
                if lost
                else "nothing was changed; track(…) again, or leave the object out",
                details={"object": name, "lost": lost},
            ) from error

    def revert(self) -> list[str]:
        """Make all what they were before; returns those for which that failed."""
        lost = []
        while self._ways_back:
            name, put = self._ways_back.pop()
            try:
                put()
            except BaseException:  # of the object's own code, or Ctrl-C: the others go back first
                lost.append(name)
        return lost


def _turn_of(name: str, thing: Any, word: str) -> int:
    found = thing.get(word) if isinstance(thing, dict) else getattr(thing, word, None)
    if not isinstance(found, int):
        raise UsageError(
            f"'{name}.{word}' is no number", hint="turn= names the attribute that counts turns"
        )
    return found


def _prepared(name: str, tracked: Tracked, value: Any) -> Callable[[], None]:
    try:
        return tracked.prepare(value)
    except Exception as error:  # whatever a validator of the object's class raises
        raise RollbackError(
            f"the saved state of '{name}' does not fit it: {_said(error)}",
            hint="nothing was touched",
            details={"object": name},
        ) from error


def _fail(error: Exception) -> None:
    raise error


def _said(error: Exception) -> str:
    if isinstance(error, NotLike):
        return f"{error.where.lstrip('.') or 'it'}: {error.reason}"
    return str(error).partition("\n")[0] or type(error).__name__


# -- Kinds of objects: how each is captured, and changed in place


class Tracked:
    """One object; each kind below says what the four methods do."""

    may_fail = False

    def __init__(self, thing: Any) -> None:
        self.thing = thing

    def captures(self) -> Iterator[Any]:
        """Values of which the object could be made again; the first that serves is taken."""
        yield self.thing

    def check(self, value: Any) -> None:
        """NotLike if the object, made of this value, would not be what it is now."""

    def prepare(self, value: Any) -> Callable[[], None]:
        """Validate a value; what is returned puts it in place."""
        return lambda: self.thing.restore(value)

    def way_back(self) -> Callable[[], None]:
        """What makes the object again what it is at this moment."""
        raise NotImplementedError


class _Own(Tracked):
    """An object that captures and restores itself; only its own code can check a value."""

    may_fail = True

    def captures(self) -> Iterator[Any]:
        yield self.thing.capture()

    def way_back(self) -> Callable[[], None]:
        try:
            return self.prepare(state.load(state.dump(self.thing.capture(), "state")))
        except Exception as error:  # going back may repair it
            return partial(_fail, error)


class _Model(Tracked):
    """A pydantic model: validated as a whole, then given the fields of the valid one."""

    def captures(self) -> Iterator[Any]:
        """As Python has it, or where that cannot be stored, as JSON; by the names of fields, or
        of aliases."""
        for mode in ("python", "json"):
            for by_alias in (False, True):
                dumped = self.thing.model_dump(mode=mode, by_alias=by_alias, round_trip=True)
                yield _taken_apart(dumped)

    def check(self, value: Any) -> None:
        try:
            made = type(self.thing).model_validate(value)
        except Exception as error:  # a validator may raise what it likes
            raise NotLike("", str(error).partition("\n")[0]) from None
        for name in getattr(type(self.thing), "model_fields", vars(self.thing)):
            _check_same(vars(self.thing).get(name), vars(made).get(name), f".{name}")
        extra = "__pydantic_extra__"
        _check_same(getattr(self.thing, extra, None), getattr(made, extra, None), "")

    def prepare(self, value: Any) -> Callable[[], None]:
        made = type(self.thing).model_validate(value)
        return lambda: self._put(self._parts(made))

    def way_back(self) -> Callable[[], None]:
        before = self._parts(self.thing)
        return lambda: self._put(before)

    @staticmethod
    def _parts(model: Any) -> dict[str, Any]:
        parts = {name: getattr(model, name, None) for name in _MODEL_PARTS}
        return {name: None if part is None else part.copy() for name, part in parts.items()}

    def _put(self, parts: dict[str, Any]) -> None:
        for name, part in parts.items():
            if hasattr(self.thing, name):
                object.__setattr__(self.thing, name, part)


class _DataClass(Tracked):
    """A dataclass: its fields are set, also where it is frozen."""

    def captures(self) -> Iterator[Any]:
        yield _taken_apart(self.thing)

    def check(self, value: Any) -> None:
        for name, field in _fields_of(type(self.thing), value, "").items():
            _check_same(getattr(self.thing, name), field, f".{name}")

    def prepare(self, value: Any) -> Callable[[], None]:
        fields = _fields_of(type(self.thing), value, "")
        return lambda: _set_fields(self.thing, fields)

    def way_back(self) -> Callable[[], None]:
        before = {each.name: getattr(self.thing, each.name) for each in _fields(self.thing)}
        return lambda: _set_fields(self.thing, before)


class _Container(Tracked):
    """A dict or a list, filled anew."""

    def check(self, value: Any) -> None:
        _check_same(self._plain(self.thing), value, "")

    def prepare(self, value: Any) -> Callable[[], None]:
        expected = type(self._plain(self.thing))
        if not isinstance(value, expected):
            raise NotLike("", f"a {type(value).__name__}, and no {expected.__name__}")
        return lambda: self._put(value)

    def way_back(self) -> Callable[[], None]:
        before = self._plain(self.thing)
        return lambda: self._put(before)

    @staticmethod
    def _plain(thing: Any) -> Any:
        return dict(thing) if isinstance(thing, dict) else list(thing)

    def _put(self, value: Any) -> None:
        if isinstance(self.thing, dict):
            self.thing.clear()
            self.thing.update(value)
        else:
            self.thing[:] = value


def _kind_of(name: str, thing: Any) -> Tracked:
    """How to track an object; UsageError if there is no way."""
    cls = type(thing)
    if callable(getattr(thing, "capture", None)) and callable(getattr(thing, "restore", None)):
        return _Own(thing)
    if _is_model(cls):
        return _Model(thing)
    if dataclasses.is_dataclass(cls):
        return _DataClass(thing)
    if isinstance(thing, dict | list):
        return _Container(thing)
    raise UsageError(
        f"'{name}' cannot be tracked: it is of type '{cls.__qualname__}'",
        hint="pass a pydantic model, a dataclass, a dict, or give it capture() and restore()",
    )


# -- Taken apart into plain values, and made of them again by annotations


def _taken_apart(value: Any) -> Any:
    """A value in which dataclasses, models, enums and paths are plain values."""
    cls = type(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _taken_apart(getattr(value, field.name)) for field in _fields(value)}
    if isinstance(value, Enum):
        return _taken_apart(value.value)
    if isinstance(value, PurePath):
        return str(value)
    if _is_model(cls):
        return _taken_apart(value.model_dump(round_trip=True))
    if cls in (list, tuple, set, frozenset):
        return cls(map(_taken_apart, tuple(value)))
    if cls is dict:
        return {_taken_apart(key): _taken_apart(item) for key, item in tuple(value.items())}
    return value


def _fields_of(cls: type[Any], value: Any, where: str) -> dict[str, Any]:
    """The fields of a dataclass made of what was taken apart; NotLike if they do not fit."""
    if not isinstance(value, dict):
        raise NotLike(where, f"'{type(value).__qualname__}' holds no fields")
    fields = {field.name: field for field in _fields(cls)}
    unknown = sorted(value.keys() - fields.keys(), key=str)
    if unknown:
        raise NotLike(f"{where}.{unknown[0]}", "there is no such field any more")
    try:
        hints = typing.get_type_hints(cls)
    except Exception:  # names that only a type checker imports
        hints = {}
    found = {}
    for name, field in fields.items():
        if name in value:
            found[name] = _made(hints.get(name), value[name], f"{where}.{name}")
        elif field.default is not dataclasses.MISSING:  # a field that the class has got since
            found[name] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            found[name] = field.default_factory()
        else:
            raise NotLike(f"{where}.{name}", "nothing was saved of this field")
    return found


def _made(hint: Any, value: Any, where: str) -> Any:
    """A value as an annotation wants it, made of its plain form."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _one_of(arguments, value, where)
    if origin is typing.Annotated:
        return _made(arguments[0], value, where)
    if origin in (dict, list, set, frozenset, tuple) and isinstance(value, origin):
        if origin is dict:
            key, item = arguments
            return {_made(key, k, where): _made(item, v, f"{where}.{k}") for k, v in value.items()}
        if origin is tuple and arguments[1:] != (...,):
            if len(arguments) != len(value):
                return value
        else:
            arguments = arguments[:1] * len(value)
        pairs = enumerate(zip(arguments, value, strict=True))
        return origin(_made(wanted, item, f"{where}[{n}]") for n, (wanted, item) in pairs)
    return _made_one(hint, value, where) if isinstance(hint, type) else value


def _made_one(cls: type[Any], value: Any, where: str) -> Any:
    if dataclasses.is_dataclass(cls) and isinstance(value, dict):
        thing = object.__new__(cls)
        _set_fields(thing, _fields_of(cls, value, where))
        return thing
    if _is_model(cls) and isinstance(value, dict):
        return cls.model_validate(value)
    if issubclass(cls, Enum):
        try:
            return cls(value)
        except ValueError as error:
            raise NotLike(where, str(error)) from None
    return cls(value) if issubclass(cls, PurePath) and isinstance(value, str) else value


def _one_of(hints: tuple[Any, ...], value: Any, where: str) -> Any:
    """Of several annotations, the first that a plain value can become something else by."""
    for hint in hints if value is not None else ():
        try:
            found = _made(hint, value, where)
        except Exception:  # a validator may raise what it likes; another may take it
            continue
        if type(found) is not type(value) or found != value:
            return found
    return value


def _check_same(expected: Any, found: Any, where: str) -> None:
    """NotLike names the place in which two values differ, be it only in their types."""
    cls = type(expected)
    if cls is not type(found):
        raise NotLike(where, f"'{cls.__qualname__}' would become '{type(found).__qualname__}'")
    if isinstance(expected, dict | set | frozenset):
        types_of = [{(type(item), item) for item in items} for items in (expected, found)]
        if types_of[0] != types_of[1]:
            raise NotLike(where, "its keys or items would be others, or of other types")
    if isinstance(expected, dict):
        for key, item in expected.items():
            place = f"{where}.{key}" if isinstance(key, str) else f"{where}[{key!r}]"
            _check_same(item, found[key], place)
    elif isinstance(expected, list | tuple):
        for number, (item, other) in enumerate(zip(expected, found, strict=False)):
            _check_same(item, other, f"{where}[{number}]")
    elif dataclasses.is_dataclass(cls):
        for field in _fields(cls):
            name = field.name
            _check_same(getattr(expected, name), getattr(found, name), f"{where}.{name}")
        return
    if expected != found:
        raise NotLike(where, f"{expected!r:.60} would become {found!r:.60}")


def _fields(of: Any) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(of)


def _set_fields(thing: Any, fields: Mapping[str, Any]) -> None:
    for name, value in fields.items():
        object.__setattr__(thing, name, value)


def _is_model(cls: type[Any]) -> bool:
    return hasattr(cls, "model_validate") and hasattr(cls, "model_dump")
