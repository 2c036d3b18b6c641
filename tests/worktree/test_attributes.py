# SPDX-License-Identifier: MIT
"""How lines of gitattributes are read, and which of them has the last word."""

from __future__ import annotations

import pytest

from ckpt.git import rules
from ckpt.git.rules import Attributes, AttributeTree, State, asks_for_conversion


def said(text: bytes, path: bytes = b"a.txt", *, ignore_case: bool = False) -> Attributes:
    """What one attributes file at the top says of a path."""
    return AttributeTree({b"": text}.get, ignore_case=ignore_case).attributes(path)


@pytest.mark.parametrize(
    ("word", "name", "state"),
    [
        (b"text", b"text", True),
        (b"-text", b"text", False),
        (b"!text", b"text", None),
        (b"text=auto", b"text", b"auto"),
        (b"filter=", b"filter", b""),
        (b"-text=auto", b"text", False),
        (b"working-tree-encoding=UTF-16", b"working-tree-encoding", b"UTF-16"),
    ],
)
def test_an_attribute_is_set_unset_forgotten_or_given_a_value(
    word: bytes, name: bytes, state: State
) -> None:
    assert said(b"*.txt " + word) == {name: state}


@pytest.mark.parametrize(
    "line",
    [
        b"# *.txt text",
        b"  # *.txt text",
        b"",
        b"*.txt",
        b"*.txt text a,b",
        b"*.txt text --eol",
        b"!*.txt text",
        b"a.txt/ text",
        b"*.txt diff merge=union",
        b"*.txt text " + b" " * 2048,
        b"[attr]a,b text\n*.txt a,b",
        b'"*.txt text',
    ],
)
def test_a_line_that_git_passes_over_says_nothing(line: bytes) -> None:
    assert said(line) == {}


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        (b'"a b"', b"a b"),
        (b'"tab\\there"', b"tab\there"),
        (b'"\\303\\251"', b"\xc3\xa9"),
        (b'"say \\"a\\""', b'say "a"'),
        (b'"back\\\\\\\\slash"', b"back\\slash"),
        (b"\\!important", b"!important"),
        (b"*", b"deep/below/a"),
        (b"**", b"deep/below/a"),
        (b"sub/*.c", b"sub/a.c"),
        (b"sub/**", b"sub/deep/a.c"),
        (b"/a.c", b"a.c"),
        (b"a.[ch]", b"sub/a.h"),
        (b"a?c", b"sub/abc"),
    ],
)
def test_a_pattern_matches_as_in_gitignore_and_may_be_quoted(pattern: bytes, path: bytes) -> None:
    assert said(pattern + b" text", path) == {b"text": True}
    assert said(pattern + b" text", b"no/where") == ({b"text": True} if b"*" in pattern[:2] else {})


def test_after_the_quoted_pattern_no_blank_is_needed() -> None:
    assert said(b'"a.txt"text') == {b"text": True}


def test_a_byte_order_mark_and_cr_are_no_part_of_a_line() -> None:
    assert said(b"\xef\xbb\xbf*.txt text\r\n*.txt ident\r\n") == {b"text": True, b"ident": True}


def test_the_later_line_and_the_later_word_win() -> None:
    assert said(b"*.txt text\na.txt -text\n") == {b"text": False}
    assert said(b"*.txt text -text text=auto") == {b"text": b"auto"}


def test_forgetting_an_attribute_hides_what_earlier_lines_said() -> None:
    assert said(b"* text ident\na.txt !text\n") == {b"text": None, b"ident": True}


def test_a_macro_stands_for_what_it_sets() -> None:
    assert said(b"*.txt binary") == {b"text": False}
    assert said(b"*.txt mine\n[attr]mine ident other\n[attr]other eol=crlf") == {
        b"ident": True,
        b"eol": b"crlf",
    }


def test_a_macro_that_names_itself_ends() -> None:
    assert said(b"[attr]mine mine text\n*.txt mine") == {b"text": True}


def test_macros_of_macros_are_followed_however_many_there_are() -> None:
    """Python follows no more than a thousand calls within each other."""
    chain = b"".join(b"[attr]m%d eol=lf m%d\n" % (n, n + 1) for n in range(20_000))

    assert said(chain + b"[attr]m20000 eol=crlf text ident\n*.txt m0 -text") == {
        b"eol": b"crlf",
        b"text": False,
        b"ident": True,
    }


def test_a_macro_counts_where_it_stands_in_the_line() -> None:
    assert said(b"*.txt text binary") == {b"text": False}
    assert said(b"*.txt binary text") == {b"text": True}


def test_a_macro_that_is_unset_later_does_nothing() -> None:
    assert said(b"*.txt binary\na.txt -binary") == {}


def test_the_file_of_a_folder_below_cannot_define_a_macro() -> None:
    files = {b"sub": b"[attr]mine text\n* mine"}

    assert AttributeTree(files.get).attributes(b"sub/a") == {}


def test_the_nearer_file_wins_and_info_before_all() -> None:
    files = {b"": b"* eol=lf ident\n", b"sub": b"* eol=crlf\n"}
    tree = AttributeTree(
        files.get, system=b"* text filter=a", user=b"* text=auto", info=b"a -ident\n"
    )

    assert tree.attributes(b"sub/a") == {
        b"text": b"auto",
        b"filter": b"a",
        b"eol": b"crlf",
        b"ident": False,
    }
    assert tree.attributes(b"a")[b"eol"] == b"lf"


def test_a_pattern_is_anchored_in_the_folder_of_its_file() -> None:
    files = {b"sub": b"/a text\ndeep/b ident\n"}
    tree = AttributeTree(files.get)

    assert tree.attributes(b"sub/a") == {b"text": True}
    assert tree.attributes(b"sub/deep/b") == {b"ident": True}
    assert tree.attributes(b"sub/deep/a") == tree.attributes(b"a") == tree.attributes(b"deep/b")


def test_case_is_ignored_where_git_is_told_to() -> None:
    assert said(b"*.TXT text\nSub/b ident", b"A.txt", ignore_case=True) == {b"text": True}
    assert said(b"*.TXT text\nSub/b ident", b"sub/B", ignore_case=True) == {b"ident": True}
    assert said(b"*.TXT text") == {}


def test_each_file_is_read_once_and_only_for_folders_that_are_asked_for() -> None:
    read = []
    tree = AttributeTree(read.append)
    for path in (b"a/b/c", b"a/b/d", b"a/e", b"f"):
        tree.attributes(path)

    assert read == [b"", b"a", b"a/b"]


@pytest.mark.parametrize("text", [b'"a b"text', b"*.c\rtext", b"[attr]a ident", b"* -text eol=lf"])
def test_a_line_that_may_turn_a_conversion_on_is_seen_however_it_is_written(text: bytes) -> None:
    assert asks_for_conversion(text)


def test_no_expression_is_made_of_a_pattern_that_no_path_may_match(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[rules.Glob] = []
    expression = rules.expression

    def counted(glob: rules.Glob) -> bytes:
        made.append(glob)
        return expression(glob)

    monkeypatch.setattr(rules, "expression", counted)
    lines = [b"a*%d*b text" % number for number in range(100, 1000)]
    tree = AttributeTree({b"": b"\n".join([*lines, b"src/*7*.c -text"])}.get)

    assert tree.attributes(b"src/plain.c") == {}
    assert tree.attributes(b"a777b") == {b"text": True}
    assert tree.attributes(b"src/x7y.c") == {b"text": False}
    assert len(made) < 10
