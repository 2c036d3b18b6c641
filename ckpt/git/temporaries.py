# SPDX-License-Identifier: MIT
"""Files of the object store that are not finished, and what becomes of a killed process's.

Who writes objects first makes a mark, `tmp_obj_<token>`, in the object folder, and holds a
kernel lock on it while it lives. Its temporary files bear the token, and the packs that it
makes stand in the mark. So whoever comes next can tell by one look at the folder that a process
died, and takes away what it left, never what a living one is at. Nor ever a pack that had an index:
a ref may need it, though the index is gone by now.

All names are such that git's gc takes them away as well, if ckpt never comes again. Where there
are no kernel locks, nothing is known of who lives, and that gc is all there is.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress

from ckpt import disk
from ckpt.git.packs import end_of
from ckpt.locks import Sharing, try_lock

TEMPORARY_OBJECT = "tmp_obj_"  # which git's gc clears away, as it does the next
TEMPORARY_PACK = "tmp_pack_"
TEMPORARY_INDEX = "tmp_idx_"
_MARK = re.compile(TEMPORARY_OBJECT + "[0-9a-f]{16}")
_STEM = re.compile("pack-[0-9a-f]{40,64}")
KEPT_BY_US = b"ckpt: until its ref is made\n"
_LARGEST_MARK = 1 << 16


class Temporaries:
    """Names for the temporary files of one process in one object folder."""

    def __init__(self, folder: str, sharing: Sharing) -> None:
        self._folder = folder
        self._sharing = sharing
        self._mark = ""
        self._fd = -1
        self._pid = 0
        self._count = 0

    def name(self, kind: str) -> str:
        """A name that nobody else gives, and that tells whose file it is."""
        if self._fd < 0:
            self._sharing.make_folders(self._folder)
            clear_dead(self._folder)
            self._make_mark()
        self._count += 1
        return f"{kind}{self._mark.rpartition('_')[2]}_{self._count}"

    def _make_mark(self) -> None:
        while True:
            self._pid = os.getpid()
            self._mark = os.path.join(self._folder, disk.temporary_name(TEMPORARY_OBJECT))
            fd = disk.create(self._mark, 0o644)
            try:
                # Before it is locked, who clears up may take it for a dead process's.
                is_ours = try_lock(fd, fcntl.LOCK_EX) is not False
                if is_ours and os.fstat(fd).st_nlink:
                    self._sharing.adjust(self._mark)
                    self._fd = fd
                    return
            except BaseException:
                disk.discard(self._mark)
                os.close(fd)
                raise
            disk.discard(self._mark)
            os.close(fd)

    def note_pack(self, stem: str) -> None:
        """A pack will have this name, and is nobody's if we die before a ref needs it."""
        disk.write(self._fd, os.path.basename(stem).encode() + b"\n")

    @property
    def are_foreign(self) -> bool:
        """Whether they are of the process that ours was forked from."""
        return self._mark != "" and self._pid != os.getpid()

    def end(self, *, keeps: bool = False) -> None:
        """Leave nothing that is not finished, or leave it to the next process; but for packs that
        are kept from git on purpose still. An interrupt may have come when a file was made and
        nobody had its handle yet."""
        if self._mark and not self.are_foreign:
            for path in self._unfinished():
                disk.discard(path)
            kept = () if keeps else self._kept()
            if not _are_left([*self._unfinished(), *kept]):
                disk.discard(self._mark)
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._mark = -1, ""

    def _unfinished(self) -> Iterator[str]:
        """What is not taken away yet, by the names that it is written to."""
        token = self._mark.rpartition("_")[2]
        for path in _left(self._folder, token, []):
            if not os.path.basename(path).startswith(TEMPORARY_INDEX):
                yield path

    def _kept(self) -> Iterator[str]:
        """What keeps finished packs of ours from git still: it could not be taken away."""
        with suppress(OSError):
            noted = disk.beginning(self._mark, _LARGEST_MARK)
            for name in filter(_STEM.fullmatch, _packs_in(noted)):
                stem = os.path.join(self._folder, "pack", name)
                if os.path.exists(stem + ".idx") and is_keep_of_ours(stem + ".keep"):
                    yield stem + ".keep"


def clear_dead(folder: str) -> list[str]:
    """Take away what killed processes left in an object folder; returns what went."""
    removed = []
    for *files, mark in dead_files(folder):
        removed += [path for path in files if is_gone(path)]
        if not _are_left(files):  # by the mark alone they are known the next time
            removed += [mark] if is_gone(mark) else []
    return removed


