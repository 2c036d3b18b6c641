# SPDX-License-Identifier: MIT
"""Git's lock on a file, `<path>.lock`.

Ours are made as a second name of a private file, so that one left behind by a kill can
be told from anybody else's by its inode, and as the private file is locked by the kernel
while its process lives, such a lock is taken away by whoever finds it, never a living
process's or another program's. Where there are no second names, or no locks of the
kernel's, nothing can be told, and what is left by a kill stays, as git's own do.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

from ckpt import disk
from ckpt.disk import UNFINISHED, ensure_dir, names_in
from ckpt.errors import Busy, Refused


def holder_of(fd: int) -> str | None:
    """A process that holds the kernel's lock on an open file."""
    locks = _kernel_locks()
    if locks is None:  # a killed one may still stand there, whose number may be another's by now
        return os.pread(fd, 32, 0).decode("ascii", "replace").strip() or None
    return _among(locks, os.fstat(fd))


def maker_of(path: str) -> str | None:
    """The process that made a lock file of git's, ours or another's."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    # Ours is another name of a file that its process has locked.
    locker = _among(_kernel_locks() or [], status)
    return locker or next(_who_have_open(os.path.realpath(path)), None)


def _kernel_locks() -> list[list[str]] | None:
    """The locks that there are, as Linux tells; None elsewhere."""
    try:
        with open("/proc/locks", encoding="ascii") as file:
            return [line.split() for line in file]
    except (OSError, ValueError):
        return None


def _among(locks: list[list[str]], status: os.stat_result) -> str | None:
    """Some file systems give their files another device than the kernel does."""
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
    found = None
    for _, kind, _, _, pid, at, *_ in (words for words in locks if len(words) == 8):
        # Those who only wait have an arrow more; of another container a process has no number.
        where, _, inode = at.rpartition(":")
        if kind == "FLOCK" and inode == str(status.st_ino) and int(pid) > 0:
            if where == device:
                return pid
            found = found or pid
    return found


def _who_have_open(path: str) -> Iterator[str]:
    """The user's processes, or for root anybody's, that have a file open."""
    for pid in filter(str.isdigit, _names("/proc")):
        for name in _names(f"/proc/{pid}/fd"):
            try:
                if os.readlink(f"/proc/{pid}/fd/{name}") == path:
                    yield pid
            except OSError:
                continue


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


# -- Our own locks: of the kernel, so that they die with their process

_POLL_SECONDS = 0.02
_PATIENCE_OF_SAVES = 0.5  # of the time they have
_UNTOLD = 2.0  # seconds that whoever waits need not be told of
_FLAGS = os.O_RDWR | os.O_NOFOLLOW
_LOOK = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# What systems say of a lock where they have none.
# NFS has some only for who may write to the file, and so none of a folder.
_NO_LOCKS = {
    *(errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP),
    *(errno.EBADF, errno.EISDIR, errno.EINVAL),
}

# What is called, once, with the reason why a command waits for long.
Waiting = Callable[[str], None]


@contextmanager
def worktree_lock(
    private_dir: str, *, exclusive: bool, timeout: float, waiting: Waiting | None = None
) -> Iterator[None]:
    """Hold the worktree's lock, waiting at most `timeout` seconds for it."""
    disk.ensure_dir(private_dir)
    deadline = time.monotonic() + timeout
    fd = disk.open_or_create(os.path.join(private_dir, "lock"), _FLAGS)
    try:
        tell = _teller(fd, waiting)
        with _turn(private_dir, exclusive, deadline, tell) as is_ours:
            mode = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
            if not is_ours or not acquire(fd, mode, deadline, tell=tell):
                raise _busy(fd, "worktree")
        with releasing(fd):
            if exclusive:
                _sign(fd, os.path.join(private_dir, "lock"))
            yield
    finally:
        os.close(fd)


def _sign(fd: int, path: str) -> None:
    """Say who holds a lock, for those who wait where the kernel does not tell; a full disk may
    keep us from saying it."""
    with suppress(OSError):
        disk.truncate(fd)
        disk.write(fd, b"%d\n" % os.getpid())


def who_is_alone(private_dir: str) -> str | None:
    """Who holds the worktree's lock alone, in words; None if nobody does, or none can tell."""
    try:
        fd = os.open(os.path.join(private_dir, "lock"), _LOOK)
    except OSError:
        return None
    try:
        with releasing(fd):
            return _who(fd) or "another process" if try_lock(fd, fcntl.LOCK_SH) is False else None
    finally:
        os.close(fd)


