# SPDX-License-Identifier: MIT
"""`git ckpt diff`: from a checkpoint to the worktree now, or to another checkpoint."""

from __future__ import annotations

import argparse

from ckpt.cli import Context
from ckpt.errors import NotFound, UsageError
from ckpt.manager import CheckpointManager
from ckpt.models import Scope

TAKES_PATHS = True


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
        context.output.diffed(result, form or "patch")
    return 0


def _first_of(manager: CheckpointManager, session: str) -> str:
    found = [one for one in manager.list(session=session) if one.scope is Scope.FULL]
    if not found:
        raise NotFound(f"no checkpoint of session '{session}'", hint="git ckpt list")
    return found[-1].id
