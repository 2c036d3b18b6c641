# SPDX-License-Identifier: MIT
"""The worktree in which a rollback took place.

One git dir may serve several, each named by GIT_WORK_TREE, and they share its private files.
A rollback is finished and taken back where it was begun: anywhere else it would bring the
files of one worktree into another.

A worktree that was moved is still the same, by its inode, and so is one that was copied or
moved together with its git dir, or has another device number since the machine was started, by
its path from there. One that is nowhere any more cannot be gone to, so it stops nobody.
"""

from __future__ import annotations

import os

from ckpt.errors import Refused
from ckpt.paths import from_json, to_json
from ckpt.store.repository import Repository
from ckpt.values import value_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@value_class
class WorktreePlace:
    """`path` leads from the git dir to the top of the worktree."""

    path: bytes
    device: int
    inode: int


def place_of(repo: Repository) -> WorktreePlace:
    status = os.stat(repo.worktree)
    path = os.path.relpath(repo.worktree, repo.git_dir)
    return WorktreePlace(os.fsencode(path), status.st_dev, status.st_ino)


def check_place(repo: Repository, then: WorktreePlace | None, command: str) -> None:
    """Refuse what belongs into another worktree, and say how to do it there. An older ckpt did
    not note the place."""
    folder = None if then is None else _elsewhere(repo, then)
    if folder is not None:
        from shlex import quote  # for a hint that few see

        raise Refused(
            f"the rollback took place in '{folder}', not in this worktree",
            hint=command.replace("git ", f"git --work-tree={quote(folder)} ", 1),
        )


def _elsewhere(repo: Repository, then: WorktreePlace) -> str | None:
    now = place_of(repo)
    if then.path == now.path or (then.device, then.inode) == (now.device, now.inode):
        return None
    folder = os.path.normpath(os.path.join(repo.git_dir, os.fsdecode(then.path)))
    return folder if os.path.isdir(folder) else None


def dump_place(place: WorktreePlace | None) -> dict[str, Any] | None:
    if place is None:
        return None
    return to_json(place.path) | {"device": place.device, "inode": place.inode}


def load_place(document: dict[str, Any] | None) -> WorktreePlace | None:
    if document is None:
        return None
    return WorktreePlace(from_json(document), int(document["device"]), int(document["inode"]))
