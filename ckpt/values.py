# SPDX-License-Identifier: MIT
"""Classes of values, at a price that a command of a few milliseconds can pay.

`dataclasses` takes 11 ms to import and half a millisecond for each class; `@value_class` takes some
20 µs, because it compiles `__init__` only for a class with many instances. To type checkers
both are the same, and what `dataclasses` offers for an instance (`replace`, `fields`,
`asdict`) works on these too. Left out: what ckpt does not use, such as `__post_init__`,
ordering, and fields that `__init__` does not take.
"""

from __future__ import annotations

from _operator import attrgetter  # `operator` is the same in Python first, then in C

TYPE_CHECKING = False  # type checkers take it for true; importing `typing` takes 5 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar, overload
    from typing import NamedTuple as NamedTuple

    from typing_extensions import dataclass_transform

    T = TypeVar("T")
    Class = Any  # a class with members that no checker knows


class _Required:
    """In place of the default of a field that has none, or makes one each time."""

    def __repr__(self) -> str:
        return "<default>"


_REQUIRED = _Required()
_FEW = 16  # instances that cost as much as to compile an `__init__` for them
_made: dict[Class, int] = {}


class Field:
    """How a field is filled if `__init__` does not get it, and where it counts."""

    __slots__ = ("compare", "default", "factory", "repr")

    def __init__(
        self, default: Any, factory: Callable[[], Any] | None, repr: bool, compare: bool
    ) -> None:
        self.default = default
        self.factory = factory
        self.repr = repr
        self.compare = compare


def field(
    *,
    default: Any = _REQUIRED,
    default_factory: Callable[[], Any] | None = None,
    repr: bool = True,
    compare: bool = True,
) -> Any:
    """What stands after the `=` of a field that needs more than a default."""
    return Field(default, default_factory, repr, compare)


if TYPE_CHECKING:

    @overload
    @dataclass_transform(frozen_default=True, field_specifiers=(field,))
    def value_class(cls: type[T], /) -> type[T]: ...

    @overload
    @dataclass_transform(frozen_default=True, field_specifiers=(field,))
    def value_class(
        *, frozen: bool = True, slots: bool = True, eq: bool = True
    ) -> Callable[[type[T]], type[T]]: ...


def value_class(
    cls: Class | None = None, /, *, frozen: bool = True, slots: bool = True, eq: bool = True
) -> Any:
    """Makes a class of its annotations, as `@dataclass(frozen=True, slots=True)` does.

    `slots=False` leaves instances a `__dict__`, for cached properties.
    """
    if cls is None:
        return lambda decorated: _make(decorated, frozen, slots, eq)
    return _make(cls, frozen, slots, eq)


def replace(instance: T, /, **changes: Any) -> T:
    """A copy of a value in which some fields have other values."""
    given = {name: getattr(instance, name) for name in type(instance).__value_fields__}  # type: ignore[attr-defined]  # every value class has it
    return type(instance)(**{**given, **changes})


def _make(cls: Class, frozen: bool, slots: bool, eq: bool) -> Class:
    own = {name: _own_field(cls, name) for name in cls.__annotations__}
    inherited: dict[str, Field] = getattr(cls, "__value_fields__", {})
    members = _members(cls, inherited | own, frozen, eq)
    if slots:
        return _with_slots(cls, own, members)
    for name, specified in own.items():
        if isinstance(cls.__dict__.get(name), Field):
            delattr(cls, name)
            if specified.default is not _REQUIRED:
                setattr(cls, name, specified.default)
    for name, member in members.items():
        setattr(cls, name, member)
    return cls


def _own_field(cls: Class, name: str) -> Field:
    given = cls.__dict__.get(name, _REQUIRED)
    return given if isinstance(given, Field) else Field(given, None, True, True)


def _members(cls: Class, fields: dict[str, Field], frozen: bool, eq: bool) -> dict[str, Any]:
    """What the class gets, but for what it defines itself."""
    members: dict[str, Any] = {
        "__value_fields__": fields,
        "__match_args__": tuple(fields),
        "__init__": _first_init,
        "__repr__": _repr,
        "__reduce__": _reduce,
        "__replace__": replace,
        **_ON_USE,
    }
    if frozen:
        members |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
    if eq:
        members |= _equality(tuple(n for n, f in fields.items() if f.compare), frozen)
    defined = cls.__dict__
    return {name: member for name, member in members.items() if name not in defined}


def _with_slots(cls: Class, own: dict[str, Field], members: dict[str, Any]) -> Class:
    """The class again: slots can only be given when a class is made."""
    namespace = {name: member for name, member in cls.__dict__.items() if name not in own}
    del namespace["__dict__"], namespace["__weakref__"]
    namespace |= members
    namespace |= {"__slots__": tuple(own), "__qualname__": cls.__qualname__}
    return type(cls)(cls.__name__, cls.__bases__, namespace)


def _equality(names: tuple[str, ...], frozen: bool) -> dict[str, Any]:
    key: Callable[[Any], Any] = attrgetter(*names) if names else lambda instance: ()

    def __eq__(self: Any, other: object) -> Any:
        if self.__class__ is not other.__class__:
            return NotImplemented
        return self is other or bool(key(self) == key(other))

    def __hash__(self: Any) -> int:
        return hash(key(self))

    return {"__eq__": __eq__, "__hash__": __hash__ if frozen else None}


def _repr(self: Any) -> str:
    shown = [name for name, specified in self.__value_fields__.items() if specified.repr]
    parts = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
    return f"{self.__class__.__qualname__}({parts})"


