# SPDX-License-Identifier: MIT
"""The state shared by the hooks of one agent session: its turns, and what the agent wrote.

Each event of an agent is a process of its own, so the state is on disk, in one append-only log per
session. A corrupt record, or a file of another user, counts as missing. Nothing is flushed: after a
power failure, a rollback leaves alone the files whose writes the log has lost.
"""

from __future__ import annotations

import fcntl
import os
import stat
from contextlib import AbstractContextManager, suppress
from hashlib import sha256
from time import time
from typing import NamedTuple

from ckpt import disk

_SESSIONS = "sessions"
_END = b"\0"  # of a record; no path contains it
_CHUNK = 1 << 20
_OLD = 30 * 86400
# The kinds of records: a turn began, has its checkpoint, needs another one; a path existed or not
# before the agent wrote to it, and what it wrote; a rollback may have restored earlier writes.
TURN, CLAIMED, FREE = b"turn", b"claimed", b"free"
SEEN, ABSENT, WROTE, ROLLED_BACK = b"seen", b"absent", b"wrote", b"rolled-back"


class Content(NamedTuple):
    """A file on disk: the SHA-256 of its bytes or link target, and its type and permission bits;
    None and 0 without a file."""

    digest: str | None
    mode: int

    @property
    def is_there(self) -> bool:
        return self.digest is not None


NO_FILE = Content(None, 0)


class Write(NamedTuple):
    """The agent's last write to a path; `content` is `NO_FILE` if it removed the file.

    `created`: the path did not exist before its first write; None if unknown. `turn` is that of the
    last write. `earlier` are the contents of previous ones; those that a rollback may have restored
    since the last one are `restored`.
    """

    content: Content
    created: bool | None
    turn: int
    earlier: frozenset[Content] = frozenset()
    restored: frozenset[Content] = frozenset()


class History:
    """The result of all records of a log.

    `turn` is the number of the current turn, 0 before the first prompt; `is_claimed`: it has its
    checkpoint. `writes` are the agent's last writes by path.
    """

    def __init__(self, log: bytes = b"") -> None:
        self.turn, self.label, self.is_claimed = 0, b"", False
        self.writes: dict[bytes, Write] = {}
        self._created: dict[bytes, bool] = {}
        *records, _ = log.split(_END)
        for record in records:
            kind, _, rest = record.partition(b" ")
            with suppress(ValueError):
                self._add(kind, rest)

    def _add(self, kind: bytes, rest: bytes) -> None:
        if kind == TURN:
            self.turn, self.label, self.is_claimed = self.turn + 1, rest, False
        elif kind == CLAIMED:
            self.is_claimed |= int(rest) == self.turn
        elif kind == FREE:
            self.is_claimed = False
        elif kind == WROTE:
            digest, mode, path = rest.split(b" ", 2)
            if not path:
                return
            content = Content(digest.decode("ascii") or None, int(mode, 8))
            before = self.writes.get(path)
            earlier = frozenset() if before is None else before.earlier | {before.content}
            created = self._created.get(path)
            self.writes[path] = Write(content, created, self.turn, earlier - {content, NO_FILE})
        elif kind == ROLLED_BACK:
            for name, last in self.writes.items():
                self.writes[name] = last._replace(restored=last.earlier)
        elif kind in (SEEN, ABSENT):
            write = self.writes.get(rest)
            if write is None:  # not written yet: the last record counts
                self._created[rest] = kind == ABSENT
            elif kind == SEEN and not write.content.is_there:  # recreated by another program
                self._created[rest] = False


