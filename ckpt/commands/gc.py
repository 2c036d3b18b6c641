# SPDX-License-Identifier: MIT
"""`git ckpt gc`: give space back that checkpoints take, and tidy up."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from ckpt import documents
from ckpt.cli import Context
from ckpt.engine.gc import Collected, collect
from ckpt.errors import CkptError, Refused
from ckpt.git.reachability import Unreachable, unreachable
from ckpt.render import Paint, counted, size


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--now",
        action="store_true",
        help="also run 'git gc --prune=now', which removes every unreachable object",
    )


def run(context: Context, now: bool) -> int:
    git = _git() if now else ""
    with context.manager() as manager:
        repo = manager.repository
        done = collect(repo)
        if now:
            _tell_what_goes(context, unreachable(repo))
            _collect_with(git, repo.git_dir)
        context.output.tell(done, documents.gc, _rows)
    return 0


def _git() -> str:
    from shutil import which

    found = which("git")
    if found is None:
        raise Refused("git is not installed", hint="git ckpt gc, without --now")
    return found


def _tell_what_goes(context: Context, lost: Unreachable) -> None:
    counts = [(len(lost.commits), "unreachable commit"), (len(lost.blobs), "unreachable file")]
    told = " and ".join(counted(count, what) for count, what in counts if count)
    if told:
        context.output.warning(f"git gc --prune=now also removes {told}")


def _collect_with(git: str, git_dir: str) -> None:
    from subprocess import DEVNULL, run

    words = [git, f"--git-dir={git_dir}", "gc", "--quiet", "--prune=now"]
    done = run(words, stdin=DEVNULL, capture_output=True, check=False)
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no reason given"]
        raise CkptError(f"git gc failed: {lines[-1]}", hint="git gc --prune=now")


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