def _reduce(self: Any) -> tuple[Any, ...]:
    """For pickle and copy, whose own way sets attributes one by one."""
    return self.__class__, tuple(getattr(self, name) for name in self.__value_fields__)


def _refuse_to_set(self: Any, name: str, to: object) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot assign to field '{name}'")


def _refuse_to_delete(self: Any, name: str) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot delete field '{name}'")


def _first_init(self: Any, *args: Any, **kwargs: Any) -> None:
    """Fills the first few instances; then, and to report wrong arguments, compiles."""
    owner = _owner(type(self))
    fields: dict[str, Field] = owner.__value_fields__
    given = dict(zip(fields, args, strict=False)) | kwargs
    made = _made[owner] = _made.get(owner, 0) + 1
    regular = len(given) == len(args) + len(kwargs) and given.keys() <= fields.keys()
    if made > _FEW or not regular or not _complete(given, fields):
        init = owner.__init__ = _compile_init(owner)
        init(self, *args, **kwargs)
        return
    for name in fields:
        object.__setattr__(self, name, given[name])


def _owner(cls: Class) -> Class:
    """The class among the bases that `@value_class` stands at."""
    return next(base for base in cls.__mro__ if "__value_fields__" in base.__dict__)


def _complete(given: dict[str, Any], fields: dict[str, Field]) -> bool:
    """Adds the defaults; False if a field has neither a value nor a default."""
    for name in fields.keys() - given.keys():
        specified = fields[name]
        if specified.factory is not None:
            given[name] = specified.factory()
        elif specified.default is not _REQUIRED:
            given[name] = specified.default
        else:
            return False
    return True


def _compile_init(cls: Class) -> Callable[..., None]:
    fields: dict[str, Field] = cls.__value_fields__
    frozen = cls.__setattr__ is _refuse_to_set
    known: dict[str, Any] = {"_required": _REQUIRED, "_set": object.__setattr__}
    parameters, lines = ["self"], []
    for name, specified in fields.items():
        given = name
        if specified.factory is not None:
            known[f"_make_{name}"] = specified.factory
            parameters.append(f"{name}=_required")
            given = f"_make_{name}() if {name} is _required else {name}"
        elif specified.default is not _REQUIRED:
            known[f"_default_{name}"] = specified.default
            parameters.append(f"{name}=_default_{name}")
        else:
            parameters.append(name)
        lines.append(_assignment(cls, name, given, known) if frozen else f"self.{name} = {given}")
    body = "\n ".join(lines) or "pass"
    exec(f"def __init__({', '.join(parameters)}):\n {body}", known)
    init: Callable[..., None] = known["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


def _assignment(cls: Class, name: str, given: str, known: dict[str, Any]) -> str:
    """A line that fills a field of an instance that refuses to be changed."""
    slot: Any = getattr(cls, name, None)
    if type(slot).__name__ != "member_descriptor":
        return f"_set(self, {name!r}, {given})"
    known[f"_set_{name}"] = slot.__set__
    return f"_set_{name}(self, {given})"


class _MadeOnUse:
    """An attribute of a class that somebody who looks at the class may ask for."""

    def __init__(self, name: str, make: Callable[[Class], Any]) -> None:
        self._name = name
        self._make = make

    def __get__(self, instance: object, asked: Class) -> Any:
        owner = _owner(asked)
        made = self._make(owner)
        setattr(owner, self._name, made)
        return made


def _dataclass_fields(cls: Class) -> Any:
    """The fields as `dataclasses` describes them."""
    import dataclasses

    types = {
        name: kind
        for base in cls.__mro__[-2::-1]
        for name, kind in getattr(base, "__annotations__", {}).items()
    }
    described: Any = dataclasses.make_dataclass(
        cls.__name__,
        [
            (name, types[name], _described(specified))
            for name, specified in cls.__value_fields__.items()
        ],
    )
    return described.__dataclass_fields__


def _described(specified: Field) -> Any:
    import dataclasses

    filled: dict[str, Any] = {"repr": specified.repr, "compare": specified.compare}
    if specified.factory is not None:
        filled["default_factory"] = specified.factory
    elif specified.default is not _REQUIRED:
        filled["default"] = specified.default
    return dataclasses.field(**filled)


def _signature(cls: Class) -> Any:
    """The parameters of the `__init__` that the class will have, for `help` and the like."""
    import inspect

    _, *parameters = inspect.signature(_compile_init(cls)).parameters.values()
    return inspect.Signature(parameters)


_ON_USE = {
    "__dataclass_fields__": _MadeOnUse("__dataclass_fields__", _dataclass_fields),
    "__signature__": _MadeOnUse("__signature__", _signature),
}


class _NamedTupleMeta(type):
    """Makes a named tuple of a class's annotations; `typing` need not be imported for it."""

    def __new__(
        meta: type[_NamedTupleMeta], name: str, bases: tuple[Any, ...], namespace: dict[str, Any]
    ) -> Any:
        if not bases:
            return super().__new__(meta, name, bases, namespace)
        import collections

        make: Any = collections.namedtuple  # a checker wants to see the names of the fields
        fields = namespace["__annotations__"]
        made = make(
            name,
            fields,
            defaults=[namespace.pop(field) for field in fields if field in namespace],
            module=namespace["__module__"],
        )
        for member, content in namespace.items():
            setattr(made, member, content)
        return made


if not TYPE_CHECKING:

    class NamedTuple(metaclass=_NamedTupleMeta):
        """`typing.NamedTuple`."""
