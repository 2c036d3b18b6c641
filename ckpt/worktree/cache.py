# SPDX-License-Identifier: MIT
"""Cache the directories of a worktree, and find those that differ from the disk.

A directory is a packed `Record`; comparing it with the disk is a loop of lstat over packed stat
data, half of which runs in a forked process if there are many. To be changed, it is unpacked to a
`Folder`. Left out: building a checkpoint from it, and the cache file (engine/scan_cache).
"""

from __future__ import annotations

import marshal
import os
import stat
import sys
from binascii import unhexlify
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import suppress
from operator import attrgetter
from struct import Struct
from typing import Any, NamedTuple, TypeVar

from ckpt.git import trees
from ckpt.git.objects import ObjectID, ObjectStore
from ckpt.interrupts import stop_in_fork
from ckpt.models import Modes
from ckpt.paths import folders_of

T = TypeVar("T")
U = TypeVar("U")
Stat = tuple[int, int, int, int, int]
Note = tuple[str, bytes, bytes]
Tally = tuple[tuple[int, int], ...]
# Of a file that git converts: the blob in the index, on which the result may depend; the id of its
# raw bytes, if they differ; whether Git LFS has them, and whether only line endings differ.
Cleaned = tuple[bytes | None, bytes | None, bool, bool]

UNSURE: Stat = (0, 0, 0, 0, 0)  # a ctime of 0 never matches, so that the path is checked again

stat_of: Callable[[os.stat_result], Stat] = attrgetter(
    "st_mtime_ns", "st_ctime_ns", "st_ino", "st_size", "st_mode"
)

# The kind of a path in git; upper case if it is untracked.
REGULAR, EXECUTABLE, LINK, GITLINK = b"rxlm"
NEW = ord("a") - ord("A")
CODES = {
    trees.REGULAR: REGULAR,
    trees.EXECUTABLE: EXECUTABLE,
    trees.SYMLINK: LINK,
    trees.GITLINK: GITLINK,
}
MODES = {code: mode for mode, code in CODES.items()}

# Keys of a tally besides permissions: the number of untracked files and their bytes.
NEW_FILES, NEW_BYTES = -1, -2

_STAT = Struct("<qqQqI")
FORK_PAYS = 3000  # directories and files for each half


# -- Permission bits; git's trees have only 644 and 755, and none for directories

# Marks added to permissions in a tally: executable files, and directories.
IS_EXECUTABLE, IS_FOLDER = 0o1000, 0o200000


def usual(tally: Mapping[int, int]) -> Modes:
    """Return the most frequent bits of a tally, which counts files and directories by bits."""
    plain, executable, folder = (
        max(
            ((n, bits & 0o777) for bits, n in tally.items() if bits >= 0 and bits & ~0o777 == mark),
            default=(0, default),
        )[1]
        for mark, default in ((0, 0o644), (IS_EXECUTABLE, 0o755), (IS_FOLDER, 0o755))
    )
    return Modes(plain, executable, {}, folder, {})


def is_executable(bits: int) -> bool:
    """Check as git does whether the owner may execute a file."""
    return bool(bits & stat.S_IXUSR)


# -- Directories, packed and unpacked


class File(NamedTuple):
    """A file of the worktree, with the stat data it was recorded with."""

    code: int
    id: bytes
    stat: Stat
    cleaned: Cleaned | None = None

    @property
    def kind(self) -> int:
        return self.code | NEW

    @property
    def permissions(self) -> int | None:
        """Return the bits, with IS_EXECUTABLE if git has it so; None if not a regular file."""
        if self.kind not in (REGULAR, EXECUTABLE) or not stat.S_ISREG(self.stat[4]):
            return None
        return self.stat[4] & 0o777 | IS_EXECUTABLE * (self.kind == EXECUTABLE)


class Record(NamedTuple):
    """A packed directory: `names`, `stats` (its own first), `codes` and `ids` are one string each.

    `trees` maps subdirectories to their tree ids, empty if they have none. `bits` are the
    directory's permissions, None if not recorded. `notes` are (what, path, value). `tally` is
    summed over all directories. `cleaned` are converted files. What many directories have in common
    is one object, which `marshal` writes and reads once.
    """

    path: bytes
    names: bytes
    stats: bytes
    codes: bytes
    ids: bytes
    trees: dict[bytes, bytes]
    tree: bytes
    bits: int | None
    notes: tuple[Note, ...]
    tally: Tally
    cleaned: dict[bytes, Cleaned]


Records = dict[bytes, Record]
_TALLIES: dict[Tally, Tally] = {}
_NO_TREES: dict[bytes, bytes] = {}
_PLAIN: dict[bytes, Cleaned] = {}


