# SPDX-License-Identifier: MIT
"""Whether git converts contents, what its blobs are then, and how the bytes come back."""

from __future__ import annotations

import pytest

from ckpt.worktree.attributes import AttributeTree
from ckpt.worktree.convert import (
    Conversion,
    LineEndings,
    clean,
    conversion,
    converts,
    find_recipe,
    smudge,
)
from ckpt.worktree.encodings import Unconvertible


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


def asked(words: bytes, *, autocrlf: bool = False) -> Conversion:
    found = conversion(AttributeTree({b"": b"* " + words}.get).attributes(b"a"), autocrlf)
    assert found is not None
    return found


def cleaned(words: bytes, data: bytes, index: bytes | None = None) -> bytes:
    return clean(asked(words), data, lambda: index)


@pytest.mark.parametrize("words", [b"diff", b"-text", b"-text eol=crlf", b"!text", b"text=maybe"])
def test_without_a_converting_attribute_nothing_is_asked_for(words: bytes) -> None:
    assert conversion(AttributeTree({b"": b"* " + words}.get).attributes(b"a"), False) is None


def test_autocrlf_rules_where_no_attribute_does() -> None:
    assert asked(b"diff", autocrlf=True).line_endings is LineEndings.AUTO
    assert conversion({b"text": False}, True) is None


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (b"text", LineEndings.TEXT),
        (b"eol=crlf", LineEndings.TEXT),
        (b"crlf=input", LineEndings.TEXT),
        (b"text=auto", LineEndings.AUTO),
        (b"text=auto eol=crlf", LineEndings.AUTO),
        (b"text=maybe crlf", LineEndings.TEXT),
    ],
)
def test_line_endings_follow_text_then_crlf_then_eol(words: bytes, kind: LineEndings) -> None:
    assert asked(words).line_endings is kind


@pytest.mark.parametrize("words", [b"text", b"text=auto"])
def test_crlf_becomes_lf(words: bytes) -> None:
    assert cleaned(words, b"a\r\nb\nc\r\n") == b"a\nb\nc\n"


@pytest.mark.parametrize(
    "data", [b"a\r\n\0", b"a\r\nb\r", b"\x01\r\n", b"a" * 127 + b"\x01\r\n", b"\x1a\x1a\r\n"]
)
def test_auto_leaves_what_does_not_look_like_text(data: bytes) -> None:
    assert cleaned(b"text=auto", data) == data
    assert cleaned(b"text", data) == data.replace(b"\r\n", b"\n")


@pytest.mark.parametrize("data", [b"a" * 128 + b"\x01\r\n", b"\r\n\x1a", b"\x1b\f\b\t\xff\r\n"])
def test_auto_takes_a_little_that_is_unprintable_for_text(data: bytes) -> None:
    assert cleaned(b"text=auto", data) == data.replace(b"\r\n", b"\n")


def test_auto_leaves_text_that_the_index_has_with_crlf() -> None:
    assert cleaned(b"text=auto", b"a\r\nb\r\n", b"a\r\n") == b"a\r\nb\r\n"
    assert cleaned(b"text=auto", b"a\r\n", b"a\r\n\0") == b"a\n"
    assert cleaned(b"text", b"a\r\n", b"a\r\n") == b"a\n"


@pytest.mark.parametrize(
    ("data", "blob"),
    [
        (b"$Id: 0123 $", b"$Id$"),
        (b"$Id:$ $Id: a b$", b"$Id$ $Id$"),
        (b"$Id: line\n$", b"$Id: line\n$"),
        (b"$Id: line\n$Id: x$", b"$Id: line\n$Id$"),
        (b"$Idea$ $Id", b"$Idea$ $Id"),
    ],
)
def test_an_expanded_id_is_taken_back(data: bytes, blob: bytes) -> None:
    assert cleaned(b"ident", data) == blob


def test_an_id_is_expanded_unless_it_is_another_system_s() -> None:
    blob = b"$Id$ $Id:$ $Id: 12 $ $Id: a b $ $Idea$\n"

    assert smudge("ident", blob, b"beef") == (
        b"$Id: beef $ $Id: beef $ $Id: beef $ $Id: a b $ $Idea$\n"
    )


