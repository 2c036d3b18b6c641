# SPDX-License-Identifier: MIT
"""The man page as plain text, for `git ckpt help`.

Understands the few requests that our own page uses, so that the manual can be read
where `man` is missing, or where the page is not on its search path. Left out: fonts,
justified lines, nested lists, anything that only other people's pages hold.
"""

from __future__ import annotations

import re
import textwrap

from ckpt.install.programs import asset

_WIDTH = 78
_INDENT = 7
_SUBHEADING = "   "
_HANG = 7
_ESCAPE = re.compile(r"\\(?:f[BIRP]|\(..|.)")
_MEANINGS = {r"\-": "-", r"\e": "\\", r"\(aq": "'", r"\(dq": '"', r"\ ": " "}
_ARGUMENT = re.compile(r'"([^"]*)"|(\S+)')


def manual_text() -> str:
    """The whole manual."""
    return render(_source())


def command_section(command: str) -> str | None:
    """The part of the manual on one command; None if there is none."""
    lines = _source()
    start = f".SS {command}"
    if start not in lines:
        return None
    first = lines.index(start)
    following = (i for i in range(first + 1, len(lines)) if lines[i].startswith((".SS", ".SH")))
    return render(lines[first : next(following, len(lines))])


def _source() -> list[str]:
    return asset("man/git-ckpt.1").read_text(encoding="utf-8").splitlines()


def render(lines: list[str]) -> str:
    """The text of a page, or of some lines of one."""
    page = _Page()
    for line in lines:
        page.take(line)
    return page.text()


class _Page:
    """Walks the lines of a page; the words between two requests are one paragraph."""

    def __init__(self) -> None:
        self._done: list[str] = []
        self._words: list[str] = []
        self._indent = _INDENT
        self._verbatim = False
        self._tag_follows = False
        self._tag = ""

    def take(self, line: str) -> None:
        request, _, rest = line.partition(" ")
        if not line.startswith("."):
            self._say(_plain(line))
        elif request in (".B", ".I"):
            self._say(" ".join(_arguments(rest)))
        elif request in (".BR", ".BI", ".IR", ".IB", ".RB", ".RI"):
            self._say("".join(_arguments(rest)))
        else:
            self._end_paragraph()
            self._obey(request, rest)

    def text(self) -> str:
        self._end_paragraph()
        return "\n".join(self._done).strip("\n") + "\n"

    def _say(self, words: str) -> None:
        if not self._tag_follows:
            self._words.append(words)
        elif len(words) < _HANG:
            self._tag = words.ljust(_HANG)
        else:
            self._done.append(" " * (self._indent - _HANG) + words)
        self._tag_follows = False

    def _obey(self, request: str, rest: str) -> None:
        if request in (".SH", ".SS", ".TP", ".PP", ".P"):
            self._gap()
        if request in (".SH", ".SS"):
            self._done.append(("" if request == ".SH" else _SUBHEADING) + _plain(rest))
            self._indent = _INDENT
        elif request == ".TP":
            self._indent, self._tag_follows = _INDENT + _HANG, True
        elif request in (".PP", ".P"):
            self._indent = _INDENT
        elif request in (".nf", ".EX", ".fi", ".EE"):
            self._verbatim = request in (".nf", ".EX")

    def _gap(self) -> None:
        """A blank line, unless there is one or a heading stands above."""
        if self._done and self._done[-1].startswith(" " * _INDENT):
            self._done.append("")

    def _end_paragraph(self) -> None:
        margin = " " * self._indent
        first = margin[: -len(self._tag)] + self._tag if self._tag else margin
        if self._verbatim:
            self._done += [(margin + line).rstrip() for line in self._words]
        elif self._words:
            self._done += textwrap.wrap(
                " ".join(self._words),
                _WIDTH,
                initial_indent=first,
                subsequent_indent=margin,
                break_on_hyphens=False,
                break_long_words=False,
            )
        self._words, self._tag = [], ""


def _arguments(rest: str) -> list[str]:
    return [_plain(match[1] or match[2] or "") for match in _ARGUMENT.finditer(rest)]


def _plain(text: str) -> str:
    """Text without fonts and escapes; an escape that we do not use stands for nothing."""
    return _ESCAPE.sub(lambda match: _MEANINGS.get(match[0], ""), text)
