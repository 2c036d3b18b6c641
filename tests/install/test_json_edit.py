# SPDX-License-Identifier: MIT
"""JSON is edited as text: what is put in is there, what is not touched stays to the byte."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt.install.edit import (
    NotJson,
    added,
    cut,
    insert,
    load,
    parse,
    without,
    written,
)

VALUE = {"matcher": "é|x", "list": [1, {"a": "b"}]}
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{}", '{\n  "k": 1\n}'),
        ("{}\n", '{\n  "k": 1\n}\n'),
        ("{\n}\n", '{\n  "k": 1\n}\n'),
        ('{"a": 1}', '{"a": 1, "k": 1}'),
        ('{\n    "a": 1\n}\n', '{\n    "a": 1,\n    "k": 1\n}\n'),
        ('{\n\t"a": [\n\t\t1\n\t]\n}', '{\n\t"a": [\n\t\t1\n\t],\n\t"k": 1\n}'),
        ('{\r\n  "a": 1\r\n}\r\n', '{\r\n  "a": 1,\r\n  "k": 1\r\n}\r\n'),
        ('\ufeff{ "a":1 }', '\ufeff{ "a":1, "k": 1 }'),
    ],
)
def test_a_member_is_added_in_the_style_of_the_file(before: str, after: str) -> None:
    text, parts = insert(before, [added(before, parse(before), [("k", 1)])])

    assert text == after
    assert cut(text, parts) == before


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("[] // why", "[\n  1\n] // why"),
        ("[ // why\n 2, // two\n]", "[ // why\n 2,\n 1 // two\n]"),
        ("/* a, b */ [2,]", "/* a, b */ [2, 1]"),
        ("[2 /* a, b */,]", "[2 /* a, b */, 1]"),
        ("[\n 2 // a, b\n ,\n]", "[\n 2 // a, b\n ,\n 1\n]"),
    ],
)
def test_comments_stay_where_they_are_understood(before: str, after: str) -> None:
    text, _ = insert(before, [added(before, parse(before, comments=True), [(None, 1)])])

    assert text == after
    assert 1 in load(text, parse(text, comments=True))
    with pytest.raises(NotJson):
        parse(before)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("[1, // one\n 2]", "[1 // one\n ]"),
        ("[2, // two, too\n 1]", "[ // two, too\n 1]"),
        ("[/* a */ 2 /* b, c */,]", "[/* a */  /* b, c */]"),
        ("[1, 2]", "[1]"),
        ("[2, 1]", "[1]"),
        ("[ 2 ]", "[]"),
    ],
)
def test_comments_beside_what_is_taken_out_stay(before: str, after: str) -> None:
    node = parse(before, comments=True)
    number = load(before, node).index(2)

    assert without(before, node, number) == after
    assert 2 not in load(after, parse(after, comments=True))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        ("{", 1),
        ('{"a": 1,}', 1),
        ('{"a" 1}', 1),
        ("{'a': 1}", 1),
        ('{"a": 1}\n{', 1),
        ("[1 2]", 1),
        ('{\n"a": nul\n}', 2),
        ('{"a": "\n"}', 1),
        ("[01]", 1),
        ("{1: 2}", 1),
        ("[1\u0663]", 1),  # a digit, but of another script
    ],
)
def test_what_is_no_json_is_refused(text: str, line: int) -> None:
    with pytest.raises(NotJson) as error:
        parse(text)

    assert error.value.line == line
    with pytest.raises(ValueError):
        json.loads(text)


@pytest.mark.parametrize("text", ["[" * 101 + "]" * 101, '{"a":' * 9000, "[" + "9" * 5000 + "]"])
def test_what_python_cannot_read_is_refused(text: str) -> None:
    with pytest.raises(NotJson):
        parse(text)


def test_of_several_members_with_one_name_the_last_counts() -> None:
    text = '{"a": 1, "a": 2}'
    node = parse(text).get("a")

    assert node is not None and load(text, node) == 2


@given(JSON, st.sampled_from([None, 0, 1, 2, 4, "\t"]), st.booleans())
def test_any_document_is_read_as_json_reads_it(value: Any, indent: Any, plain: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=plain)

    assert load(text, parse(text)) == value == load(text, parse(text, comments=True))


@given(st.dictionaries(st.text(), JSON, max_size=4), st.sampled_from([None, 0, 2, "\t"]))
def test_what_is_put_in_is_there_and_goes_again(value: dict[str, Any], indent: Any) -> None:
    root = {"v": value, "list": []}
    before = json.dumps(root, indent=indent)
    node = parse(before)
    inner, outer = node.get("list"), node
    assert inner is not None
    new = [added(before, inner, [(None, VALUE)] * 2), added(before, outer, [("a", 1), ("b", [])])]
    text, parts = insert(before, new)

    assert json.loads(text) == {**root, "list": [VALUE, VALUE], "a": 1, "b": []}
    assert cut(text, parts) == before


@given(st.lists(JSON, min_size=1, max_size=4), st.data())
def test_any_item_can_be_taken_out(items: list[Any], data: st.DataObject) -> None:
    number = data.draw(st.integers(0, len(items) - 1))
    rest = items[:number] + items[number + 1 :]
    for indent in (None, 2):
        text = json.dumps(items, indent=indent)
        assert json.loads(without(text, parse(text), number)) == rest
        text = json.dumps({str(n): item for n, item in enumerate(items)}, indent=indent)
        assert list(json.loads(without(text, parse(text), number)).values()) == rest


def test_a_whole_file_ends_with_a_newline() -> None:
    assert written({"a": [1]}) == '{\n  "a": [\n    1\n  ]\n}\n'
