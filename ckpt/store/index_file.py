# SPDX-License-Identifier: MIT
"""Git's index file out of what was staged, with the best stat data to hand.

Stat data are no part of a checkpoint: they are those of files whose content is known, or of the
present index where that has the same. Git looks at the rest again.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection

from ckpt.store.index import Index, IndexEntry, StatFields
from ckpt.store.index_writer import write_index
from ckpt.store.staging import MISLEADING, STALE, UNSEEN, Staged
from ckpt.store.trees import EXECUTABLE, GITLINK, REGULAR, SYMLINK, TreeEntry

# How a file's state is known: its entry and the stat data it had then.
KnownFile = Callable[[bytes], tuple[TreeEntry, os.stat_result] | None]

_SECOND = 1_000_000_000
_WORD = 0xFFFFFFFF


def compose(
    target: Index,
    present: Staged,
    known: KnownFile,
    hash_name: str,
    doubtful: Collection[bytes] = (),
) -> bytes:
    """The bytes of an index file with the target's content and the best stat data to hand.

    Those that the present index has of `doubtful` paths are not taken over.
    """
    before = {(e.path, e.stage): e for e in present.index.entries if e.path not in doubtful}
    entries = []
    for entry in target.entries:
        if entry.stage == 0 and not entry.intent_to_add:
            entry = _with_stat(entry, before.get((entry.path, 0)), present, known)
        entries.append(entry)
    return write_index(entries, version=target.version, hash_name=hash_name)


def _with_stat(
    entry: IndexEntry, before: IndexEntry | None, present: Staged, known: KnownFile
) -> IndexEntry:
    if entry.size == STALE.size:
        return entry
    file = known(entry.path)
    unseen = entry.size == UNSEEN.size
    if unseen:
        entry = entry._replace(stat=IndexEntry.of(b"", b"", entry.mode).stat)
    if file is not None and file[0] == (entry.mode, file[0].id if unseen else entry.id):
        fields = stat_fields(file[1])
        if unseen:
            fields = fields._replace(dev=MISLEADING)
        packed = IndexEntry.of(entry.path, entry.id, entry.mode, fields).stat
        return entry._replace(stat=packed)
    unchanged = before is not None and (before.id, before.mode) == (entry.id, entry.mode)
    if before is not None and unchanged and not present.is_racy(before):
        return entry._replace(stat=before.stat)
    return entry


def stat_fields(st: os.stat_result) -> StatFields:
    """Stat data of a file as git would store them, `mode` being git's mode for it."""
    ctime_s, ctime_ns = divmod(st.st_ctime_ns, _SECOND)
    mtime_s, mtime_ns = divmod(st.st_mtime_ns, _SECOND)
    return StatFields(
        ctime_s & _WORD,
        ctime_ns,
        mtime_s & _WORD,
        mtime_ns,
        st.st_dev & _WORD,
        st.st_ino & _WORD,
        _git_mode(st.st_mode),
        st.st_uid & _WORD,
        st.st_gid & _WORD,
        st.st_size & _WORD,
    )


def _git_mode(mode: int) -> int:
    if stat.S_ISREG(mode):
        return EXECUTABLE if mode & 0o100 else REGULAR
    if stat.S_ISLNK(mode):
        return SYMLINK
    return GITLINK if stat.S_ISDIR(mode) else 0
