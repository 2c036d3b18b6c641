# SPDX-License-Identifier: MIT
"""The man page as plain text, for `git ckpt help`.

Understands the few requests that our own page uses, so that the manual can be read
where `man` is missing, or where the page is not on its search path.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from ckpt.install.assets import asset

_WIDTH = 80
_INDENT = 7
_ESCAPES = ((r"\-", "-"), (r"\e", "\\"), (r"\(aq", "'"), (r"\(dq", '"'), (r"\&", ""), (r"\ ", " "))
_FONT = re.compile(r"\\f[BIRP]")


def manual_text() -> str:
    """The whole manual."""
    return _render(_source())


def command_section(command: str) -> str | None:
    """The part of the manual on one command; None if there is none."""
    lines = _source()
    start = f".SS {command}"
    if start not in lines:
        return None
    first = lines.index(start)
    following = (i for i in range(first + 1, len(lines)) if lines[i].startswith((".SS", ".SH")))
    return _render(lines[first : next(following, len(lines))])


def _source() -> list[str]:
    return asset("man/git-ckpt.1").read_text(encoding="utf-8").splitlines()


def _render(lines: list[str]) -> str:
    return "\n".join(_paragraphs(lines)).strip("\n") + "\n"


def _paragraphs(lines: list[str]) -> Iterator[str]:
    """Walk the requests; text between two of them is one paragraph."""
    text: list[str] = []
    indent, verbatim, hanging = _INDENT, False, False
    for line in [*lines, ".PP"]:
        request, _, rest = line.partition(" ")
        if not line.startswith("."):
            text.append(_plain(line))
            if hanging:
                yield " " * (indent - 4) + text.pop()
                hanging = False
            continue
        if request in (".B", ".I", ".BR"):
            text.append(_plain(rest.replace('"', "")))
            if hanging:
                yield " " * (indent - 4) + text.pop()
                hanging = False
            continue
        yield from _flow(text, indent, verbatim)
        text = []
        if request in (".SH", ".SS"):
            indent = _INDENT
            yield ""
            yield _plain(rest) if request == ".SH" else "   " + _plain(rest)
        elif request == ".TP":
            indent, hanging = _INDENT + 4, True
        elif request in (".PP", ".P"):
            indent = _INDENT
            yield ""
        elif request in (".nf", ".fi", ".EX", ".EE"):
            verbatim = request in (".nf", ".EX")


def _flow(text: list[str], indent: int, verbatim: bool) -> Iterator[str]:
    margin = " " * indent
    if verbatim:
        yield from (margin + line for line in text)
    elif text:
        yield textwrap.fill(
            " ".join(text),
            _WIDTH,
            initial_indent=margin,
            subsequent_indent=margin,
            break_on_hyphens=False,
            break_long_words=False,
        )


def _plain(line: str) -> str:
    line = _FONT.sub("", line)
    for escape, meaning in _ESCAPES:
        line = line.replace(escape, meaning)
    return line
