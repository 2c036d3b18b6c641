# SPDX-License-Identifier: MIT
"""Errors shared by all layers, and their exit codes.

Messages are worded like git's (lower case, no full stop); a hint gives the next command.
An error raised by a single module is defined there, derived from one of these.

    CkptError                code "failed"     exit 1
    ├── DiskError            code "failed"     exit 1   (an OSError too)
    ├── Interrupted          code "interrupted" exit 130
    ├── UsageError           code "usage"      exit 2
    ├── RollbackError        code "failed"     exit 1
    │   └── NotFound         code "not-found"  exit 3
    └── Refused              code "refused"    exit 4
        └── Busy             code "busy"       exit 4
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from typing import Any, ClassVar


class CkptError(Exception):
    """An error to report to the user in one line."""

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
    """Return whether the process ran out of file handles or memory."""
    return error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def raise_want(error: OSError) -> None:
    """Raise such an error; for `os.walk`, which passes over those of single directories."""
    if is_want(error):
        raise error


def disk_hint(error: OSError) -> str:
    """Suggest how to fix a disk error."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return "allow more open files, as 'ulimit -n 1024' does"
    if error.errno == errno.EROFS:
        return "mount the file system for writing"
    if error.errno in (errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENXIO):
        return "move away what is there in its place"
    from shlex import quote

    name = error.filename2 or error.filename  # the target of a rename is the likelier cause
    top, git_dir, _ = os.fsdecode(name if isinstance(name, str | bytes) else "").partition("/.git/")
    if error.errno == errno.EACCES and git_dir:
        command = f"sudo chown -R {os.geteuid()} {quote(top + '/.git')}"
        return f"if another user has written there: '{command}'"
    return "check free space and permissions"


class DiskError(CkptError, OSError):
    """An error of the operating system, such as a full disk or a missing permission."""

    def __init__(self, error: OSError) -> None:
        has_name = isinstance(error.filename, str | bytes)  # not a file descriptor
        place = f"'{os.fsdecode(error.filename)}': " if has_name else ""
        super().__init__(
            f"{place}{error.strerror or error}", hint=f"{disk_hint(error)}, then try again"
        )
        self.errno = error.errno


def as_ckpt_error(error: Exception) -> CkptError:
    """Return an error that can be reported in one line."""
    if isinstance(error, CkptError):
        return error
    if isinstance(error, OSError):
        return DiskError(error)
    return CkptError(f"{type(error).__name__}: {error}")


class Interrupted(CkptError):
    """The command was interrupted by Ctrl-C or another signal."""

    code = "interrupted"
    exit_code = 130


class UsageError(CkptError):
    """An option, name, path or setting is invalid."""

    code = "usage"
    exit_code = 2


class RollbackError(CkptError):
    """A rollback failed; nothing is lost."""


class NotFound(RollbackError):
    """No checkpoint matches the id or name."""

    code = "not-found"
    exit_code = 3


class Refused(CkptError):
    """The operation could lose work, or the repository is not supported."""

    code = "refused"
    exit_code = 4


class Busy(Refused):
    """Another process holds a lock; a later attempt may succeed."""

    code = "busy"