class Folder:
    """An unpacked directory, which can be read by name and changed."""

    __slots__ = ("bits", "files", "notes", "path", "stat", "tree", "trees")

    def __init__(self, path: bytes) -> None:
        self.path = path
        self.stat = UNSURE
        self.bits: int | None = None
        self.files: dict[bytes, File] = {}
        self.trees: dict[bytes, bytes] = {}
        self.tree = b""
        self.notes: list[Note] = []

    @classmethod
    def of(cls, record: Record) -> Folder:
        folder = cls(record.path)
        folder.bits, folder.tree = record.bits, record.tree
        folder.trees, folder.notes = {**record.trees}, [*record.notes]
        folder.stat, *stats = _STAT.iter_unpack(record.stats)
        codes, ids = record.codes, record.ids
        length = len(ids) // max(len(codes), 1)
        for at, name in enumerate(record.names.split(b"\0") if codes else ()):
            blob, cleaned = ids[at * length : (at + 1) * length], record.cleaned.get(name)
            folder.files[name] = File(codes[at], blob, stats[at], cleaned)
        return folder

    def record(self) -> Record:
        files = self.files.values()
        return Record(
            self.path,
            b"\0".join(self.files),
            b"".join([_STAT.pack(*status) for status in (self.stat, *(f.stat for f in files))]),
            bytes([file.code for file in files]),
            b"".join([file.id for file in files]),
            self.trees or _NO_TREES,
            self.tree,
            self.bits,
            tuple(self.notes),
            self._tally(),
            {name: f.cleaned for name, f in self.files.items() if f.cleaned is not None} or _PLAIN,
        )

    def _tally(self) -> Tally:
        tally = {} if self.bits is None else {IS_FOLDER | self.bits: 1}
        for file in self.files.values():
            bits = file.permissions
            if bits is not None:
                tally[bits] = tally.get(bits, 0) + 1
            if not file.code & NEW:
                tally[NEW_FILES] = tally.get(NEW_FILES, 0) + 1
                tally[NEW_BYTES] = tally.get(NEW_BYTES, 0) + file.stat[3]
        found = tuple(sorted(tally.items()))
        return _TALLIES.setdefault(found, found)

    def tree_object(self) -> bytes:
        rows = [(name, MODES[file.kind], file.id) for name, file in self.files.items()]
        rows += [(name, trees.FOLDER, id) for name, id in self.trees.items() if id]
        return trees.serialise(rows)


class Folders:
    """The directories of a worktree: `packed`, or unpacked on access."""

    def __init__(self, records: Records) -> None:
        self.packed = {**records}
        self._open: dict[bytes, Folder] = {}

    def __getitem__(self, path: bytes) -> Folder:
        folder = self._open.get(path)
        if folder is None:
            record = self.packed.get(path)
            folder = self.new(path) if record is None else Folder.of(record)
            self._open[path] = folder
        return folder

    def new(self, path: bytes) -> Folder:
        """Add an empty directory to its parent, replacing its record."""
        folder = self._open[path] = Folder(path)
        self.packed.pop(path, None)
        if path:
            parent, name = self.around(path)
            parent.trees[name] = b""
        return folder

    def around(self, path: bytes) -> tuple[Folder, bytes]:
        """Return the parent directory of a path, and its name there."""
        folder, _, name = path.rpartition(b"/")
        return self[folder], name

    def put(self, path: bytes, file: File | None) -> None:
        """Set the file at a path; None removes it."""
        folder, name = self.around(path)
        folder.files.pop(name, None)
        if file is not None:
            folder.files[name] = file

    def remove_folder(self, path: bytes) -> None:
        """Remove a directory and its contents, if it exists."""
        parent, name = self.around(path)
        parent.trees.pop(name, None)
        for known in (self.packed, self._open):
            for inside in [p for p in known if p == path or p.startswith(path + b"/")]:
                del known[inside]

    def paths(self) -> set[bytes]:
        """Return the paths of all files."""
        return {path_in(at, name) for at in {*self.packed, *self._open} for name in self[at].files}

    def notes(self) -> dict[str, dict[bytes, bytes]]:
        """Return the notes of all directories by kind, sorted by path."""
        told: dict[bytes, Record | Folder] = {**self.packed, **self._open}
        found: dict[str, dict[bytes, bytes]] = {}
        for what, path, value in sorted([note for each in told.values() for note in each.notes]):
            found.setdefault(what, {})[path] = value
        return found

    def write(self, objects: ObjectStore, held: Container[ObjectID] = ()) -> ObjectID:
        """Pack all directories, write the trees that changed and are not `held` by a commit, and
        return the id of the root."""
        above = folders_of(path + b"/" for path in self._open)
        for path in sorted({b"", *self._open, *above}, key=len, reverse=True):
            folder = self._open.get(path)
            if folder is None:
                continue
            for name in [name for name in folder.files if folder.trees.get(name)]:
                del folder.files[name]  # a tree cannot hold a file and a directory of one name
            content = folder.tree_object()
            tree = objects.hash(b"tree", content) if content else ObjectID(b"")
            is_held = tree in held and not objects.is_loose(tree)  # after a crash it may be empty
            if unhexlify(tree) != folder.tree and not is_held:
                objects.add(b"tree", content)
            folder.tree = unhexlify(tree)
            self.packed[path] = folder.record()
            if path:
                parent, _, name = path.rpartition(b"/")
                known = (self._open.get(parent) or self.packed[parent]).trees
                if known.get(name) != folder.tree:
                    self[parent].trees[name] = folder.tree
        top = self.packed.get(b"")
        if top is None or not top.tree:
            return objects.add(b"tree", b"")
        return ObjectID(top.tree.hex().encode())


