# SPDX-License-Identifier: MIT
"""Refs: the names that hold checkpoints, and HEAD with its branch.

Checkpoint refs are created only if new and removed only if unchanged, through
dulwich's file-based container. HEAD and branches move by git's own protocol (a
`.lock` file, the old value compared under it, a reflog entry), and only for a
rollback that was asked to move them. Refs in reftables are read by `reftable_refs`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ckpt import disk
from ckpt.errors import Busy, CkptError, Refused
from ckpt.models import REF_PREFIX, TRASH_PREFIX
from ckpt.paths import to_str
from ckpt.store.lock import holding, replace_locked
from ckpt.store.objects import ObjectID
from ckpt.store.sharing import NOT_SHARED

if TYPE_CHECKING:
    from dulwich.refs import DiskRefsContainer

IDENTITY = b"ckpt <ckpt@localhost>"
_SYMREF = b"ref: "


@dataclass(frozen=True, slots=True)
class Head:
    """`branch` (a full ref name) is None when detached, `commit` when unborn."""

    branch: bytes | None
    commit: ObjectID | None

    @property
    def contents(self) -> bytes:
        """What the HEAD file says of this state."""
        if self.branch is not None:
            return _SYMREF + self.branch + b"\n"
        return (self.commit or b"") + b"\n"


def branch_name(head: Head) -> str | None:
    """The short name of HEAD's branch, as git prints it."""
    return None if head.branch is None else short_name(head.branch)


def short_name(branch: bytes) -> str:
    name = to_str(branch)
    short = name.removeprefix("refs/heads/")
    # A branch may be called `refs/…`; without its prefix it would be another ref.
    return name if short.startswith("refs/") else short


