# SPDX-License-Identifier: MIT
"""The JSON of our records is the one that the standard library writes."""

from __future__ import annotations

import enum
import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt import jsontext
from ckpt.jsontext import dump, load

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
