# SPDX-License-Identifier: MIT
"""What each form of line means, and which file has the last word."""

from __future__ import annotations

import re

import pytest

from ckpt.git.rules import IgnoreStack, IgnoreTree, parse


def ignored(text: bytes, *paths: bytes, ignore_case: bool = False) -> list[bytes]:
    """Those of the paths that are ignored; one that ends with a slash is a folder."""
    tree = IgnoreTree(IgnoreStack.root(), {b"": text}.get, ignore_case=ignore_case)
    return [path for path in paths if tree.ignored(path.rstrip(b"/"), path.endswith(b"/"))]


class TestLines:
    def test_a_line_without_slash_matches_a_name_at_any_depth(self):
        assert ignored(b"a", b"a", b"x/a", b"a/x", b"ab") == [b"a", b"x/a", b"a/x"]

    @pytest.mark.parametrize("line", [b"/a", b"/a\n/b"])
    def test_a_leading_slash_ties_it_to_the_folder_of_the_file(self, line):
        assert ignored(line, b"a", b"x/a") == [b"a"]

    def test_a_slash_inside_ties_it_too(self):
        assert ignored(b"x/a", b"x/a", b"y/x/a", b"x/a/b") == [b"x/a", b"x/a/b"]

    def test_a_trailing_slash_matches_folders_only(self):
        assert ignored(b"a/", b"a", b"a/", b"a/x", b"x/a/") == [b"a/", b"a/x", b"x/a/"]

    def test_the_last_line_that_matches_wins(self):
        assert ignored(b"*.log\n!keep.log", b"a.log", b"keep.log") == [b"a.log"]
        assert ignored(b"!keep.log\n*.log", b"a.log", b"keep.log") == [b"a.log", b"keep.log"]

    def test_the_last_line_wins_whatever_its_form(self):
        forms = [b"x/abc", b"abc", b"*.abc", b"*bc", b"a?[a-z]", b"x/a*", b"**/a*c", b"x/**"]
        for first in forms:
            for last in forms:
                rules = parse(b"%s\n!%s" % (first, last))
                if parse(last).decide(b"x/abc", False):
                    assert rules.decide(b"x/abc", False) is False, (first, last)

    def test_an_earlier_line_without_the_slash_yields_to_a_later_one_for_folders(self):
        assert ignored(b"a\n!a/", b"a", b"a/") == [b"a"]
        assert ignored(b"!a/\na", b"a", b"a/") == [b"a", b"a/"]

    def test_nothing_below_an_ignored_folder_comes_back(self):
        assert ignored(b"a/\n!a/b", b"a/b") == [b"a/b"]
        assert ignored(b"a/*\n!a/b", b"a/b", b"a/c") == [b"a/c"]

    @pytest.mark.parametrize("line", [b"", b" ", b"#a", b"!", b"/", b"//", b"!/", b"\r", b"\0a"])
    def test_some_lines_say_nothing(self, line):
        assert not parse(line)

    @pytest.mark.parametrize(
        ("line", "name"),
        [
            (b"\\#a", b"#a"),
            (b"\\!a", b"!a"),
            (b"a ", b"a"),
            (b"a\\ ", b"a "),
            (b"a\\  ", b"a "),
            (b"a\\\\ ", b"a\\"),
            (b" a", b" a"),
            (b"a\t", b"a\t"),
            (b"a#", b"a#"),
            (b"a\r", b"a"),
            (b"a \r", b"a"),
            (b"a\r\r", b"a\r"),
            (b"a\0b", b"a"),
            (b"\xff", b"\xff"),
            (b"\xef\xbb\xbfa", b"a"),
            (b"b\n\xef\xbb\xbfa", b"\xef\xbb\xbfa"),
        ],
    )
    def test_spaces_escapes_and_line_ends(self, line, name):
        assert parse(line).decide(name, False)
        assert not parse(line).decide(name + b"x", False)

    def test_only_the_first_exclamation_mark_negates(self):
        assert parse(b"!!a").decide(b"!a", False) is False
        assert parse(b"!!a").decide(b"a", False) is None

    def test_lines_end_with_crlf_or_lf_and_the_last_need_not(self):
        assert ignored(b"a\r\nb\nc", b"a", b"b", b"c", b"d") == [b"a", b"b", b"c"]


