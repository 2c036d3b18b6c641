# SPDX-License-Identifier: MIT
"""Patches that git would not write: refused, without a crash."""

from __future__ import annotations

import base64
import zlib

import pytest

from ckpt.git.linediff import parse
from ckpt.git.objects import DamagedObject

HEAD = b"diff --git a/f b/f\nindex 1111111..2222222 100644\n"
TEXT = HEAD + b"--- a/f\n+++ b/f\n"


def lines(data: bytes) -> bytes:
    """Base 85 as git has it."""
    rows = [data[at : at + 52] for at in range(0, len(data), 52)]
    lengths = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    padded = [row + b"\0" * (-len(row) % 4) for row in rows]
    return b"".join(
        b"%c%s\n" % (lengths[len(row) - 1], base64.b85encode(full))
        for row, full in zip(rows, padded, strict=True)
    )


def binary(kind: bytes, size: int, data: bytes) -> bytes:
    encoded = lines(zlib.compress(data, 9))
    return HEAD + b"GIT binary patch\n%s %d\n%s\n" % (kind, size, encoded)


def applied(patch: bytes, content: bytes = b"") -> bytes:
    [found] = parse(patch)
    return found.apply(content)


def test_a_binary_file_comes_from_its_lines() -> None:
    data = bytes(range(256)) * 3

    assert applied(binary(b"literal", len(data), data)) == data


def test_a_delta_copies_and_inserts() -> None:
    delta = bytes((10, 9, 0x91, 2, 3, 4)) + b"new!" + bytes((0xB0, 2, 0))

    assert applied(binary(b"delta", len(delta), delta), b"0123456789") == b"234new!01"


@pytest.mark.parametrize(
    "patch",
    [
        binary(b"delta", 3 + 1000, b"\x00\x10" + b"\0" + b"\x80" * 1000),
        binary(b"delta", 6, b"\0\xff\xff\xff\xff\x0f"),
        binary(b"delta", 12, b"\0" + b"\xff" * 11),
        binary(b"delta", 3, b"\0\5\7"),
        binary(b"delta", 3, b"\0\1\0"),
        binary(b"sparse", 1, b"a"),
        HEAD + b"GIT binary patch\nliteral 4\nDAAAAA\n\n",
        HEAD + b"GIT binary patch\nliteral 4\nD~~~~~\n\n",
        HEAD + b'GIT binary patch\nliteral 4\nD"""""\n\n',
        HEAD + b"GIT binary patch\nliteral 4\n?AAAAA\n\n",
        HEAD + b"GIT binary patch\nliteral 4\nDAAAAA",
        HEAD + b"Binary files a/f and b/f differ\n",
        TEXT + b"@@ -9999999999 +1 @@\n-a\n+b\n",
        TEXT + b"@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n",
        b"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n",
        b'diff --git "a/f" "b/f\nold mode 100644\n',
        b"diff --git a/f b/f\nrename from f\n",
        b"diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n",
        b"diff --cc f\n",
    ],
)
def test_what_git_would_not_write_is_refused(patch: bytes) -> None:
    with pytest.raises(DamagedObject):
        applied(patch, b"a\nb\nc\n")


def test_lines_without_an_end_stay_without() -> None:
    mark = b"\\ No newline at end of file\n"
    patch = TEXT + b"@@ -1,2 +1,2 @@\n a\n-b\n%s+c\n%s" % (mark, mark)

    assert applied(patch, b"a\nb") == b"a\nc"


def test_a_blank_line_may_lack_its_blank() -> None:
    assert applied(TEXT + b"@@ -1,2 +1,2 @@\n\n-b\n+c\n", b"\nb\n") == b"\nc\n"


def test_without_context_lines_are_put_after_the_one_that_is_named() -> None:
    assert applied(TEXT + b"@@ -1,0 +2 @@\n+new\n", b"a\nb\n") == b"a\nnew\nb\n"
    assert applied(TEXT + b"@@ -0,0 +1 @@\n+new\n", b"a\n") == b"new\na\n"