class SessionState:
    """The turns and writes of one session in one worktree.

    A write error raises OSError; an unreadable log counts as empty.
    """

    def __init__(self, private_dir: str, session: str) -> None:
        name = sha256(session.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        self._private_dir = private_dir
        self.path = os.path.join(private_dir, _SESSIONS, name)

    @property
    def is_known(self) -> bool:
        """Return whether anything was recorded for the session."""
        return os.path.isfile(self.path)

    def read(self) -> History:
        try:
            return History(disk.read_private(self.path))
        except OSError:
            return History()

    def _append(self, kind: bytes, rest: bytes = b"") -> None:
        disk.ensure_dir(self._private_dir)
        # The leading end separates it from a record that a killed process left incomplete.
        disk.append(self.path, _END + kind + b" " + rest + _END)

    # -- turns

    def new_turn(self) -> int:
        self._append(TURN)
        return self.read().turn

    def follow(self, other: SessionState) -> None:
        """Begin a turn if one has begun in `other`, the repository of the agent's directory."""
        place = sha256(os.fsencode(other.path)).hexdigest().encode()
        label = b"%d of %s" % (other.read().turn, place)
        if label != self.read().label:
            self._append(TURN, label)

    def claim(self, turn: int) -> None:
        """Record that a turn has its checkpoint; a write error only causes another checkpoint."""
        with suppress(OSError):
            self._append(CLAIMED, b"%d" % turn)

    def unclaim(self) -> None:
        """Record that the turn needs a checkpoint, even if it has one."""
        self._append(FREE)

    def saving(self, timeout: float) -> AbstractContextManager[None]:
        """Wait until no other hook of this session is saving; raise `Busy` after `timeout` seconds.

        Agents use several tools at once: the second must neither write nor save while the
        checkpoint of the turn is in progress.
        """
        disk.ensure_dir(self._private_dir)
        fd = disk.open_private(self.path)
        return disk.locking(fd, fcntl.LOCK_EX, timeout, "agent session")

    # -- the ledger

    def foresee(self, path: bytes, *, is_there: bool) -> None:
        """Record whether a path exists before the agent writes to it."""
        self._append(SEEN if is_there else ABSENT, path)

    def record(self, path: bytes, content: Content, *, existed: bool | None = None) -> None:
        """Record what the agent has written to a path, as returned by `look`.

        `existed`: whether the path existed before, unless `foresee` has recorded that.
        """
        if existed is not None:
            self.foresee(path, is_there=existed)
        digest = (content.digest or "").encode("ascii")
        self._append(WROTE, b"%s %o %s" % (digest, content.mode, path))


def look(path: str | bytes) -> Content:
    """Return the file or link at a path on disk; anything else counts as no file."""
    try:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            return Content(sha256(os.readlink(os.fsencode(path))).hexdigest(), status.st_mode)
        if not stat.S_ISREG(status.st_mode):
            return NO_FILE
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return NO_FILE
    with open(fd, "rb") as file:
        status, digest = os.fstat(fd), sha256()
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
        return Content(digest.hexdigest(), status.st_mode)


def _logs(private_dir: str) -> list[str]:
    """Return the paths of the logs of all sessions."""
    folder = os.path.join(private_dir, _SESSIONS)
    is_own = _SESSIONS in disk.names_in(private_dir)  # follows no link
    return [os.path.join(folder, name) for name in disk.names_in(folder)] if is_own else []


def note_rollback(private_dir: str) -> None:
    """Record in all sessions that what the agents wrote earlier may be back."""
    for path in _logs(private_dir):
        with suppress(OSError):
            disk.append(path, _END + ROLLED_BACK + b" " + _END)


def forget_old(private_dir: str) -> None:
    """Remove the logs of sessions unused for a month."""
    for path in _logs(private_dir):
        with suppress(OSError):
            if time() - os.lstat(path).st_mtime > _OLD:
                os.unlink(path)


# -- rollback --keep-edits: only what the agent wrote, unchanged since, is rolled back


def why_kept(write: Write | None, path: bytes, *, is_going: bool) -> str | None:
    """Return why a rollback keeps a path; None if it restores or, with `is_going`, removes it."""
    if write is None:
        return "not written by the agent"
    try:
        now = look(path)
    except OSError:
        return "unreadable"
    if now not in {write.content, *write.restored}:
        return f"{'edited' if now.is_there else 'removed'} since the agent wrote it"
    if is_going and write.created is False:
        return "made by somebody else before the agent wrote it"
    return None
