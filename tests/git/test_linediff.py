# SPDX-License-Identifier: MIT
"""Line counts and patches as bytes.

Whether git counts and applies the same is asked in tests/with_git/test_linediff_against_git.py.
"""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ckpt.engine.diff import Side, unified
from ckpt.git import linediff
from ckpt.git.linediff import Block, changes, count, is_binary, quote_path

OLD_ID = b"1111111" + b"0" * 33
NEW_ID = b"2222222" + b"0" * 33


def patch(old: bytes | None, new: bytes | None, path: bytes = b"file", **options: int) -> bytes:
    before = Side(old, options.get("old_mode", 0o100644), OLD_ID, b"a/" + path)
    return unified(before, Side(new, options.get("new_mode", 0o100644), NEW_ID, b"b/" + path))


def hunks(old: bytes, new: bytes) -> bytes:
    """The patch without what stands above the first hunk."""
    text = patch(old, new)
    return text[text.index(b"@@") :]


def numbered(*numbers: int) -> bytes:
    return b"".join(b"%d\n" % number for number in numbers)


def words(text: str) -> list[bytes]:
    return [word.encode() for word in text.split()]


def longest_common(a: list[bytes], b: list[bytes]) -> int:
    """By the table, cell after cell: slow and plain."""
    row = [0] * (len(b) + 1)
    for line in a:
        above, row = row, [0]
        for column, other in enumerate(b):
            equal = above[column] + 1 if line == other else 0
            row.append(max(equal, above[column + 1], row[column]))
    return row[-1]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", False),
        (b"text\n", False),
        (b"\xff\xfe\x80", False),
        (b"a\0b", True),
        (b"x" * 7999 + b"\0", True),
        (b"x" * 8000 + b"\0", False),
    ],
)
def test_a_nul_near_the_start_makes_a_file_binary(data: bytes, expected: bool) -> None:
    assert is_binary(data) is expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (b"", b"", (0, 0)),
        (b"a\n", b"a\n", (0, 0)),
        (b"", b"a\nb\n", (2, 0)),
        (b"a\nb\n", b"", (0, 2)),
        (b"a\nb\nc\n", b"a\nX\nc\n", (1, 1)),
        (b"a\n", b"a", (1, 1)),
        (b"a\nb", b"a\nb\nc", (2, 1)),
        (b"a\r\n", b"a\n", (1, 1)),
        (b"a\rb\n", b"a\rc\n", (1, 1)),
        (b"\n\n\n", b"\n\n", (0, 1)),
        (b"a\nb\n", b"b\na\n", (1, 1)),
        (b"a\0", b"b\n", (0, 0)),
        (b"b\n", b"a\0", (0, 0)),
    ],
)
def test_lines_are_counted(old: bytes, new: bytes, expected: tuple[int, int]) -> None:
    assert count(old, new) == expected


def test_a_megabyte_of_different_lines_is_counted() -> None:
    lines = range(100_000, 235_000)

    assert count(numbered(*lines), numbered(*(-n for n in lines))) == (135_000, 135_000)


def test_a_large_file_in_another_order_is_counted_exactly() -> None:
    lines = list(range(10_000))
    reversed_lines = numbered(*reversed(lines))

    assert count(numbered(*lines), reversed_lines) == (9_999, 9_999)


def test_a_short_text_against_a_very_long_one_is_counted_exactly() -> None:
    long = b"a\n" * 100_000 + b"b\n" * 100_000

    assert count(b"b\na\n", long) == (199_999, 1)


few_lines = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"\n", b"d\n"]), max_size=30)


@settings(max_examples=300, deadline=None)
@given(few_lines, few_lines)
def test_a_count_is_the_least_number_of_lines(a: list[bytes], b: list[bytes]) -> None:
    common = longest_common(a, b)

    assert count(b"".join(a), b"".join(b)) == (len(b) - common, len(a) - common)