def _teller(fd: int, waiting: Waiting | None) -> Callable[[], None]:
    """What tells whoever has waited for long, once, whom they wait for."""
    until = time.monotonic() + _UNTOLD if waiting is not None else float("inf")

    def tell() -> None:
        nonlocal until
        if waiting is not None and time.monotonic() >= until:
            until = float("inf")
            waiting(_at_work(fd, "worktree"))

    return tell


@contextmanager
def _turn(
    private_dir: str, exclusive: bool, deadline: float, tell: Callable[[], None]
) -> Iterator[bool]:
    """Stand in the turnstile while we wait for the lock; False if another rollback stands there."""
    fd = os.open(private_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if exclusive:
            is_ours = acquire(fd, fcntl.LOCK_EX, deadline, tell=tell)
        else:
            now = time.monotonic()
            until = now + (deadline - now) * _PATIENCE_OF_SAVES
            acquire(fd, fcntl.LOCK_SH, until, tell=tell)
            is_ours = True
        with releasing(fd):
            yield is_ours
    finally:
        os.close(fd)


@contextmanager
def prune_lock(common_dir: str, *, timeout: float) -> Iterator[None]:
    """Alone change what is in the trash of a repository, and what goes there."""
    with _common_lock(common_dir, "prune-lock", timeout):
        yield


@contextmanager
def gc_lock(common_dir: str, *, timeout: float) -> Iterator[None]:
    """Alone repack what checkpoints hold: two would write the same packs."""
    with _common_lock(common_dir, "gc-lock", timeout):
        yield


@contextmanager
def _common_lock(common_dir: str, name: str, timeout: float) -> Iterator[None]:
    private_dir = os.path.join(common_dir, "ckpt")
    disk.ensure_dir(private_dir)
    try:
        fd = disk.open_or_create(os.path.join(private_dir, name), _FLAGS)
    except PermissionError:  # another user's, in a repository that several share
        yield
        return
    try:
        if not acquire(fd, fcntl.LOCK_EX, time.monotonic() + timeout):
            raise _busy(fd, "repository")
        with releasing(fd):
            yield
    finally:
        os.close(fd)


def acquire(
    fd: int,
    mode: int,
    deadline: float,
    poll: float = _POLL_SECONDS,
    tell: Callable[[], None] | None = None,
) -> bool:
    """Take a lock, waiting for it until the deadline; False if it was another's all the time."""
    while try_lock(fd, mode) is False:
        if time.monotonic() >= deadline:
            return False
        if tell is not None:
            tell()
        time.sleep(poll)
    return True


def try_lock(fd: int, mode: int) -> bool | None:
    """Take a lock; False if another process has it, None where there are no such locks."""
    try:
        fcntl.flock(fd, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        return None
    return True


@contextmanager
def releasing(fd: int) -> Iterator[None]:
    """Give up the lock on a file afterwards. To close it is not enough where a fork was made that
    has it open too; but what it does not hold, it must not give up."""
    holder = os.getpid()
    keep_from_forks(fd)
    try:
        yield
    finally:
        _locked.discard(fd)
        if os.getpid() == holder:
            try_lock(fd, fcntl.LOCK_UN)


# Files with locks of ours.
_locked: set[int] = set()


def keep_from_forks(fd: int) -> None:
    """Let the lock on a file die with this process, though a fork of it may live on: of one that
    the host program made, say, and that knows nothing of us."""
    _locked.add(fd)


def close_locked(fd: int) -> None:
    _locked.discard(fd)  # first: a fork made now must not take another file for this one
    os.close(fd)


def _leave_to_parent() -> None:
    """In a fork: whoever closes these files later closes something."""
    if _locked:
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        for fd in _locked:
            os.dup2(nothing, fd, inheritable=False)
        os.close(nothing)
        _locked.clear()


os.register_at_fork(after_in_child=_leave_to_parent)


def _busy(fd: int, place: str) -> Busy:
    return Busy(_at_work(fd, place), hint="wait for it to end, then try again")


def _at_work(fd: int, place: str) -> str:
    who = _who(fd)
    return f"another ckpt command is at work in this {place}{f' ({who})' if who else ''}"


def _who(fd: int) -> str | None:

    holder = holder_of(fd)
    return f"process {holder}" if holder else None


# -- Repositories that several users write to (`core.sharedRepository`)

_NAMED = {
    "group": 0o660,
    "true": 0o660,
    "yes": 0o660,
    "on": 0o660,
    "1": 0o660,
    "all": 0o664,
    "world": 0o664,
    "everybody": 0o664,
    "2": 0o664,
}
_UNSHARED = ("", "umask", "false", "no", "off", "0")


@dataclass(frozen=True, slots=True)
class Sharing:
    """`bits` are added to what the umask left or, if `exact`, stand instead of it. `top` is the
    folder that all is in, which nobody makes anew when it is gone."""

    bits: int = 0
    exact: bool = False
    top: str | None = None

    def adjust(self, path: str) -> None:
        """Give a file or folder that was just made the bits of a shared one."""
        if self.bits:
            mode = os.lstat(path).st_mode
            wanted = self.wanted(mode)
            if wanted != stat.S_IMODE(mode):
                _chmod(path, wanted)

    def wanted(self, mode: int) -> int:
        bits = self.bits
        if not mode & stat.S_IWUSR:
            bits &= ~0o222
        if mode & stat.S_IXUSR:
            bits |= (bits & 0o444) >> 2
        special = stat.S_IMODE(mode) & ~0o777
        wanted = bits | special if self.exact else bits | stat.S_IMODE(mode)
        if stat.S_ISDIR(mode) and wanted & 0o060:
            wanted |= stat.S_ISGID  # what is made inside belongs to the same group
        return wanted

    def make_folders(self, path: str) -> None:
        """Make a folder and those above it, as shared ones where they are new."""
        for folder in disk.make_folders(path, self.top):
            self.adjust(folder)


NOT_SHARED = Sharing()


def _chmod(path: str, bits: int) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        disk.chmod(fd, bits)
    finally:
        os.close(fd)


def read_sharing(value: str | None) -> Sharing:
    """What a value of `core.sharedRepository` asks for; None where there is none."""
    word = (value if value is not None else "umask").lower()
    if word in _UNSHARED:
        return NOT_SHARED
    if word in _NAMED:
        return Sharing(_NAMED[word])
    mode = int(word, 8) if set(word) <= set("01234567") else 0
    if mode & 0o600 != 0o600:
        raise Refused(
            f"bad value '{value}' of core.sharedRepository",
            hint="git config core.sharedRepository group",
        )
    return Sharing(mode & 0o666, exact=True)


# -- Git's lock on a file, `<path>.lock`

_POLL_SECONDS_lock = 0.005
_FOLDER_SECONDS = 1.0
SECOND_NAME = "lock-"
# What systems say of a second name for a file where they have none.
NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EXDEV, errno.EMLINK}

# What they say of a name that is no private file of ours: gone, another user's, a folder, a link,
# a socket.
_NOT_OURS = {
    *(errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM),
    *(errno.EISDIR, errno.ELOOP, errno.EMLINK, errno.ENXIO, errno.EOPNOTSUPP),
}


class Lock:
    """Git's lock on a file, while it is held."""

    def __init__(self, path: str, private_dir: str) -> None:
        self._path = path
        self._private_dir = private_dir

    def replace(self, contents: bytes) -> None:
        """Give the file other contents and stay locked, as more is to be done with it."""
        with _private_file(self._private_dir) as (fd, private):
            _like(fd, private, self._path)
            disk.write(fd, contents)
            disk.fsync(fd)
            disk.rename(private, self._path)
        disk.fsync_dir(os.path.dirname(self._path))


def replace_locked(
    path: str,
    contents: bytes,
    private_dir: str,
    still_valid: Callable[[], bool] = lambda: True,
    *,
    patience: float = 0.0,
    sharing: Sharing = NOT_SHARED,
) -> bool:
    """Replace a file of git's under git's lock; False if `still_valid` says no under it.

    Waits for another's lock as long as `patience` says, and makes the folders that are
    missing, also those that git took away as empty just now.
    """
    lock = path + ".lock"
    with _private_file(private_dir) as (fd, private):
        _like(fd, private, path)
        sharing.adjust(private)
        disk.write(fd, contents)
        disk.fsync(fd)
        with _taken(private, path, patience, sharing):
            if not still_valid():
                return False
            disk.rename(lock, path)
    disk.fsync_dir(os.path.dirname(path))
    return True


@contextmanager
def holding(
    path: str, private_dir: str, *, patience: float = 0.0, sharing: Sharing = NOT_SHARED
) -> Iterator[Lock]:
    """Hold git's lock on a file, whether or not that is replaced."""
    with (
        _private_file(private_dir) as (_, private),
        _taken(private, path, patience, sharing),
    ):
        yield Lock(path, private_dir)


@contextmanager
def holding_all(
    paths: Iterable[str], private_dir: str, *, sharing: Sharing = NOT_SHARED
) -> Iterator[list[str]]:
    """Hold git's locks on several files, those that nobody else holds now: which they are."""
    with _private_file(private_dir) as (_, private), ExitStack() as stack:
        held = []
        for path in paths:
            with suppress(Busy):
                stack.enter_context(_taken(private, path, 0.0, sharing))
                held.append(path)
        yield held


@contextmanager
def _private_file(private_dir: str) -> Iterator[tuple[int, str]]:
    """A new file of ours and its handle, with a kernel lock on it while we live."""
    fd, private = _create_private(private_dir)
    keep_from_forks(fd)
    try:
        yield fd, private
    except _LockStays:
        raise
    except BaseException:
        disk.discard(private)
        raise
    else:
        disk.discard(private)
    finally:
        close_locked(fd)


def _create_private(private_dir: str) -> tuple[int, str]:
    ensure_dir(private_dir)
    while True:
        private = os.path.join(private_dir, disk.temporary_name(SECOND_NAME))
        fd = disk.create(private, 0o666)
        try:
            # Before it was locked, who clears up may have taken it for a dead process's.
            if try_lock(fd, fcntl.LOCK_EX) is not False and os.fstat(fd).st_nlink:
                return fd, private
        except BaseException:
            disk.discard(private)
            os.close(fd)
            raise
        disk.discard(private)
        os.close(fd)


def _like(fd: int, private: str, path: str) -> None:
    """Give the new file the bits of the one it replaces: a repository may be shared."""
    try:
        disk.chmod(fd, os.stat(path).st_mode & 0o777)
    except (FileNotFoundError, NotADirectoryError):
        pass


@contextmanager
def _taken(private: str, path: str, patience: float, sharing: Sharing) -> Iterator[None]:
    """Hold the lock on `path`, which is the private file by a second name."""
    lock = path + ".lock"
    inode = _inode(private)  # known before, as an interrupt may come when the lock is just there
    try:
        _take(private, path, time.monotonic() + patience, sharing)
        inode = _inode(lock)  # a copy has its own
        yield
        # Unless it has become the file: the next of its name is another's.
        if inode is not None and _inode(lock) == inode:
            disk.unlink(lock)
    except BaseException:
        if inode is not None and _inode(lock) == inode:
            _remove(lock)
        raise


class _LockStays(OSError):
    """A lock cannot be taken away. It can be told from another process's, later, only while
    the private file has its name."""


def _remove(lock: str) -> None:
    try:
        disk.unlink(lock)
    except OSError as error:
        raise _LockStays(error.errno, error.strerror, lock) from error
    except BaseException:
        disk.discard(lock)
        raise


def _take(private: str, path: str, deadline: float, sharing: Sharing) -> None:
    lock = path + ".lock"
    while True:
        try:
            return _link(private, lock)
        except FileNotFoundError:
            if not os.path.exists(private) or time.monotonic() > deadline + _FOLDER_SECONDS:
                raise
            sharing.make_folders(os.path.dirname(path))
        except FileExistsError:
            _wait(path, os.path.dirname(private), deadline)


def check_free(paths: Iterable[str], private_dir: str, *, patience: float) -> None:
    """Wait until nobody holds git's locks on files, but not for ever, before anything is done
    that needs them."""
    deadline = time.monotonic() + patience
    for path in paths:
        while os.path.lexists(path + ".lock"):
            _wait(path, private_dir, deadline)


def _wait(path: str, private_dir: str, deadline: float) -> None:
    """For a moment, while a file is locked; not if that was by a process of ours that died."""
    if clear_dead_locks(private_dir, lambda: [path]):
        return
    if time.monotonic() >= deadline:
        raise _held(path)
    time.sleep(_POLL_SECONDS_lock)


def _held(path: str) -> Busy:

    lock = path + ".lock"
    maker = maker_of(lock)
    if maker is None:
        hint = "another git process seems to be running; wait for it, or remove that file"
        return Busy(f"unable to lock '{path}': '{lock}' exists", hint=hint)
    message = f"unable to lock '{path}': '{lock}' is held by process {maker}"
    return Busy(message, hint="wait for it to end, then try again")


def _link(private: str, lock: str) -> None:
    try:
        disk.link(private, lock)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        _copy(private, lock)


def _copy(private: str, lock: str) -> None:
    """Where a file can have one name only: a lock as git makes it."""
    fd = disk.create(lock, stat.S_IMODE(os.stat(private).st_mode))
    try:
        with open(private, "rb") as file:
            disk.write(fd, file.read())
        disk.fsync(fd)
    except BaseException:
        disk.discard(lock)
        raise
    finally:
        os.close(fd)


def clear_own_locks(private_dir: str, paths: Iterable[str]) -> None:
    """Remove what killed processes left: their locks on `paths` and their private files."""
    clear_dead_locks(private_dir, lambda: paths)
    clear_unfinished(private_dir)


def clear_unfinished(folder: str, prefix: str = UNFINISHED) -> None:
    """Remove files that killed processes have not finished, private ones or others of ours."""
    for path in dead_unfinished(folder, prefix):
        disk.discard(path)


def dead_unfinished(folder: str, prefix: str = UNFINISHED) -> Iterator[str]:
    """Such files; while one is at hand, nobody else takes it."""
    for name in sorted(_names_in(folder, prefix)):
        path = os.path.join(folder, name)
        with _dead(path) as inode:
            if inode is not None:
                yield path


def remove_dead(path: str) -> None:
    """Remove a file that a process was writing (see `disk.replacing`) when it was killed."""
    with _dead(path) as inode:
        if inode is not None:
            disk.unlink(path)


def is_dead(path: str) -> bool:
    """Whether there is such a file."""
    with _dead(path) as inode:
        return inode is not None


def clear_dead_locks(private_dir: str, paths: Callable[[], Iterable[str]]) -> bool:
    """Remove their locks only; True if there was one. Those of living processes stay."""
    left = _names_in(private_dir, SECOND_NAME)
    files = [*paths()] if left else []
    cleared = False
    for name in left:
        private = os.path.join(private_dir, name)
        with _dead(private) as inode:
            if inode is None:
                continue
            for path in files:
                if _inode(path + ".lock") == inode:
                    disk.unlink(path + ".lock")
                    cleared = True
            is_published = any(_inode(path) == inode for path in files)
            # Else by it alone another lock can be told from git's.
            if is_published or _names_of(private) == 1:
                disk.discard(private)
    return cleared


def dead_locks(private_dir: str) -> list[str]:
    """The private files of processes that were killed; each may have a lock by another name."""
    found = []
    for name in sorted(_names_in(private_dir, SECOND_NAME)):
        private = os.path.join(private_dir, name)
        with _dead(private) as inode:
            if inode is not None:
                found.append(private)
    return found


@contextmanager
def _dead(private: str) -> Iterator[tuple[int, int] | None]:
    """The inode of a private file whose process has died, held so that nobody else clears it."""
    try:
        fd = _open(private)
    except OSError as error:
        if error.errno not in _NOT_OURS:
            raise
        yield None
        return
    try:
        yield _inode_if_free(fd)
    finally:
        os.close(fd)


def _open(private: str) -> int:
    flags = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        return os.open(private, os.O_RDWR | flags)  # as NFS wants it for a lock
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        return os.open(private, os.O_RDONLY | flags)


def _inode_if_free(fd: int) -> tuple[int, int] | None:
    if not try_lock(fd, fcntl.LOCK_EX):
        return None
    found = os.fstat(fd)
    is_file = stat.S_ISREG(found.st_mode) and found.st_nlink
    return (found.st_dev, found.st_ino) if is_file else None


def _names_of(path: str) -> int:
    """How many names a file has; one if it has lost this one just now, as its process ended."""
    try:
        return os.lstat(path).st_nlink
    except FileNotFoundError:
        return 1


def _names_in(private_dir: str, prefix: str) -> list[str]:
    return [name for name in names_in(private_dir) if name.startswith(prefix)]


def _inode(path: str) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino
