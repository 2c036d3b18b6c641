# SPDX-License-Identifier: MIT
"""`git ckpt diff`: from a checkpoint to the worktree now, or to another checkpoint."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from ckpt import documents
from ckpt.cli import Context
from ckpt.errors import NotFound, UsageError
from ckpt.manager import CheckpointManager
from ckpt.models import DiffResult, Scope
from ckpt.output import Output
from ckpt.render import Paint, columns, fit, quoted, stats_text

_STAT_WIDTH = 40


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "git ckpt diff [ID [ID2]] [--stat | --name-status] [--session S] [-- PATH...]"
    parser.add_argument("id", nargs="?", metavar="ID", help="from this one (default: latest)")
    parser.add_argument("other", nargs="?", metavar="ID2", help="to this one (default: now)")
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--stat", action="store_const", const="stat", dest="form", help="lines changed, by file"
    )
    form.add_argument(
        "--name-status",
        action="store_const",
        const="name-status",
        dest="form",
        help="names and letters only",
    )
    parser.add_argument("--session", metavar="S", help="from the first checkpoint of this session")


def run(
    context: Context,
    id: str | None,
    other: str | None,
    form: str | None,
    session: str | None,
    paths: list[str],
) -> int:
    with context.manager() as manager:
        if session is not None:
            if id is not None:
                raise UsageError("an ID and --session exclude each other", hint="leave one out")
            id = _first_of(manager, session)
        context.warn(manager.forgiving_settings.notes)
        result = manager.diff(
            "latest" if id is None else id, other, paths=paths, patch=form is None
        )
        _tell(context.output, result, form)
    return 0


def _first_of(manager: CheckpointManager, session: str) -> str:
    found = [one for one in manager.list(session=session) if one.scope is Scope.FULL]
    if not found:
        raise NotFound(f"no checkpoint of session '{session}'", hint="git ckpt list")
    return found[-1].id


def _tell(output: Output, result: DiffResult, form: str | None) -> None:
    if output.as_json:
        output.document(documents.diff(result))
    elif form is None:
        output.raw(coloured(result.patch) if output.colours(sys.stdout) else result.patch)
    elif form == "stat":
        for row in diffstat(result, output.paint):
            output.line(row)
    else:
        for file in result.files:
            output.line(f"{file.status}\t{quoted(file.path)}")


def diffstat(result: DiffResult, paint: Paint) -> Iterator[str]:
    """One line a file with a bar of plus and minus signs, then the sum."""
    if not result.files:
        return
    names = [quoted(file.path) for file in result.files]
    width = max(map(columns, names))
    most = max(file.insertions + file.deletions for file in result.files)
    scale = min(1.0, _STAT_WIDTH / most) if most else 1.0
    for name, file in zip(names, result.files, strict=True):
        total = "Bin" if file.binary else str(file.insertions + file.deletions)
        plus = paint("green", "+" * _scaled(file.insertions, scale))
        minus = paint("red", "-" * _scaled(file.deletions, scale))
        yield f" {file.status} {fit(name, width)} | {total:>4} {plus}{minus}".rstrip()
    yield f" {stats_text(result.stats)}"


def _scaled(number: int, scale: float) -> int:
    return max(1, round(number * scale)) if number else 0


def coloured(patch: bytes) -> bytes:
    codes = {b"+": b"32", b"-": b"31", b"@": b"36", b"d": b"1"}
    lines = []
    for line in patch.split(b"\n"):
        code = b"1" if line.startswith((b"+++ ", b"--- ")) else codes.get(line[:1])
        lines.append(b"\033[%sm%s\033[0m" % (code, line) if code else line)
    return b"\n".join(lines)
