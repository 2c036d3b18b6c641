# SPDX-License-Identifier: MIT
"""`git ckpt gc`: free the space that checkpoints take, and remove stale files."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import ExitStack

from ckpt.cli import Context
from ckpt.disk import worktree_lock
from ckpt.engine.rescue import CONTENT, FSCK, find_lost
from ckpt.engine.trash import Collected, collect
from ckpt.errors import CkptError, Refused
from ckpt.git.repository import Repository
from ckpt.render import Paint, counted, size

_PATIENCE = 30.0  # seconds to wait for running saves and rollbacks


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--now",
        action="store_true",
        help="also run 'git gc --prune=now', which removes every unreachable object",
    )


def run(context: Context, now: bool = False) -> None:
    done = collect(context.manager.repository)
    if now:
        _collect_now(context, context.manager.repository)
    context.output.tell(done, None, _rows)


def _collect_now(context: Context, repo: Repository) -> None:
    """Run `git gc --prune=now`, after a warning of what else it removes."""
    kinds = [lost.kind for lost in find_lost(repo, run_git(repo, *FSCK))]
    files = kinds.count(CONTENT)
    counts = [(len(kinds) - files, "unreachable commit"), (files, "unreachable file")]
    told = " and ".join(counted(count, what) for count, what in counts if count)
    if told:
        context.output.warning(f"git gc --prune=now also removes {told}")
    with ExitStack() as stack:  # a running save has no ref yet
        for git_dir in filter(os.path.isdir, repo.refs.git_dirs()):
            private = os.path.join(git_dir, "ckpt")
            stack.enter_context(worktree_lock(private, exclusive=True, timeout=_PATIENCE))
        run_git(repo, "gc", "--quiet", "--prune=now")


def run_git(repo: Repository, *words: str) -> bytes:
    """Return the output of a git command, in English; ignore a failure if there is output."""
    from subprocess import DEVNULL, run

    command, env = ["git", f"--git-dir={repo.git_dir}", *words], {**repo.env, "LC_ALL": "C"}
    try:
        done = run(command, stdin=DEVNULL, capture_output=True, env=env, check=False)
    except FileNotFoundError:
        raise Refused("git is not installed", hint="install git") from None
    if done.returncode and not done.stdout:
        told = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise CkptError(f"git {words[0]} failed: {told}", hint=f"git {words[0]}")
    return done.stdout


def _rows(done: Collected, paint: Paint, width: int) -> Iterator[str]:
    if done.emptied:
        yield f"Removed {counted(len(done.emptied), 'checkpoint')} from the trash"
    if done.cleared:
        yield f"Removed {counted(len(done.cleared), 'file')} that killed processes left"
    if done.packed_refs:
        yield f"Packed {counted(done.packed_refs, 'ref')}"
    if not (done.emptied or done.cleared or done.packed_refs):
        yield "Nothing to do."
    if done.loose:
        waiting = f"{counted(done.loose, 'loose object')} ({size(done.loose_bytes)})"
        yield f"{waiting} for git to pack: git gc"
