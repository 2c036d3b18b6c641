# SPDX-License-Identifier: MIT
"""Refs: HEAD, branches, and the names that hold checkpoints.

dulwich creates refs. By hand: reading, which every hook does (dulwich takes 33 ms to import);
removing (dulwich unlinks the loose ref before it locks `packed-refs`, and an older packed value
comes back); HEAD and branches with their reflogs, under a lock that can be told from git's after
a kill. Reftables are in `reftable`.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import NamedTuple

from ckpt import disk
from ckpt.errors import Busy, CkptError, Refused, is_want
from ckpt.git.formats import ObjectID
from ckpt.ids import is_id
from ckpt.locks import (
    NOT_SHARED,
    clear_dead_locks,
    clear_unfinished,
    holding,
    locked,
    replace_held,
    replace_locked,
)
from ckpt.models import REF_PREFIX, TRASH_PREFIX
from ckpt.paths import to_str

IDENTITY = b"ckpt <ckpt@localhost>"
SYMREF = b"ref: "
_OURS = (REF_PREFIX, TRASH_PREFIX)
_OF_ONE_WORKTREE = (b"refs/bisect/", b"refs/worktree/", b"refs/rewritten/")
_MOST_LINKS = 5  # from one symbolic ref to the next, as in git
_PATIENCE = 1.0  # seconds that git too waits for a lock
_CREATE_PATIENCE = 2.0
_STALE = 60.0  # seconds after which dulwich's lock on a new ref was left by a kill
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG)

# -- Names

_BAD_NAME = rb"[\0-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(/|$)|^[./]|[./]$"


def is_ref_name(name: bytes) -> bool:
    """Whether git would have a ref of that full name."""
    return b"/" in name and not re.search(_BAD_NAME, name)


def is_branch(name: bytes) -> bool:
    """Whether `git branch` would create it: neither HEAD nor an option."""
    short = name.removeprefix(b"refs/heads/")
    is_taken = short in (name, b"HEAD") or short.startswith(b"-")
    return not is_taken and is_ref_name(name)


def is_shared(name: bytes) -> bool:
    """False for HEAD and the few refs that each worktree has for itself."""
    return name.startswith(b"refs/") and not name.startswith(_OF_ONE_WORKTREE)


def _is_safe(name: bytes) -> bool:
    """Whether a name may become a path."""
    return name == b"HEAD" or (name.startswith(b"refs/") and is_ref_name(name))


def _is_ours(ref: str) -> bool:
    """Whether a ref holds a checkpoint: other tools have refs below `refs/checkpoints/` too."""
    if ref.startswith(TRASH_PREFIX):
        return is_id(ref[len(TRASH_PREFIX) :].partition("/")[2])
    return ref.startswith(REF_PREFIX) and is_id(ref[len(REF_PREFIX) :])


def short_name(branch: bytes) -> str:
    name = to_str(branch)
    short = name.removeprefix("refs/heads/")
    # A branch may be called `refs/…`; without its prefix it would be another ref.
    return name if short.startswith("refs/") else short


def object_id(value: bytes, hex_length: int) -> ObjectID | None:
    """The object that a ref's contents name, if they do; git reads capitals too."""
    value = value[: hex_length + 1].rstrip().lower()
    is_hex = len(value) == hex_length and not value.strip(b"0123456789abcdef")
    return ObjectID(value) if is_hex else None


# -- Values


class Head(NamedTuple):
    """`branch` (a full ref name) is None when detached, `commit` when unborn."""

    branch: bytes | None
    commit: ObjectID | None

    @property
    def contents(self) -> bytes:
        """What the HEAD file says of this state."""
        return (self.commit or b"" if self.branch is None else SYMREF + self.branch) + b"\n"


def branch_name(head: Head) -> str | None:
    """The short name of HEAD's branch, as git prints it."""
    return None if head.branch is None else short_name(head.branch)


class HeadMoved(Busy):
    """Another process has committed, or checked out another branch."""

    def __init__(self) -> None:
        super().__init__(
            "HEAD moved while the rollback ran",
            hint="repeat the command: it saves where HEAD is now",
        )


class CheckpointRefs:
    """The names below `refs/checkpoints/`; what each holds is read when it is asked for."""

    def __init__(self, names: Collection[str], commit_of: Callable[[str], ObjectID | None]) -> None:
        self.names = names
        self.commit_of = commit_of


# -- Files


