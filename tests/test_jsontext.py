# SPDX-License-Identifier: MIT
"""The JSON of our records is the one that the standard library writes."""

from __future__ import annotations

import enum
import json
import subprocess
import sys
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt import jsontext
from ckpt.jsontext import count, dump, load

TEXTS = st.text(st.characters(exclude_categories=()))
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | TEXTS
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(TEXTS, inner),
    max_leaves=30,
)


class Word(str, enum.Enum):
    ONE = "one"


def by_json(document: Any) -> bytes:
    return json.dumps(document, sort_keys=True, indent=1).encode("ascii") + b"\n"


@given(st.dictionaries(TEXTS, VALUES))
def test_any_document_is_written_as_json_writes_it(document: dict[str, Any]) -> None:
    assert dump(document) == by_json(document)


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"b": [], "a": {}, "c": [{}, [[]]]},
        {"a": 1.5, "b": [float("inf")]},
        {"a": {1: "one", 2: None}},
        {"a": ("x", "y"), "b": Word.ONE, "c": True},
        {"\udcff\U0001f600\u2028": '"\\\n\0é'},
    ],
    ids=repr,
)
def test_odd_documents_are_written_as_json_writes_them(document: dict[str, Any]) -> None:
    assert dump(document) == by_json(document)


def test_what_is_no_json_is_refused_as_json_refuses_it() -> None:
    with pytest.raises(TypeError, match="not JSON serializable"):
        dump({"a": b"bytes"})


@given(VALUES)
def test_any_value_is_read_as_json_reads_it(value: Any) -> None:
    data = json.dumps(value).encode()

    assert repr(load(data)) == repr(json.loads(data))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[1,]",
        b'{"a":1}x',
        b"nonsense",
        b"\xff",
        b'{"a": "\n"}',
        b' \n{"a": 1}\r\n\t ',
        b"3",
        b'{"a": 1, "a": 2}',
        b'\xef\xbb\xbf{"a": 1}',
        '{"a": 1}'.encode("utf-16"),
        b'["\\ud800"]',
    ],
)
def test_odd_texts_are_read_or_refused_as_json_does(data: bytes) -> None:
    try:
        expected = repr(json.loads(data))
    except ValueError as error:
        with pytest.raises(type(error)):
            load(data)
    else:
        assert repr(load(data)) == expected


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
@pytest.mark.parametrize("sign", ["a", "ä"])  # the second is read by another way
def test_a_number_that_json_does_not_know_is_refused(number: str, sign: str) -> None:
    with pytest.raises(ValueError, match="no number"):
        load(f'{{"{sign}": [1.5, {number}]}}'.encode())


def test_a_plain_document_needs_no_json() -> None:
    code = (
        "import sys; from ckpt.jsontext import dump, load; load(dump({'a': [1]}));"
        "print(*sys.modules)"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout

    assert b"json" not in loaded.split()


def test_a_text_that_unfolds_into_too_many_values_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsontext, "_LARGE", 1000)
    monkeypatch.setattr(jsontext, "_MOST_VALUES", 500)

    assert load(b"[" + b"0," * 498 + b"0]") == [0] * 499
    with pytest.raises(ValueError, match="502 values"):
        load(b"[" + b"0," * 500 + b"0]")
    assert load(b'["' + b"," * 2000 + b'"]') == ["," * 2000]


@pytest.mark.parametrize("piece", [1, 2, 3, 1000])
@pytest.mark.parametrize(
    ("data", "number"),
    [
        (b'[1, "[,{", 2]', 4),
        (b'{"a,": [",", "\\\\", 1]}', 5),
        (b'["\\",", "\\\\\\",", ",\\\\"]', 4),
        (b'["",",",""]', 4),
        (b'["a", "b,c', 4),
        (b'["a", "b\\",c', 4),
        (b'["a,"', 2),
        (b"", 1),
    ],
)
def test_what_is_within_strings_does_not_count_as_values(
    data: bytes, number: int, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsontext, "_PIECE", piece)

    assert count(data, most=0) == number


def signs(value: Any) -> int:
    """The brackets and commas of a value, but for those in texts."""
    if not isinstance(value, (list, tuple, dict)):
        return 0
    inner = value.values() if isinstance(value, dict) else value
    return max(len(value), 1) + sum(map(signs, inner))


@given(VALUES, st.integers(min_value=1, max_value=30))
def test_nor_does_it_in_any_value(value: Any, piece: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jsontext, "_PIECE", piece)
        assert count(json.dumps(value).encode(), most=0) == 1 + signs(value)


def test_quotes_without_an_end_are_not_looked_for_again_and_again() -> None:
    code = r"""from ckpt.jsontext import count; print(count(b'"' + b'\\"' * 300_000, most=0))"""
    words = [sys.executable, "-I", "-c", code]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=60)

    assert (ran.stdout, ran.stderr) == ("1\n", "")


@pytest.mark.parametrize("text", [b"a" * 3_000_000, b'\\"' * 1_500_000, b'","' * 1_000_000])
def test_to_count_values_takes_little_memory(text: bytes) -> None:
    data = b'["' + text + b'"]'
    tracemalloc.start()
    try:
        assert count(data, most=0) > 1
        assert tracemalloc.get_traced_memory()[1] < 10 * len(data)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("text", ["{", "[1", '{"a"', '{"a":1', '["x', '{"a":1,}', "[1,]"])
def test_a_document_that_was_cut_off_is_an_error_of_value_without_json_too(text: str) -> None:
    """Before Python 3.12 the scanner cannot raise errors of a module that is not imported."""
    code = (
        "import sys; from ckpt import jsontext; assert 'json' not in sys.modules\n"
        "try: jsontext.load(sys.argv[1].encode())\n"
        "except ValueError: print('told')"
    )
    ran = subprocess.run([sys.executable, "-I", "-c", code, text], capture_output=True, text=True)

    assert (ran.stdout, ran.stderr) == ("told\n", "")
