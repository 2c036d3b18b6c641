# SPDX-License-Identifier: MIT
"""Refs: the names that hold checkpoints, and HEAD with its branch.

Checkpoint refs are created only if new and removed only if unchanged; HEAD and branches
move, with a reflog entry, only for a rollback that was asked to move them, and only from
where they were read. How refs are kept and locked is in `ref_files`; refs in reftables
are read by `reftable_refs`.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

from ckpt import disk
from ckpt.errors import Busy, CkptError, Refused, is_want
from ckpt.git.formats import ObjectID
from ckpt.locks import (
    NOT_SHARED,
    Lock,
    clear_dead_locks,
    clear_unfinished,
    holding,
    holding_all,
    replace_locked,
)
from ckpt.models import REF_PREFIX, TRASH_PREFIX
from ckpt.paths import to_str

_FORBIDDEN = bytes(range(0x21)) + b"\x7f~^:?*[\\"
_OF_ONE_WORKTREE = (b"refs/bisect/", b"refs/worktree/", b"refs/rewritten/")


def is_ref_name(name: bytes) -> bool:
    """Whether git would have a ref of that full name."""
    if name.translate(None, _FORBIDDEN) != name or b".." in name or b"@{" in name:
        return False
    parts = name.split(b"/")
    return len(parts) > 1 and not name.endswith(b".") and all(map(_is_part, parts))


def _is_part(part: bytes) -> bool:
    return part != b"" and not part.startswith(b".") and not part.endswith(b".lock")


def is_branch(name: bytes) -> bool:
    """Whether `git branch` would make it: neither taken for HEAD nor for an option."""
    short = name.removeprefix(b"refs/heads/")
    if short == name or short == b"HEAD" or short.startswith(b"-"):
        return False
    return is_ref_name(name)


def is_safe(name: bytes) -> bool:
    """Whether a name may become a path: HEAD, or a ref below `refs/`."""
    return name == b"HEAD" or (name.startswith(b"refs/") and is_ref_name(name))


def is_shared(name: bytes) -> bool:
    """False for HEAD and the few refs that each worktree has for itself."""
    return name.startswith(b"refs/") and not name.startswith(_OF_ONE_WORKTREE)


# -- The files and folders in which loose refs are, whatever stands in their place

SYMREF = b"ref: "
_OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG)


def read_loose(path: str) -> bytes | None:
    """The contents of a ref's file; None where there is none. A link is a symbolic ref."""
    try:
        fd = os.open(path, _OPEN | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno in _ABSENT:
            return None
        if error.errno != errno.ELOOP:
            raise
        return _read_link(path)
    try:
        return os.read(fd, 4096)
    except IsADirectoryError:
        return None
    finally:
        os.close(fd)


def _read_link(path: str) -> bytes | None:
    """Of old, a symbolic link stood for `ref: `; any other link is followed."""
    try:
        target = os.fsencode(os.readlink(path))
        return SYMREF + target if is_safe(target) else _read_followed(path)
    except OSError:
        return None


def _read_followed(path: str) -> bytes | None:
    """The first bytes of a file; a pipe or a device is not waited for."""
    fd = os.open(path, _OPEN)
    try:
        return os.read(fd, 4096) if stat.S_ISREG(os.fstat(fd).st_mode) else None
    finally:
        os.close(fd)


def read_anyhow(path: str) -> bytes | None:
    """The same where a file that cannot be read says nothing."""
    try:
        return read_loose(path)
    except OSError as error:
        if is_want(error):
            raise
        return b""


def entries_of(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []


def names_in(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def inode_of(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino


def remove_file(path: str) -> None:
    try:
        disk.unlink(path)
    except FileNotFoundError:
        pass


def remove_empty(path: str) -> None:
    """Take away folders with nothing in them, where a file shall stand: as git does."""
    for folder, _, _ in os.walk(path, topdown=False):
        _remove_if_empty(folder)


def remove_empty_above(path: str, top: str) -> None:
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


def read_file(path: str) -> bytes:
    try:
        return disk.read(path)
    except OSError as error:
        if is_want(error):
            raise
        return b""


# -- The file `packed-refs`, in which git keeps what is not a file of its own

_HEADER = b"# pack-refs with: peeled fully-peeled sorted \n"
_HEX = b"0123456789abcdef"


class PackedRefs:
    def __init__(self, data: bytes, hex_length: int) -> None:
        self._data = data
        self._hex_length = hex_length

    def get(self, ref: bytes) -> ObjectID | None:
        """What a ref names; an error rather than None if the file is damaged."""
        end = self._data.find(b" " + ref + b"\n")
        start = end - self._hex_length
        if start >= 0 and (start == 0 or self._data[start - 1 : start] == b"\n"):
            value = object_id(self._data[start:end], self._hex_length)
            if value is not None:
                return value
        self._check()
        return None

    def below(self, prefix: str) -> dict[str, ObjectID]:
        """Name, without the prefix, to object; damaged lines are passed over."""
        marker = b" " + prefix.encode()
        first, last = self._data.find(marker), self._data.rfind(marker)
        if first < 0:
            return {}
        width, found = self._hex_length, {}
        block = self._data[max(0, first - width) : self._data.find(b"\n", last) + 1 or None]
        skipped = width + len(marker)
        for line in block.split(b"\n"):
            if line.startswith(marker, width):
                value = object_id(line[:width], width)
                if value is not None:
                    found[line[skipped:].decode("utf-8", "surrogateescape")] = value
        return found

    def obstacle_to(self, ref: bytes) -> bytes | None:
        """A ref whose name makes this one impossible: it would be a file and a folder."""
        at = self._data.find(b" " + ref + b"/")
        if at >= 0:
            return self._data[at + 1 : self._data.find(b"\n", at)]
        above = _above(ref)
        return next((name for name in above if b" " + name + b"\n" in self._data), None)

    def clash(self, refs: Iterable[bytes]) -> tuple[bytes, bytes] | None:
        """The first of many refs that is impossible here, and the one that makes it so."""
        names = {name for name, _ in self._records()[1]}
        folders = {folder: name for name in names for folder in _above(name)}
        for ref in refs:
            obstacle = next((name for name in _above(ref) if name in names), folders.get(ref))
            if obstacle is not None:
                return ref, obstacle
        return None

    def has_any(self, refs: Iterable[bytes]) -> bool:
        return any(b" " + ref + b"\n" in self._data for ref in refs)

    def without(self, ref: bytes) -> bytes:
        """The file but for one ref, and for the line that says what it peels to."""
        kept: list[bytes] = []
        dropping = False
        for line in self._data.splitlines(keepends=True):
            dropping = line.rstrip(b"\n").endswith(b" " + ref) or (dropping and line[:1] == b"^")
            if not dropping:
                kept.append(line)
        return b"".join(kept)

    def with_refs(
        self, refs: Mapping[bytes, ObjectID], without: Collection[bytes] = ()
    ) -> bytes | None:
        """The file with these refs besides, each to a commit, without some others, and every other
        line as it is; None if it is not sorted as it says."""
        self._check()
        header, records = self._records()
        gone = {*refs, *without}
        kept = [record for record in records if record[0] not in gone]
        added = [(ref, value + b" " + ref + b"\n") for ref, value in refs.items()]
        if header is None and not records:
            header = _HEADER
        if header is None or b" sorted " not in header:  # nobody relies on the order then
            merged = kept + sorted(added)
        elif any(left[0] >= right[0] for left, right in pairwise(records)):
            return None
        else:
            merged = sorted(kept + added)
        return (header or b"") + b"".join([lines for _, lines in merged])

    def _records(self) -> tuple[bytes | None, list[tuple[bytes, bytes]]]:
        """The header, if there is one, and each ref with its lines."""
        header: bytes | None = None
        records: list[tuple[bytes, bytes]] = []
        for line in self._lines():
            if line[:1] == b"#":
                header = (header or b"") + line
            elif line[:1] == b"^":
                if not records:
                    raise _damaged()
                records[-1] = (records[-1][0], records[-1][1] + line)
            else:
                records.append((line[self._hex_length + 1 :].rstrip(b"\n"), line))
        return header, records

    def _lines(self) -> list[bytes]:
        return [line + b"\n" for line in self._data.split(b"\n")[:-1]]

    def check(self) -> None:
        """An error if git could not read a line, which stops all of its commands."""
        self._check()
        for number, line in enumerate(self._data.split(b"\n")[:-1]):
            is_ref = line[self._hex_length : self._hex_length + 1] == b" "
            value = line[: self._hex_length] if is_ref else line.removeprefix(b"^")
            is_header = number == 0 and line[:1] == b"#"
            if not is_header and object_id(value, self._hex_length) is None:
                raise _damaged()

    def _check(self) -> None:
        """Every line is the header, a ref or what the ref before it peels to."""
        data = b"\n" + self._data
        lines = data.count(b"\n") - 1
        known = data.count(b"\n#") + data.count(b" refs/") + data.count(b"\n^")
        if lines != known or not data.endswith(b"\n") or b"\0" in data or data[1:2] == b"^":
            raise _damaged()


def _damaged() -> CkptError:
    return CkptError(
        "cannot read 'packed-refs': it is damaged",
        hint="'git for-each-ref' tells which line is wrong",
    )


def _above(ref: bytes) -> list[bytes]:
    """The names that would have to be a folder for this one."""
    parts = ref.split(b"/")
    return [b"/".join(parts[:number]) for number in range(2, len(parts))]


def object_id(value: bytes, hex_length: int) -> ObjectID | None:
    """The object that a ref's contents name, if they do: as in git, in capitals too."""
    value = value[: hex_length + 1].rstrip()
    if value.strip(_HEX):
        value = value.lower()
    if len(value) != hex_length or value.strip(_HEX):
        return None
    return ObjectID(value)


# -- How git keeps refs as files, and the protocol by which they change

_MOST_LINKS = 5  # from one symbolic ref to the next, as in git
# How long git too waits for another process that holds a lock.
_REF_PATIENCE = 0.1
PACKED_PATIENCE = 1.0


class RefFiles:
    """The refs that one worktree sees."""

    def __init__(self, git_dir: str, common_dir: str, hex_length: int) -> None:
        self.git_dir = git_dir
        self.common_dir = common_dir
        self.sharing = NOT_SHARED
        self._private_dir = os.path.join(git_dir, "ckpt")
        self._hex_length = hex_length

    def read(self, ref: bytes) -> ObjectID | None:
        """The object a ref names, links followed; None where there is none."""
        return self._object_id(self._followed(ref)[1])

    def behind(self, ref: bytes) -> bytes:
        """The ref that changes when a commit is made on this one: another, if it is symbolic."""
        return self._followed(ref)[0]

    def _followed(self, ref: bytes) -> tuple[bytes, bytes]:
        """The ref at the end of the links, and what it says."""
        name = ref
        for _ in range(_MOST_LINKS):
            contents = self._contents(name)
            if not contents.startswith(b"ref:"):
                return name, contents
            name = contents[len(b"ref:") :].strip()
        raise CkptError(
            f"'{os.fsdecode(ref)}' is a link in a circle",
            hint="'git symbolic-ref' shows and changes where it leads",
        )

    def _contents(self, ref: bytes) -> bytes:
        """What a ref itself says, wherever it is kept; empty where there is none."""
        if not is_safe(ref):
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

    @property
    def _packed_path(self) -> str:
        """Where the file itself is: several repositories may share it by a link, as those of
        `git-new-workdir` and `repo` do, and then it is locked and replaced where it is."""
        path = os.path.join(self.common_dir, "packed-refs")
        return os.path.realpath(path) if os.path.islink(path) else path

    # -- many ----------------------------------------------------------------------

    def _below(self, prefix: str) -> dict[str, ObjectID]:
        """Name to object of every ref below a prefix; loose refs hide packed ones, as in git."""
        names = list(self._loose_names(prefix))
        loose = {name: self._loose_value(prefix + name) for name in names}
        found = self._packed().below(prefix)
        for name, value in loose.items():
            if value is not None:
                found[name] = value
        return found

    def _loose_names(self, prefix: str, base: str | None = None) -> Iterator[str]:
        """The names, without the prefix, of the files below it."""
        folders = [""]
        for folder in folders:
            for entry in entries_of(os.path.join(base or self.common_dir, prefix + folder)):
                if entry.is_dir(follow_symlinks=False):
                    folders.append(f"{folder}{entry.name}/")
                elif not entry.name.endswith(".lock"):
                    yield folder + entry.name

    def _loose_value(self, name: str) -> ObjectID | None:
        """What a file holds; None also where it cannot be read."""
        try:
            contents = read_loose(os.path.join(self.common_dir, name))
        except OSError as error:
            if is_want(error):
                raise
            return None
        return self._object_id(contents)

    def contents_below(self, prefix: str) -> dict[str, bytes]:
        """Name to what every ref below a prefix says, also what no ref should: a link, or
        nothing. An error if `packed-refs` is damaged, which may hide some."""
        names = list(self._loose_names(prefix))
        loose = {name: read_anyhow(os.path.join(self.common_dir, prefix + name)) for name in names}
        packed = self._packed()
        packed.check()
        return {
            **packed.below(prefix),
            **{n: said for n, said in loose.items() if said is not None},
        }

    def hidden(self, ref: bytes) -> ObjectID | None:
        """What `packed-refs` says of a ref, and the ref's own file hides."""
        is_loose = read_anyhow(self._path(ref)) is not None
        return self._packed().get(ref) if is_loose and is_shared(ref) else None

    def remove_as(self, ref: bytes, contents: bytes, hidden: ObjectID | None) -> bool:
        """Delete a ref, whatever it says and hides; False if it says something else by now."""
        return self._remove(ref, lambda: self._says(ref, contents, hidden))

    def replace_as(
        self, ref: bytes, contents: bytes, hidden: ObjectID | None, new: ObjectID
    ) -> bool:
        """Move a ref, whatever it says and hides; False if it says something else by now."""
        return self._write(ref, new, lambda: self._says(ref, contents, hidden))

    def uncover(self, ref: bytes, contents: bytes, hidden: ObjectID) -> bool:
        """Take away the file of a ref, whatever it says, and let what it hid be seen; False if
        either has changed by now."""
        return self._remove_loose(ref, lambda: self._says(ref, contents, hidden), _REF_PATIENCE)

    def _says(self, ref: bytes, contents: bytes, hidden: ObjectID | None) -> bool:
        return self._contents(ref) == contents and self.hidden(ref) == hidden

    def named_by(self, contents: bytes) -> ObjectID | None:
        """The object that a ref's contents name, if they do."""
        return self._object_id(contents)

    # -- changing one --------------------------------------------------------------

    def _write(
        self,
        ref: bytes,
        value: ObjectID,
        still_valid: Callable[[], bool],
        patience: float = _REF_PATIENCE,
    ) -> bool:
        """Give a ref a value under its lock; False if `still_valid` says no by then."""
        _check_safe(ref)
        path = self._path(ref)
        folder = os.path.dirname(path)
        known = inode_of(folder)
        self._make_place(ref)
        is_written = replace_locked(
            path,
            value + b"\n",
            self._private_dir_for(ref),
            still_valid,
            patience=patience,
            sharing=self.sharing,
        )
        top = os.path.join(self._base(ref), "refs")
        if is_written and known != inode_of(
            folder
        ):  # new, or git took it away and we made it again
            while folder != top:
                folder = os.path.dirname(folder)
                disk.fsync_dir(folder)
        return is_written

    def _make_place(self, ref: bytes) -> None:
        """Make the folder for a ref, and take away empty ones where it shall stand."""
        path = self._path(ref)
        above = os.path.dirname(ref)
        while above and not os.path.isdir(self._path(above)):
            if os.path.lexists(self._path(above)):
                raise impossible(ref, above)
            above = os.path.dirname(above)
        self.sharing.make_folders(os.path.dirname(path))
        remove_empty(path)
        if os.path.isdir(path):
            raise impossible(ref, ref + b"/")

    def _is_free(self, ref: bytes) -> bool:
        """Whether a ref, whose lock we hold, does not exist and can."""
        if os.path.lexists(self._path(ref)):
            return False
        packed = self._packed()
        if packed.get(ref) is not None:
            return False
        obstacle = packed.obstacle_to(ref)
        if obstacle is not None:
            raise impossible(ref, obstacle)
        return True

    def _remove(
        self, ref: bytes, still_valid: Callable[[], bool], patience: float = _REF_PATIENCE
    ) -> bool:
        """Delete a ref under its lock; False if `still_valid` says no by then."""
        _check_safe(ref)
        path = self._path(ref)
        private_dir = self._private_dir_for(ref)
        with holding(path, private_dir, patience=patience, sharing=self.sharing):
            is_valid = still_valid()
            if is_valid:
                self._remove_locked(ref, path)
        # The first two parts of a name stay, as git has it.
        top = b"/".join(ref.split(b"/")[:2])
        remove_empty_above(path, self._path(top))
        return is_valid

    def _remove_locked(self, ref: bytes, path: str) -> None:
        with holding(self._packed_path, self._shared_dir, patience=PACKED_PATIENCE) as lock:
            packed = self._packed()
            if packed.get(ref) is not None:
                lock.replace(packed.without(ref))
            remove_empty(path)
            remove_file(path)

    # -- packing -------------------------------------------------------------------

    def pack(self, prefixes: Sequence[str], is_packed: Callable[[ObjectID], bool]) -> int:
        """Move the refs below some prefixes into `packed-refs`, those whose object may be there
        without the line that says what it peels to; how many went.

        As git does it: the new file first and durable, then each loose ref that is still the same.
        """
        with holding(self._packed_path, self._shared_dir, patience=PACKED_PATIENCE) as lock:
            loose = {name: self._loose_value(name) for name in self._all_loose(prefixes)}
            found = {
                os.fsencode(name): value
                for name, value in loose.items()
                if value is not None and is_safe(os.fsencode(name)) and is_packed(value)
            }
            contents = self._packed().with_refs(found)
            if not found or contents is None:
                return 0
            lock.replace(contents)
        return sum([self._drop_loose(ref, value) for ref, value in found.items()])

    def loose_count(self, prefixes: Sequence[str]) -> int:
        return len(self._all_loose(prefixes))

    def _all_loose(self, prefixes: Sequence[str]) -> list[str]:
        return [prefix + name for prefix in prefixes for name in self._loose_names(prefix)]

    def _drop_loose(self, ref: bytes, value: ObjectID) -> bool:
        """Take away the file of a ref that is packed, unless either has changed: the ref may
        have been dropped and brought back since."""
        path = self._path(ref)

        def is_same() -> bool:
            return value == self._object_id(read_loose(path)) == self._packed().get(ref)

        try:
            return self._remove_loose(ref, is_same)
        except Busy:
            return False

    def _remove_loose(
        self, ref: bytes, still_valid: Callable[[], bool], patience: float = 0.0
    ) -> bool:
        """Take away the file of a ref and nothing else; False if `still_valid` says no."""
        path = self._path(ref)
        with holding(path, self._shared_dir, patience=patience, sharing=self.sharing):
            is_valid = still_valid()
            if is_valid:
                remove_file(path)
        remove_empty_above(path, self._path(b"/".join(ref.split(b"/")[:2])))
        return is_valid

    # -- places --------------------------------------------------------------------

    def _path(self, ref: bytes) -> str:
        return os.path.join(self._base(ref), os.fsdecode(ref))

    def _base(self, ref: bytes) -> str:
        return self.common_dir if is_shared(ref) else self.git_dir

    def _private_dir_for(self, ref: bytes) -> str:
        return self._shared_dir if is_shared(ref) else self._private_dir

    @property
    def _shared_dir(self) -> str:
        """Where our files behind locks are that stand in the way of every worktree: not in one
        that can be removed, unless what there is belongs to another user."""
        common = os.path.join(self.common_dir, "ckpt")
        is_usable = os.access(common, os.W_OK | os.X_OK) or not os.path.lexists(common)
        return common if is_usable else self._private_dir

    def _object_id(self, contents: bytes | None) -> ObjectID | None:
        return None if not contents else object_id(contents, self._hex_length)


def _check_safe(ref: bytes) -> None:
    if not is_safe(ref):
        raise Refused(
            f"'{ref.decode('utf-8', 'backslashreplace')}' is not a valid ref name",
            hint="see 'git help check-ref-format'",
        )


def impossible(ref: bytes, obstacle: bytes) -> Busy:
    return Busy(
        f"'{os.fsdecode(obstacle)}' exists; cannot create '{os.fsdecode(ref)}'",
        hint="'git for-each-ref' lists the refs; rename the one that is in the way",
    )


# -- Many refs that change together, as when retention lets go of hundreds


class RefBatches(RefFiles):
    """Refs of which several can be renamed at once."""

    def rename_all(self, renamed: Mapping[bytes, tuple[ObjectID, bytes | None]]) -> set[bytes]:
        """Give refs that are still what was read another name, or (None) take them away; those
        that were. The new names are there, durable, before any of the old ones goes.

        Each is locked while it is compared and until it has gone, and so is `packed-refs`, in which
        the new ones stand from one moment to the next. An error before that leaves all as it was.
        """
        paths = {self._path(ref): ref for ref in renamed if is_safe(ref)}
        with (
            holding_all(paths, self._shared_dir, sharing=self.sharing) as held,
            holding(self._packed_path, self._shared_dir, patience=PACKED_PATIENCE) as lock,
        ):
            packed = self._packed()
            locked = {paths[path]: renamed[paths[path]] for path in held}
            done = {
                ref: (value, name)
                for ref, (value, name) in locked.items()
                if self._is_still(ref, value, packed) and self._can_hold(name, value)
            }
            self._rewrite_packed(lock, packed, done)
            for ref in done:
                remove_file(self._path(ref))
        for ref in done:
            remove_empty_above(self._path(ref), self._path(b"/".join(ref.split(b"/")[:2])))
        return set(done)

    def _is_still(self, ref: bytes, value: ObjectID, packed: PackedRefs) -> bool:
        loose = read_loose(self._path(ref))
        return (packed.get(ref) if loose is None else self._object_id(loose)) == value

    def _can_hold(self, name: bytes | None, value: ObjectID) -> bool:
        """Whether no file hides what `packed-refs` says of a name; the same there is no harm."""
        if name is None:
            return True
        path = self._path(name)
        remove_empty(path)
        return not os.path.lexists(path) or self._object_id(read_loose(path)) == value

    def _rewrite_packed(
        self,
        lock: Lock,
        packed: PackedRefs,
        renamed: Mapping[bytes, tuple[ObjectID, bytes | None]],
    ) -> None:
        new = {name: value for value, name in renamed.values() if name is not None}
        if not new and not packed.has_any(renamed):
            return
        clash = packed.clash(new) or self._clash_with_files(new)
        if clash is not None:
            raise impossible(*clash)
        contents = packed.with_refs(new, without=renamed)
        if contents is None:
            raise CkptError(
                "cannot change 'packed-refs': it is not sorted as it says",
                hint="'git pack-refs --all' writes it anew",
            )
        lock.replace(contents)

    def _clash_with_files(self, refs: Iterable[bytes]) -> tuple[bytes, bytes] | None:
        for folder, ref in {os.path.dirname(ref): ref for ref in refs}.items():
            above = folder
            while above and not os.path.lexists(self._path(above)):
                above = os.path.dirname(above)
            if not os.path.isdir(self._path(above)):
                return ref, above
        return None


# -- Refs: the names that hold checkpoints, and HEAD with its branch

IDENTITY = b"ckpt <ckpt@localhost>"
_MOVE_PATIENCE = 1.0  # with git's locks; nobody stops half way for a moment


@dataclass(frozen=True, slots=True)
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
