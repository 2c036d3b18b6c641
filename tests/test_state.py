# SPDX-License-Identifier: MIT
"""Agent state as text and back, and where a checkpoint keeps it."""

from __future__ import annotations

import json
from collections import OrderedDict, namedtuple
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest
from byhand import worktree
from hypothesis import given
from hypothesis import strategies as st

from ckpt import CheckpointManager, Kind, UsageError, codec, documents

ZONE = timezone(timedelta(hours=5, minutes=45))
RICH: list[Any] = [
    None,
    True,
    -1.5,
    2**70,
    "ünï \ud800",
    [],
    {},
    (),
    set(),
    b"\0\xff",
    date(2026, 2, 28),
    datetime(2026, 2, 28, 1, 2, 3, 4),
    datetime(2026, 2, 28, 1, 2, 3, tzinfo=ZONE),
    time(23, 59, 1, 5),
    Decimal("1.10"),
    UUID("12345678-1234-5678-1234-567812345678"),
    frozenset({1, "one"}),
    (1, (2, [3, {"four": {4}}])),
    {1: "int", None: "none", (1, 2): "tuple", date(2026, 1, 1): "date", b"k": "bytes"},
    {"$ckpt": "datetime.date", "value": "2026-01-01"},
    {"a": {"$ckpt": 1}},
]


def there_and_back(value: Any) -> Any:
    return codec.load_state(codec.dump_state(value, "data"))


@pytest.mark.parametrize("value", RICH, ids=[str(number) for number in range(len(RICH))])
def test_what_json_has_not_comes_back_as_it_was(value: Any) -> None:
    found = there_and_back({"in": [value]})["in"][0]

    assert found == value
    assert type(found) is type(value)


keys = st.one_of(
    st.text(), st.integers(), st.booleans(), st.none(), st.dates(), st.binary(), st.just("$ckpt")
)
scalars = st.one_of(
    keys,
    st.floats(allow_nan=False, allow_infinity=False),
    st.datetimes(timezones=st.one_of(st.none(), st.just(timezone.utc))),
    st.uuids(),
)


@given(
    st.recursive(
        scalars,
        lambda inner: st.one_of(
            st.lists(inner),
            st.lists(inner).map(tuple),
            st.dictionaries(keys, inner),
            st.frozensets(keys),
            st.sets(keys),
        ),
        max_leaves=20,
    )
)
def test_any_value_comes_back_equal(value: Any) -> None:
    assert there_and_back(value) == value
    json.dumps(documents.as_json(value), allow_nan=False)


def test_plain_data_is_the_json_that_everybody_writes() -> None:
    data = {"b": [1, 2.5, None], "a": {"text": "ü"}}

    assert json.loads(codec.dump_state(data, "data")) == data
    assert list(there_and_back(data)) == ["b", "a"]


def test_a_subclass_comes_back_as_what_it_is_made_of() -> None:
    Point = namedtuple("Point", "x y")
    given = [OrderedDict(a=1), Point(1, 2), Kind.AUTO, MappingProxyType({"k": 1}), bytearray(b"x")]

    found = there_and_back(given)

    assert found == [{"a": 1}, (1, 2), "auto", {"k": 1}, b"x"]
    assert [type(item) for item in found] == [dict, tuple, str, dict, bytes]


def test_equal_sets_have_one_text() -> None:
    assert codec.dump_state({"b", "a", 1}, "data") == codec.dump_state({1, "a", "b"}, "data")


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ({"steps": [0, 1, 2, {"when": object()}]}, "data.steps[3].when"),
        (float("inf"), "data"),
        ([1, float("nan")], "data[1]"),
        ({(1, 2): {"x": 1j}}, "data[(1, 2)].x"),
        ({"set": {1j}}, "data.set"),
        ({object: 1}, "data[<class 'object'>]"),
        ({"digits": 10**5000}, "data"),
        ({"path": Path("x")}, "data.path"),
        ({"span": timedelta(1)}, "data.span"),
        ({"price": Decimal("NaN")}, "data.price"),
    ],
)
def test_what_cannot_be_held_is_refused_by_its_place(value: Any, key: str) -> None:
    with pytest.raises(UsageError) as caught:
        codec.dump_state(value, "data")

    assert caught.value.details == {"key": key}
    assert f"'{key}' is not JSON" in caught.value.message
    assert caught.value.hint


