# SPDX-License-Identifier: MIT
"""What the hooks of one agent session share: its turns, and the ledger of what the agent wrote.

Each event of an agent is a process of its own, so all of it is on disk, a folder a session. The
ledger is a log that is only added to; a record that was torn or damaged reads as not there, and
so does a file that is not ours. Nothing is flushed: a write that a power cut takes is one that a
rollback leaves to the person.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from time import monotonic, time
from typing import TYPE_CHECKING, NamedTuple

from ckpt import disk
from ckpt.engine.journal import SESSIONS
from ckpt.errors import Busy, UsageError
from ckpt.locks import acquire, releasing
from ckpt.paths import folders_above

if TYPE_CHECKING:
    from ckpt.models import Checkpoint

    Record = tuple[bytes, int, "Content", bytes]

# kind, turn, content, path

_LENGTH = 32  # of a session's name, which is a checksum
_NAME = re.compile(f"[0-9a-f]{{{_LENGTH}}}")
_TURN, _WRITES, _SAVING = "turn", "writes", "saving"
_NO_TURN = (0, False, b"")
_MARK_LENGTH = 16
_TURN_SIZE = 64  # always, so that it can be written when the disk is full
_END = b"\0"  # of a record; no path holds one
_PATIENCE = 1.0  # seconds; what is done under the lock takes a millisecond
_POLL = 0.005
_CHUNK = 1 << 20
_OLD = 30 * 86400
_HIGHEST_TURN = 10**9
_NOTHING = b"-"
# The kinds of records: what was at a path before the agent wrote to it, and what it left there.
SEEN, ABSENT, WROTE = b"seen", b"absent", b"wrote"


class Content(NamedTuple):
    """A file as it lies on disk: SHA-256 of its bytes, or of a link's target, and its type and
    permission bits. Both are empty where there is no file."""

    digest: str | None
    mode: int

    @property
    def is_there(self) -> bool:
        return self.digest is not None


NO_FILE = Content(None, 0)


class Write(NamedTuple):
    """What the agent left at a path: `content` is `NO_FILE` if it removed what was there.

    `created`: nothing was there before the agent first wrote to it; None if nobody looked.
    `turn` is that of its last write; `earlier` is what it had left there before that, of which
    a rollback may have brought back any.
    """

    content: Content
    created: bool | None
    turn: int
    earlier: frozenset[Content] = frozenset()


class SessionState:
    """The turns and writes of one session in one worktree.

    OSError, or `Busy`, where they cannot be written; what cannot be read is empty.
    """

    def __init__(self, private_dir: str, session: str) -> None:
        name = sha256(session.encode("utf-8", "surrogatepass")).hexdigest()[:_LENGTH]
        self.folder = os.path.join(private_dir, SESSIONS, name)

    @property
    def is_known(self) -> bool:
        """Whether anything was ever noted of the session."""
        return os.path.isdir(self.folder)

    # -- turns: a number, whether it has its checkpoint, and in which ledger it was counted

    @property
    def turn(self) -> int:
        """The number of the turn; 0 before the first prompt."""
        return self._read_turn()[0]

    @property
    def is_claimed(self) -> bool:
        """Whether this turn has its checkpoint."""
        return self._read_turn()[1]

    def new_turn(self) -> int:
        with self._lock(_TURN, _PATIENCE):
            turn = min(self.turn, _HIGHEST_TURN - 1) + 1
            self._write_turn(turn)
            return turn

    def follow(self, other: SessionState) -> None:
        """Let it be the turn that is counted elsewhere, in the repository of the agent's folder.
        That has numbers of its own: the same one may be another turn here."""
        turn = other.turn
        mark = sha256(os.fsencode(other.folder)).hexdigest()[:_MARK_LENGTH].encode()
        with self._lock(_TURN, _PATIENCE):
            now, _, counted_in = self._read_turn()
            if (turn, mark) != (now, counted_in):
                self._write_turn(turn, counted_in=mark)

    def claim(self, turn: int | None = None) -> bool:
        """Note that this turn has its checkpoint; False if it had one, or is not `turn` any more.

        When that is taken, and not before: whoever is killed amid a save has claimed nothing.
        """
        with self._lock(_TURN, _PATIENCE):
            now, is_claimed, counted_in = self._read_turn()
            is_first = not is_claimed and turn in (None, now)
            if is_first:
                self._write_turn(now, claimed=True, counted_in=counted_in)
            return is_first

    def note_saved(self, turn: int) -> None:
        """Claim a turn whose checkpoint is taken; if that cannot be, there will be one too many."""
        with suppress(OSError, Busy):
            self.claim(turn)

    def unclaim(self) -> None:
        """The next one takes a checkpoint, whether the turn has one or not."""
        with self._lock(_TURN, _PATIENCE):
            self._write_turn(self.turn)

    @contextmanager
    def saving(self, timeout: float) -> Iterator[None]:
        """Wait until no other hook of this session is saving; `Busy` after `timeout` seconds.

        Agents use several tools at once: the second must not start to write, nor save as well,
        while the checkpoint of the turn is still being taken.
        """
        with self._lock(_SAVING, timeout):
            yield

    def _read_turn(self) -> tuple[int, bool, bytes]:
        try:
            words = disk.read_private(self._path(_TURN))[:_TURN_SIZE].split()
            turn, is_claimed = int(words[0]), words[1] == b"claimed"
        except (OSError, ValueError, IndexError):
            return _NO_TURN
        return (turn, is_claimed, b"".join(words[2:3])) if 0 <= turn <= _HIGHEST_TURN else _NO_TURN

    def _write_turn(self, turn: int, *, claimed: bool = False, counted_in: bytes = b"") -> None:
        text = b"%d %s %s" % (turn, b"claimed" if claimed else b"free", counted_in)
        disk.overwrite_private(self._path(_TURN), text.ljust(_TURN_SIZE), 0, _TURN_SIZE)

    # -- the ledger

    def foresee(self, path: bytes, *, is_there: bool) -> None:
        """The agent is about to write to a path: remember whether anything is there."""
        with self._lock(_TURN, _PATIENCE):
            self._append(SEEN if is_there else ABSENT, path)

    def record(self, path: bytes, content: Content, *, existed: bool | None = None) -> None:
        """The agent has written to a path, and this (see `look`) is there now.

        `existed`: whether something was there before, if that was not foreseen.
        """
        with self._lock(_TURN, _PATIENCE):
            if existed is not None:
                self._append(SEEN if existed else ABSENT, path)
            self._append(WROTE, path, content)

    def writes(self) -> Mapping[bytes, Write]:
        """What the agent wrote last at each path."""
        try:
            return summed(_records(disk.read_private(self._path(_WRITES))))
        except OSError:
            return {}

    def went_back(self, top: str, paths: Iterable[bytes]) -> None:
        """A rollback has changed these paths of the worktree at `top`."""
        for path, content in brought_back(self.writes(), top, paths):
            self.record(path, content)

    def _append(self, kind: bytes, path: bytes, content: Content = NO_FILE) -> None:
        digest = _NOTHING if content.digest is None else content.digest.encode("ascii")
        record = b"%s %d %s %o %s" % (kind, self.turn, digest, content.mode, path)
        # An end before it too, lest it go on what a killed process has torn.
        disk.append(self._path(_WRITES), _END + record + _END)

    # -- the whole

    @property
    def last_used(self) -> float:
        """When anything was written here; 0 if nothing is here."""
        try:
            return max(os.lstat(self._path(name)).st_mtime for name in os.listdir(self.folder))
        except (OSError, ValueError):
            return 0.0

    def forget(self) -> None:
        """Take away all that is known of the session."""
        disk.remove_tree(self.folder)

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    @contextmanager
    def _lock(self, name: str, timeout: float) -> Iterator[None]:
        deadline = monotonic() + timeout
        while True:
            fd = self._open_lock(name)
            try:
                if not acquire(fd, fcntl.LOCK_EX, deadline, _POLL):
                    raise Busy(
                        "another hook of this agent session is at work",
                        hint="wait for it to end, then try again",
                    )
                with releasing(fd):
                    if _is_still(self._path(name), fd):  # else it was forgotten meanwhile
                        yield
                        return
            finally:
                os.close(fd)

    def _open_lock(self, name: str) -> int:
        sessions = os.path.dirname(self.folder)
        for folder in (os.path.dirname(sessions), sessions, self.folder):
            disk.ensure_dir(folder)
        flags = os.O_RDWR | os.O_NOFOLLOW
        try:
            return disk.open_or_create(self._path(name), flags)
        except FileNotFoundError:  # forgotten between the two
            disk.ensure_dir(self.folder)
            return disk.open_or_create(self._path(name), flags)


def session_of(target: Checkpoint, named: str | None, usual: str | None = None) -> str:
    """Whose writes count: those of a session that is named, of the checkpoint's, or the usual."""
    session = named or target.session or usual
    if session is None:
        raise UsageError(
            f"checkpoint '{target.id}' belongs to no session, so nobody knows what an agent wrote",
            hint="name the session with --session, or roll back without --keep-edits",
        )
    return session