def test_crlf_is_given_only_to_lines_without() -> None:
    assert smudge("eol=crlf", b"a\nb\r\n\r\r\n", b"") == b"a\r\nb\r\n\r\r\n"


ID = b"8baef1b4abc478178b004d62031cf7fe6db6f903"
OTHER = b"0" * 40


@pytest.mark.parametrize(
    ("words", "data", "recipe"),
    [
        (b"text", b"a\r\nb\r\n", "eol=crlf"),
        (b"text=auto", b"a\r\nb\r\n", "eol=crlf"),
        (b"ident", b"$Id: " + ID + b" $\n", "ident"),
        (b"ident", b"$Id: " + OTHER + b" $\n", f"ident={OTHER.decode()}"),
        (b"ident text", b"$Id: " + ID + b" $\r\n", "ident eol=crlf"),
        (b"ident", b"$Id: " + ID + b" $\r\n\n", "ident"),
        (b"working-tree-encoding=latin1", b"\xe9\r\n\n", "encoding=latin1"),
        (b"working-tree-encoding=UTF-16", b"\xff\xfea\0", "encoding=UTF-16LE-BOM"),
        (b"working-tree-encoding=UTF-16", b"\xfe\xff\0a", "encoding=UTF-16BE-BOM"),
        (b"text working-tree-encoding=UTF-16LE", b"\r\0\n\0", "eol=crlf encoding=UTF-16LE"),
    ],
)
def test_a_recipe_gives_the_bytes_again(words: bytes, data: bytes, recipe: str) -> None:
    blob = cleaned(words, data)

    assert find_recipe(asked(words), data, blob, ID) == recipe
    assert smudge(recipe, blob, ID) == data


@pytest.mark.parametrize(
    ("words", "data"),
    [
        (b"text", b"mixed\r\nmixed\n"),
        (b"ident", b"$Id: " + ID + b" $ $Id: " + OTHER + b" $"),
        (b"ident", b"$Id: by hand $"),
    ],
)
def test_what_no_recipe_gives_has_none(words: bytes, data: bytes) -> None:
    assert find_recipe(asked(words), data, cleaned(words, data), ID) is None


def test_a_recipe_of_a_later_version_is_refused() -> None:
    with pytest.raises(Unconvertible):
        smudge("eol=cr", b"a\n", ID)


@pytest.mark.parametrize("value", [b"", b"UTF-8", b"utf8", b"\xff"])
def test_utf_8_and_no_name_at_all_are_no_encoding(value: bytes) -> None:
    assert conversion({b"working-tree-encoding": value}, False) is None
    assert conversion({b"working-tree-encoding": True}, False) is None


@pytest.mark.parametrize(
    ("encoding", "data"),
    [
        (b"UTF-16", b"a\0"),
        (b"UTF-16LE", b"\xff\xfea\0"),
        (b"UTF-16BE", b"\xff\xfea\0"),
        (b"UTF-32", b"a\0\0\0"),
        (b"UTF-16LE", b"\0\xd8a\0"),
        (b"UTF-16LE", b"a"),
        (b"no-such-thing", b"a"),
        (b"rot13", b"a"),
        (b"punycode", b"a"),
    ],
)
def test_what_is_not_in_its_encoding_cannot_be_cleaned(encoding: bytes, data: bytes) -> None:
    with pytest.raises(Unconvertible):
        cleaned(b"working-tree-encoding=" + encoding, data)


@pytest.mark.parametrize("encoding", [b"UTF-16", b"utf16", b"UTF-16LE-BOM", b"UTF-32"])
def test_a_byte_order_mark_is_no_part_of_the_blob(encoding: bytes) -> None:
    name = "utf-32" if b"32" in encoding else "utf-16"

    assert cleaned(b"working-tree-encoding=" + encoding, "né\n".encode(name)) == "né\n".encode()


def test_an_empty_file_is_in_every_encoding() -> None:
    assert cleaned(b"working-tree-encoding=UTF-16", b"") == b""