def check_blocks(a: list[bytes], b: list[bytes], blocks: list[Block]) -> None:
    """Outside the blocks both texts are equal, and no two blocks touch."""
    edges = [Block(0, 0, 0, 0), *blocks, Block(len(a), len(a), len(b), len(b))]
    for before, after in pairwise(edges):
        assert a[before.old_end : after.old] == b[before.new_end : after.new]
    for before, after in pairwise(blocks):
        assert before.old_end < after.old
    for block in blocks:
        assert block.old < block.old_end or block.new < block.new_end


@settings(max_examples=300, deadline=None)
@given(few_lines, few_lines)
def test_changes_are_the_fewest_that_turn_one_text_into_the_other(
    a: list[bytes], b: list[bytes]
) -> None:
    blocks = changes(a, b)

    check_blocks(a, b, blocks)
    deleted = sum(block.old_end - block.old for block in blocks)
    assert deleted == len(a) - longest_common(a, b)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 30), max_size=40), st.lists(st.integers(0, 30), max_size=40))
def test_changes_are_right_past_the_limit_too(x: list[int], y: list[int]) -> None:
    a, b = [b"%d\n" % n for n in x], [b"%d\n" % n for n in y]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(linediff, "MOST_WORK", 20)
        blocks = changes(a, b)

    check_blocks(a, b, blocks)


def test_past_the_limit_all_is_replaced() -> None:
    old = [b"1\n", b"2\n", b"1\n"] * 20_000
    new = [b"2\n", b"1\n", b"2\n"] * 21_000

    assert changes(old, new) == [Block(0, len(old), 0, len(new))]


@pytest.mark.parametrize(
    ("old", "new", "block"),
    [
        ("{ a }", "{ a } { b }", Block(3, 3, 3, 6)),
        ("{ b } { a }", "{ a }", Block(1, 4, 1, 1)),
        ("x", "x x", Block(1, 1, 1, 2)),
        ("f x } y", "f x } x } y", Block(3, 3, 3, 5)),
        ("a b", "c a b b", Block(2, 2, 3, 4)),
        ("b d c d", "a b d", Block(2, 4, 3, 3)),
    ],
)
def test_what_could_stand_in_several_places_stands_in_the_last(
    old: str, new: str, block: Block
) -> None:
    assert changes(words(old), words(new))[-1] == block


def test_a_change_that_slides_onto_the_next_becomes_one_with_it() -> None:
    assert changes(words("x a a b a"), words("x a a a c a")) == [Block(3, 4, 3, 5)]


def test_a_patch_has_the_form_of_git_s() -> None:
    old = numbered(1, 2, 3, 4, 5, 6, 7, 8, 9)

    assert patch(old, old.replace(b"5\n", b"five\nmore\n")) == (
        b"diff --git a/file b/file\n"
        b"index 1111111..2222222 100644\n"
        b"--- a/file\n"
        b"+++ b/file\n"
        b"@@ -2,7 +2,8 @@\n"
        b" 2\n 3\n 4\n-5\n+five\n+more\n 6\n 7\n 8\n"
    )


def test_equal_files_give_no_patch() -> None:
    assert patch(b"a\n", b"a\n") == b""
    assert patch(None, None) == b""


def test_a_new_file_comes_from_dev_null() -> None:
    assert patch(None, b"a\n") == (
        b"diff --git a/file b/file\n"
        b"new file mode 100644\n"
        b"index 0000000..2222222\n"
        b"--- /dev/null\n"
        b"+++ b/file\n"
        b"@@ -0,0 +1 @@\n"
        b"+a\n"
    )


def test_a_deleted_file_goes_to_dev_null() -> None:
    assert patch(b"a\nb\n", None, old_mode=0o100755) == (
        b"diff --git a/file b/file\n"
        b"deleted file mode 100755\n"
        b"index 1111111..0000000\n"
        b"--- a/file\n"
        b"+++ /dev/null\n"
        b"@@ -1,2 +0,0 @@\n"
        b"-a\n"
        b"-b\n"
    )


def test_an_empty_file_is_made_by_its_header_alone() -> None:
    assert patch(None, b"", new_mode=0o100755) == (
        b"diff --git a/file b/file\nnew file mode 100755\nindex 0000000..2222222\n"
    )


