# SPDX-License-Identifier: MIT
"""Checkpoints to a file and back: JSON for state alone, a git bundle for whole ones."""

from __future__ import annotations

import os
from contextlib import contextmanager

from ckpt import private
from ckpt.errors import CkptError, UsageError
from ckpt.models import Checkpoint, Scope
from ckpt.store.repository import Repository

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_LARGEST = 1 << 28  # of a JSON document


def export(repo: Repository, scope: Scope, oldest_first: Sequence[Checkpoint], path: str) -> int:
    """Put checkpoints into a file that only its owner can read; returns how many."""
    if not oldest_first and scope is Scope.FULL:
        raise UsageError("there is no checkpoint to export", hint="git ckpt save")
    if os.path.islink(path):  # it stays one, and leads to the new file
        path = os.path.realpath(path)
    if not os.path.isdir(os.path.dirname(path)):
        raise UsageError(
            f"'{os.path.dirname(path)}' is no folder", hint="name a file in one that is there"
        )
    if os.path.lexists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
        raise UsageError(f"'{path}' is no file", hint="name one that is, or is not there yet")
    with _telling("write", path):
        if scope is Scope.STATE:
            from ckpt.api import state_file

            private.replace(path, state_file.dump(oldest_first))
        else:
            from ckpt.api import bundles

            bundles.store(repo, oldest_first, path)
    return len(oldest_first)


def import_(repo: Repository, scope: Scope, path: str, session: str | None) -> list[Checkpoint]:
    """Read the checkpoints of a file; returns those that are new here."""
    from ckpt.engine.snapshot import SaveRequest, checked

    checked(SaveRequest(session=session))
    with _telling("read", path), open(path, "rb") as file:
        if scope is Scope.FULL and file.peek(1)[:1] == b"#":
            from ckpt.api import bundles

            return bundles.read(repo, file.fileno(), session)
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise UsageError(f"'{path}' is too large", hint="export fewer checkpoints")
    from ckpt.api import state_file

    return state_file.store(repo, data, session)


@contextmanager
def _telling(verb: str, path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CkptError(
            f"cannot {verb} '{path}': {(error.strerror or str(error)).lower()}",
            hint="name a file that can be read and written",
        ) from None
