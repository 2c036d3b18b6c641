# SPDX-License-Identifier: MIT
"""`git ckpt help`: print the manual, also where `man` or its page is missing."""

from __future__ import annotations

import argparse

from ckpt.cli import Context
from ckpt.errors import UsageError
from ckpt.install.manual import command_section, manual_text


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("command", nargs="?", metavar="COMMAND", help="only its section")


def run(context: Context, command: str | None) -> int:
    text = manual_text() if command is None else command_section(command)
    if text is None:
        raise UsageError(f"no manual for '{command}'", hint="git ckpt help")
    if context.output.as_json:
        context.output.document({"schema": 1, "command": command, "text": text})
    else:
        for line in text.rstrip("\n").split("\n"):
            context.output.line(line)
    return 0
