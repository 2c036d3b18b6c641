# SPDX-License-Identifier: MIT
"""Live objects that are saved with every checkpoint and put back with it.

Each is captured as a value that `state` can hold, and it is tried out at once whether the
object could be made of that again: what cannot come back is refused at the save. To put
objects back, all are validated first; then each is changed in place, so that everybody who
holds it sees it, and if one fails, all are made again what they were. How an object of some
kind is taken apart and put together is in `kinds`.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from functools import partial
from pathlib import PurePath
from typing import Any

from ckpt.errors import CkptError, RollbackError, UsageError
from ckpt.git import record


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


# -- Kinds of objects that can be tracked: how each is taken apart, and put together in place

_MODEL_PARTS = ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__")


class Tracked:
    """One object. Abstract: each kind below says in its own way what the four methods do."""

    may_fail = False

    def __init__(self, thing: Any) -> None:
        self.thing = thing

    def captures(self) -> Iterator[Any]:
        """Values of which the object could be made again; the first that serves is taken."""
        raise NotImplementedError

    def check(self, value: Any) -> None:
        """NotLike if the object, made of this value, would not be what it is now."""
        raise NotImplementedError

    def prepare(self, value: Any) -> Callable[[], None]:
        """Validate a value; what is returned puts it in place."""
        raise NotImplementedError

    def way_back(self) -> Callable[[], None]:
        """What makes the object again what it is at this moment."""
        raise NotImplementedError


class _Own(Tracked):
    """An object that captures and restores itself."""

    may_fail = True

    def captures(self) -> Iterator[Any]:
        yield self.thing.capture()

    def check(self, value: Any) -> None:
        """Only its own code knows."""

    def prepare(self, value: Any) -> Callable[[], None]:
        return lambda: self.thing.restore(value)

    def way_back(self) -> Callable[[], None]:
        from ckpt import state

        try:
            before = state.load(state.dump(self.thing.capture(), "state"))
        except Exception as error:  # broken as it is now, it may well be mended by going back
            return partial(_raise, error)
        return lambda: self.thing.restore(before)


def _raise(error: Exception) -> None:
    raise error


class _Model(Tracked):
    """A pydantic model: validated as a whole, then given the fields of the valid one, all of
    which count as set then."""

    def captures(self) -> Iterator[Any]:
        """As Python has it, or where that cannot be stored, as JSON; by the names of fields, or
        of aliases."""
        for mode in ("python", "json"):
            for by_alias in (False, True):
                dumped = self.thing.model_dump(mode=mode, by_alias=by_alias, round_trip=True)
                yield taken_apart(dumped, "")

    def check(self, value: Any) -> None:
        try:
            made = type(self.thing).model_validate(value)
        except Exception as error:  # a validator may raise what it likes
            raise NotLike("", str(error).partition("\n")[0]) from None
        fields = getattr(type(self.thing), "model_fields", vars(self.thing))
        for name in fields:
            check_same(vars(self.thing).get(name), vars(made).get(name), f".{name}")
        extra = "__pydantic_extra__"
        check_same(getattr(self.thing, extra, None), getattr(made, extra, None), "")

    def prepare(self, value: Any) -> Callable[[], None]:
        made = type(self.thing).model_validate(value)
        return lambda: self._put(self._parts(made))

    def way_back(self) -> Callable[[], None]:
        before = self._parts(self.thing)
        return lambda: self._put(before)

    @staticmethod
    def _parts(model: Any) -> dict[str, Any]:
        return {name: _copied(getattr(model, name, None)) for name in _MODEL_PARTS}

    def _put(self, parts: dict[str, Any]) -> None:
        for name, part in parts.items():
            if hasattr(self.thing, name):
                object.__setattr__(self.thing, name, part)


def _copied(part: Any) -> Any:
    return part.copy() if isinstance(part, dict | set) else part


class _DataClass(Tracked):
    """A dataclass: its fields are set, also where it is frozen."""

    def captures(self) -> Iterator[Any]:
        yield taken_apart(self.thing, "")

    def check(self, value: Any) -> None:
        for name, field in self._made(value).items():
            check_same(getattr(self.thing, name), field, f".{name}")

    def prepare(self, value: Any) -> Callable[[], None]:
        fields = self._made(value)
        return lambda: self._put(fields)

    def way_back(self) -> Callable[[], None]:
        before = {name: getattr(self.thing, name) for name in self._names()}
        return lambda: self._put(before)

    def _made(self, value: Any) -> dict[str, Any]:
        return fields_of(type(self.thing), value, "")

    def _names(self) -> list[str]:
        from dataclasses import fields

        return [field.name for field in fields(self.thing)]

    def _put(self, fields: dict[str, Any]) -> None:
        for name, value in fields.items():
            object.__setattr__(self.thing, name, value)


class _Container(Tracked):
    """A dict or a list, filled anew."""

    def captures(self) -> Iterator[Any]:
        yield self.thing

    def check(self, value: Any) -> None:
        check_same(self._copy(self.thing), value, "")

    def prepare(self, value: Any) -> Callable[[], None]:
        expected = dict if isinstance(self.thing, dict) else list
        if not isinstance(value, expected):
            raise NotLike("", f"a {type(value).__name__}, and no {expected.__name__}")
        return lambda: self._put(value)

    def way_back(self) -> Callable[[], None]:
        before = self._copy(self.thing)
        return lambda: self._put(before)

    @staticmethod
    def _copy(thing: Any) -> Any:
        return dict(thing) if isinstance(thing, dict) else list(thing)

    def _put(self, value: Any) -> None:
        if isinstance(self.thing, dict):
            self.thing.clear()
            self.thing.update(value)
        else:
            self.thing[:] = value


def kind_of(name: str, thing: Any) -> Tracked:
    """How to track an object; UsageError if there is no way."""
    kind = type(thing)
    if callable(getattr(thing, "capture", None)) and callable(getattr(thing, "restore", None)):
        return _Own(thing)
    if hasattr(kind, "model_validate") and hasattr(kind, "model_dump"):
        return _Model(thing)
    if hasattr(kind, "__dataclass_fields__"):
        return _DataClass(thing)
    if isinstance(thing, dict | list):
        return _Container(thing)
    raise UsageError(
        f"'{name}' cannot be tracked: it is of type '{kind.__qualname__}'",
        hint="pass a pydantic model, a dataclass, a dict, or give it capture() and restore()",
    )


def check_same(expected: Any, found: Any, where: str) -> None:
    """NotLike names the place in which two values differ, be it only in their types."""
    if type(expected) is not type(found):
        raise NotLike(where, f"{_type(expected)} would become {_type(found)}")
    if isinstance(expected, dict | set | frozenset) and _typed(expected) != _typed(found):
        raise NotLike(where, "its keys or items would be others, or of other types")
    if isinstance(expected, dict):
        for key, item in expected.items():
            place = f"{where}.{key}" if isinstance(key, str) else f"{where}[{key!r}]"
            check_same(item, found[key], place)
    elif isinstance(expected, list | tuple):
        for number, (item, other) in enumerate(zip(expected, found, strict=False)):
            check_same(item, other, f"{where}[{number}]")
    elif hasattr(type(expected), "__dataclass_fields__"):
        for name in type(expected).__dataclass_fields__:
            check_same(getattr(expected, name), getattr(found, name), f"{where}.{name}")
        return
    if expected != found:
        raise NotLike(where, f"{expected!r:.60} would become {found!r:.60}")


def _typed(items: Iterable[Any]) -> set[tuple[type[Any], Any]]:
    return {(type(item), item) for item in items}


def _type(value: Any) -> str:
    return f"'{type(value).__qualname__}'"


# -- Live objects that are saved with every checkpoint and put back with it

_LONGEST_NAME = 100


class TrackedObjects:
    """The objects that one manager tracks, by name."""

    def __init__(self) -> None:
        self._tracked: dict[str, Tracked] = {}
        self._turns: dict[str, str] = {}
        self._tried: dict[str, bytes] = {}

    def add(self, name: str, thing: Any, turn: str | None) -> None:
        if not name or len(name) > _LONGEST_NAME or not name.isprintable():
            raise UsageError(
                f"'{name}' is no name for an object",
                hint=f"pass printable text of at most {_LONGEST_NAME} characters",
            )
        kind = kind_of(name, thing)
        if turn is not None:
            _turn_of(name, thing, turn)
        self.remove(name)
        self._tracked[name] = kind
        if turn is not None:
            self._turns[name] = turn

    def remove(self, name: str) -> None:
        for known in (self._tracked, self._turns, self._tried):
            known.pop(name, None)

    def turn(self) -> int | None:
        """The turn that an object says it is in, of several the first's."""
        for name, word in self._turns.items():
            return _turn_of(name, self._tracked[name].thing, word)
        return None

    def texts(self) -> record.Texts:
        """All of them as they will be stored; UsageError names what could not come back."""
        found: record.Texts = {}
        for name, tracked in self._tracked.items():
            found |= self._text(name, tracked)
        return found

    def texts_if_possible(self) -> record.Texts:
        """The same without those that cannot be stored: they may be what is being undone."""
        found: record.Texts = {}
        for name, tracked in self._tracked.items():
            try:
                found |= self._text(name, tracked)
            except Exception:  # of the object's own code, too
                continue
        return found

    def _text(self, name: str, tracked: Tracked) -> record.Texts:
        from ckpt import state

        refused: CkptError | None = None
        for value in tracked.captures():
            try:
                texts = record.tracked_text(name, value)
                (text,) = texts.values()
                if self._tried.get(name) != text:
                    _try_out(name, tracked, state.load(text))
            except UsageError as error:
                refused = refused or error
                continue
            self._tried[name] = text
            return texts
        raise refused or UsageError(f"'{name}' gives no state", hint="see what capture() returns")

    def prepare(self, states: Mapping[str, Any]) -> Restoration:
        """Validate what shall be put back; objects of which nothing was saved stay as they are."""
        from ckpt import state

        changes = []
        texts: record.Texts = {}
        for name, tracked in self._tracked.items():
            if name in states:
                stored = record.tracked_text(name, states[name])
                texts |= stored
                (text,) = stored.values()  # for a copy that nobody else holds
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
        """Whether an object will change, all of which are as these texts tell now."""
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
        """Make all what they were before; returns those that would not be."""
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


def _try_out(name: str, tracked: Tracked, value: Any) -> None:
    """Refuse a value that the object could not be made of again, exactly."""
    try:
        tracked.check(value)
    except NotLike as error:
        raise UsageError(
            f"'{name}{error.where}' would not come back as it is: {error.reason}",
            hint="leave it out of what is tracked, or give the object capture() and restore()",
            details={"key": name + error.where},
        ) from None


def _prepared(name: str, tracked: Tracked, value: Any) -> Callable[[], None]:
    try:
        return tracked.prepare(value)
    except Exception as error:  # whatever a validator of the object's class raises
        raise RollbackError(
            f"the saved state of '{name}' does not fit it: {_said(error)}",
            hint="nothing was touched",
            details={"object": name},
        ) from error


def _said(error: Exception) -> str:
    if isinstance(error, NotLike):
        return f"{error.where.lstrip('.') or 'it'}: {error.reason}"
    return str(error).partition("\n")[0] or type(error).__name__
