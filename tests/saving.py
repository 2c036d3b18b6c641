# SPDX-License-Identifier: MIT
"""Saves of a worktree that is known from before, and what they read of it.

Each save is compared with one by somebody who knows nothing, as the cache is not there.
"""

from __future__ import annotations

import builtins
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from helpers import git

from ckpt.manager import CheckpointManager
from ckpt.models import Checkpoint

SETTLED = 0.12  # seconds, after which a change shows in a file's times
LATER = 500_000_000  # nanoseconds
# Private files without which it would not be the same repository.
NO_CACHES = ("made-here", "journal", "last-rollback", "lock", "triggers")


@contextmanager
def knowing_nothing(top: Path) -> Iterator[None]:
    """Saves inside find no cache, and leave none."""
    git_dir = git("rev-parse", "--absolute-git-dir", cwd=top).strip()
    private = Path(git_dir, "ckpt")
    aside = Path(tempfile.mkdtemp(dir=git_dir))
    for path in private.iterdir():
        if path.name not in NO_CACHES:
            path.rename(aside / path.name)
    try:
        yield
    finally:
        for path in private.iterdir():
            if path.name not in NO_CACHES:
                path.unlink()
        for path in aside.iterdir():
            path.rename(private / path.name)
        aside.rmdir()


class Saver:
    """A process that lives on and saves; `read` are the files that the last save opened."""

    def __init__(self, top: Path, patch: pytest.MonkeyPatch, **settings: Any) -> None:
        self.top = top
        self.read: list[str] = []
        self._settings = settings
        self._manager = CheckpointManager(top, settings=settings)
        patch.setattr(os, "open", self._noting(os.open))
        patch.setattr(builtins, "open", self._noting(builtins.open))

    def _noting(self, call: Any) -> Any:
        """Notes the files of the worktree that are opened, but for those with rules."""

        def noting(path: Any, how: Any = "r", *rest: Any, **options: Any) -> Any:
            opened = call(path, how, *rest, **options)
            fd = opened if isinstance(opened, int) else opened.fileno()
            full = os.readlink(f"/proc/self/fd/{fd}")
            if full.startswith(f"{self.top}/") and not os.path.isdir(full):
                name = os.path.relpath(full, self.top)
                if not name.startswith(".git/") and not os.path.basename(name).startswith(".git"):
                    self.read.append(name)
            return opened

        return noting

    def save(self, *, check: bool = True) -> Checkpoint:
        self.read.clear()
        saved = self._manager.create().checkpoint
        assert saved is not None
        read = [*self.read]
        if check:
            self.compare(saved)
        self.read = read
        return saved

    def compare(self, saved: Checkpoint) -> None:
        """Somebody who knows nothing finds the same."""
        with knowing_nothing(self.top), self._other() as stranger:
            again = stranger.create(kind="auto").checkpoint
        assert again is not None
        assert difference(self.top, saved, again) == ""
        assert again.id == saved.id

    def _other(self) -> CheckpointManager:
        return CheckpointManager(self.top, settings=self._settings)

    def settle(self) -> Checkpoint:
        """Save until nothing has to be read any more."""
        for _ in range(20):
            time.sleep(SETTLED)
            saved = self.save()
            if not self.read:
                return saved
        raise AssertionError(f"never settled: {self.read}")

    def start_anew(self, **settings: Any) -> None:
        """Go on as another process would, with other settings."""
        self._manager.close()
        self._settings = settings
        self._manager = self._other()

    @property
    def manager(self) -> CheckpointManager:
        return self._manager

    def close(self) -> None:
        self._manager.close()


class FrozenTimes:
    """A file system whose clock stands still for some files and folders, at a time so young that
    nothing can be told by it."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._times: dict[int, tuple[int, int]] = {}
        for name in ("lstat", "stat", "fstat"):
            patch.setattr(os, name, self._frozen(getattr(os, name)))
        patch.setattr(os, "scandir", self._listing(os.scandir))

    def freeze(self, path: Path) -> None:
        status = os.lstat(path)
        self._times[status.st_ino] = status.st_mtime_ns + LATER, status.st_ctime_ns + LATER

    def _frozen(self, look: Any) -> Any:
        def frozen(*words: Any, **options: Any) -> os.stat_result:
            status: os.stat_result = look(*words, **options)
            times = self._times.get(status.st_ino)
            return status if times is None else _with_times(status, *times)

        return frozen

    def _listing(self, scandir: Any) -> Any:
        def listing(*words: Any) -> Any:
            with scandir(*words) as entries:
                return _Listing([_Entry(entry, self._frozen(entry.stat)) for entry in entries])

        return listing


class _Listing:
    def __init__(self, entries: list[Any]) -> None:
        self._entries = iter(entries)

    def __enter__(self) -> Iterator[Any]:
        return self._entries

    def __exit__(self, *_: object) -> None:
        pass

    def __iter__(self) -> Iterator[Any]:
        return self._entries

    def __next__(self) -> Any:
        return next(self._entries)

    def close(self) -> None:
        pass


class _Entry:
    """One of a folder, whose times stand still."""

    def __init__(self, entry: Any, stat: Any) -> None:
        self._entry = entry
        self.stat = stat

    def __getattr__(self, name: str) -> Any:
        return getattr(self._entry, name)


def _with_times(status: os.stat_result, mtime_ns: int, ctime_ns: int) -> os.stat_result:
    seconds = status.st_atime_ns // 10**9, mtime_ns // 10**9, ctime_ns // 10**9
    exact = {"st_atime_ns": status.st_atime_ns, "st_mtime_ns": mtime_ns, "st_ctime_ns": ctime_ns}
    return os.stat_result((*status[:7], *seconds), exact)


def difference(top: Path, one: Checkpoint, other: Checkpoint) -> str:
    commits = (one.commit, other.commit), (one.state_commit, other.state_commit)
    return "".join(git("diff", *pair, cwd=top) for pair in commits)


def content(top: Path, saved: Checkpoint, path: str) -> bytes | None:
    """The bytes of a file in a checkpoint; None if it holds none."""
    ran = subprocess.run(
        ["git", "cat-file", "blob", f"{saved.commit}:{path}"], cwd=top, capture_output=True
    )
    return ran.stdout if ran.returncode == 0 else None


def paths(top: Path, saved: Checkpoint) -> set[str]:
    listed = git("ls-tree", "-r", "-z", "--name-only", saved.commit, cwd=top)
    return set(filter(None, listed.split("\0")))


def write_all(top: Path, files: Mapping[str, bytes]) -> None:
    for name, data in files.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_bytes(data)


def lose_all_checkpoints(top: Path) -> None:
    """Delete every checkpoint and all that is in the trash, and whatever only they held."""
    refs = git("for-each-ref", "--format=delete %(refname)", cwd=top).splitlines()
    ours = [line for line in refs if line.startswith("delete refs/checkpoints")]
    git("update-ref", "--stdin", cwd=top, stdin="\n".join([*ours, ""]))
    prune(top)


def prune(top: Path) -> None:
    git("reflog", "expire", "--expire=now", "--all", cwd=top)
    git("gc", "-q", "--prune=now", cwd=top)


def overwrite(path: Path, data: bytes) -> None:
    """Other bytes in the same file: its inode stays."""
    with open(path, "r+b") as file:
        file.write(data)
        file.truncate()


def committed(top: Path, files: Mapping[str, bytes]) -> Path:
    """A new repository in which these files are committed."""
    top.mkdir()
    git("init", "-q", cwd=top)
    write_all(top, files)
    git("add", "-A", cwd=top)
    git("commit", "-q", "-m", "first", cwd=top)
    return top
