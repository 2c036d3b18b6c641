# SPDX-License-Identifier: MIT
"""Refs: the names that hold checkpoints, and HEAD with its branch.

Checkpoint refs are created only if new and removed only if unchanged; HEAD and branches
move, with a reflog entry, only for a rollback that was asked to move them, and only from
where they were read. How refs are kept and locked is in `ref_files`; refs in reftables
are read by `reftable_refs`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress

from ckpt import disk
from ckpt.errors import Busy, CkptError, Refused
from ckpt.models import REF_PREFIX, TRASH_PREFIX
from ckpt.paths import to_str
from ckpt.store.lock import clear_dead_locks, clear_unfinished, replace_locked
from ckpt.store.loose_refs import (
    SYMREF,
    names_in,
    read_anyhow,
    read_file,
    remove_empty,
    remove_empty_above,
    remove_file,
)
from ckpt.store.objects import ObjectID
from ckpt.store.ref_batches import RefBatches
from ckpt.store.ref_names import is_ref_name
from ckpt.values import value_class

IDENTITY = b"ckpt <ckpt@localhost>"
_MOVE_PATIENCE = 1.0  # with git's locks; nobody stops half way for a moment


@value_class
class Head:
    """`branch` (a full ref name) is None when detached, `commit` when unborn."""

    branch: bytes | None
    commit: ObjectID | None

    @property
    def contents(self) -> bytes:
        """What the HEAD file says of this state."""
        if self.branch is not None:
            return SYMREF + self.branch + b"\n"
        return (self.commit or b"") + b"\n"


def branch_name(head: Head) -> str | None:
    """The short name of HEAD's branch, as git prints it."""
    return None if head.branch is None else short_name(head.branch)


class HeadMoved(Busy):
    """Somebody else has committed, or gone to another branch."""

    def __init__(self) -> None:
        super().__init__(
            "HEAD moved while the rollback ran",
            hint="repeat the command: it saves where HEAD is now",
        )


def short_name(branch: bytes) -> str:
    name = to_str(branch)
    short = name.removeprefix("refs/heads/")
    # A branch may be called `refs/…`; without its prefix it would be another ref.
    return name if short.startswith("refs/") else short


class CheckpointRefs:
    """The names below `refs/checkpoints/`; what each holds is read when it is asked for."""

    def __init__(self, names: Collection[str], commit_of: Callable[[str], ObjectID | None]) -> None:
        self.names = names
        self.commit_of = commit_of