def ledger_of(
    private_dir: str, target: Checkpoint, named: str | None, usual: str | None = None
) -> Mapping[bytes, Write]:
    return SessionState(private_dir, session_of(target, named, usual)).writes()


def summed(records: Iterable[Record]) -> dict[bytes, Write]:
    """What the agent left at each path, told by what was noted one after the other."""
    found: dict[bytes, Write] = {}
    created: dict[bytes, bool] = {}
    for kind, turn, content, path in records:
        before = found.get(path)
        if kind == WROTE:
            earlier = frozenset() if before is None else before.earlier | {before.content}
            found[path] = Write(content, created.get(path), turn, earlier - {content})
        elif before is None:  # never written: what was seen last counts
            created[path] = kind == ABSENT
        elif kind == SEEN and not before.content.is_there:  # somebody else made it anew
            created[path] = False
    return found


def brought_back(
    writes: Mapping[bytes, Write], top: str, paths: Iterable[bytes]
) -> Iterator[tuple[bytes, Content]]:
    """Those of the paths at which is now what the agent had left there some time ago, and that:
    after a rollback it is the agent's, and nobody's edit."""
    for path in paths:
        write = writes.get(path)
        now = None if write is None else look(os.path.join(os.fsencode(top), path))
        if write is not None and now is not None and now in write.earlier:
            yield path, now


