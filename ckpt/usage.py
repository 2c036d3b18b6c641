# SPDX-License-Identifier: MIT
"""The whole command line of one command, with help and errors, as argparse reads it.

Apart from `cli`, which imports it only for what `options` does not answer.
"""

from __future__ import annotations

from argparse import ArgumentParser, RawDescriptionHelpFormatter

from ckpt.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from _typeshed import SupportsWrite


class _Parser(ArgumentParser):
    """Raises what argparse would print and exit with, and does not hide that it could not."""

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        if file is not None:
            file.write(message)

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, hint=f"{self.prog} -h")


def parse(
    command: str, summary: str, declare: Callable[[ArgumentParser], None], words: list[str]
) -> dict[str, Any] | None:
    """The values of a command's arguments by name; None after its help was asked for."""
    parser = _Parser(
        prog=f"git ckpt {command}",
        description=summary[0].upper() + summary[1:] + ".",
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    declare(parser)
    add_common(parser)
    try:
        values: dict[str, Any] = vars(parser.parse_args(words))
    except SystemExit:  # -h
        return None
    return {key: value for key, value in values.items() if not key.startswith("common_")}


def add_common(parser: ArgumentParser) -> None:
    """For the help text only: `cli` has taken these already."""
    common = parser.add_argument_group("options of every command")
    common.add_argument(
        "--json", action="store_true", dest="common_json", help="print one JSON document"
    )
    common.add_argument(
        "-q", "--quiet", action="store_true", dest="common_quiet", help="print nothing but errors"
    )
    common.add_argument("-C", metavar="DIR", dest="common_directory", help="work in DIR")
    common.add_argument(
        "--store",
        choices=["repo", "user"],
        dest="common_store",
        help="where checkpoints are; user: for a folder that is no repository (default: repo)",
    )