class Refs(RefBatches):
    """The refs of one worktree: its own HEAD, everything else shared."""

    def __init__(self, git_dir: str, common_dir: str, hex_length: int) -> None:
        super().__init__(git_dir, common_dir, hex_length)
        self._zero = b"0" * hex_length
        self.logs_updates = True
        self.main_is_bare = False

    def check_writable(self) -> None:
        """Refuse where no ref can be written, before anything else is."""

    # -- checkpoints -------------------------------------------------------------

    def checkpoints(self) -> dict[str, ObjectID]:
        """Id to commit of every checkpoint."""
        return self._below(REF_PREFIX)

    def trash(self) -> dict[str, ObjectID]:
        """`DATE/ID` to commit of every dropped checkpoint."""
        return self._below(TRASH_PREFIX)

    def others(self) -> set[ObjectID]:
        """What the refs hold that are not ours."""
        ours = (REF_PREFIX, TRASH_PREFIX)
        found = self._below("refs/").items()
        return {commit for name, commit in found if not f"refs/{name}".startswith(ours)}

    def own(self) -> set[ObjectID]:
        """What the refs hold that a linked worktree has for itself, but for its HEAD."""
        if self.git_dir == self.common_dir:
            return set()
        names = self._loose_names("refs/", self.git_dir)
        values = {self._object_id(read_file(f"{self.git_dir}/refs/{name}")) for name in names}
        return {value for value in values if value is not None}

    def listed_checkpoints(self) -> CheckpointRefs:
        """The same, for who needs only a few of them: no file is opened before.

        Names with a slash are left out, as no checkpoint has one.
        """
        names = names_in(os.path.join(self.common_dir, REF_PREFIX))
        loose = {name for name in names if not name.endswith(".lock")}
        packed = self._packed().below(REF_PREFIX)

        def commit_of(name: str) -> ObjectID | None:
            if name not in loose:
                return packed.get(name)
            # Read later than listed: git may have packed it meanwhile.
            return self._loose_value(REF_PREFIX + name) or self.checkpoint(name)

        return CheckpointRefs(loose | packed.keys(), commit_of)

    def checkpoint(self, checkpoint_id: str) -> ObjectID | None:
        """The commit of one checkpoint."""
        ref = (REF_PREFIX + checkpoint_id).encode("utf-8", "surrogateescape")
        return self._object_id(self._contents(ref))

    def create(self, ref: bytes, target: ObjectID) -> bool:
        """Add a ref; False if the name is taken."""
        self.clear_dead()
        return self._write(ref, target, lambda: self._is_free(ref))

    def replace(self, ref: bytes, old: ObjectID, new: ObjectID) -> bool:
        """Move a ref; False if it is no longer where it was read."""
        return self._write(ref, new, lambda: self._object_id(self._contents(ref)) == old)

    def remove(self, ref: bytes, old: ObjectID) -> bool:
        """Delete a ref; False if it is no longer where it was read."""
        return self._remove(ref, lambda: self._object_id(self._contents(ref)) == old)

    def move_all(self, moved: Mapping[bytes, tuple[ObjectID, bytes | None]]) -> set[bytes]:
        """Rename or (None) delete refs, those that are still where they were read, at no moment
        held by neither name; which they are."""
        return self.rename_all(moved)

    def clear_dead(self) -> None:
        """Take away what killed processes left, of whatever worktree: their locks, and private
        files that they have not finished."""
        self.clear_dead_locks()
        for folder in self._private_dirs():
            clear_unfinished(folder)

    def clear_dead_locks(self) -> None:
        """Take away their locks only."""

        def files() -> list[str]:
            """All that we lock: any of them may have a second name that is left over."""
            index = os.path.realpath(os.path.join(self.git_dir, "index"))
            own = [index, os.path.join(self.git_dir, "HEAD")]
            refs = {os.path.join(folder, "refs") for folder in (self.git_dir, self.common_dir)}
            return [*own, self._packed_path, *_files_below(*refs)]

        for folder in self._private_dirs():
            with suppress(PermissionError):  # another user's, in a repository that several share
                clear_dead_locks(folder, files)

    def _private_dirs(self) -> list[str]:
        linked = os.path.join(self.common_dir, "worktrees")
        git_dirs = [self.common_dir, *(os.path.join(linked, name) for name in names_in(linked))]
        return [os.path.join(git_dir, "ckpt") for git_dir in git_dirs]

    # -- HEAD --------------------------------------------------------------------

    def head(self) -> Head:
        contents = _read_head(self.git_dir)
        if not contents.startswith(SYMREF):
            commit = self._object_id(contents)
            if commit is None:
                from shlex import quote

                path = quote(os.path.join(self.git_dir, "HEAD"))
                raise CkptError(
                    "HEAD is neither a branch nor a commit",
                    hint=f"name the branch there: echo 'ref: refs/heads/BRANCH' > {path}",
                )
            return Head(None, commit)
        branch = contents[len(SYMREF) :].strip()
        return Head(branch, self.read(branch))

    def broken_branch(self) -> tuple[str, ObjectID | None] | None:
        """The file of HEAD's branch, if it names nothing, as a power cut leaves it, and what the
        reflog says that it named last. To `head` that is a branch without a commit."""
        branch = self.head().branch
        path = None if branch is None else self._path(branch)
        said = None if path is None else read_anyhow(path)
        if branch is None or path is None or said is None or said.startswith(b"ref:"):
            return None
        if self._object_id(said) is not None:
            return None
        log = read_file(os.path.join(self._base(branch), "logs", os.fsdecode(branch)))
        _, _, last = log.rstrip(b"\n").rpartition(b"\n")
        return path, self._object_id(last.partition(b" ")[2])

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
        if read_file(self._path(branch)).startswith(SYMREF):
            return "it is a symbolic ref"
        names = {b"refs/heads/" + os.fsencode(name) for name in self._below("refs/heads/")}
        for name in sorted(names):
            if name.startswith(branch + b"/") or branch.startswith(name + b"/"):
                return f"'{os.fsdecode(name)}' exists"
        return None

    def check_branch(self, branch: bytes) -> None:
        """Refuse what git would not have as a branch: a checkpoint may say anything."""
        if not branch.startswith(b"refs/") or not is_ref_name(branch):
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
            moved = self._remove(branch, lambda: self.read(branch) == old, _MOVE_PATIENCE)
        else:
            moved = self._write(branch, new, lambda: self.read(branch) == old, _MOVE_PATIENCE)
        if not moved:
            raise Busy(
                f"'{branch.decode('utf-8', 'replace')}' moved while the rollback ran",
                hint="run 'git ckpt rollback --abort', then try again",
            )
        self._log(self._path(branch), branch, old, new, message)

    def set_head(self, head: Head, old: Head, message: bytes) -> None:
        """Point HEAD at a branch or a commit, or fail if it has moved since it was at `old`."""
        if head.branch is not None:
            self.check_branch(head.branch)
        path = os.path.join(self.git_dir, "HEAD")
        if head.contents != self.head().contents:
            moved = replace_locked(
                path,
                head.contents,
                self._private_dir,
                lambda: self.head() == old,
                patience=_MOVE_PATIENCE,
            )
            if not moved:
                raise HeadMoved
        self._log(path, b"HEAD", old.commit, head.commit, message)

    def lock_candidates(self, *branches: bytes | None) -> list[str]:
        """The files that moving HEAD and these branches locks, and that a save left locked."""
        moved = self.files_of((ref for ref in branches if ref), removes=True)
        tops = [os.path.join(self.common_dir, prefix) for prefix in (REF_PREFIX, TRASH_PREFIX)]
        return [*moved, *_files_below(*tops)]

    def files_of(self, branches: Iterable[bytes], *, removes: bool) -> list[str]:
        """The files that moving HEAD and these branches locks, or removing one of them."""
        packed = [self._packed_path] if removes else []
        return [self._path(b"HEAD"), *packed, *map(self._path, branches)]

    def _log(
        self, path: str, ref: bytes, old: ObjectID | None, new: ObjectID | None, message: bytes
    ) -> None:
        base = self._base(ref)
        log = os.path.join(base, "logs", os.path.relpath(path, base))
        line = b"%s %s %s %d +0000\t%s\n" % (
            old or self._zero,
            new or self._zero,
            IDENTITY,
            int(time.time()),
            message,
        )
        if new is None and ref != b"HEAD":
            remove_file(log)  # it would stand in the way of other branches' logs
            remove_empty_above(log, os.path.join(base, "logs/refs/heads"))
            return
        remove_empty(log)
        is_new = not os.path.exists(log)
        if is_new and not self.logs_updates:
            return
        self.sharing.make_folders(os.path.dirname(log))
        fd = disk.open_or_create(log, os.O_WRONLY | os.O_APPEND, 0o666)
        try:
            disk.write(fd, line)
        finally:
            os.close(fd)
        if is_new:
            self.sharing.adjust(log)


