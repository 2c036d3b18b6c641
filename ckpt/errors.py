# SPDX-License-Identifier: MIT
"""The errors that cross layers.

Each says what went wrong in git's tone (lower case, no full stop) and carries a
hint: the next command to type. An error that only one module raises lives beside
that module and derives from one of these.

    CkptError                code "failed"     exit 1
    ├── DiskError            code "failed"     exit 1   (an OSError too)
    ├── UsageError           code "usage"      exit 2
    ├── RollbackError        code "failed"     exit 1
    │   └── NotFound         code "not-found"  exit 3
    └── Refused              code "refused"    exit 4
        └── Busy             code "busy"       exit 4
"""

from __future__ import annotations

import errno
import os
import pwd
from os import fsdecode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, ClassVar

_TOO_MANY_OPEN = (errno.EMFILE, errno.ENFILE)


class CkptError(Exception):
    """Something went wrong that the user can read about in one line."""

    code: ClassVar[str] = "failed"
    exit_code: ClassVar[int] = 1

    def __init__(
        self, message: str, *, hint: str | None = None, details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details: dict[str, Any] = dict(details or {})


def is_want(error: OSError) -> bool:
    """Whether it is for want of handles or memory, and says nothing of the file itself."""
    return error.errno in (*_TOO_MANY_OPEN, errno.ENOMEM)


def disk_hint(error: OSError) -> str:
    """What a person can do about it."""
    if error.errno in _TOO_MANY_OPEN:
        return "allow more open files, as 'ulimit -n 1024' does"
    if error.errno in (errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENXIO):
        return "move away what is there in its place"
    if error.errno == errno.EFBIG:
        return "allow larger files, as 'ulimit -f unlimited' does"
    if error.errno == errno.EROFS:
        return "mount the file system for writing"
    if error.errno == errno.EACCES:
        names = (error.filename2, error.filename)  # what a rename goes to is the likelier one
        hints = (owner_hint(fsdecode(name)) for name in names if isinstance(name, str | bytes))
        return next(filter(None, hints), "check permissions")
    return "check free space and permissions"


class DiskError(CkptError, OSError):
    """The operating system said no: the disk is full, a permission is missing."""

    def __init__(self, error: OSError) -> None:
        has_name = isinstance(error.filename, str | bytes)  # of an open file it is a number
        place = f"'{fsdecode(error.filename)}': " if has_name else ""
        super().__init__(
            f"{place}{error.strerror or error}", hint=f"{disk_hint(error)}, then try again"
        )
        self.errno = error.errno


class UsageError(CkptError):
    """The words of the call are off: an option, a name, a path, a setting."""

    code = "usage"
    exit_code = 2


class RollbackError(CkptError):
    """A rollback could not be carried out; nothing is lost."""


class NotFound(RollbackError):
    """No checkpoint answers to that id or name."""

    code = "not-found"
    exit_code = 3


class Refused(CkptError):
    """Going on could lose work, or this repository cannot be served."""

    code = "refused"
    exit_code = 4


class Busy(Refused):
    """Another process holds what is needed; trying again later may work."""

    code = "busy"


# -- Files of another user in a git dir


def owner_hint(path: str) -> str | None:
    """The command that gives a git dir of ours back to us, if another user's files are in it."""
    top, inside, _ = path.partition("/.git/")
    git_dir = top + "/.git"
    try:
        us = os.stat(git_dir).st_uid
    except OSError:
        return None
    owner = _owner(path)
    if not inside or us != os.geteuid() or owner == us:
        return None
    from shlex import quote

    command = f"sudo chown -R {_name_of(us)} {quote(git_dir)}"
    return f"it belongs to {_name_of(owner)}: get it back with '{command}'"


def is_others(status: os.stat_result, git_dir: str) -> bool:
    """Whether a file of ours in a git dir belongs neither to us nor to the owner of that."""
    return status.st_uid not in (os.geteuid(), os.stat(git_dir).st_uid)


def claim(paths: Sequence[str], git_dir: str) -> str:
    """The command that gives such files to us; for root, to the owner of the git dir."""
    from shlex import join

    us = os.geteuid() or os.stat(git_dir).st_uid
    return f"sudo chown {join([_name_of(us), *paths])}"


def _owner(path: str) -> int:
    """The owner of a path, or of the nearest folder above it that can be looked at."""
    try:
        return os.lstat(path).st_uid
    except OSError:
        return _owner(os.path.dirname(path))


def _name_of(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)
