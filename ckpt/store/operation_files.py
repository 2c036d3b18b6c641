# SPDX-License-Identifier: MIT
"""Take the files of an operation out of a git dir, and put those of another in.

A rollback clears the operation before it changes anything else and puts the wanted one
in its place last: half way, git sees no operation rather than one that does not fit the
files. Each file or folder appears and disappears whole, by one rename, and doing either
twice is the same as doing it once.
"""

from __future__ import annotations

import os

from ckpt import disk, private
from ckpt.store.operation import FILES, FOLDERS, MERGE_RR, ORIG_HEAD, OperationFiles

ROOM = "op-"


def clear(git_dir: str, private_dir: str) -> None:
    """End whatever operation is under way, as git sees it; its files are lost."""
    doomed = _make_room(private_dir)
    for name in (*reversed(FOLDERS), *reversed(FILES), MERGE_RR):
        if name != ORIG_HEAD and os.path.lexists(os.path.join(git_dir, name)):
            disk.rename(os.path.join(git_dir, name), os.path.join(doomed, os.path.basename(name)))
    _flush_names(git_dir)
    clear_leftovers(private_dir)


def install(git_dir: str, private_dir: str, wanted: OperationFiles) -> None:
    """Put an operation's files in their place, where `clear` has made room."""
    room = _make_room(private_dir)
    for path, contents in wanted.contents.items():
        _write(os.path.join(room, path), contents)
    disk.fsync_dirs([folder for folder, _, _ in os.walk(room)])
    for name in (*FILES, *FOLDERS):
        source, target = os.path.join(room, name), os.path.join(git_dir, name)
        if not os.path.lexists(source):
            continue
        if os.path.isdir(target):
            disk.rename(target, os.path.join(room, "old-" + os.path.basename(name)))
        disk.make_folders(os.path.dirname(target), git_dir)
        disk.rename(source, target)
    _flush_names(git_dir)
    clear_leftovers(private_dir)


def clear_leftovers(private_dir: str) -> None:
    """Remove what was taken out, or not yet put in, also by a process that was killed."""
    for name in private.names_in(private_dir):
        if name.startswith(ROOM):
            private.remove_tree(os.path.join(private_dir, name))


def _flush_names(git_dir: str) -> None:
    """Of every folder that such a file is in; a linked worktree may have none for its refs."""
    folders = {os.path.dirname(os.path.join(git_dir, name)) for name in (*FILES, *FOLDERS)}
    disk.fsync_dirs(sorted(filter(os.path.isdir, folders)))


def _make_room(private_dir: str) -> str:
    private.ensure_dir(private_dir)
    room = os.path.join(private_dir, disk.temporary_name(ROOM))
    disk.mkdir(room)
    return room


def _write(path: str, contents: bytes) -> None:
    disk.make_folders(os.path.dirname(path))
    fd = disk.create(path, 0o666)
    try:
        disk.write(fd, contents)
        disk.fsync(fd)
    finally:
        os.close(fd)
