# SPDX-License-Identifier: MIT
"""What `rerere` has noted of the conflicts of an operation in progress.

MERGE_RR names them, and git crashes when a conflict that it names is not in `rr-cache/`,
where a given-up operation takes it away. A checkpoint keeps these few files; putting them
back never replaces one that is there, since other resolutions are recorded in them.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from contextlib import suppress

from ckpt import disk, private
from ckpt.patterns import lazy_pattern
from ckpt.store.operation import LARGEST, OperationFiles

_MERGE_RR = "MERGE_RR"
_NAMED = lazy_pattern(rb"(?s)([0-9a-f]{40}(?:[0-9a-f]{24})?)(?:\.\d+)?\t.")
_KNOWN = lazy_pattern(r"[0-9a-f]{40}(?:[0-9a-f]{24})?/(?:pre|post|this)image(?:\.\d+)?")


def read(common_dir: str, files: OperationFiles) -> dict[str, bytes]:
    """The files of every conflict that is named, by their path in `rr-cache/`."""
    found = {}
    conflicts = map(_NAMED.match, files.contents.get(_MERGE_RR, b"").split(b"\0")[:-1])
    for name in sorted({conflict[1] for conflict in conflicts if conflict is not None}):
        folder = os.path.join(common_dir, "rr-cache", name.decode())
        for image in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
            path = f"{name.decode()}/{image}"
            contents = _read(os.path.join(folder, image)) if is_known(path) else None
            if contents is not None:
                found[path] = contents
    return found


def _read(path: str) -> bytes | None:
    """None for what cannot be read: it only helps, and must not stop a save."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST:
        os.close(fd)
        return None
    with open(fd, "rb") as file:
        return file.read()


def is_known(path: str) -> bool:
    """Whether git itself uses this name: no other ever gets into `rr-cache/`."""
    return _KNOWN.fullmatch(path) is not None


def install(common_dir: str, files: Mapping[str, bytes]) -> None:
    """Put back what is missing, as far as the file system lets us."""
    for path, contents in files.items():
        full = os.path.join(common_dir, "rr-cache", path)
        if not os.path.lexists(full):
            with suppress(OSError):
                disk.make_folders(os.path.dirname(full), common_dir)
                _write(full, contents, os.path.join(common_dir, "ckpt"))


def _write(path: str, contents: bytes, private_dir: str) -> None:
    """Written among our own files, where what a killed process leaves is known for what it is; if
    `rr-cache/` is elsewhere, beside its name."""
    private.ensure_dir(private_dir)
    try:
        _write_in(private_dir, path, contents)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _write_in(os.path.dirname(path), path, contents)


def _write_in(folder: str, path: str, contents: bytes) -> None:
    temporary = os.path.join(folder, disk.temporary_name(private.UNFINISHED))
    with disk.replacing(path, temporary, 0o666) as fd:
        disk.write(fd, contents, temporary)