class Refs:
    """The refs of one worktree: its own HEAD, everything else shared."""

    def __init__(self, git_dir: str, common_dir: str, hex_length: int) -> None:
        self.git_dir = git_dir
        self.common_dir = common_dir
        self._private_dir = os.path.join(git_dir, "ckpt")
        self._zero = b"0" * hex_length
        self._hex_length = hex_length
        self.logs_updates = True
        self.main_is_bare = False
        self.sharing = NOT_SHARED
        self._container: DiskRefsContainer | None = None

    def check_writable(self) -> None:
        """Refuse where no ref can be written, before anything else is."""

    # -- checkpoints -------------------------------------------------------------

    def checkpoints(self) -> dict[str, ObjectID]:
        """Id to commit of every checkpoint."""
        return self._below(REF_PREFIX)

    def trash(self) -> dict[str, ObjectID]:
        """`DATE/ID` to commit of every dropped checkpoint."""
        return self._below(TRASH_PREFIX)

    def _below(self, prefix: str) -> dict[str, ObjectID]:
        """Name to object of every ref below a prefix; loose refs hide packed ones, as in git."""
        found = dict(self._packed_below(prefix.encode()))
        top = os.path.join(self.common_dir, prefix)
        for folder, _, names in os.walk(top):
            for name in names:
                path = os.path.join(folder, name)
                value = None if name.endswith(".lock") else self._object_id(_read(path))
                if value is not None:
                    found[os.path.relpath(path, top)] = value
        return found

    def create(self, ref: bytes, target: ObjectID) -> bool:
        """Add a ref; False if the name is taken."""
        disk.touch_ref("create-ref", ref)
        folder = os.path.dirname(self._path(ref))
        is_known = os.path.isdir(folder)
        self.sharing.make_folders(folder)
        with _translating(ref):
            created = self._refs().add_if_new(_ref(ref), target)
        if created:
            self.sharing.adjust(self._path(ref))
            disk.fsync_dir(folder)
            while not is_known and folder != os.path.join(self.common_dir, "refs"):
                folder = os.path.dirname(folder)
                disk.fsync_dir(folder)
        return created

    def replace(self, ref: bytes, old: ObjectID, new: ObjectID) -> bool:
        """Move a ref; False if it is no longer where it was read."""
        disk.touch_ref("replace-ref", ref)
        with _translating(ref):
            return self._refs().set_if_equals(_ref(ref), old, new)

    def remove(self, ref: bytes, old: ObjectID) -> bool:
        """Delete a ref; False if it is no longer where it was read."""
        disk.touch_ref("remove-ref", ref)
        with _translating(ref):
            return self._refs().remove_if_equals(_ref(ref), old)

    def read(self, ref: bytes) -> ObjectID | None:
        """The object a ref names, links followed; None where there is none."""
        with _translating(ref):
            try:
                return self._object_id(self._refs().follow(_ref(ref))[1])
            except KeyError:
                return None

    def _packed_below(self, prefix: bytes) -> Iterator[tuple[str, ObjectID]]:
        for line in _read(os.path.join(self.common_dir, "packed-refs")).splitlines():
            value, _, name = line.partition(b" ")
            target = self._object_id(value)
            if target is not None and name.startswith(prefix):
                yield name[len(prefix) :].decode("utf-8", "surrogateescape"), target

    # -- HEAD --------------------------------------------------------------------

    def head(self) -> Head:
        contents = _read_head(self.git_dir)
        if not contents.startswith(_SYMREF):
            commit = self._object_id(contents)
            if commit is None:
                raise CkptError(
                    "HEAD is neither a branch nor a commit", hint="run 'git fsck' and mend HEAD"
                )
            return Head(None, commit)
        branch = contents[len(_SYMREF) :].strip()
        return Head(branch, self.read(branch))

    def other_worktree_with(self, branch: bytes) -> str | None:
        """The git dir of another worktree that has this branch checked out."""
        others = [] if self.main_is_bare else [self.common_dir]
        linked = os.path.join(self.common_dir, "worktrees")
        if os.path.isdir(linked):
            others += [os.path.join(linked, name) for name in sorted(os.listdir(linked))]
        for git_dir in others:
            if git_dir != self.git_dir and branch in _branches_in_use(git_dir):
                return git_dir
        return None

    def obstacle_to(self, branch: bytes) -> str | None:
        """What forbids to write a branch as a plain ref: a link, or a name above or below it."""
        if _read(self._path(branch)).startswith(_SYMREF):
            return "it is a symbolic ref"
        names = {b"refs/heads/" + os.fsencode(name) for name in self._below("refs/heads/")}
        for name in sorted(names):
            if name.startswith(branch + b"/") or branch.startswith(name + b"/"):
                return f"'{os.fsdecode(name)}' exists"
        return None

    def check_branch(self, branch: bytes) -> None:
        """Refuse what git would not have as a branch: a checkpoint may say anything."""
        from dulwich.refs import check_ref_format

        if not branch.startswith(b"refs/") or not check_ref_format(_ref(branch)):
            raise Refused(
                f"'{branch.decode('utf-8', 'backslashreplace')}' is not a valid branch name",
                hint="leave HEAD where it is: repeat the command without --head",
            )

    def move_branch(
        self, branch: bytes, old: ObjectID | None, new: ObjectID | None, message: bytes
    ) -> None:
        """Set a branch from `old` to `new` (None: absent), or fail if it has moved since."""
        self.check_branch(branch)
        if old == new:
            return
        if new is None:
            moved = self._remove_branch(branch, old)
        else:
            moved = self._write_branch(branch, old, new)
        if not moved:
            raise Busy(
                f"'{branch.decode('utf-8', 'replace')}' moved while the rollback ran",
                hint="run 'git ckpt rollback --abort', then try again",
            )
        self._log(self._path(branch), branch, old, new, message)

    def set_head(self, head: Head, old: ObjectID | None, message: bytes) -> None:
        """Point HEAD at a branch or a commit; `old` is where it stood, for the reflog."""
        if head.branch is not None:
            self.check_branch(head.branch)
        path = os.path.join(self.git_dir, "HEAD")
        if head.contents != self.head().contents:
            replace_locked(path, head.contents, self._private_dir)
        self._log(path, b"HEAD", old, head.commit, message)

    def lock_candidates(self, *branches: bytes | None) -> list[str]:
        """The files that moving HEAD and these branches locks."""
        refs = (b"HEAD", b"packed-refs", *branches)
        return [self._path(ref) for ref in refs if ref is not None]

    def _remove_branch(self, branch: bytes, old: ObjectID | None) -> bool:
        """Delete a branch under locks of ours: the packed ref first, or it would come back."""
        path, packed = self._path(branch), os.path.join(self.common_dir, "packed-refs")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with holding(path, self._private_dir):
            if self.read(branch) != old:
                return False
            contents = _read(packed)
            kept = _without(contents, branch)
            if kept != contents:
                replace_locked(packed, kept, self._private_dir, lambda: _read(packed) == contents)
            _remove_file(path)
        _remove_empty_above(path, os.path.join(self.common_dir, "refs/heads"))
        return True

    def _write_branch(self, branch: bytes, old: ObjectID | None, new: ObjectID) -> bool:
        path = self._path(branch)
        self.sharing.make_folders(os.path.dirname(path))
        _remove_empty(path)
        is_written = replace_locked(
            path, new + b"\n", self._private_dir, lambda: self.read(branch) == old
        )
        if is_written:
            self.sharing.adjust(path)
        return is_written

    def _log(
        self, path: str, ref: bytes, old: ObjectID | None, new: ObjectID | None, message: bytes
    ) -> None:
        base = self.git_dir if ref == b"HEAD" else self.common_dir
        log = os.path.join(base, "logs", os.path.relpath(path, base))
        line = b"%s %s %s %d +0000\t%s\n" % (
            old or self._zero,
            new or self._zero,
            IDENTITY,
            int(time.time()),
            message,
        )
        if new is None and ref != b"HEAD":
            _remove_file(log)  # it would stand in the way of other branches' logs
            _remove_empty_above(log, os.path.join(base, "logs/refs/heads"))
            return
        _remove_empty(log)
        is_new = not os.path.exists(log)
        if is_new and not self.logs_updates:
            return
        self.sharing.make_folders(os.path.dirname(log))
        fd = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            disk.write(fd, line, log)
        finally:
            os.close(fd)
        if is_new:
            self.sharing.adjust(log)

    # -- helpers -----------------------------------------------------------------

    def _path(self, ref: bytes) -> str:
        base = self.git_dir if ref == b"HEAD" else self.common_dir
        return os.path.join(base, os.fsdecode(ref))

    def _object_id(self, value: bytes | None) -> ObjectID | None:
        value = (value or b"").strip()
        if len(value) != self._hex_length or value.strip(b"0123456789abcdef"):
            return None
        return ObjectID(value)

    def _refs(self) -> DiskRefsContainer:
        if self._container is None:
            from dulwich.refs import DiskRefsContainer

            self._container = DiskRefsContainer(self.common_dir, self.git_dir)
        return self._container


class _translating:
    """Turns what dulwich raises about locks and damaged refs into errors of ours."""

    def __init__(self, ref: bytes) -> None:
        self._ref = ref

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: object, _: object) -> None:
        if kind is None or not issubclass(kind, Exception) or issubclass(kind, CkptError):
            return
        if kind.__name__ == "FileLocked":
            raise Busy(
                f"unable to lock '{os.fsdecode(self._ref)}'",
                hint="another git process seems to be running; wait for it, then try again",
            )
        if not issubclass(kind, OSError):  # nothing else is common to what damage raises
            raise CkptError(
                f"cannot read '{os.fsdecode(self._ref)}' ({kind.__name__}: {error})",
                hint="'git fsck' tells what is wrong, 'git pack-refs --all' may mend it",
            )


def _remove_file(path: str) -> None:
    try:
        disk.unlink(path)
    except FileNotFoundError:
        pass


def _remove_empty(path: str) -> None:
    """Take away folders with nothing in them, where a file shall stand: as git does."""
    for folder, _, _ in os.walk(path, topdown=False):
        _remove_if_empty(folder)


def _remove_empty_above(path: str, top: str) -> None:
    """Take away the folders that the last ref in them leaves empty, up to `top`."""
    folder = os.path.dirname(path)
    while folder.startswith(top + "/") and _remove_if_empty(folder):
        folder = os.path.dirname(folder)


def _remove_if_empty(folder: str) -> bool:
    try:
        disk.rmdir(folder)
    except OSError:  # in use, or gone already
        return False
    return True


def _without(packed: bytes, ref: bytes) -> bytes:
    """The packed refs but for one, and for the line that says what it peels to."""
    kept: list[bytes] = []
    dropping = False
    for line in packed.splitlines(keepends=True):
        dropping = line.rstrip(b"\n").endswith(b" " + ref) or (dropping and line[:1] == b"^")
        if not dropping:
            kept.append(line)
    return b"".join(kept)


def _branches_in_use(git_dir: str) -> set[bytes]:
    """The branch a worktree is on, and those that a rebase or bisect there will return to."""
    head = _read_head(git_dir).removeprefix(_SYMREF)
    bisected = _read(os.path.join(git_dir, "BISECT_START")).strip()
    rebased = {
        _read(os.path.join(git_dir, folder, "head-name")).strip()
        for folder in ("rebase-merge", "rebase-apply")
    }
    return {head, b"refs/heads/" + bisected, *rebased}


def _read_head(git_dir: str) -> bytes:
    """What HEAD says; of old it may be a symbolic link to a ref (core.preferSymlinkRefs)."""
    path = os.path.join(git_dir, "HEAD")
    try:
        target = os.fsencode(os.readlink(path))
    except OSError:
        return _read(path).strip()
    return _SYMREF + target if target.startswith(b"refs/") else _read(path).strip()


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


if TYPE_CHECKING:
    from dulwich.refs import Ref as _ref
else:

    def _ref(name: bytes) -> bytes:
        return name
