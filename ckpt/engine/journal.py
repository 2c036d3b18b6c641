# SPDX-License-Identifier: MIT
"""The journal of a rollback: every change it makes, written down before the first file changes.

It lists, path by path, what was and what shall be, so that recovery decides nothing anew. A
rollback that is complete renames its journal to `last-rollback`, in one step: that is what
`undo` reads. Both begin with a checksum, and are ours alone to write.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache
from hashlib import sha256
from types import UnionType
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from ckpt import disk, jsontext
from ckpt.errors import Refused, claim, is_others
from ckpt.git.formats import ObjectID
from ckpt.git.refs import Head
from ckpt.git.repository import Repository, git_dirs, in_worktree, worktree_of
from ckpt.git.trees import SYMLINK, TreeEntry
from ckpt.locks import JOURNAL, is_interrupted, journal_exists

LAST, SESSIONS = "last-rollback", "sessions"
CONTINUE, ABORT = "git ckpt rollback --continue", "git ckpt rollback --abort"
FORMAT = 1
_DAMAGE = (AttributeError, IndexError, KeyError, TypeError, ValueError)

# -- What changes


class Origin(NamedTuple):
    """Git's blob of a file whose bytes on disk are others: stored, or in Git LFS's own store."""

    blob: ObjectID
    in_lfs: bool


@dataclass(frozen=True, slots=True, eq=False)
class FileState:
    """What a path holds: entry and permission bits; a link's bits are 0.

    The id is that of the bytes on disk; `origin` tells where git's blob differs from them. An
    entry of a link with other bits is a plain file with the target in it (core.symlinks). Two
    states are equal if they are the same on disk: what git calls executable need not be.
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


class Action(NamedTuple):
    """One path on its way from `before` to `after`; None means that nothing is there."""

    path: bytes
    before: FileState | None
    after: FileState | None

    def reversed(self) -> Action:
        return Action(self.path, self.after, self.before)


class FolderChange(NamedTuple):
    """The permission bits of a folder before and after; None where it is not there."""

    path: bytes
    before: int | None
    after: int | None

    def reversed(self) -> FolderChange:
        return FolderChange(self.path, self.after, self.before)


class BranchMove(NamedTuple):
    """A branch on its way from one commit to another; None means that it is not there."""

    branch: bytes
    before: ObjectID | None
    after: ObjectID | None

    def reversed(self) -> BranchMove:
        return BranchMove(self.branch, self.after, self.before)


class HeadMove(NamedTuple):
    """HEAD before and after, and where the branch it goes to stood before.

    `others` are branches that move although HEAD does not go to them: those that a rebase
    in the target will move when it ends, and those that an undo puts back.
    """

    before: Head
    after: Head
    branch_before: ObjectID | None
    others: tuple[BranchMove, ...] = ()

    @property
    def branches(self) -> list[bytes]:
        """The branches that move, or that HEAD leaves."""
        found = (self.before.branch, self.after.branch, *(other.branch for other in self.others))
        return [branch for branch in found if branch is not None]


class WorktreePlace(NamedTuple):
    """`path` leads from the git dir to the top of the worktree."""

    path: bytes
    device: int
    inode: int


@dataclass(frozen=True)
class Journal:
    """A rollback from the state of the safety checkpoint to that of the target.

    `index`, `operation` and `head` are what changes; `asked_…` is what the user asked for, which
    is what an undo asks for in turn. `unstaged` are paths of the target's index that stay out of
    it; these, `kept` and `blocked` are to be listed by who finishes. `family` is the name of the
    temporary files. The commits tell whether a checkpoint is still the one that it was.
    """

    target: str
    safety: str
    paths: tuple[bytes, ...]
    actions: tuple[Action, ...]
    make_folders: tuple[bytes, ...] = ()
    remove_folders: tuple[bytes, ...] = ()
    folders: tuple[FolderChange, ...] = ()
    index: bool = True
    unstaged: Mapping[bytes, str] = field(default_factory=dict)
    kept: Mapping[bytes, str] = field(default_factory=dict)
    blocked: Mapping[bytes, str] = field(default_factory=dict)
    operation: bool = False
    head: HeadMove | None = None
    asked_index: bool = True
    asked_head: bool = False
    asked_overwrite: bool = False
    family: str = ""
    target_commit: str | None = None
    safety_commit: str | None = None
    worktree: WorktreePlace | None = None

    @property
    def name(self) -> bytes:
        return self.family.encode()

    @property
    def created(self) -> frozenset[bytes]:
        """The files that it put where there were none."""
        put = (a.path for a in self.actions if a.after is not None and a.before is None)
        return frozenset(put) - self.blocked.keys()

    @property
    def replaced(self) -> frozenset[bytes]:
        """The files that it removed, or put others in their place."""
        gone = (a.path for a in self.actions if a.before is not None)
        return frozenset(gone) - self.blocked.keys()


