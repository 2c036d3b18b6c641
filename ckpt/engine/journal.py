# SPDX-License-Identifier: MIT
"""The journal: what makes a rollback that died resumable, in either direction.

Written and flushed before the first file changes, removed after the last. It names the
target and the safety checkpoint and lists, path by path, what was and what shall be,
so that recovery needs no decision anew: ignore rules on disk may be half restored. A
checksum stands before it: half of a journal, or a wrong one, is worse than none.

Beside it lies `last-rollback`, the memory that `undo` reads.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from typing import Any

from ckpt import disk
from ckpt.errors import Refused
from ckpt.paths import from_json, to_json
from ckpt.store.objects import ObjectID
from ckpt.store.refs import Head
from ckpt.store.trees import SYMLINK, TreeEntry

_JOURNAL = "journal"
_LAST = "last-rollback"
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the bytes of a file come from that are not those of git's blob.

    Without a recipe they are stored as they are.
    """

    blob: ObjectID
    recipe: str


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


@dataclass(frozen=True, slots=True)
class Journal:
    """A rollback that has begun: from the safety checkpoint's state to the target's.

    `index`, `operation` and `head` are what changes; `asked_…` is what the user asked for,
    which is what an undo will ask for in turn. `nested` are the journals of repositories in
    the worktree that go back together with it, all under the one name of `family`.
    """

    target: str
    safety: str
    paths: tuple[bytes, ...]
    actions: tuple[Action, ...]
    make_folders: tuple[bytes, ...] = ()
    remove_folders: tuple[bytes, ...] = ()
    folders: tuple[FolderChange, ...] = ()
    index: bool = True
    operation: bool = False
    head: HeadMove | None = None
    asked_index: bool = True
    asked_head: bool = False
    asked_overwrite: bool = False
    asked_recurse: bool = False
    family: str | None = None
    nested: tuple[NestedJournal, ...] = ()


@dataclass(frozen=True, slots=True)
class NestedJournal:
    """The journal of a nested repository as it will be stored there."""

    path: bytes
    document: dict[str, Any]


@dataclass(frozen=True, slots=True)
class LastRollback:
    """The last rollback that finished here, and how `undo` takes it back.

    `created` are the files that it put where there were none, `replaced` those it put in
    the place of others.
    """

    target: str
    safety: str
    paths: tuple[bytes, ...] = ()
    index: bool = True
    head: bool = False
    overwrite: bool = False
    created: tuple[bytes, ...] = ()
    replaced: tuple[bytes, ...] = ()
    move: HeadMove | None = None
    recurse: bool = False


def exists(private_dir: str) -> bool:
    return os.path.lexists(os.path.join(private_dir, _JOURNAL))


def write(private_dir: str, journal: Journal) -> None:
    _store(private_dir, _JOURNAL, dump(private_dir, journal))


def dump(private_dir: str, journal: Journal) -> dict[str, Any]:
    """All that `write` would store there."""
    return {
        "format": FORMAT,
        "target": journal.target,
        "safety": journal.safety,
        "paths": [to_json(path) for path in journal.paths],
        "actions": [_dump_action(action) for action in journal.actions],
        "make_folders": [to_json(path) for path in journal.make_folders],
        "remove_folders": [to_json(path) for path in journal.remove_folders],
        "folders": [_dump_folder(change) for change in journal.folders],
        "index": journal.index,
        "operation": journal.operation,
        "head": _dump_move(journal.head),
        "asked_index": journal.asked_index,
        "asked_head": journal.asked_head,
        "asked_overwrite": journal.asked_overwrite,
        "asked_recurse": journal.asked_recurse,
        "family": journal.family,
        "nested": [
            {"at": to_json(nested.path), "journal": nested.document} for nested in journal.nested
        ],
        "last": _last(private_dir),
    }


def rewrite(private_dir: str, nested: NestedJournal) -> None:
    """Store the journal that the repository around this one has kept for it."""
    _store(private_dir, _JOURNAL, nested.document)