def test_a_change_of_mode_alone_has_no_index_line() -> None:
    assert patch(b"a\n", b"a\n", new_mode=0o100755) == (
        b"diff --git a/file b/file\nold mode 100644\nnew mode 100755\n"
    )


def test_a_change_of_mode_and_content_has_both() -> None:
    lines = patch(b"a\n", b"b\n", new_mode=0o100755).splitlines()

    assert lines[1:4] == [b"old mode 100644", b"new mode 100755", b"index 1111111..2222222"]


def test_a_file_that_becomes_a_symlink_is_deleted_and_made_anew() -> None:
    lines = patch(b"a\n", b"target", new_mode=0o120000).splitlines()

    assert lines.count(b"diff --git a/file b/file") == 2
    assert b"deleted file mode 100644" in lines
    assert b"index 1111111..0000000" in lines
    assert b"new file mode 120000" in lines
    assert b"index 0000000..2222222" in lines
    assert lines[-2:] == [b"+target", b"\\ No newline at end of file"]


def test_binary_files_are_only_said_to_differ() -> None:
    assert patch(b"a\0", b"b\n").endswith(b"Binary files a/file and b/file differ\n")
    assert patch(None, b"\0").endswith(b"Binary files /dev/null and b/file differ\n")
    assert patch(b"\0", None).endswith(b"Binary files a/file and /dev/null differ\n")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (b"a", b"b\n", b"@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n"),
        (b"a\n", b"a", b"@@ -1 +1 @@\n-a\n+a\n\\ No newline at end of file\n"),
        (b"a\nz", b"z", b"@@ -1,2 +1 @@\n-a\n z\n\\ No newline at end of file\n"),
    ],
)
def test_a_missing_newline_is_said(old: bytes, new: bytes, expected: bytes) -> None:
    assert hunks(old, new) == expected


@pytest.mark.parametrize(("between", "number"), [(6, 1), (7, 2)])
def test_hunks_whose_context_would_touch_are_one(between: int, number: int) -> None:
    same = numbered(*range(between))
    text = hunks(b"a\n" + same + b"b\n", b"A\n" + same + b"B\n")

    assert text.count(b"@@ -") == number


def test_a_hunk_names_the_last_line_above_it_that_is_not_indented() -> None:
    body = [b"    %d\n" % n for n in range(10)]
    old = [b"def first():\n", *body, b"def second():  \r\n", *body, *body]
    new = old.copy()
    for at in (9, 18, 30):
        new[at] = b"    changed\n"

    headers = [line for line in hunks(b"".join(old), b"".join(new)).splitlines() if b"@@" in line]

    assert headers == [
        b"@@ -7,7 +7,7 @@ def first():",
        b"@@ -16,7 +16,7 @@ def second():",
        b"@@ -28,5 +28,5 @@ def second():",
    ]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (b"plain", b"plain"),
        (b"with space/and 'quotes'", b"with space/and 'quotes'"),
        (b'"', b'"\\""'),
        (b"back\\slash", b'"back\\\\slash"'),
        (b"\a\b\t\n\v\f\r", b'"\\a\\b\\t\\n\\v\\f\\r"'),
        (b"\x01\x1f\x7f", b'"\\001\\037\\177"'),
        ("é".encode(), b'"\\303\\251"'),
        (b"\xff", b'"\\377"'),
    ],
)
def test_unusual_bytes_in_a_path_are_escaped(path: bytes, expected: bytes) -> None:
    assert quote_path(path) == expected


def test_a_patch_quotes_its_paths_and_marks_the_end_of_those_with_spaces() -> None:
    assert patch(b"a\n", b"b\n", path=b"a b").splitlines()[2:4] == [b"--- a/a b\t", b"+++ b/a b\t"]
    assert patch(None, b"b\n", path=b"\xe9 x").splitlines() == [
        b'diff --git "a/\\351 x" "b/\\351 x"',
        b"new file mode 100644",
        b"index 0000000..2222222",
        b"--- /dev/null",
        b'+++ "b/\\351 x"\t',
        b"@@ -0,0 +1 @@",
        b"+b",
    ]