class TestGlobs:
    @pytest.mark.parametrize(
        ("line", "yes", "no"),
        [
            (b"*", [b"a", b".a", b"x/a", b"a\nb"], []),
            (b"**", [b"a", b"x/a"], []),
            (b"a*", [b"a", b"ab", b"x/ab"], [b"ba"]),
            (b"*a*", [b"a", b"bab"], [b"b"]),
            (b"*.tar.gz", [b"x.tar.gz", b".tar.gz"], [b"x.gz", b"tar.gz"]),
            (b"*~", [b"a~", b"~"], [b"~a"]),
            (b"a?c", [b"abc"], [b"ac", b"abbc", b"a/c"]),
            (b"x/*a*b", [b"x/ab", b"x/cadb"], [b"x/c/ab", b"x/a/b"]),
            (b"/**", [b"a", b"x/a\nb"], []),
            (b"**/**", [b"a", b"x/a"], []),
            (b"/*/c", [b"a/c"], [b"c", b"a/b/c"]),
            (b"/a*c", [b"ac", b"abc"], [b"ab/c", b"x/ac"]),
            (b"x/a**c", [b"x/abc"], [b"x/a/b/c"]),
            (b"a**/b", [b"a/b", b"ac/b"], [b"ab", b"a/c/b"]),
            (b"**/a", [b"a", b"x/a", b"x/y/a"], [b"xa"]),
            (b"**/a/b", [b"a/b", b"x/a/b"], [b"b", b"xa/b"]),
            (b"a/**", [b"a/b", b"a/b/c"], [b"a", b"x/a/b"]),
            (b"a/**/b", [b"a/b", b"a/x/b", b"a/x/y/b"], [b"ab", b"a/xb"]),
            (b"a/***/b", [b"a/b", b"a/x/y/b"], [b"ab"]),
            (b"a/**/b/**/c", [b"a/b/c", b"a/x/b/y/c"], [b"a/c", b"b/c", b"a/x/c"]),
            (b"a/**/b/**", [b"a/b/c", b"a/b/b"], [b"a/b", b"a/x/b"]),
            (b"**/**/a", [b"a", b"x/y/a"], [b"xa"]),
            (b"a/**\\/b", [b"a/x/b", b"a/x/y/b"], [b"a/b"]),
            (b"**\\/b", [b"x/b"], [b"b"]),
            (b"a\\/b", [b"a/b"], [b"x/a/b"]),
            (b"\\/a", [], [b"a", b"x/a"]),
            (b"a//b", [], [b"a/b"]),
            (b"\\a\\*", [b"a*"], [b"ab"]),
            (b"a\\", [], [b"a", b"a\\"]),
        ],
    )
    def test_stars_and_slashes(self, line, yes, no):
        assert ignored(line, *yes, *no) == yes

    @pytest.mark.parametrize(
        ("line", "yes", "no"),
        [
            (b"[ab]", b"ab", b"c[]"),
            (b"[!ab]", b"c!^", b"ab"),
            (b"[^ab]", b"c!^", b"ab"),
            (b"[a-c]", b"abc", b"d-"),
            (b"[c-a]", b"c", b"ab-"),
            (b"[-a]", b"-a", b"b"),
            (b"[a-]", b"-a", b"b"),
            (b"[a-c-e]", b"abc-e", b"d"),
            (b"[]a]", b"]a", b"b"),
            (b"[!]a]", b"b[", b"]a"),
            (b"[\\]a]", b"]a", b"\\"),
            (b"[a-\\c]", b"abc", b"\\d"),
            (b"[[-a]", b"[\\]^_`a", b"b-"),
            (b"[[:digit:]a]", b"059a", b"bd:"),
            (b"[![:alnum:]]", b"._-", b"aZ5"),
            (b"[[:space:]]", b" \t\n\r", b"\v\fs"),
            (b"[[:]", b"[:", b"a"),
            (b"[[:a]", b"[:a", b"]"),
            (b"[[:none:]]", b"", b"none:["),
            (b"[[::]]", b"", b":[]"),
            (b"[a", b"", b"a["),
            (b"[", b"", b"["),
            (b"[a\\", b"", b"a\\"),
            (b"[\\", b"", b"\\"),
        ],
    )
    def test_brackets(self, line, yes, no):
        rules = parse(line)
        matching = bytes(byte for byte in yes + no if rules.decide(bytes((byte,)), False))

        assert matching == yes

    def test_a_bracket_never_matches_a_slash(self):
        assert ignored(b"a[/x]b\nc[!x]d", b"a/b", b"c/d", b"axb", b"cyd") == [b"axb", b"cyd"]

    def test_many_stars_on_a_name_that_almost_matches_come_to_an_end(self):
        rules = parse(b"*a" * 60 + b"b\n" + b"**/a/" * 60 + b"b")

        assert rules.decide(b"a" * 250, False) is None
        assert rules.decide(b"a/" * 1000 + b"a", False) is None
        assert rules.decide(b"a" * 250 + b"b", False) is True
        assert rules.decide(b"a/" * 1000 + b"b", False) is True


class TestCase:
    def test_case_counts_unless_told_otherwise(self):
        assert ignored(b"Abc\n/Def\n*.Log", b"abc", b"def", b"a.log") == []

    def test_case_can_be_ignored(self):
        lines = b"Abc\n/Def\n*.Log\nx?Y\n/P*q/R\n[A-C]x\n[[:upper:]]y"
        paths = [b"aBC", b"dEF", b"a.LOG", b"XZy", b"pxQ/r", b"bX", b"bY"]

        assert ignored(lines, *paths, ignore_case=True) == paths

    def test_ignoring_case_makes_an_upper_case_letter_in_escape_or_bracket_match_nothing(self):
        """As in git, which folds the name but not these."""
        assert ignored(b"\\A\n[B]", b"a", b"A", b"b", b"B", ignore_case=True) == []
        assert ignored(b"\\a\n[b]", b"a", b"A", b"b", b"B", ignore_case=True) == [
            *(b"a", b"A", b"b", b"B")
        ]

    def test_the_folder_of_the_file_is_compared_without_case_too(self):
        rules = parse(b"/a\nb/*", b"Sub", ignore_case=True)

        assert rules.decide(b"sub/A", False) is True
        assert rules.decide(b"SUB/B/x", False) is True


