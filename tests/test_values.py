# SPDX-License-Identifier: MIT
"""Value classes behave as the dataclasses that they stand for."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
from functools import cached_property

import pytest

from ckpt.models import Skipped, Stats
from ckpt.values import field, replace, value_class


@value_class
class Point:
    """A place."""

    x: int
    y: int = 2
    tags: list[str] = field(default_factory=list, compare=False, repr=False)

    @property
    def total(self) -> int:
        return self.x + self.y


@value_class(frozen=False)
class Counter:
    count: int = 0
    seen: list[int] = field(default_factory=list)


@value_class(slots=False)
class Lazy:
    x: int
    note: str = field(default="none", repr=False)

    @cached_property
    def double(self) -> int:
        return 2 * self.x


@value_class(eq=False)
class Same:
    x: int


@value_class
class Deep(Point):
    z: int = 3


@value_class
class Nothing:
    pass


@pytest.fixture(params=["the first instances", "many instances"])
def compiled(request) -> None:
    """The first few instances of a class are filled in another way than the later ones."""
    many = request.param == "many instances"
    for _ in range(40 * many):
        Point(1), Counter(), Lazy(1), Same(1), Deep(1), Nothing()


@pytest.mark.usefixtures("compiled")
def test_arguments_are_taken_by_place_and_by_name() -> None:
    assert [(point.x, point.y) for point in (Point(1), Point(1, 5), Point(y=5, x=1))] == [
        (1, 2),
        (1, 5),
        (1, 5),
    ]
    assert Point(1).tags == []
    assert Point(1, tags=["a"]).tags == ["a"]
    assert (Lazy(4, note="own").x, Lazy(4, "own").note) == (4, "own")
    assert Lazy(4).note == "none"


@pytest.mark.usefixtures("compiled")
def test_every_instance_gets_a_default_of_its_own() -> None:
    first, second = Counter(), Counter()
    first.seen.append(1)

    assert second.seen == []


@pytest.mark.parametrize(
    ("arguments", "named", "said"),
    [
        ((), {}, "missing 1 required positional argument: 'x'"),
        ((1, 2, [], 4), {}, "takes from 2 to 4 positional arguments but 5 were given"),
        ((1,), {"x": 1}, "got multiple values for argument 'x'"),
        ((1,), {"w": 1}, "got an unexpected keyword argument 'w'"),
    ],
)
@pytest.mark.usefixtures("compiled")
def test_wrong_arguments_are_reported_as_python_does(arguments, named, said) -> None:
    with pytest.raises(TypeError) as caught:
        Point(*arguments, **named)

    assert f"Point.__init__() {said}" == str(caught.value)


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("instance", [Point(1), Lazy(1), Same(1), Nothing()], ids=repr)
def test_a_frozen_value_refuses_to_be_changed(instance) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
        instance.x = 2
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'x'"):
        del instance.x


def test_a_value_has_no_room_for_other_attributes() -> None:
    counter = Counter()
    counter.count += 1

    assert counter.count == 1
    assert not hasattr(counter, "__dict__")
    with pytest.raises(AttributeError):
        counter.other = 1


@pytest.mark.usefixtures("compiled")
def test_values_are_equal_and_hash_by_the_fields_that_count() -> None:
    assert Point(1, 2, ["a"]) == Point(1, 2, ["b"]) != Point(1, 3)
    assert len({Point(1, 2, ["a"]), Point(1, 2, ["b"]), Point(2)}) == 2
    assert Point(1) != (1, 2)
    assert Point(1) != Deep(1)
    assert Counter() == Counter()
    assert Nothing() == Nothing()
    assert Same(1) != Same(1)
    with pytest.raises(TypeError, match="unhashable"):
        hash(Counter())


@pytest.mark.usefixtures("compiled")
def test_a_class_may_build_on_another() -> None:
    deep = Deep(1, 2, ["a"], 4)

    assert (deep.x, deep.y, deep.tags, deep.z, deep.total) == (1, 2, ["a"], 4, 3)
    assert deep == Deep(1, 2, [], 4) != Deep(1, 2, [], 5)
    assert [f.name for f in dataclasses.fields(Deep)] == ["x", "y", "tags", "z"]


@pytest.mark.usefixtures("compiled")
def test_a_plain_subclass_is_filled_too() -> None:
    class Plain(Point):
        pass

    assert Plain(1, 5) == Plain(x=1, y=5)
    assert dataclasses.replace(Plain(1), y=7) == Plain(1, 7)


def test_a_value_shows_its_fields() -> None:
    assert repr(Point(1)) == "Point(x=1, y=2)"
    assert repr(Lazy(3)) == "Lazy(x=3)"
    assert repr(Nothing()) == "Nothing()"


@pytest.mark.parametrize("instance", [Point(1, 5, ["a"]), Counter(3, [1]), Lazy(4), Deep(1, z=9)])
def test_a_value_survives_pickle_and_copy(instance) -> None:
    thawed = pickle.loads(pickle.dumps(instance))
    deep = copy.deepcopy(instance)

    assert instance == copy.copy(instance) == deep == thawed
    assert dataclasses.astuple(instance) == dataclasses.astuple(thawed)


def test_a_cached_property_works_without_slots() -> None:
    lazy = Lazy(4)

    assert lazy.double == 8
    assert lazy.double is lazy.__dict__["double"]


def test_a_value_is_replaced_field_by_field() -> None:
    assert Point(7, 5, ["a"]) == replace(Point(1, 5), x=7)
    assert replace(Point(1, 5, ["a"]), x=7).tags == ["a"]
    assert Point(1).__replace__(x=7) == Point(7)
    with pytest.raises(TypeError, match="unexpected keyword argument 'w'"):
        replace(Point(1), w=1)


def test_what_dataclasses_offers_works_on_values() -> None:
    stats = Stats(1, 2, 3)

    assert dataclasses.is_dataclass(Stats)
    assert dataclasses.is_dataclass(stats)
    assert [f.name for f in dataclasses.fields(stats)] == [
        "files_changed",
        "insertions",
        "deletions",
    ]
    assert dataclasses.asdict(stats) == {"files_changed": 1, "insertions": 2, "deletions": 3}
    assert dataclasses.astuple(stats) == (1, 2, 3)
    assert Stats(9, 2, 3) == dataclasses.replace(stats, files_changed=9)
    assert Counter(1, [2]) == dataclasses.replace(Counter(1, [2]))
    assert dataclasses.fields(Counter)[1].default_factory is list
    assert [f.type for f in dataclasses.fields(Point)] == ["int", "int", "list[str]"]
    assert [f.compare for f in dataclasses.fields(Point)] == [True, True, False]


def test_a_class_tells_its_parameters() -> None:
    assert str(inspect.signature(Point)) == "(x, y=2, tags=<default>)"
    assert str(inspect.signature(Deep)) == "(x, y=2, tags=<default>, z=3)"


def test_a_value_matches_by_place() -> None:
    match Skipped("a", "ignored"):
        case Skipped(path, reason):
            assert (path, reason) == ("a", "ignored")


def test_a_value_class_keeps_what_its_body_says() -> None:
    assert inspect.getdoc(Point) == "A place."
    assert (__name__, "Point") == (Point.__module__, Point.__qualname__)
    assert Point(1).total == 3


def test_a_value_class_costs_no_import() -> None:
    code = "import sys; from ckpt.models import Stats; Stats(1, 2, 3); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout

    assert not {b"dataclasses", b"inspect"} & set(loaded.split())
