# SPDX-License-Identifier: MIT
"""What a rollback changes: a file, a folder's bits, a branch, HEAD; and each as JSON.

Values only. Each knows what was and what shall be, so that it can be carried out, or
taken back, without a decision anew. A file is known by the bytes on disk, whatever the
blob is that they come from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ckpt.git.formats import ObjectID
from ckpt.git.refs import Head
from ckpt.git.trees import SYMLINK, TreeEntry
from ckpt.paths import from_json, to_json


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the bytes of a file come from that are not those of git's blob.

    They are stored, or in the local store of Git LFS.
    """

    blob: ObjectID
    in_lfs: bool


@dataclass(frozen=True, slots=True, eq=False)
class FileState:
    """What a path holds: entry and permission bits; a link's bits are 0.

    The id is that of the bytes on disk; `origin` is where these differ from git's blob.
    An entry of a link with other bits is a plain file with the target in it. Two states are
    equal if they are the same on disk: what git calls executable need not be.
    """

    entry: TreeEntry
    permissions: int
    origin: Origin | None = None

    @property
    def git_entry(self) -> TreeEntry:
        """The entry that git's index has if the file is unchanged."""
        return self.entry if self.origin is None else self.entry._replace(id=self.origin.blob)

    @property
    def is_link(self) -> bool:
        return self.entry.mode == SYMLINK and not self.permissions

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FileState) and self._on_disk == other._on_disk

    def __hash__(self) -> int:
        return hash(self._on_disk)

    @property
    def _on_disk(self) -> tuple[bool, ObjectID, int]:
        return self.is_link, self.entry.id, self.permissions


@dataclass(frozen=True, slots=True)
class Action:
    """One path on its way from `before` to `after`; None means that nothing is there."""

    path: bytes
    before: FileState | None
    after: FileState | None

    def reversed(self) -> Action:
        return Action(self.path, self.after, self.before)


@dataclass(frozen=True, slots=True)
class FolderChange:
    """The permission bits of a folder before and after; None where it is not there."""

    path: bytes
    before: int | None
    after: int | None

    def reversed(self) -> FolderChange:
        return FolderChange(self.path, self.after, self.before)


@dataclass(frozen=True, slots=True)
class BranchMove:
    """A branch on its way from one commit to another; None means that it is not there."""

    branch: bytes
    before: ObjectID | None
    after: ObjectID | None

    def reversed(self) -> BranchMove:
        return BranchMove(self.branch, self.after, self.before)


@dataclass(frozen=True, slots=True)
class HeadMove:
    """HEAD before and after, and where the branch it goes to stood before.

    `others` are branches that move although HEAD does not go to them: those that a rebase
    in the target will move when it ends, and those that an undo puts back.
    """

    before: Head
    after: Head
    branch_before: ObjectID | None
    others: tuple[BranchMove, ...] = ()


# -- as JSON ----------------------------------------------------------------------


def dump_action(action: Action) -> dict[str, Any]:
    return to_json(action.path) | {
        "before": _dump_state(action.before),
        "after": _dump_state(action.after),
    }


def load_action(document: dict[str, Any]) -> Action:
    return Action(
        from_json(document), _load_state(document["before"]), _load_state(document["after"])
    )


def dump_folder(change: FolderChange) -> dict[str, Any]:
    return to_json(change.path) | {"before": change.before, "after": change.after}


def load_folder(document: dict[str, Any]) -> FolderChange:
    before, after = (_folder_bits(document[key]) for key in ("before", "after"))
    return FolderChange(from_json(document), before, after)


def _folder_bits(document: int | None) -> int | None:
    return None if document is None else int(document) & 0o777


def _dump_state(state: FileState | None) -> list[str] | None:
    if state is None:
        return None
    entry, origin = state.entry, state.origin
    came_from = [] if origin is None else [origin.blob.decode(), "lfs" if origin.in_lfs else ""]
    return [f"{entry.mode:06o}", entry.id.decode(), f"{state.permissions:04o}", *came_from]


def _load_state(document: list[str] | None) -> FileState | None:
    if document is None:
        return None
    mode, object_id, permissions, *came_from = document
    origin = None
    if came_from:
        blob, in_lfs = came_from
        origin = Origin(ObjectID(blob.encode()), bool(in_lfs))
    return FileState(
        TreeEntry(int(mode, 8), ObjectID(object_id.encode())), int(permissions, 8) & 0o777, origin
    )


def dump_move(move: HeadMove | None) -> dict[str, Any] | None:
    if move is None:
        return None
    return {
        "before": _dump_head(move.before),
        "after": _dump_head(move.after),
        "branch_before": _text(move.branch_before),
        "others": [_dump_branch(other) for other in move.others],
    }


def load_move(document: dict[str, Any] | None) -> HeadMove | None:
    if document is None:
        return None
    return HeadMove(
        _load_head(document["before"]),
        _load_head(document["after"]),
        _object_id(document["branch_before"]),
        tuple(map(_load_branch, document["others"])),
    )


def _dump_branch(move: BranchMove) -> dict[str, Any]:
    return {
        "branch": to_json(move.branch),
        "before": _text(move.before),
        "after": _text(move.after),
    }


def _load_branch(document: dict[str, Any]) -> BranchMove:
    return BranchMove(
        from_json(document["branch"]),
        _object_id(document["before"]),
        _object_id(document["after"]),
    )


def _dump_head(head: Head) -> dict[str, Any]:
    branch = None if head.branch is None else to_json(head.branch)
    return {"branch": branch, "commit": _text(head.commit)}


def _load_head(document: dict[str, Any]) -> Head:
    branch = document["branch"]
    return Head(None if branch is None else from_json(branch), _object_id(document["commit"]))


def _text(object_id: ObjectID | None) -> str | None:
    return None if object_id is None else object_id.decode()


def _object_id(text: str | None) -> ObjectID | None:
    return None if text is None else ObjectID(text.encode())