def _are_left(paths: Iterable[str]) -> bool:
    """Whether one of these files could not be taken away; we leave nothing but files."""
    for path in paths:
        with suppress(OSError):
            if stat.S_ISREG(os.lstat(path).st_mode):
                return True
    return False


def dead_files(folder: str) -> Iterator[list[str]]:
    """What each killed process left, its mark last; while it is at hand, nobody else takes it."""
    for name in _marks(folder):
        yield from _left_by(folder, os.path.join(folder, name))


def _left_by(folder: str, mark: str) -> Iterator[list[str]]:
    try:
        # To write, as NFS wants it for a lock.
        fd = os.open(mark, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # it has ended, or is another user's
        return
    try:
        if stat.S_ISREG(os.fstat(fd).st_mode) and try_lock(fd, fcntl.LOCK_EX):
            noted = os.pread(fd, _LARGEST_MARK, 0)
            yield [*_left(folder, mark.rpartition("_")[2], _packs_in(noted)), mark]
    finally:
        os.close(fd)


def noted_packs(folder: str) -> set[str]:
    """The names of packs that processes which may be alive are at."""
    found: set[str] = set()
    for name in _marks(folder):
        with suppress(OSError):
            mark = disk.beginning(os.path.join(folder, name), _LARGEST_MARK)
            found.update(_packs_in(mark))
    return found


def _marks(folder: str) -> list[str]:
    names = names_in(folder)
    return [name for name in names if name.startswith(TEMPORARY_OBJECT) and _MARK.fullmatch(name)]


def _packs_in(mark: bytes) -> list[str]:
    return mark.decode("ascii", "replace").split()


def _left(folder: str, token: str, packs: list[str]) -> Iterator[str]:
    """What a process left: packs that it had not finished, the `.keep` of those that nothing
    needed yet, and files with its token, by which the first are known."""
    pack_folder = os.path.join(folder, "pack")
    for stem in (os.path.join(pack_folder, name) for name in packs if _STEM.fullmatch(name)):
        yield from needless_files(stem)
    for place, kinds in (
        (folder, (TEMPORARY_OBJECT,)),
        (pack_folder, (TEMPORARY_PACK, TEMPORARY_INDEX)),
    ):
        own = tuple(f"{kind}{token}_" for kind in kinds)
        yield from (os.path.join(place, name) for name in names_in(place) if name.startswith(own))


def needless_files(stem: str) -> Iterator[str]:
    """What of a dead process's pack can go: the `.keep` of one with an index, which can be seen
    and is git's by now, and all of one that never had any. One that lost its index may be all
    that holds its objects: it stays, and stays kept, as git takes such a pack for needless."""
    is_half = os.path.exists(stem + ".pack") and not os.path.exists(stem + ".idx")
    if is_half and not _never_had_index(stem):
        return
    if is_half:
        yield stem + ".pack"
    if is_keep_of_ours(stem + ".keep"):
        yield stem + ".keep"


def _never_had_index(stem: str) -> bool:
    """Whether the index of a pack is still there by its temporary name, which it has until it
    gets that of the pack, as the last step. It ends with what the pack ends with."""
    folder, _, name = stem.rpartition("/pack-")
    length = len(name) // 2
    end = _end_of(stem + ".pack", length)
    return len(end) == length and any(
        _end_of(os.path.join(folder, index), 2 * length)[:length] == end
        for index in names_in(folder)
        if index.startswith(TEMPORARY_INDEX)
    )


def _end_of(path: str, back: int) -> bytes:
    try:
        return end_of(path, back)
    except OSError:
        return b""


def is_keep_of_ours(path: str) -> bool:
    """Whether ckpt keeps a pack from git, or a process of it died before it could say so."""
    try:
        contents = disk.beginning(path, len(KEPT_BY_US) + 1)
    except OSError:
        return False
    if contents:
        return contents == KEPT_BY_US
    stem = path.removesuffix(".keep")
    return not os.path.exists(stem + ".pack") and not os.path.exists(stem + ".idx")


def names_in(folder: str) -> list[str]:
    """What is in a folder; nothing if it is not there, or may not be looked at."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


def is_gone(path: str) -> bool:
    """Take a file away, if that can be done: whoever comes here came for something else."""
    try:
        disk.unlink(path)
    except OSError:
        return False
    return True
