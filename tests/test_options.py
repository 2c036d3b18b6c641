# SPDX-License-Identifier: MIT
"""The plain parser finds what argparse finds, or nothing."""

from __future__ import annotations

from importlib import import_module
from itertools import product

import pytest

from ckpt.cli import COMMANDS, PlainParser, parse
from ckpt.errors import UsageError

# Words that mean something to one command or another, and words that mean nothing to any.
WORDS = {
    "save": ["name", "-m", "--message=a=b", "--kind", "auto", "--pin", "--meta", "a=b", "-x", ""],
    "list": [
        "-n",
        "5",
        "-n=5",
        "-n5",
        "--all",
        "--all-w",
        "--name=x",
        "--since",
        "-1",
        "--kind=no",
    ],
    "show": ["latest", "a", "--", "-h", "-", ""],
    "diff": [
        "a",
        "b",
        "--stat",
        "--name-status",
        "--session",
        "--session=s",
        "--session=",
        "--sta",
    ],
    "rollback": [
        "a",
        "--head",
        "--continue",
        "--abort",
        "--dry-run",
        "--yes=1",
        "--no-index",
        "-y",
    ],
    "undo": ["--dry-run", "--yes", "a", "--", "-q"],
    "drop": ["a", "b", "--", "-x", ""],
    "help": ["save", "-h", "--help", "x"],
    "hook": ["guard", "pre-commit", "a", "--", "-x"],
}

# No argument is too few for the first two; two are too many for the others.
ANSWERS_NOTHING = {("drop", 0), ("hook", 0), *product(["show", "help"], [2, 3, 4])}


def plain(command: str, words: list[str]):
    parser = PlainParser()
    _module(command).arguments(parser)
    return parser.parse(words)


def whole(command: str, words: list[str]):
    try:
        return parse(command, COMMANDS[command], _module(command).arguments, words)
    except UsageError:
        return None


def _module(command: str):
    return import_module("ckpt.commands." + command.replace("-", "_"))


@pytest.mark.parametrize("command", WORDS)
@pytest.mark.parametrize("length", [0, 1, 2, 3, 4])
def test_what_the_plain_parser_finds_is_what_argparse_finds(command, length, capsys) -> None:
    answered = 0
    for words in product(WORDS[command], repeat=length):
        found = plain(command, list(words))
        if found is not None:
            answered += 1
            assert found == whole(command, list(words)), words

    assert answered > 0 or (command, length) in ANSWERS_NOTHING


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_can_be_declared_to_both(command: str) -> None:
    one = {"drop": "a", "hook": "guard", "pin": "a", "unpin": "a", "restore-dropped": "a"}
    words = [one[command]] if command in one else []

    assert plain(command, words) == whole(command, words) is not None


@pytest.mark.parametrize(
    "line",
    [
        "save",
        "save before-refactor",
        "save before-refactor -m text --pin --recurse",
        "save --kind auto --meta a=1 --meta=b=2 --data {} --session s",
        "list -n 5 --all --since 7d",
        "show latest~2",
        "diff a b --stat",
        "diff --name-status --session s",
        "rollback --head --yes latest",
        "rollback --continue",
        "drop a b c",
        "undo --dry-run",
    ],
)
def test_the_usual_command_lines_need_no_argparse(line: str) -> None:
    command, *words = line.split()

    assert plain(command, words) == whole(command, words) is not None


@pytest.mark.parametrize(
    "line",
    [
        "save -h",
        "save --pi",
        "save -mtext",
        "save --kind safety",
        "save --kind",
        "save a b",
        "save -- a",
        "list -n five",
        "list -n -5",
        "diff a --stat b",
        "diff --stat --name-status",
        "rollback --continue --abort",
        "rollback --head=1",
        "drop",
    ],
)
def test_what_it_is_not_sure_of_is_left_to_argparse(line: str) -> None:
    command, *words = line.split()

    assert plain(command, words) is None


def test_what_was_given_once_is_not_there_the_next_time() -> None:
    parser = PlainParser()
    _module("save").arguments(parser)
    parser.parse(["--meta", "a=1"])

    assert parser.parse([])["meta"] == []
