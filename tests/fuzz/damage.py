# SPDX-License-Identifier: MIT
"""What may become of the bytes of a file: bits that turn, parts lost, doubled or put in.

A sample that is right is damaged in a few places, since bytes drawn at random seldom get past
the first check. Numbers become huge or negative, words of JSON and TOML other words, and
brackets open thousands deep. The damage is drawn, not the bytes, so that a failure shrinks to
one small edit.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from hypothesis import strategies as st

_TOKEN = re.compile(rb'"[^"\n]*"|[-+]?[0-9]+|[A-Za-z_]+')
_DEEP = 20_000
_PIECES = (
    b"\0",
    b"\xff" * 4,
    b"\x7f" + b"\xff" * 7,
    b"\x80",
    b"\xed\xa0\x80",
    b"-1",
    b"0",
    b"07",
    b"9" * 25,
    b"9" * 5000,
    b"1e999",
    b"-1e999",
    b"NaN",
    b"null",
    b"true",
    b"[]",
    b"{}",
    b'""',
    b"[[]]",
    b'"\\ud800"',
    b'"\\u0000"',
    b"[" * _DEEP,
    b'{"a":' * _DEEP,
    b"\n",
    b"\r\n\n",
    b" ",
    b"\t",
    b"\\",
    b'"',
    b"'",
    b"=",
    b"../x",
    b"/",
    "\u202e\u00e9".encode(),
)


class Edit(NamedTuple):
    """`at` and `length` count from the start and wrap around at the end."""

    how: Callable[[bytes, int, int, bytes], bytes]
    at: int
    length: int
    piece: bytes

    def __repr__(self) -> str:
        return f"Edit({self.how.__name__}, {self.at}, {self.length}, {self.piece[:30]!r})"


def _cut(data: bytes, at: int, length: int, piece: bytes) -> bytes:
    return data[:at]


def _drop(data: bytes, at: int, length: int, piece: bytes) -> bytes:
    return data[:at] + data[at + length :]


def _double(data: bytes, at: int, length: int, piece: bytes) -> bytes:
    return data[: at + length] + data[at:]


def _insert(data: bytes, at: int, length: int, piece: bytes) -> bytes:
    return data[:at] + piece + data[at:]


def _replace(data: bytes, at: int, length: int, piece: bytes) -> bytes:
    return data[:at] + piece + data[at + len(piece) :]


def _turn_a_bit(data: bytes, at: int, length: int, piece: bytes) -> bytes:
    return data[:at] + bytes(byte ^ 1 << length % 8 for byte in data[at : at + 1]) + data[at + 1 :]


def _replace_token(data: bytes, at: int, length: int, piece: bytes) -> bytes:
    tokens = list(_TOKEN.finditer(data))
    if not tokens:
        return piece
    token = tokens[at % len(tokens)]
    return data[: token.start()] + piece + data[token.end() :]


edits = st.lists(
    st.builds(
        Edit,
        st.sampled_from(
            [_replace_token, _turn_a_bit, _replace, _insert, _drop, _double, _cut],
        ),
        st.integers(0, 1 << 14),
        st.integers(1, 40),
        st.sampled_from(_PIECES) | st.binary(max_size=5),
    ),
    min_size=1,
    max_size=3,
)


def damaged(data: bytes, wanted: list[Edit]) -> bytes:
    for how, at, length, piece in wanted:
        data = how(data, at % (len(data) + 1), length, piece)
    return data