def _files_below(*tops: str) -> list[str]:
    """The files of refs in folders, also where there is only a lock by now."""
    walks = [walk for top in tops for walk in os.walk(top)]
    return [
        os.path.join(folder, name.removesuffix(".lock"))
        for folder, _, names in walks
        for name in names
    ]


def _branches_in_use(git_dir: str) -> set[bytes]:
    """The branch a worktree is on, and those that a rebase or bisect there will return to or
    move."""
    head = _read_head(git_dir).removeprefix(SYMREF)
    bisected = read_file(os.path.join(git_dir, "BISECT_START")).strip()
    rebased = {
        read_file(os.path.join(git_dir, folder, "head-name")).strip()
        for folder in ("rebase-merge", "rebase-apply")
    }
    # Three lines for each branch that it moves besides: its name, where it stands, where it shall.
    along = read_file(os.path.join(git_dir, "rebase-merge", "update-refs")).splitlines()[::3]
    return {head, b"refs/heads/" + bisected, *rebased, *along}


def _read_head(git_dir: str) -> bytes:
    """What HEAD says; of old it may be a symbolic link to a ref (core.preferSymlinkRefs)."""
    path = os.path.join(git_dir, "HEAD")
    try:
        target = os.fsencode(os.readlink(path))
    except OSError:
        return read_file(path).strip()
    return SYMREF + target if target.startswith(b"refs/") else read_file(path).strip()
