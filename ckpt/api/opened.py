# SPDX-License-Identifier: MIT
"""A worktree that is open for use: its repository and settings, and whose turn it is.

What a manager stands on. Threads take turns; the configuration is read anew before each deed
that goes by it, because git, or a person, may have changed it since. What the disk refuses
is told as an error of ours.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import contextmanager
from functools import cached_property
from time import monotonic

from ckpt import paths as repo_paths
from ckpt.api.locks import ThreadLock
from ckpt.arguments import as_path, check_paths, check_type
from ckpt.engine.pending import is_interrupted, running_rollback
from ckpt.errors import Busy, CkptError, DiskError, UsageError
from ckpt.store.repository import Repository, discover
from ckpt.values import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from ckpt.settings import Settings

# How long the configuration that was read on opening may be taken for that of now, in seconds.
_A_MOMENT = 0.005
# How many seconds whoever closes waits: not for ever, as he may hold what others wait for.
_LONG = 60.0


class OpenedWorktree:
    def __init__(
        self,
        path: str | os.PathLike[str],
        env: Mapping[str, str],
        store: str,
        settings: Settings | Mapping[str, Any] | None,
    ) -> None:
        if settings is not None:
            from ckpt.settings import Settings

            check_type("settings", settings, (Settings, Mapping), "Settings or a mapping")
        name = as_path(path)
        with _telling_of_the_disk():  # the current folder may be gone, say
            self._start = os.path.realpath(name)
            self._repo = _open(name, env, store)
        self._given = settings
        self._mutex = ThreadLock()
        self._is_closing = self._is_at_work = False
        self._fresh_until = monotonic() + _A_MOMENT

    @property
    def repository(self) -> Repository:
        return self._repo

    @cached_property
    def settings(self) -> Settings:
        """The settings in force; raises `UsageError` if a source of them is wrong."""
        from ckpt.configure import load_settings
        from ckpt.settings import Settings

        if isinstance(self._given, Settings):
            return self._given
        return load_settings(self._repo, self._given)

    @cached_property
    def forgiving_settings(self) -> Settings:
        """Settings for going back: a broken settings file must not stop that."""
        from ckpt.configure import load_forgiving
        from ckpt.settings import Settings

        if isinstance(self._given, Settings):
            return self._given
        return load_forgiving(self._repo, self._given)

    @property
    def rollback_interrupted(self) -> bool:
        """True if a rollback died in this worktree and awaits `resume` or `abort`."""
        return is_interrupted(self._repo.private_dir)

    @property
    def rollback_running(self) -> str | None:
        """The process that is rolling back this worktree, in words; None if none is."""
        return running_rollback(self._repo.private_dir)

    def close(self) -> None:
        """Let go of open pack files; the manager can be used again afterwards.

        Waits for what other threads are at. What goes on for long, or is what this is called from,
        lets go when it ends.
        """
        if self._mutex.is_foreign:
            self._leave_to_parent()
            return
        self._is_closing = True
        # When Python ends, other threads stand still.
        if self._mutex.acquire(timeout=0 if sys.is_finalizing() else _LONG):
            try:
                self._close_if_asked()
            finally:
                self._mutex.release()

    def _close_if_asked(self) -> None:
        if self._is_closing and not self._mutex.is_entered_again:
            self._is_closing = False
            self._repo.close()

    def _leave_to_parent(self) -> None:
        """Begin anew in a fork: what is open is the parent's, which may be in the midst of it."""
        self._repo = replace(self._repo)
        self._is_closing = self._is_at_work = False

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Of the disk, and of a repository that was moved away meanwhile: whatever is missed then,
        that is why."""
        try:
            with _telling_of_the_disk():
                yield
        except CkptError:
            self._repo.check_there()
            raise

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """Beside what others do, for what is noted in the private files."""
        with self._telling():
            self._repo.check_there()
            yield

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Alone in this process, for what looks at checkpoints only."""
        with self._alone(), self._noting():
            yield

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Alone in this process, and where refs can be written."""
        with self._looking():
            self._repo.check_writable()
            yield

    @contextmanager
    def _looking(self) -> Iterator[None]:
        """Alone in this process, with the configuration and settings of now, and not amid
        another such call: both would take what was added, or its end, for their own."""
        with self._alone(), self._telling():
            if self._is_at_work:  # a callback calls, or a signal's handler
                raise Busy(
                    "another call of this manager is under way in the same thread",
                    hint="call it when that one has returned",
                )
            try:
                self._is_at_work = True
                self._refresh()
                yield
            finally:
                self._is_at_work = False

    def _refresh(self) -> None:
        if monotonic() > self._fresh_until:
            self._repo = self._repo.reloaded()
            self.__dict__.pop("settings", None)
            self.__dict__.pop("forgiving_settings", None)
        self._fresh_until = 0.0

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if self._mutex.is_foreign:
            self._leave_to_parent()
        with self._mutex:
            try:
                yield
            finally:
                self._close_if_asked()

    def _limits(self, paths: Iterable[str | os.PathLike[str]]) -> tuple[bytes, ...]:
        """Paths as callers have them, from the folder that was opened, as the repository's."""
        check_paths(paths)
        return tuple(map(self._limit, paths))

    def _limit(self, path: str | os.PathLike[str]) -> bytes:
        return repo_paths.relative_to_top(as_path(path), self._repo.worktree, self._start)


@contextmanager
def _telling_of_the_disk() -> Iterator[None]:
    try:
        yield
    except (CkptError, BrokenPipeError):  # the last is about somebody who reads what we tell
        raise
    except OSError as error:
        raise DiskError(error) from error


def _open(path: str, env: Mapping[str, str], store: str) -> Repository:
    """The repository around a folder, or (`user`) the store that is kept for one without."""
    if store == "repo":
        return discover(path, env)
    if store != "user":
        raise UsageError(f"unknown store '{store}'", hint="one of repo, user")
    from ckpt.engine.user_store import open_store

    return open_store(path, env)
