# SPDX-License-Identifier: MIT
"""Wherever git may convert contents, the index proves nothing about a file's bytes."""

from __future__ import annotations

import pytest

from ckpt.worktree.convert import converts


@pytest.mark.parametrize("value", ["true", "input", "TRUE", "yes", "on", "1", "anything"])
def test_line_endings_may_be_converted_by_configuration(value: str) -> None:
    assert converts(value, [])


@pytest.mark.parametrize("value", [None, "false", "False", "no", "off", "0"])
def test_without_configuration_they_are_not(value: str | None) -> None:
    assert not converts(value, [])


@pytest.mark.parametrize(
    "line",
    [
        b"* text=auto",
        b"*.txt text",
        b"*.bat eol=crlf",
        b"*.c crlf",
        b"*.psd filter=lfs diff=lfs merge=lfs -text",
        b"*.c -diff ident",
        b"*.txt working-tree-encoding=UTF-16",
        b'"two words" text',
        b"[attr]source text diff",
        b"  *.txt\ttext  ",
        b"*.txt text\r",
    ],
)
def test_an_attribute_that_asks_for_a_conversion_counts(line: bytes) -> None:
    assert converts(None, [b"# comment\n*.png -text\n" + line + b"\n"])
    assert converts("false", [b"", line])


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"# * text=auto\n",
        b"   # * text=auto\n",
        b"*.png binary\n*.c -text -ident !filter -eol\n",
        b"*.c diff=c merge=union whitespace=tab export-ignore linguist-language=C\n",
        b"text\nfilter\n",
        b"text -diff\n",
    ],
)
def test_other_attributes_do_not(text: bytes) -> None:
    assert not converts(None, [text])


def test_one_of_several_files_is_enough() -> None:
    assert converts(None, [b"*.c diff\n", b"*.c text\n"])