def look(path: str | bytes) -> Content:
    """What is at a path on disk now. A folder, or what can be no file of a checkpoint, counts
    as no file."""
    try:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            return Content(sha256(os.readlink(os.fsencode(path))).hexdigest(), status.st_mode)
        return _read(path) if stat.S_ISREG(status.st_mode) else NO_FILE
    except (FileNotFoundError, NotADirectoryError):
        return NO_FILE


def every_session(private_dir: str) -> Iterator[SessionState]:
    """The sessions that are known in a worktree; nothing else that lies there is one."""
    if SESSIONS not in disk.names_in(private_dir):
        return
    folder = os.path.join(private_dir, SESSIONS)
    for name in filter(_NAME.fullmatch, disk.names_in(folder)):
        state = SessionState(private_dir, "")
        state.folder = os.path.join(folder, name)
        yield state


def forget_old(private_dir: str, now: float | None = None) -> None:
    """Take away the sessions that nobody has used for a month."""
    since = (time() if now is None else now) - _OLD
    for state in every_session(private_dir):
        if state.last_used < since:
            with suppress(OSError):
                state.forget()


def _read(path: str | bytes) -> Content:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        summed = sha256()
        while chunk := file.read(_CHUNK):
            summed.update(chunk)
        return Content(summed.hexdigest(), status.st_mode)


def _records(log: bytes) -> Iterator[Record]:
    """Kind, turn, content and path of each record that is whole."""
    *ended, _ = log.split(_END)
    for record in ended:
        try:
            kind, turn, digest, mode, path = record.split(b" ", 4)
            content = NO_FILE if digest == _NOTHING else _content(digest, mode)
            if kind in (SEEN, ABSENT, WROTE) and path:
                yield kind, int(turn), content, path
        except ValueError:
            continue


def _content(digest: bytes, mode: bytes) -> Content:
    if len(bytes.fromhex(digest.decode("ascii"))) != 32:
        raise ValueError(digest)
    return Content(digest.decode("ascii"), int(mode, 8))


def _is_still(path: str, fd: int) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.lstat(path))
    except FileNotFoundError:
        return False


# -- With --keep-edits: what the agent wrote and nobody changed since

NOT_WRITTEN = "not written by the agent"
EDITED = "edited since the agent wrote it"
REMOVED = "removed since the agent wrote it"
MADE_BEFORE = "made by somebody else before the agent wrote it"
UNREADABLE = "unreadable"
IN_ITS_PLACE = "what is in its place is kept"

# A limit that no path is within: where all is kept, nothing may change.
NOWHERE = (b"/",)


class Decision(NamedTuple):
    """The paths that go back, and why the others stay as they are."""

    back: frozenset[bytes]
    kept: dict[bytes, str]

    @property
    def limits(self) -> tuple[bytes, ...]:
        return tuple(sorted(self.back)) or NOWHERE


def decide(
    changing: Collection[bytes],
    ledger: Mapping[bytes, Write],
    look: Callable[[bytes], Content],
    always: Iterable[bytes] = (),
    going: Collection[bytes] = (),
) -> Decision:
    """`changing` are the paths that a rollback would touch, `going` those of them that it would
    remove; `look` tells what is there now.

    Paths of `always` go back whoever changed them. A path that does not change may go back
    all the same: it can be staged otherwise.
    """
    back, kept = set(always), {}
    for path in {*changing, *ledger.keys()} - back:
        write = ledger.get(path)
        reason = NOT_WRITTEN if write is None else _reason(write, path, look)
        if reason is None and write is not None and write.created is False and path in going:
            reason = MADE_BEFORE
        if reason is None:
            back.add(path)
        elif path in changing:
            kept[path] = reason
    for path in [*kept]:
        for folder in back.intersection(folders_above(path)):  # a file was there, or is to be
            back.remove(folder)
            if folder in changing:
                kept[folder] = IN_ITS_PLACE
    return Decision(frozenset(back), kept)


def _reason(write: Write, path: bytes, look: Callable[[bytes], Content]) -> str | None:
    """Why a path stays that the agent has written; None if it goes back."""
    try:
        now = look(path)
    except OSError:
        return UNREADABLE
    if now == write.content:
        return None
    return REMOVED if now == NO_FILE else EDITED