def read(private_dir: str) -> Journal:
    """The journal that is there; refuses one that it cannot read."""
    document = _fetch(private_dir, _JOURNAL)
    if document is None:
        raise Refused("no rollback was interrupted in this worktree", hint="git ckpt list")
    try:
        if document["format"] != FORMAT:
            raise ValueError(f"format {document['format']}")
        return Journal(
            target=str(document["target"]),
            safety=str(document["safety"]),
            paths=tuple(map(from_json, document["paths"])),
            actions=tuple(map(_load_action, document["actions"])),
            make_folders=tuple(map(from_json, document["make_folders"])),
            remove_folders=tuple(map(from_json, document["remove_folders"])),
            folders=tuple(map(_load_folder, document["folders"])),
            index=bool(document["index"]),
            operation=bool(document["operation"]),
            head=_load_move(document["head"]),
            asked_index=bool(document["asked_index"]),
            asked_head=bool(document["asked_head"]),
            asked_overwrite=bool(document["asked_overwrite"]),
            asked_recurse=bool(document["asked_recurse"]),
            family=document["family"],
            nested=tuple(
                NestedJournal(from_json(item["at"]), dict(item["journal"]))
                for item in document["nested"]
            ),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _damaged(private_dir, error) from None


def remove(private_dir: str) -> None:
    disk.remove_private_file(os.path.join(private_dir, _JOURNAL))


def take_back(private_dir: str) -> None:
    """The rollback never was: `undo` means what it meant before, and the journal goes."""
    last = _fetch(private_dir, _JOURNAL).get("last")
    if last is None:
        disk.remove_private_file(os.path.join(private_dir, _LAST))
    elif last != _last(private_dir):
        _store(private_dir, _LAST, last)
    remove(private_dir)


def remember(private_dir: str, last: LastRollback) -> None:
    document = {
        "format": FORMAT,
        "target": last.target,
        "safety": last.safety,
        "paths": [to_json(path) for path in last.paths],
        "index": last.index,
        "head": last.head,
        "overwrite": last.overwrite,
        "created": [to_json(path) for path in last.created],
        "replaced": [to_json(path) for path in last.replaced],
        "move": _dump_move(last.move),
        "recurse": last.recurse,
    }
    _store(private_dir, _LAST, document)


def last_rollback(private_dir: str) -> LastRollback | None:
    """What `undo` takes back; None if there is nothing, or nothing legible."""
    try:
        document = _fetch(private_dir, _LAST)
        if document is None or document["format"] != FORMAT:
            return None
        return LastRollback(
            target=str(document["target"]),
            safety=str(document["safety"]),
            paths=tuple(map(from_json, document["paths"])),
            index=bool(document["index"]),
            head=bool(document["head"]),
            overwrite=bool(document["overwrite"]),
            created=tuple(map(from_json, document["created"])),
            replaced=tuple(map(from_json, document["replaced"])),
            move=_load_move(document["move"]),
            recurse=bool(document["recurse"]),
        )
    except (Refused, AttributeError, KeyError, TypeError, ValueError):
        return None


def _last(private_dir: str) -> Any:
    try:
        return _fetch(private_dir, _LAST)
    except Refused:
        return None


def _store(private_dir: str, name: str, document: dict[str, Any]) -> None:
    data = json.dumps(document, separators=(",", ":")).encode("ascii")
    disk.replace_private_file(os.path.join(private_dir, name), _checksum(data) + b"\n" + data)


def _fetch(private_dir: str, name: str) -> Any:
    try:
        with open(os.path.join(private_dir, name), "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return None
    checksum, _, body = data.partition(b"\n")
    try:
        if checksum != _checksum(body):
            raise ValueError("its checksum is wrong")
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise _damaged(private_dir, error) from None


def _checksum(data: bytes) -> bytes:
    return hashlib.sha256(data).hexdigest().encode("ascii")


def _damaged(private_dir: str, error: Exception) -> Refused:
    return Refused(
        f"the journal of an interrupted rollback is damaged ({error})",
        hint=f"remove '{os.path.join(private_dir, _JOURNAL)}', then roll back to the newest of "
        "'git ckpt list --kind safety', which is the state before it",
    )


def _dump_action(action: Action) -> dict[str, Any]:
    return to_json(action.path) | {
        "before": _dump_state(action.before),
        "after": _dump_state(action.after),
    }


def _load_action(document: dict[str, Any]) -> Action:
    return Action(
        from_json(document), _load_state(document["before"]), _load_state(document["after"])
    )


def _dump_folder(change: FolderChange) -> dict[str, Any]:
    return to_json(change.path) | {"before": change.before, "after": change.after}


def _load_folder(document: dict[str, Any]) -> FolderChange:
    before, after = (_folder_bits(document[key]) for key in ("before", "after"))
    return FolderChange(from_json(document), before, after)


def _folder_bits(document: int | None) -> int | None:
    return None if document is None else int(document) & 0o777


def _dump_state(state: FileState | None) -> list[str] | None:
    if state is None:
        return None
    entry, origin = state.entry, state.origin
    came_from = [] if origin is None else [origin.blob.decode(), origin.recipe]
    return [f"{entry.mode:06o}", entry.id.decode(), f"{state.permissions:04o}", *came_from]


def _load_state(document: list[str] | None) -> FileState | None:
    if document is None:
        return None
    mode, object_id, permissions, *came_from = document
    origin = None
    if came_from:
        blob, recipe = came_from
        origin = Origin(ObjectID(blob.encode()), recipe)
    return FileState(
        TreeEntry(int(mode, 8), ObjectID(object_id.encode())), int(permissions, 8) & 0o777, origin
    )


def _dump_move(move: HeadMove | None) -> dict[str, Any] | None:
    if move is None:
        return None
    return {
        "before": _dump_head(move.before),
        "after": _dump_head(move.after),
        "branch_before": _text(move.branch_before),
        "others": [_dump_branch(other) for other in move.others],
    }


def _load_move(document: dict[str, Any] | None) -> HeadMove | None:
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