class TestFiles:
    def test_rules_say_nothing_outside_their_folder(self):
        rules = parse(b"a\n/b\n*c/d", b"sub")

        assert [rules.decide(b"sub/" + path, False) for path in (b"a", b"x/a", b"b", b"c/d")] == [
            *(True, True, True, True)
        ]
        assert [rules.decide(path, False) for path in (b"a", b"b", b"subx/a", b"x/sub/b")] == [
            *(None, None, None, None)
        ]
        assert rules.decide(b"sub/x/b", False) is None

    def test_of_thousands_of_wild_lines_those_are_tried_that_a_name_may_match(self, monkeypatch):
        compiled: list[bytes] = []
        compile = re.compile
        monkeypatch.setattr(re, "compile", lambda text: compiled.append(text) or compile(text))
        lines = [b"*a*b%d*c*\n!/x*/n%d*/*y\n" % (n, n) for n in range(1000, 3000)]
        rules = parse(b"".join(lines))

        assert rules.decide(b"a b2345 c", False) is True
        assert rules.decide(b"x/n1234/y", False) is False
        assert rules.decide(b"c b2345 a", False) is None
        assert rules.decide(b"a b99 c", False) is None
        assert len(compiled) == 2

    @pytest.mark.parametrize(
        "line",
        [
            b"*" + b"?" * 300_000,
            b"?" * 300_000,
            b"*a" * 100_000,
            b"?/" * 100_000 + b"?",
            b"**/a*/" * 50_000 + b"*a*",
            b"**/" * 300_000 + b"a?a",
            b"[" + b"[:alpha:]" * 100_000 + b"]" * 2 + b"?" * 20,
            b"[" + b"[:" * 200_000 + b"x]" + b"?" * 20,
            b"[^b]" * 50_000 + b"*",
            b"\\a" * 200_000 + b"*?",
        ],
        ids=lambda line: line[:16].decode(),
    )
    def test_of_a_line_without_end_no_expression_is_made(self, line, monkeypatch):
        """Nor anything else that would take minutes, as it did."""
        made: list[int] = []
        usual = re.compile
        monkeypatch.setattr(re, "compile", lambda text: made.append(len(text)) or usual(text))
        rules = parse(line + b"\n!*b*b")

        decided = [rules.decide(path, False) for path in (b"bab", b"b/a/bb", b"a" * 16)]
        assert decided == [False, False, None]
        assert max(made) < 1000

    def test_a_later_file_beats_an_earlier_one(self):
        stack = IgnoreStack.root(parse(b"a\nb\nc"), parse(b"!b\n!c"))

        assert [stack.ignored(name, False) for name in (b"a", b"b", b"c")] == [True, False, False]

    def test_the_file_of_a_folder_beats_those_above(self):
        top = IgnoreStack.root(parse(b"*.log")).enter(parse(b"!a.log"))
        below = top.enter(parse(b"a.log", b"sub"))

        assert not top.ignored(b"a.log", False)
        assert below.ignored(b"sub/a.log", False)
        assert below.ignored(b"sub/b.log", False)

    def test_a_folder_without_rules_goes_on_with_those_above(self):
        stack = IgnoreStack.root(parse(b"a"))

        assert stack.enter(None) is stack
        assert stack.enter(parse(b"# nothing", b"sub")) is stack


class TestTree:
    def test_reads_each_folder_once_and_only_if_it_is_not_ignored(self):
        asked: list[bytes] = []
        files = {b"": b"skip/", b"a": b"/x", b"skip": b"!y"}

        def read(folder: bytes) -> bytes | None:
            asked.append(folder)
            return files.get(folder)

        tree = IgnoreTree(IgnoreStack.root(), read)
        paths = [b"a/x", b"a/b/x", b"a/b/c", b"skip/y", b"skip/z/y", b"top"]

        assert [tree.ignored(path, False) for path in paths * 2] == [
            *(True, False, False, True, True, False) * 2
        ]
        assert asked == [b"", b"a", b"a/b"]

    def test_takes_a_path_deeper_than_python_recurses(self):
        tree = IgnoreTree(IgnoreStack.root(parse(b"deep")), lambda _: None)

        assert tree.ignored(b"x/" * 2000 + b"deep", False)
        assert not tree.ignored(b"x/" * 2000 + b"other", False)

    def test_tells_the_rules_of_a_folder_or_that_it_is_ignored(self):
        tree = IgnoreTree(IgnoreStack.root(parse(b"skip/")), {b"a": b"x"}.get)

        inside = tree.stack(b"a")
        assert inside is not None
        assert inside.ignored(b"a/x", False)
        assert tree.stack(b"a/skip/b") is None
