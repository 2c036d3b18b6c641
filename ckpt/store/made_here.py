# SPDX-License-Identifier: MIT
"""The record of checkpoints that were made in this repository, by whoever may read it.

Refs come by `git fetch` too, and can be written by hand; what they say of themselves counts
for nothing. A line here names an id and the commit that it had: another commit under the same
id is another's. To note one is to append a line, before the ref is made and flushed with the
checkpoint's objects, and without a look at the lines before it, of which a power cut may have
left half a one. What a user takes away makes a checkpoint foreign, and no less restorable.

Left out: what is done with a foreign one, which is the business of `engine/foreign.py`.
"""

from __future__ import annotations

import os

from ckpt import private

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container

_NAME = "made-here"
_LARGEST = 1 << 20  # in bytes; beyond, lines of checkpoints that are gone are let go


def note(common_dir: str, checkpoint_id: str, commit: str) -> tuple[str, ...]:
    """Remember that a checkpoint was made here; not being able to is no failure.

    Returns the files that have to be flushed.
    """
    path = _path(common_dir)
    try:
        try:
            private.append(path, _line(checkpoint_id, commit))
        except FileNotFoundError:
            private.ensure_dir(os.path.dirname(path))
            private.append(path, _line(checkpoint_id, commit))
    except OSError:
        return ()
    return (path,)


def holds(common_dir: str, checkpoint_id: str, commit: str) -> bool:
    """Whether the commit under an id was made here; False if nobody can tell any more."""
    return _line(checkpoint_id, commit) in _read(common_dir)


def is_same(common_dir: str, checkpoint_id: str, commit: str, known: str | None) -> bool:
    """Whether the commit under an id is the one that is known of it. To pin a checkpoint makes
    another commit, which was made here too; of some, nobody noted any."""
    return known in (None, commit) or holds(common_dir, checkpoint_id, commit)


def commits_of(common_dir: str, checkpoint_id: str) -> list[str]:
    """The commits that an id had, newest first: to pin a checkpoint makes another one."""
    mark = _line(checkpoint_id, "").strip(b"\n")
    lines = reversed(_read(common_dir).splitlines())
    return [line.rpartition(mark)[2].decode("ascii", "replace") for line in lines if mark in line]


class Record:
    """The record as it is when the first question is asked: of a thousand, it is read once."""

    __slots__ = ("_common_dir", "_data", "_lines")

    def __init__(self, common_dir: str) -> None:
        self._common_dir = common_dir
        self._data: bytes | None = None
        self._lines: frozenset[bytes] | None = None

    def lacks(self, checkpoint_id: str, commit: str) -> bool:
        """What `holds` denies."""
        line = _line(checkpoint_id, commit)
        if self._data is None:  # a save asks of one, for which no lines need be made
            self._data = _read(self._common_dir)
            return line not in self._data
        if self._lines is None:
            self._lines = frozenset(self._data.splitlines(keepends=True))
        return line not in self._lines and line not in self._data


def tidy(common_dir: str, existing: Callable[[], Container[str]]) -> None:
    """Let go of all but the ids that exist, if the record has become long.

    What another process notes at that moment may go with them.
    """
    path = _path(common_dir)
    try:
        if os.stat(path).st_size <= _LARGEST:
            return
        ids = existing()
        lines = _read(common_dir).splitlines(keepends=True)
        kept = [line for line in lines if line.partition(b" ")[0].decode("ascii", "replace") in ids]
        private.replace(path, b"".join(kept))
    except OSError:
        pass


def _path(common_dir: str) -> str:
    return os.path.join(common_dir, "ckpt", _NAME)


def _line(checkpoint_id: str, commit: str) -> bytes:
    return f"{checkpoint_id} {commit}\n".encode("utf-8", "surrogateescape")


def _read(common_dir: str) -> bytes:
    try:
        return private.read(_path(common_dir))
    except OSError:
        return b""