# -- Write and read it


class NewerJournal(Refused):
    """A newer ckpt wrote it, and can go on with it."""


class Doubtful(Refused):
    """Another user could have written it, and whoever did decides on files and branches."""


def write(private_dir: str, journal: Journal) -> None:
    data = jsontext.dump(dump(journal))
    disk.replace(os.path.join(private_dir, JOURNAL), _checksum(data) + b"\n" + data)


def read(private_dir: str) -> Journal:
    """The journal that is there; refuses one that it cannot read."""
    try:
        return _read(os.path.join(private_dir, JOURNAL))
    except FileNotFoundError:
        raise Refused(
            "no rollback was interrupted in this worktree", hint="git ckpt list"
        ) from None


def last_rollback(private_dir: str) -> Journal | None:
    """What `undo` takes back; None if there is nothing, or nothing legible."""
    try:
        return _read(os.path.join(private_dir, LAST))
    except Doubtful:
        raise
    except (Refused, OSError):
        return None


def complete(private_dir: str, journal: Journal, blocked: Mapping[bytes, str]) -> None:
    """The rollback is done: from here on its journal is what `undo` takes back."""
    if blocked:
        write(private_dir, replace(journal, blocked={**journal.blocked, **blocked}))
    disk.rename(os.path.join(private_dir, JOURNAL), os.path.join(private_dir, LAST))
    disk.fsync_dir(private_dir)


def remove(private_dir: str) -> None:
    """The rollback was taken back; `undo` means what it meant before."""
    disk.remove(os.path.join(private_dir, JOURNAL))


def check_ready(private_dir: str) -> None:
    """Refuse to begin while another rollback is unfinished, or could not be remembered."""
    if journal_exists(private_dir):
        raise unfinished()
    path = os.path.join(private_dir, LAST)
    if os.path.isdir(path) and not os.path.islink(path):
        raise Refused(f"'{path}' is a folder", hint="remove it, then repeat the command")


def check_ended(private_dir: str) -> None:
    """Refuse if a rollback died here; for who does not hold the worktree's lock."""
    if is_interrupted(private_dir):
        raise unfinished()


def unfinished() -> Refused:
    return Refused(
        "a rollback was interrupted in this worktree",
        hint=f"'{CONTINUE}' finishes it, '{ABORT}' returns to the state before it",
    )


def _check_writers(path: str, status: os.stat_result) -> None:
    """Refuse a journal that another user may have written."""
    from shlex import quote

    git_dir, why = os.path.dirname(os.path.dirname(path)), ""
    if is_others(status, git_dir):
        why, command = f"'{path}' belongs to another user", claim([path], git_dir)
    elif status.st_mode & disk.WRITABLE:
        why, command = f"other users could have written to '{path}'", f"chmod 600 {quote(path)}"
    if why:
        hint = f"if nobody else has written there: {command}"
        raise Doubtful(f"{why}, so it is not used", hint=hint)


def _read(path: str) -> Journal:
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise ValueError("it is no file")
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            status = os.fstat(fd)
            _check_writers(path, status)
            if status.st_size > disk.LARGE:
                raise ValueError("it is too large for what it is")
            checksum, _, body = file.read().partition(b"\n")
        if checksum != _checksum(body):
            raise ValueError("its checksum is wrong")
        return load(jsontext.load(body))
    except (*_DAMAGE, RecursionError) as error:
        raise Refused(
            f"the journal of an interrupted rollback is damaged ({error})",
            hint="'git ckpt doctor' tells how to move it aside; then roll back to the newest of "
            "'git ckpt list --kind safety', which is the state before it",
        ) from None