def read_loose(path: str) -> bytes | None:
    """The contents of a ref's file; None where there is none. A link to a ref is symbolic."""
    try:
        fd = os.open(path, _READ | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno in _ABSENT:
            return None
        if error.errno != errno.ELOOP:
            raise
        target = os.fsencode(os.readlink(path))
        if _is_safe(target):
            return SYMREF + target
        return disk.beginning(path, 4096) if os.path.isfile(path) else None
    try:
        return os.read(fd, 4096)
    except IsADirectoryError:
        return None
    finally:
        os.close(fd)


def _read_anyhow(path: str) -> bytes | None:
    """The same, empty where a file cannot be read."""
    try:
        return read_loose(path)
    except OSError as error:
        if is_want(error):
            raise
        return b""


def _remove_file(path: str) -> None:
    with suppress(FileNotFoundError):
        disk.unlink(path)


def _remove_empty_above(path: str, top: str) -> None:
    """Remove the folders above a file that it leaves empty, up to `top`."""
    folder = os.path.dirname(path)
    with suppress(OSError):  # in use
        while folder.startswith(top + "/"):
            disk.rmdir(folder)
            folder = os.path.dirname(folder)


def _remove_empty(path: str) -> None:
    """Remove folders without files where a file is to be, as git does."""
    for folder, _, _ in os.walk(path, topdown=False):
        with suppress(OSError):
            disk.rmdir(folder)


def _files_below(top: str) -> Iterator[str]:
    """The files in a folder and those below it, relative to it."""
    top = os.path.join(top, "")
    for folder, _, names in os.walk(top):
        yield from (os.path.join(folder, name)[len(top) :] for name in names)


# -- The file `packed-refs`

_HEADER = b"# pack-refs with: peeled fully-peeled sorted \n"
_PACKED = rb"(?i)(?:#[^\n]*\n)?(?:[0-9a-f]{40,64} [^\n\0]+\n(?:\^[0-9a-f]{40,64}\n)?)*"


class PackedRefs:
    """Searched as bytes: to parse 10,000 refs takes dulwich 300 ms."""

    def __init__(self, data: bytes, hex_length: int) -> None:
        self._data = data
        self._width = hex_length

    def get(self, ref: bytes, default: None = None) -> ObjectID | None:
        """What a ref names; raises rather than miss one in a file that was cut off."""
        end = self._data.find(b" " + ref + b"\n")
        if end < 0:
            if not (b"\n" + self._data).endswith(b"\n") or b"\0" in self._data:
                raise _damaged()
            return default
        return object_id(self._data[max(0, end - self._width) : end], self._width)

    def __contains__(self, ref: bytes) -> bool:
        return self.get(ref) is not None

    def below(self, prefix: str) -> dict[str, ObjectID]:
        """Name, without the prefix, to object; damaged lines are passed over."""
        marker = b" " + prefix.encode()
        first, last = self._data.find(marker), self._data.rfind(marker)
        if first < 0:
            return {}
        found = {}
        end = (self._data + b"\n").find(b"\n", last)
        for line in self._data[max(0, first - self._width) : end].split(b"\n"):
            value = object_id(line[: self._width], self._width)
            if line.startswith(marker, self._width) and value is not None:
                found[os.fsdecode(line[self._width + len(marker) :])] = value
        return found

    def check(self) -> None:
        """Raise if git could not read a line, which stops all of its commands."""
        if not re.fullmatch(_PACKED, self._data):
            raise _damaged()

    def changed(self, new: Mapping[bytes, ObjectID], removed: Iterable[bytes]) -> bytes:
        """The file with these refs, each to a commit, and without some others."""
        self.check()
        header, lines = _HEADER, self._data.splitlines(keepends=True)
        if lines and lines[0].startswith(b"#"):
            header = lines.pop(0)
        records: dict[bytes, bytes] = {}
        name = b""
        for line in lines:
            if not line.startswith(b"^"):
                name = line[self._width + 1 : -1]
            records[name] = records.get(name, b"") + line
        for name in removed:
            records.pop(name, None)
        records |= {name: value + b" " + name + b"\n" for name, value in new.items()}
        return header + b"".join(records[name] for name in sorted(records))


def _damaged() -> CkptError:
    return CkptError(
        "cannot read 'packed-refs': it is damaged",
        hint="'git for-each-ref' tells which line is wrong",
    )


# -- The refs of one worktree


class Refs:
    """Its own HEAD; everything else is shared by all worktrees."""

    def __init__(self, git_dir: str, common_dir: str, hex_length: int) -> None:
        self.git_dir = git_dir
        self.common_dir = common_dir
        self.sharing = NOT_SHARED
        self.logs_updates = True
        self.main_is_bare = False
        self._hex_length = hex_length

    def check_writable(self) -> None:
        """Refuse where no ref can be written, before anything else is."""

    # -- reading one ---------------------------------------------------------------

    def read(self, ref: bytes) -> ObjectID | None:
        """The object a ref names, links followed; None where there is none."""
        return self.named_by(self._followed(ref)[1])

    def behind(self, ref: bytes) -> bytes:
        """The ref that changes when a commit is made on this one: another, if it is symbolic."""
        return self._followed(ref)[0]

    def _followed(self, ref: bytes) -> tuple[bytes, bytes]:
        name = ref
        for _ in range(_MOST_LINKS):
            contents = self._contents(name)
            if not contents.startswith(b"ref:"):
                return name, contents
            name = contents[len(b"ref:") :].strip()
        raise CkptError(
            f"'{os.fsdecode(ref)}' has too many levels of symbolic refs",
            hint="'git symbolic-ref' shows and changes where it leads",
        )

    def _contents(self, ref: bytes) -> bytes:
        """What a ref itself says, loose or packed; empty where there is none."""
        if not _is_safe(ref):
            return b""
        loose = read_loose(self._path(ref))
        if loose is not None or not is_shared(ref):
            return loose or b""
        return self._packed().get(ref) or b""

    def _packed(self) -> PackedRefs:
        try:
            data = disk.read(self._packed_path, disk.LARGE)
        except FileNotFoundError:
            data = b""
        return PackedRefs(data, self._hex_length)

    def named_by(self, contents: bytes | None) -> ObjectID | None:
        """The object that a ref's contents name, if they do."""
        return None if not contents else object_id(contents, self._hex_length)

    def head(self) -> Head:
        contents = self._contents(b"HEAD").strip()
        if contents.startswith(SYMREF):
            branch = contents[len(SYMREF) :].strip()
            return Head(branch, self.read(branch))
        commit = self.named_by(contents)
        if commit is None:
            from shlex import quote

            path = quote(os.path.join(self.git_dir, "HEAD"))
            raise CkptError(
                "HEAD is neither a branch nor a commit",
                hint=f"name the branch there: echo 'ref: refs/heads/BRANCH' > {path}",
            )
        return Head(None, commit)

    # -- reading many --------------------------------------------------------------

    def checkpoints(self) -> dict[str, ObjectID]:
        """Id to commit of every checkpoint."""
        return {name: commit for name, commit in self._below(REF_PREFIX).items() if is_id(name)}

    def trash(self) -> dict[str, ObjectID]:
        """`DATE/ID` to commit of every dropped checkpoint."""
        found = self._below(TRASH_PREFIX).items()
        return {name: commit for name, commit in found if _is_ours(TRASH_PREFIX + name)}

    def foreign(self) -> int:
        """How many refs below `refs/checkpoints/` are those of other tools."""
        return sum(not is_id(name) for name in self._below(REF_PREFIX))

    def others(self) -> set[ObjectID]:
        """What all refs hold that are not ours."""
        return {
            commit for name, commit in self._below("refs/").items() if not _is_ours(f"refs/{name}")
        }

    def own(self) -> set[ObjectID]:
        """What the refs hold that a linked worktree has for itself, but for its HEAD."""
        if self.git_dir == self.common_dir:
            return set()
        top = os.path.join(self.git_dir, "refs")
        values = (self.named_by(_read_anyhow(f"{top}/{name}")) for name in _files_below(top))
        return {value for value in values if value is not None}

    def listed_checkpoints(self) -> CheckpointRefs:
        """All checkpoint refs, for a caller that needs few of them: no file is opened yet."""
        try:
            names = os.listdir(os.path.join(self.common_dir, REF_PREFIX))
        except (FileNotFoundError, NotADirectoryError):
            names = []
        loose = {*filter(is_id, names)}
        packed = {n: v for n, v in self._packed().below(REF_PREFIX).items() if is_id(n)}

        def commit_of(name: str) -> ObjectID | None:
            if name not in loose:
                return packed.get(name)
            return self.checkpoint(name)  # git may have packed it meanwhile

        return CheckpointRefs(loose | packed.keys(), commit_of)

    def checkpoint(self, checkpoint_id: str) -> ObjectID | None:
        """The commit of one checkpoint."""
        ref = os.fsencode(REF_PREFIX + checkpoint_id)
        try:
            return self.named_by(self._contents(ref))
        except OSError as error:
            if is_want(error):
                raise
            return None

    def contents_below(self, prefix: str) -> dict[str, bytes]:
        """Name to what every ref below a prefix says, also what no ref should. Raises if
        `packed-refs` is damaged, which may hide some."""
        loose = self._loose(prefix)
        packed = self._packed()
        packed.check()
        return {**packed.below(prefix), **loose}

    def _below(self, prefix: str) -> dict[str, ObjectID]:
        """Name to object of every ref below a prefix; loose refs hide packed ones, as in git."""
        # In this order: git may pack refs meanwhile.
        loose = self._loose(prefix)
        found = self._packed().below(prefix)
        for name, contents in loose.items():
            value = self.named_by(contents)
            if value is not None:
                found[name] = value
        return found

    def _loose(self, prefix: str) -> dict[str, bytes]:
        top = os.path.join(self.common_dir, prefix)
        names = [name for name in _files_below(top) if not name.endswith(".lock")]
        found = {name: _read_anyhow(os.path.join(top, name)) for name in names}
        return {name: contents for name, contents in found.items() if contents is not None}

    # -- checkpoints ---------------------------------------------------------------

    def create(self, ref: bytes, target: ObjectID) -> bool:
        """Add a ref, durably; False if the name is taken."""
        from dulwich.file import FileLocked
        from dulwich.refs import DiskRefsContainer, Ref

        self.clear_dead()
        self._check_prefix(ref)
        container = DiskRefsContainer(self.common_dir, self.git_dir)
        vars(container)["get_packed_refs"] = self._packed  # dulwich parses it whole
        path = self._path(ref)
        folder, deadline = os.path.dirname(path), time.monotonic() + _CREATE_PATIENCE
        while True:
            try:
                self.sharing.make_folders(folder)
                _remove_empty(path)
                if not container.add_if_new(Ref(ref), target):
                    return False
                break
            except (FileLocked, FileNotFoundError) as error:  # git removes folders without refs
                if time.monotonic() > deadline:
                    if isinstance(error, FileLocked):
                        raise locked(path) from None
                    raise
                time.sleep(0.01)
            except (FileExistsError, NotADirectoryError, IsADirectoryError):
                raise _impossible(ref) from None
        self.sharing.adjust(path)
        while folder != self.common_dir:
            disk.fsync_dir(folder)
            folder = os.path.dirname(folder)
        return True

    def replace(self, ref: bytes, old: ObjectID, new: ObjectID) -> bool:
        """Move a ref; False if it is no longer where it was read."""
        with self._holding_packed():
            return self._write(ref, new, lambda: self.named_by(self._contents(ref)) == old)

    def remove(self, ref: bytes, old: ObjectID) -> bool:
        """Delete a ref; False if it is no longer where it was read."""
        return ref in self.move_all({ref: (old, None)})

    def move_all(self, moved: Mapping[bytes, tuple[ObjectID, bytes | None]]) -> set[bytes]:
        """Rename refs that are still where they were read, or (None) delete them; which they are.

        `packed-refs` has the new names, durably, before the old ones go, and is locked until the
        last loose ref is removed: else `git pack-refs` could bring one back.
        """
        with self._holding_packed():
            packed = self._packed()
            done = {
                ref: name
                for ref, (value, name) in moved.items()
                if is_ref_name(ref) and self._value(ref, packed) == value
            }
            new = {name: moved[ref][0] for ref, name in done.items() if name is not None}
            for name in new:
                self._check_prefix(name)
            if new or any(ref in packed for ref in done):
                self._replace_packed(packed.changed(new, done))
            for ref in {*done, *new}:  # also an older file by the new name, which would hide it
                _remove_file(self._path(ref))
                _remove_empty_above(self._path(ref), self._path(b"/".join(ref.split(b"/")[:2])))
        return {*done}

    def _value(self, ref: bytes, packed: PackedRefs) -> ObjectID | None:
        loose = read_loose(self._path(ref))
        return packed.get(ref) if loose is None else self.named_by(loose)

    def mend(self, ref: bytes, contents: bytes, value: ObjectID | None) -> bool:
        """Give a damaged ref a value, or (None) remove it; False if it has changed meanwhile."""
        with self._holding_packed():
            packed, said = self._packed(), _read_anyhow(self._path(ref))
            if contents != ((packed.get(ref) or b"") if said is None else said):
                return False
            self._replace_packed(packed.changed({} if value is None else {ref: value}, [ref]))
            _remove_file(self._path(ref))
        return True

    def pack(self, prefixes: Sequence[str], at_least: int = 1) -> int:
        """Move the loose refs of ours below some prefixes into `packed-refs`, if there are many;
        how many."""
        found: dict[bytes, tuple[ObjectID, bytes | None]] = {}
        for prefix in prefixes:
            for name, contents in self._loose(prefix).items():
                ref, value = os.fsencode(prefix + name), self.named_by(contents)
                if value is not None and _is_ours(prefix + name):
                    found[ref] = value, ref
        return len(self.move_all(found)) if len(found) >= at_least else 0

    def _check_prefix(self, ref: bytes) -> None:
        """Refuse where a ref has the name of a folder of ours."""
        prefix = b"/".join(ref.split(b"/")[:2])
        if self._contents(prefix):
            raise _impossible(ref)

    def _holding_packed(self) -> AbstractContextManager[None]:
        return holding(self._packed_path, self._private_dir, patience=_PATIENCE)

    def _replace_packed(self, contents: bytes) -> None:
        replace_held(self._packed_path, contents, self._private_dir, self.sharing)

    def clear_dead(self) -> None:
        """Remove what killed commands left, in whatever worktree: locks and unfinished files."""
        self.clear_dead_locks()
        for git_dir in (self.common_dir, *self._linked()):
            clear_unfinished(os.path.join(git_dir, "ckpt"))
        for top in (os.path.join(self.common_dir, prefix) for prefix in _OURS):
            for lock in (os.path.join(top, n) for n in _files_below(top) if n.endswith(".lock")):
                with suppress(OSError):  # dulwich's, which blocks this name only
                    if time.time() - os.lstat(lock).st_mtime > _STALE:
                        disk.unlink(lock)

    def clear_dead_locks(self) -> None:
        """Remove the locks of killed commands."""

        def files() -> list[str]:
            index = os.path.realpath(os.path.join(self.git_dir, "index"))
            found = [index, self._path(b"HEAD"), self._packed_path]
            for top in {f"{self.git_dir}/refs", f"{self.common_dir}/refs"}:
                found += [os.path.join(top, n.removesuffix(".lock")) for n in _files_below(top)]
            return found

        for git_dir in (self.common_dir, *self._linked()):
            with suppress(PermissionError):  # another user's, in a shared repository
                clear_dead_locks(os.path.join(git_dir, "ckpt"), files)

    def _linked(self) -> list[str]:
        """The git dirs of linked worktrees."""
        folder = os.path.join(self.common_dir, "worktrees")
        return [os.path.join(folder, name) for name in sorted(disk.names_in(folder))]

    # -- HEAD and branches ---------------------------------------------------------

    def broken_branch(self) -> tuple[str, str] | None:
        """The file of HEAD's branch and its reflog, if it is damaged, as after a power cut."""
        branch = self.head().branch
        contents = None if branch is None else _read_anyhow(self._path(branch))
        if branch is None or contents is None or contents.startswith(b"ref:"):
            return None
        log = os.path.join(self._base(branch), "logs", os.fsdecode(branch))
        return (self._path(branch), log) if self.named_by(contents) is None else None

    def other_worktree_with(self, branch: bytes) -> str | None:
        """The git dir of another worktree that has this branch checked out."""
        others = [] if self.main_is_bare else [self.common_dir]
        for git_dir in (*others, *self._linked()):
            if git_dir != self.git_dir and branch in _branches_in_use(git_dir):
                return git_dir
        return None

    def obstacle_to(self, branch: bytes) -> str | None:
        """What forbids to write a branch as a plain ref: a link, or a name above or below it."""
        if (read_loose(self._path(branch)) or b"").startswith(b"ref:"):
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
        if new is not None:
            moved = self._write(branch, new, lambda: self.read(branch) == old)
        else:
            path = self._path(branch)
            with holding(path, self._private_dir, patience=_PATIENCE):
                moved = old is not None and self.remove(branch, old)
            _remove_empty_above(path, os.path.join(self.common_dir, "refs/heads"))
        if not moved:
            raise branch_moved(branch)
        self._log(branch, old, new, message)

    def set_head(self, head: Head, old: Head, message: bytes) -> None:
        """Point HEAD at a branch or a commit, or fail if it has moved since it was at `old`."""
        if head.branch is not None:
            self.check_branch(head.branch)
        if head.contents != self.head().contents and not replace_locked(
            self._path(b"HEAD"),
            head.contents,
            self._private_dir,
            lambda: self.head() == old,
            patience=_PATIENCE,
        ):
            raise HeadMoved
        self._log(b"HEAD", old.commit, head.commit, message)

    def files_of(self, branches: Iterable[bytes], *, removes: bool) -> list[str]:
        """The files that moving HEAD and these branches locks, or removing one of them."""
        packed = [self._packed_path] if removes else []
        return [self._path(b"HEAD"), *packed, *map(self._path, branches)]

    def _write(self, ref: bytes, value: ObjectID, still_valid: Callable[[], bool]) -> bool:
        """Give a ref a value under its lock; False if `still_valid` says no by then."""
        path = self._path(ref)
        _remove_empty(path)
        self.sharing.make_folders(os.path.dirname(path))
        return replace_locked(
            path,
            value + b"\n",
            self._private_dir,
            still_valid,
            patience=_PATIENCE,
            sharing=self.sharing,
        )

    def _log(self, ref: bytes, old: ObjectID | None, new: ObjectID | None, message: bytes) -> None:
        """Add an entry to the reflog of a ref; a branch that is removed loses its reflog."""
        base = os.path.join(self._base(ref), "logs")
        log = os.path.join(base, os.fsdecode(ref))
        if new is None and ref != b"HEAD":
            _remove_file(log)  # it would be in the way of other branches' logs
            return _remove_empty_above(log, os.path.join(base, "refs/heads"))
        zero = b"0" * self._hex_length
        when = int(time.time())
        line = b"%s %s %s %d +0000\t%s\n" % (old or zero, new or zero, IDENTITY, when, message)
        _remove_empty(log)
        is_new = not os.path.exists(log)
        if is_new and not self.logs_updates:
            return None
        self.sharing.make_folders(os.path.dirname(log))
        fd = disk.open_or_create(log, os.O_WRONLY | os.O_APPEND, 0o666)
        try:
            disk.write(fd, line)
        finally:
            os.close(fd)
        return self.sharing.adjust(log) if is_new else None

    @property
    def _private_dir(self) -> str:
        """Where the files behind our locks are: not in a worktree that can be removed, unless the
        common folder is another user's."""
        common = os.path.join(self.common_dir, "ckpt")
        is_usable = os.access(common, os.W_OK | os.X_OK) or not os.path.lexists(common)
        return common if is_usable else os.path.join(self.git_dir, "ckpt")

    # -- places --------------------------------------------------------------------

    def _path(self, ref: bytes) -> str:
        return os.path.join(self._base(ref), os.fsdecode(ref))

    def _base(self, ref: bytes) -> str:
        return self.common_dir if is_shared(ref) else self.git_dir

    @property
    def _packed_path(self) -> str:
        """Several repositories may share the file by a symbolic link (`git-new-workdir`)."""
        path = os.path.join(self.common_dir, "packed-refs")
        return os.path.realpath(path) if os.path.islink(path) else path


def branch_moved(branch: bytes) -> Busy:
    return Busy(
        f"'{branch.decode('utf-8', 'replace')}' moved while the rollback ran",
        hint="run 'git ckpt rollback --abort', then try again",
    )


def _impossible(ref: bytes) -> Busy:
    return Busy(
        f"cannot create '{os.fsdecode(ref)}': another ref is in the way",
        hint="'git for-each-ref' lists the refs; rename the one that is in the way",
    )


def _branches_in_use(git_dir: str) -> set[bytes]:
    """The branch a worktree is on, and those that a rebase or bisect there will return to or
    move."""

    def text(name: str) -> bytes:
        return (_read_anyhow(os.path.join(git_dir, name)) or b"").strip()

    rebased = {text(f"{folder}/head-name") for folder in ("rebase-merge", "rebase-apply")}
    # Three lines for each branch that it moves besides: its name, its old and its new commit.
    along = text("rebase-merge/update-refs").splitlines()[::3]
    bisected = b"refs/heads/" + text("BISECT_START")
    return {text("HEAD").removeprefix(SYMREF), bisected, *rebased, *along}
