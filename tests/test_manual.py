# SPDX-License-Identifier: MIT
"""The man page as text: each request that our page uses, and the page against `man`."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ckpt.commands import help as manual
from ckpt.errors import UsageError

PAGE = Path(__file__).resolve().parents[1] / "man/git-ckpt.1"
MEANT_FOR_MAN = {".TH", ".nh", ".ad", '.\\"'}


def render(page: str) -> list[str]:
    return manual.render(page).splitlines()


def test_text_is_indented_and_flows_into_lines_of_a_terminal() -> None:
    heading, *lines = render(".SH NAME\n" + "words\n" * 30)

    assert heading == "NAME"
    assert [line.split() for line in lines] == [["words"] * 12, ["words"] * 12, ["words"] * 6]
    assert all(line.startswith(" " * 7 + "words ") for line in lines)


def test_headings_stand_out_and_have_a_blank_line_above() -> None:
    page = ".SH ONE\nText.\n.SH TWO\n.SS sub\nText.\n.SS another"

    assert render(page) == [
        "ONE",
        "       Text.",
        "",
        "TWO",
        "   sub",
        "       Text.",
        "",
        "   another",
    ]


def test_paragraphs_are_parted_by_one_blank_line() -> None:
    assert render(".SH X\n.PP\nOne.\n.PP\n.PP\nTwo.") == ["X", "       One.", "", "       Two."]


def test_a_tag_stands_above_its_text() -> None:
    page = ".TP\n\\-\\-message\nLong.\n.TP\n\\-n\nShort,\nstill.\n.PP\nAfter."

    assert render(page) == [
        "--message".rjust(16),
        "              Long.",
        "",
        "       -n",
        "              Short, still.",
        "",
        "       After.",
    ]


def test_lines_of_an_example_stay_as_they_are() -> None:
    assert render("See:\n.nf\n\none   two\n    three\n.fi\nand so\non") == [
        "       See:",
        "",
        "       one   two",
        "           three",
        "       and so on",
    ]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("\\fB\\-C\\fR \\fIDIR\\fR", "-C DIR"),
        ("\\(aq*.bak\\(aq", "'*.bak'"),
        ("\\e\\-", "\\-"),
        ("\\&...", "..."),
    ],
)
def test_fonts_and_escapes_become_plain_text(line: str, text: str) -> None:
    assert render(line) == [" " * 7 + text]


def test_a_comment_and_the_title_line_are_not_shown() -> None:
    assert render('.\\" secret\n.TH GIT\\-CKPT 1\n.SH NAME') == ["NAME"]


def test_the_section_of_a_command_ends_where_the_next_begins() -> None:
    section = manual.manual("undo")

    assert section.startswith("   undo\n       git ckpt undo")
    assert "--dry-run" in section and "git ckpt drop" not in section


def test_the_section_of_the_last_command_ends_with_the_commands() -> None:
    assert "IDS" not in manual.manual("help")


@pytest.mark.parametrize("word", ["teleport", "", "undone", "IDS"])
def test_what_is_no_command_has_no_section(word: str) -> None:
    with pytest.raises(UsageError, match="no manual"):
        manual.manual(word)


def test_the_page_uses_only_requests_that_are_understood() -> None:
    page = PAGE.read_text(encoding="utf-8")
    requests = set(re.findall(r"^\.\S+", page, re.MULTILINE))

    assert requests - MEANT_FOR_MAN == {".SH", ".SS", ".TP", ".PP", ".nf", ".fi"}
    assert page.count("\n") <= 900


def test_no_line_of_the_manual_is_wider_than_a_terminal() -> None:
    assert max(map(len, manual.manual().splitlines())) <= 80


@pytest.mark.skipif(not shutil.which("groff"), reason="groff is not installed")
def test_the_manual_says_what_man_says() -> None:
    ran = subprocess.run(
        ["groff", "-man", "-Tascii", "-P-cbou", "-rLL=78n", str(PAGE)],
        capture_output=True,
        text=True,
        check=True,
    )

    head, *body, foot = words(ran.stdout).split("GIT-CKPT(1)")
    assert not head and not foot
    # Between the title line and the version in the last line.
    assert words(manual.manual()) in words(" ".join(body))


def words(text: str) -> str:
    """The words alone: lines may break in other places, also after a hyphen."""
    return " ".join(re.sub(r"-\n +", "-", text).split())