def _checksum(data: bytes) -> bytes:
    return sha256(data).hexdigest().encode("ascii")


# -- As JSON: a value by its fields in their order, a path as text


def dump(journal: Journal) -> dict[str, Any]:
    return {"format": FORMAT, "rollback": _plain(journal)}


def load(document: dict[str, Any]) -> Journal:
    """A journal from its JSON; ValueError or the like for what `dump` would not write."""
    found = document["format"]
    if type(found) is int and found > FORMAT:
        raise NewerJournal(
            f"the journal of an interrupted rollback has format {found}, newer than this ckpt",
            hint="upgrade ckpt: pip install --upgrade git-ckpt",
        )
    if found != FORMAT:
        raise ValueError(f"format {found}")
    journal = _typed(Journal, document["rollback"])
    assert isinstance(journal, Journal)
    return journal


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, Mapping):
        return [[_plain(key), _plain(item)] for key, item in value.items()]
    if is_dataclass(value):
        return [_plain(getattr(value, field.name)) for field in fields(value)]
    return [_plain(item) for item in value]  # of a tuple; a TreeEntry is one


def _typed(kind: Any, value: Any) -> Any:
    """What `_plain` has made of a value of that type."""
    parts = get_args(kind)
    if get_origin(kind) is UnionType:  # with None; there is no other
        return None if value is None else _typed(parts[0], value)
    if get_origin(kind) is tuple:
        return tuple(_typed(parts[0], item) for item in value)
    if get_origin(kind) is Mapping:
        return {_typed(parts[0], key): _typed(parts[1], item) for key, item in value}
    if kind in (bytes, ObjectID):
        return value.encode("utf-8", "surrogateescape")
    if kind in (str, int, bool):
        if type(value) is not kind:
            raise ValueError(f"{value!r:.40} is no {kind.__name__}")
        return value
    types = _types(kind)
    if len(types) != len(value):
        raise ValueError(f"it has {len(value)} parts, not {len(types)}")
    return kind(*map(_typed, types, value))


@cache
def _types(kind: type) -> tuple[Any, ...]:
    return tuple(get_type_hints(kind).values())


# -- Where the rollback took place


def place_of(repo: Repository) -> WorktreePlace:
    status = os.stat(repo.worktree)
    path = os.path.relpath(repo.worktree, repo.git_dir)
    return WorktreePlace(os.fsencode(path), status.st_dev, status.st_ino)


def check_place(repo: Repository, then: WorktreePlace | None, command: str) -> None:
    """Refuse what belongs into another worktree, and say how to do it there."""
    now = place_of(repo)
    if then is None or then.path == now.path:
        return
    folder = os.path.normpath(os.path.join(repo.git_dir, os.fsdecode(then.path)))
    if (then.device, then.inode) != (now.device, now.inode) and os.path.isdir(folder):
        from shlex import quote

        raise Refused(
            f"the rollback took place in '{folder}', not in this worktree",
            hint=command.replace("git ", f"git --work-tree={quote(folder)} ", 1),
        )


# -- What other commands must leave alone for its sake


def needed_by_rollbacks(repo: Repository) -> dict[str, str | None]:
    """The checkpoints that interrupted rollbacks name, and the worktrees of these."""
    needed: dict[str, str | None] = {}
    for git_dir in git_dirs(repo):
        private_dir = os.path.join(git_dir, "ckpt")
        if not journal_exists(private_dir):
            continue
        try:
            record = read(private_dir)
        except Refused as error:
            if not journal_exists(private_dir):
                continue  # that rollback has ended meanwhile
            if git_dir == repo.git_dir:
                raise
            message = error.message + in_worktree(git_dir)
            raise Refused(message, hint="git ckpt doctor") from None
        needed |= dict.fromkeys((record.target, record.safety), worktree_of(git_dir))
    return needed


def hidden_worktrees(repo: Repository) -> set[str]:
    """The ids of worktrees of other users, of which nobody can tell here what they need."""
    return {repo.worktree_id_of(git_dir) for git_dir in git_dirs(repo) if _is_hidden(git_dir)}


def _is_hidden(git_dir: str) -> bool:
    try:
        os.lstat(os.path.join(git_dir, "ckpt", JOURNAL))
    except PermissionError:
        return True
    except OSError:
        pass
    return False