def unsettled(status: Stat) -> Stat:
    """Return stat data that never match, so that the path is checked again."""
    return status[0], 0, *status[2:]


def path_in(folder: bytes, name: bytes) -> bytes:
    return folder + b"/" + name if folder else name


def finder(records: Records) -> Callable[[bytes], File | None]:
    """Return a function that finds files by path; each directory is unpacked once."""
    folders: dict[bytes, dict[bytes, File]] = {}

    def find(path: bytes) -> File | None:
        folder, _, name = path.rpartition(b"/")
        if folder not in folders:
            folders[folder] = Folder.of(records[folder]).files if folder in records else {}
        return folders[folder].get(name)

    return find


def total(records: Iterable[Record]) -> dict[int, int]:
    """Return the sum of all tallies."""
    found: dict[int, int] = {}
    for tally, times in Counter(record.tally for record in records).items():
        for key, number in tally:
            found[key] = found.get(key, 0) + number * times
    return found


# -- Changes since the directories were listed


def changed(base: bytes, records: Records) -> list[Record]:
    """Return the directories that differ from the disk."""
    known = [*records.values()]
    half = len(known) // 2
    one, other = both(
        lambda: _changed(base, known[:half]),
        lambda: _changed(base, known[half:]),
        pays=sum([len(record.codes) for record in known], len(known)) > 2 * FORK_PAYS,
    )
    return [records[path] for path in one + other]


def _changed(base: bytes, records: Iterable[Record]) -> list[bytes]:
    changed = []
    for record in records:
        place = base + record[0]
        places = [place]
        if record[1]:
            prefix = place + b"/" if record[0] else base
            places += map(prefix.__add__, record[1].split(b"\0"))
        try:
            found = [*map(stat_of, map(os.lstat, places))]
        except OSError:
            found = []
        if found != [*_STAT.iter_unpack(record[2])]:
            changed.append(record.path)
    return changed


# -- Work in two processes


def both(first: Callable[[], T], second: Callable[[], U], *, pays: bool = True) -> tuple[T, U]:
    """Call two functions in parallel, if it `pays`, and return their results.

    The second runs in a forked process, which only reads and returns its result, of a type that
    `marshal` supports, through a pipe. It runs here if it fails there.
    """
    if not pays or not _can_fork():
        return first(), second()
    try:
        reading, writing = os.pipe()
    except OSError:
        return first(), second()
    with open(reading, "rb") as pipe:
        with open(writing, "wb") as answer:
            try:
                pid = os.fork()
                if not pid:
                    _answer(second, pipe, answer)
            except OSError:
                pid = 0
        if not pid:
            return first(), second()
        try:
            one, data = first(), pipe.read()
        finally:
            pipe.close()  # ends the forked process if it still writes
            status = 1
            with suppress(ChildProcessError):  # already waited for
                status = os.waitpid(pid, 0)[1]
    return one, second() if status else marshal.loads(data)


def _can_fork() -> bool:
    """Check for a second CPU and a single thread: a lock of another would never be released."""
    if not sys.platform.startswith("linux") or len(os.sched_getaffinity(0)) < 2:
        return False
    try:
        return len(os.listdir("/proc/self/task")) == 1  # counts threads not started by Python too
    except OSError:
        return False


def _answer(work: Callable[[], object], pipe: Any, answer: Any) -> None:
    status = 1
    try:
        stop_in_fork()
        pipe.close()
        result: Any = work()
        answer.write(marshal.dumps(result))
        answer.flush()
        status = 0
    finally:  # never return into the code of the parent process
        os._exit(status)
