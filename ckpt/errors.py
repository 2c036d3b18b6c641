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

from os import fsdecode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, ClassVar


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


class DiskError(CkptError, OSError):
    """The operating system said no: the disk is full, a permission is missing."""

    def __init__(self, error: OSError) -> None:
        has_name = isinstance(error.filename, str | bytes)  # of an open file it is a number
        place = f"'{fsdecode(error.filename)}': " if has_name else ""
        super().__init__(
            f"{place}{error.strerror or error}",
            hint="check free space and permissions, then try again",
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
