# SPDX-License-Identifier: MIT
"""The journal of a rollback, written before the first file changes.

It names the paths to change, and the checkpoints of the states before and after. A completed
rollback atomically renames its journal to `last-rollback`, which `undo` reads. Both files begin
with a checksum.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, NamedTuple

from ckpt import codec, disk
from ckpt.disk import JOURNAL, is_interrupted
from ckpt.errors import Refused, is_want
from ckpt.git.objects import ObjectID
from ckpt.git.refs import Head
from ckpt.git.repository import Repository, worktree_of
from ckpt.git.trees import SYMLINK, TreeEntry
from ckpt.paths import folders_of, to_bytes, to_str

LAST = "last-rollback"
CONTINUE, ABORT = "git ckpt rollback --continue", "git ckpt rollback --abort"
FORMAT = 3
_DAMAGE = (AttributeError, KeyError, TypeError, ValueError)

# -- What changes


@dataclass(frozen=True, slots=True)
class FileState:
    """The state of a path; two states are equal if they are the same on disk.

    `id` is the blob id of the content on disk, `permissions` of a link are 0. `entry` is the tree
    entry, whose blob differs if git converts the file; the content may be `in_lfs` only. With
    core.symlinks=false, the entry is a link and the path a plain file with the target in it.
    """

    id: ObjectID
    permissions: int
    is_link: bool
    entry: TreeEntry = field(compare=False)
    in_lfs: bool = field(default=False, compare=False)

    @classmethod
    def of(cls, entry: TreeEntry, permissions: int) -> FileState:
        return cls(entry.id, permissions, entry.mode == SYMLINK and not permissions, entry)

    @property
    def is_converted(self) -> bool:
        return self.id != self.entry.id


class Action(NamedTuple):
    """A change of a path from `before` to `after`; None means that it does not exist."""

    path: bytes
    before: FileState | None
    after: FileState | None


class FolderChange(NamedTuple):
    """The permissions of a directory before and after; None if it does not exist."""

    path: bytes
    before: int | None
    after: int | None


class BranchMove(NamedTuple):
    """The commits of a branch before and after; None if it does not exist."""

    branch: bytes
    before: ObjectID | None
    after: ObjectID | None


class HeadMove(NamedTuple):
    """HEAD before and after, and the branches that move: the one HEAD switches to, those that a
    rebase in the target moves when it ends, and those that an undo moves back."""

    before: Head
    after: Head
    branches: tuple[BranchMove, ...] = ()


@dataclass(frozen=True)
class Journal:
    """A rollback from the safety checkpoint to the target.

    `files` change, within `paths`. `index`, `operation` and `head` are what changes; `asked_…` is
    what the user requested, which an undo repeats.
    """

    target: str
    safety: str
    paths: tuple[bytes, ...]
    files: tuple[bytes, ...]
    folders: tuple[FolderChange, ...] = ()
    index: bool = True
    operation: bool = False
    head: HeadMove | None = None
    asked_index: bool = True
    asked_head: bool = False

    @property
    def changes_folders(self) -> bool:
        """Return whether directories change, other than with the files in them."""
        moved = folders_of(self.files)
        return any(
            before != after and not (None in (before, after) and path in moved)
            for path, before, after in self.folders
        )


# -- Write and read it


def write(private_dir: str, journal: Journal) -> None:
    document = {"format": FORMAT, **vars(journal)}
    data = json.dumps(document, default=to_str).encode("ascii")
    disk.replace(os.path.join(private_dir, JOURNAL), _checksum(data) + b"\n" + data)


def read(private_dir: str) -> Journal:
    """Return the journal of an interrupted rollback; refuse one that is corrupt."""
    try:
        return _read(os.path.join(private_dir, JOURNAL))
    except FileNotFoundError:
        raise Refused(
            "no rollback was interrupted in this worktree", hint="git ckpt list"
        ) from None


def last_rollback(private_dir: str) -> Journal | None:
    """Return the rollback to undo; None if there is none, or its journal is corrupt."""
    try:
        return _read(os.path.join(private_dir, LAST))
    except (Refused, FileNotFoundError):
        return None


def complete(private_dir: str) -> None:
    """Mark the rollback as complete, so that `undo` takes it back."""
    os.rename(os.path.join(private_dir, JOURNAL), os.path.join(private_dir, LAST))
    disk.fsync([private_dir])


def remove(private_dir: str) -> None:
    """Remove the journal of an aborted rollback."""
    disk.remove(os.path.join(private_dir, JOURNAL))


def check_ended(private_dir: str) -> None:
    """Refuse if a rollback was interrupted; for callers without the worktree's lock."""
    if is_interrupted(private_dir):
        raise unfinished()


def unfinished() -> Refused:
    return Refused(
        "a rollback was interrupted in this worktree",
        hint=f"'{CONTINUE}' finishes it, '{ABORT}' returns to the state before it",
    )


def _read(path: str) -> Journal:
    try:
        checksum, _, body = disk.read_private(path).partition(b"\n")
        if checksum != _checksum(body):
            raise ValueError("its checksum is wrong")
        return _load(codec.load(body))
    except FileNotFoundError:
        raise
    except (OSError, *_DAMAGE) as error:
        if isinstance(error, OSError) and is_want(error):
            raise
        raise Refused(
            f"the journal of an interrupted rollback cannot be used ({error})",
            hint="'git ckpt doctor' tells how to move it aside; then roll back to the newest of "
            "'git ckpt list --kind safety', which is the state before it",
        ) from None


def _checksum(data: bytes) -> bytes:
    return sha256(data).hexdigest().encode("ascii")


def _load(document: dict[str, Any]) -> Journal:
    """Return a journal from its JSON, in which paths are text and tuples are lists."""
    if document.pop("format") != FORMAT:
        raise ValueError("it has another format")
    for name in ("paths", "files"):
        document[name] = tuple(map(to_bytes, document[name]))
    folders = document["folders"]
    document["folders"] = tuple(FolderChange(to_bytes(path), *bits) for path, *bits in folders)
    if document["head"] is not None:
        before, after, branches = document["head"]
        moves = tuple(BranchMove(*map(_name, move)) for move in branches)
        document["head"] = HeadMove(Head(*map(_name, before)), Head(*map(_name, after)), moves)
    return Journal(**document)


def _name(text: str | None) -> Any:
    """Return a branch or a commit as bytes."""
    return None if text is None else to_bytes(text)


# -- Checkpoints that must not be pruned


def needed_by_rollbacks(repo: Repository) -> dict[str, str | None]:
    """Return the checkpoints that interrupted rollbacks need, with their worktrees."""
    needed: dict[str, str | None] = {}
    for git_dir in repo.refs.git_dirs():
        with suppress(FileNotFoundError):
            record = _read(os.path.join(git_dir, "ckpt", JOURNAL))
            needed |= dict.fromkeys((record.target, record.safety), worktree_of(git_dir))
    return needed