def test_what_holds_itself_or_is_too_deep_is_refused() -> None:
    round_: list[Any] = []
    round_.append(round_)
    deep: Any = 0
    for _ in range(codec.MOST_LEVELS + 1):
        deep = [deep]

    for value in (round_, deep):
        with pytest.raises(UsageError, match="nested too deeply"):
            codec.dump_state(value, "data")
    assert there_and_back(deep[0]) == deep[0]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b'{"$ckpt": "date"}',
        b'{"$ckpt": "os.system", "value": "true"}',
        b'{"$ckpt": ["list"], "value": 1}',
        b'{"$ckpt": "datetime.date", "value": 1}',
        b'{"$ckpt": "datetime.date", "value": "2026-13-01"}',
        b'{"$ckpt": "dict", "value": [[[], 1]]}',
        b'{"$ckpt": "dict", "value": [1]}',
        b'{"$ckpt": "set", "value": [{}]}',
        b'{"$ckpt": "decimal.Decimal", "value": "x"}',
        b'{"$ckpt": "uuid.UUID", "value": 5}',
        b'{"$ckpt": "tuple", "value": [1e400]}',
        b"[" * 100_000,
        b"[" * 500 + b"]" * 500,
    ],
)
def test_a_text_that_is_no_stored_value_is_an_error_and_nothing_else(text: bytes) -> None:
    with pytest.raises(ValueError):
        codec.load_state(text)


def test_other_programs_get_plain_json() -> None:
    rich = {
        "date": date(2026, 1, 2),
        "at": datetime(2026, 1, 2, tzinfo=timezone.utc),
        "bytes": b"\0\xff",
        "set": {3, 1, 2},
        "tuple": (1, (2,)),
        "decimal": Decimal("1.10"),
        (1, "x"): {None: 1, 2.5: 2, date(2026, 1, 1): 3},
    }

    assert documents.as_json(rich) == {
        "date": "2026-01-02",
        "at": "2026-01-02T00:00:00+00:00",
        "bytes": "AP8=",
        "set": [1, 2, 3],
        "tuple": [1, [2]],
        "decimal": "1.10",
        '[1, "x"]': {"null": 1, "2.5": 2, "2026-01-01": 3},
    }


# In checkpoints


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[CheckpointManager]:
    with CheckpointManager(worktree(tmp_path / "repo")) as manager:
        yield manager


def test_state_of_a_checkpoint_comes_back_and_is_plain_in_documents(
    manager: CheckpointManager,
) -> None:
    data = {"seen": {"b", "a"}, "when": datetime(2026, 1, 2, tzinfo=ZONE), "raw": b"\0"}
    saved = manager.create(data=data, metadata={"pair": (1, 2)}, context={"turn": 3})

    found = manager.get(saved)
    document = documents.checkpoint(found)

    assert (found.data, found.metadata, found.context) == (data, {"pair": (1, 2)}, {"turn": 3})
    assert document["data"] == {
        "seen": ["a", "b"],
        "when": "2026-01-02T00:00:00+05:45",
        "raw": "AA==",
    }
    assert json.loads(json.dumps(document))["metadata"] == {"pair": [1, 2]}


def test_data_are_copied_and_not_aliased(manager: CheckpointManager) -> None:
    data: dict[str, Any] = {"plan": ["a"]}
    saved = manager.create(data=data)
    assert saved.checkpoint is not None
    data["plan"].append("b")
    manager.get(saved).data["plan"].append("c")

    assert saved.checkpoint.data == {"plan": ["a"]}
    assert manager.get(saved).data == {"plan": ["a"]}
