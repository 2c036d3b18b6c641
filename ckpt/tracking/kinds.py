# SPDX-License-Identifier: MIT
"""Kinds of objects that can be tracked: how each is taken apart, and put together in place.

An object with `capture()` and `restore(state)` does it itself; then pydantic models (by
`model_dump` and `model_validate`, pydantic is never imported), dataclasses, dicts and lists.
Classes are never looked up by a name that was stored: what a field becomes is what the
class of the live object says in its annotations. A model's private attributes are no part of
its state and stay as they are.
"""

from __future__ import annotations

from functools import partial

from ckpt.errors import UsageError
from ckpt.tracking.fields import NotLike, fields_of, taken_apart

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

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
