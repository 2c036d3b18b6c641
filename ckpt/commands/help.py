# SPDX-License-Identifier: MIT
"""`git ckpt help`: print the manual, even without `man`.

Only the roff requests that the page uses are rendered; fonts are dropped.
"""

from __future__ import annotations

import argparse
import re
import textwrap

from ckpt.cli import Context
from ckpt.errors import UsageError
from ckpt.install.record import asset

_MARGIN = " " * 7
_SUBHEADING = "   "
_REQUEST = re.compile(r"(?m)^(\.\S*) ?(.*)\n?")
_ESCAPE = re.compile(r"\\(?:f[BIRP]|\(..|.)")
_MEANINGS = {r"\-": "-", r"\e": "\\", r"\(aq": "'"}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("command", nargs="?", metavar="COMMAND", help="only its section")


def run(context: Context, command: str | None = None) -> None:
    text = manual(command)
    if context.output.as_json:
        context.output.document({"schema": 1, "command": command, "text": text})
    else:
        for line in text.splitlines():
            context.output.line(line)


def manual(command: str | None = None) -> str:
    """Render the whole manual, or its section on one command."""
    page = asset("man/git-ckpt.1").read_text(encoding="utf-8")
    if command is None:
        return render(page)
    section = re.search(rf"(?ms)^\.SS {re.escape(command)}$.*?(?=^\.S[SH]|\Z)", page)
    if not command or section is None:
        raise UsageError(f"no manual for '{command}'", hint="git ckpt help")
    return render(section[0])


def render(page: str) -> str:
    """Render a page or part of one, with each tag above its text."""
    done: list[str] = []
    margin = _MARGIN
    parts = ["", "", *_REQUEST.split(page)]  # each request, its argument and the text after it
    for request, rest, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        lines = _plain(text).splitlines()
        if request in (".SH", ".SS", ".TP", ".PP"):
            margin = _MARGIN
            if done and done[-1].startswith(_MARGIN):
                done.append("")
        if request in (".SH", ".SS"):
            done.append(("" if request == ".SH" else _SUBHEADING) + _plain(rest))
        elif request == ".TP":
            done.append(_MARGIN + lines.pop(0))
            margin += _MARGIN
        if request == ".nf":
            done += [(margin + line).rstrip() for line in lines]
        else:
            wrapper = textwrap.TextWrapper(
                78,
                initial_indent=margin,
                subsequent_indent=margin,
                break_on_hyphens=False,
                break_long_words=False,
            )
            done += wrapper.wrap(" ".join(lines))
    return "\n".join(done).strip("\n") + "\n"


def _plain(text: str) -> str:
    """Drop fonts and translate escapes."""
    return _ESCAPE.sub(lambda match: _MEANINGS.get(match[0], ""), text)
