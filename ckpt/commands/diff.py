# SPDX-License-Identifier: MIT
"""`git ckpt diff`: show changes between a checkpoint and the worktree, or another checkpoint."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence

from ckpt.cli import Context
from ckpt.errors import NotFound, UsageError
from ckpt.manager import CheckpointManager
from ckpt.models import DiffResult, Scope
from ckpt.render import Paint, columns, fit, quoted, stats_text

_STAT_WIDTH = 40


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "git ckpt diff [ID [ID2]] [--stat | --name-status] [--session S] [-- PATH...]"
    parser.add_argument("id", nargs="?", metavar="ID", help="from this one (default: latest)")
    parser.add_argument("other", nargs="?", metavar="ID2", help="to this one (default: now)")
    form = parser.add_mutually_exclusive_group()
    for word, what in (
        ("stat", "lines changed, by file"),
        ("name-status", "names and letters only"),
    ):
        form.add_argument(f"--{word}", action="store_const", const=word, dest="form", help=what)
    parser.add_argument("--session", metavar="S", help="from the first checkpoint of this session")


def run(
    context: Context,
    id: str | None = None,
    other: str | None = None,
    form: str | None = None,
    session: str | None = None,
    paths: Sequence[str] = (),
) -> None:
    manager = context.manager
    if session is not None:
        if id is not None:
            raise UsageError("an ID and --session exclude each other", hint="leave one out")
        id = _first_of(manager, session)
    context.warn(manager.forgiving_settings.notes)
    result = manager.diff("latest" if id is None else id, other, paths=paths, patch=form is None)
    if form is None and not context.output.as_json:
        is_painted = context.output.colours(sys.stdout)
        context.output.raw(coloured(result.patch) if is_painted else result.patch)
    else:
        context.output.tell(result, None, diffstat if form == "stat" else _names)


def _first_of(manager: CheckpointManager, session: str) -> str:
    found = [one for one in manager.list(session=session) if one.scope is Scope.FULL]
    if not found:
        raise NotFound(f"no checkpoint of session '{session}'", hint="git ckpt list")
    return found[-1].id


def _names(result: DiffResult, paint: Paint, width: int) -> Iterator[str]:
    yield from (f"{file.status}\t{quoted(file.path)}" for file in result.files)


def diffstat(result: DiffResult, paint: Paint, width: int = 0) -> Iterator[str]:
    """Draw a bar of plus and minus signs for each file, then the total."""
    names = [quoted(file.path) for file in result.files]
    width = max(map(columns, names), default=0)
    most = max((file.insertions + file.deletions for file in result.files), default=0)
    scale = min(1.0, _STAT_WIDTH / max(most, 1))
    for name, file in zip(names, result.files, strict=True):
        total = "Bin" if file.binary else str(file.insertions + file.deletions)
        plus = paint("green", "+" * _scaled(file.insertions, scale))
        minus = paint("red", "-" * _scaled(file.deletions, scale))
        yield f" {file.status} {fit(name, width)} | {total:>4} {plus}{minus}".rstrip()
    if names:
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
