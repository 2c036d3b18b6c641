# SPDX-License-Identifier: MIT
"""Render the man page as plain text, for `git ckpt help`.

The manual can then be read where `man` is missing, or does not find the page. Only the
requests that our page uses are supported; fonts are dropped.
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
_MEANINGS = {r"\-": "-", r"\e": "\\", r"\(aq": "'"}


def manual_text() -> str:
    """The whole manual."""
    return render(_source())


def command_section(command: str) -> str | None:
    """The section of the manual on one command, or None."""
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
    """Render some lines of a page."""
    page = _Page()
    for line in lines:
        page.take(line)
    return page.text()


class _Page:
    """Render a page line by line; the words between two requests are a paragraph."""

    def __init__(self) -> None:
        self._done: list[str] = []
        self._words: list[str] = []
        self._indent = _INDENT
        self._verbatim = False
        self._tag_follows = False
        self._tag = ""

    def take(self, line: str) -> None:
        if line.startswith("."):
            self._end_paragraph()
            self._obey(*line.split(" ", 1))
        else:
            self._add(_plain(line))

    def text(self) -> str:
        self._end_paragraph()
        return "\n".join(self._done).strip("\n") + "\n"

    def _add(self, words: str) -> None:
        if not self._tag_follows:
            self._words.append(words)
        elif len(words) < _HANG:
            self._tag = words.ljust(_HANG)
        else:
            self._done.append(" " * (self._indent - _HANG) + words)
        self._tag_follows = False

    def _obey(self, request: str, rest: str = "") -> None:
        if request in (".SH", ".SS", ".TP", ".PP"):
            self._gap()
            self._indent = _INDENT
        if request in (".SH", ".SS"):
            self._done.append(("" if request == ".SH" else _SUBHEADING) + _plain(rest))
        elif request == ".TP":
            self._indent, self._tag_follows = _INDENT + _HANG, True
        elif request in (".nf", ".fi"):
            self._verbatim = request == ".nf"

    def _gap(self) -> None:
        """Add a blank line, except below a heading or another one."""
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


def _plain(text: str) -> str:
    """Drop fonts and translate escapes."""
    return _ESCAPE.sub(lambda match: _MEANINGS.get(match[0], ""), text)
