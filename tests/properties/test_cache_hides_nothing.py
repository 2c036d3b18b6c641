# SPDX-License-Identifier: MIT
"""Random work in a worktree of many folders, each save compared with one that knows nothing.

A failing walk prints its number and its steps. `make fuzz` walks more.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import fsck, git
from saving import SETTLED, difference, knowing_nothing

from ckpt.manager import CheckpointManager
from ckpt.models import Checkpoint

WALKS = int(os.environ.get("CKPT_FUZZ_EXAMPLES", "4"))
ROUNDS = 20

FOLDERS = ["", "a", "a/b", "a/b/c", "a-", "a0", "d", "d/e", "d/e/f/g/h/i", "ü é", "x", "x/.y", "z"]
NAMES = ["1", "2", "3.log", "4.log", "new\nline", "-rf", "k.tmp", ".env", "secret.pem", "été"]
LINES = [b"", b"1\n", b"2\n", b"12\n", b"1\r\n2\r\n", b"1\r\n2\n", b"\0\n", b"long\n" * 300]
RULES = ["", "*.log\n", "e/\n", "*\n!1\n", "/b\n", ".gitignore\n2\n", "!3.log\n", "a*\n", "**/f\n"]
ATTRIBUTES = ["", "* text=auto\n", "*.log eol=crlf\n", "1 text\n", "* -text\n", "2 filter=rot\n"]
COMMANDS = [
    ("add", "-A"),
    ("add", "-A"),
    ("add", "a"),
    ("add", "-f", "-A"),
    ("add", "-N", "."),
    ("rm", "--cached", "-rq", "a/b"),
    ("rm", "--cached", "-rq", "d"),
    ("commit", "-qam", "more"),
    ("commit", "-qm", "more"),
    ("reset", "-q"),
    ("reset", "-q", "--hard"),
    ("checkout", "-q", "--", "."),
    ("stash", "-u", "-q"),
    ("stash", "pop", "-q"),
    ("update-index", "-q", "--really-refresh"),
    ("update-index", "--assume-unchanged", "1"),
    ("update-index", "--no-assume-unchanged", "1"),
    ("update-index", "--index-version", "4"),
    ("update-index", "--chmod=+x", "1"),
    ("config", "index.skipHash", "true"),
    ("config", "core.autocrlf", "true"),
    ("config", "core.autocrlf", "false"),
    ("config", "core.eol", "crlf"),
    ("config", "core.ignoreCase", "true"),
    ("config", "core.ignoreCase", "false"),
    ("config", "filter.rot.clean", "tr a-y b-z"),
    ("config", "filter.rot.smudge", "tr b-z a-y"),
    ("config", "ckpt.maxFileSize", "1000"),
    ("config", "ckpt.maxFileSize", "9000"),
    ("config", "ckpt.deny", "2"),
    ("config", "--unset", "ckpt.deny"),
    ("gc", "-q", "--prune=now"),
]
# What makes a save do without the cache, and the way back.
DETOURS = [
    (("config", "core.fileMode", "false"), ("config", "core.fileMode", "true")),
    (("config", "ckpt.include", "*.log"), ("config", "--unset", "ckpt.include")),
    (("update-index", "--skip-worktree", "1"), ("update-index", "--no-skip-worktree", "1")),
]


class Worktree:
    """Someone at work; each step takes what it needs from the walk's own dice."""

    def __init__(self, top: Path, dice: random.Random) -> None:
        self.top = top
        self.dice = dice
        self.steps: list[object] = []
        top.mkdir()
        git("init", "-q", cwd=top)
        for folder in FOLDERS[: dice.randrange(2, len(FOLDERS))]:
            for name in dice.sample(NAMES, 4):
                self._write(folder, name, dice.choice(LINES))
        git("add", "-A", cwd=top)
        git("commit", "-qm", "first", cwd=top)

    def step(self) -> None:
        steps: list[Callable[[], object]] = [
            *[self.write] * 6,
            *[self.sneak, self.replace, self.remove, self.chmod] * 2,
            *[self.rename, self.swap, self.make_link, self.folder, self.fifo, self.nested],
            *[self.ignore, self.ignore, self.attributes, self.exclude],
            *[self.git] * 4,
        ]
        step = self.dice.choice(steps)
        self.steps.append((step.__name__, step()))

    def write(self) -> object:
        return self._write(*self._place(), self.dice.choice(LINES))

    def _write(self, folder: str, name: str, data: bytes) -> object:
        place = self.top / folder
        if self._is_free(place) and (place / name).is_file() | self._is_free(place / name):
            place.mkdir(parents=True, exist_ok=True)
            if not (place / name).is_dir():
                (place / name).write_bytes(data)
        return folder, name, data

    def sneak(self) -> object:
        """Other bytes of the same length, and the time that the file had before."""
        path = self._file()
        if path is not None:
            status, data = path.stat(), path.read_bytes()
            with open(path, "r+b") as file:
                file.write(bytes(byte ^ 1 for byte in data))
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        return path

    def replace(self) -> object:
        """The same by way of a new file that takes the old one's place."""
        path = self._file()
        if path is not None:
            status, data = path.stat(), path.read_bytes()
            fresh = self.top / ".git/fresh"
            fresh.write_bytes(bytes(byte ^ 2 for byte in data))
            fresh.chmod(status.st_mode & 0o777)
            os.utime(fresh, ns=(status.st_atime_ns, status.st_mtime_ns))
            folder = path.parent.stat()
            fresh.replace(path)
            os.utime(path.parent, ns=(folder.st_atime_ns, folder.st_mtime_ns))
        return path

    def remove(self) -> object:
        path = self._any_path()
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif os.path.lexists(path):
            path.unlink()
        return path

    def chmod(self) -> object:
        path, bits = self._any_path(), self.dice.choice([0o700, 0o755, 0o750])
        if path.exists() and not path.is_symlink():
            path.chmod(bits if path.is_dir() else self.dice.choice([bits, 0o644, 0o600]))
        return path, bits

    def rename(self) -> object:
        old, new = self._any_path(), self._any_path()
        is_possible = os.path.lexists(old) and new.parent.is_dir() and not os.path.lexists(new)
        if is_possible and self._is_free(new) and old not in (new, *new.parents):
            old.rename(new)
        return old, new

    def swap(self) -> object:
        """Two folders change places, and their own times stay."""
        one, other = self._folder(), self._folder()
        if one is None or other is None or one in (other, *other.parents) or other in one.parents:
            return None
        aside = self.top / ".git/aside"
        one.rename(aside)
        other.rename(one)
        aside.rename(other)
        return one, other

    def make_link(self) -> object:
        """A link takes the place of a folder, to the same in another place."""
        path, target = self._folder(), self.top / ".git/target"
        if path is not None and not os.path.lexists(target):
            path.rename(target)
            path.symlink_to(target)
        elif target.is_dir() and path is not None:
            for link in (p for p in self.top.rglob("*") if p.is_symlink() and p.is_dir()):
                link.unlink()
                target.rename(link)
                break
            else:
                shutil.rmtree(target)
        return path

    def folder(self) -> object:
        path = self._any_path()
        if self._is_free(path):
            path.mkdir(parents=True, exist_ok=True)
        return path

    def fifo(self) -> object:
        path = self._any_path()
        if path.parent.is_dir() and not os.path.lexists(path) and self._is_free(path):
            os.mkfifo(path)
        return path

    def nested(self) -> object:
        """A folder becomes a repository of its own, or ceases to be one."""
        path = self._folder()
        if path is not None and (path / ".git").exists():
            shutil.rmtree(path / ".git")
        elif path is not None and self.dice.random() < 0.5:
            git("init", "-q", cwd=path)
        return path

    def ignore(self) -> object:
        return self._write(self.dice.choice(FOLDERS), ".gitignore", self._one_of(RULES))

    def attributes(self) -> object:
        return self._write(self.dice.choice(FOLDERS), ".gitattributes", self._one_of(ATTRIBUTES))

    def exclude(self) -> object:
        text = self._one_of(RULES)
        (self.top / ".git/info/exclude").write_bytes(text)
        return text

    def git(self) -> object:
        return self.run(*self.dice.choice(COMMANDS))

    def run(self, *words: str) -> object:
        """Git may refuse: what matters is the state it leaves."""
        try:
            git(*words, cwd=self.top)
        except AssertionError:
            return words, "refused"
        return words

    def _one_of(self, texts: list[str]) -> bytes:
        return self.dice.choice(texts).encode()

    def _place(self) -> tuple[str, str]:
        return self.dice.choice(FOLDERS), self.dice.choice(NAMES)

    def _any_path(self) -> Path:
        folder, name = self._place()
        path = self.top / folder
        return path / name if not folder or self.dice.random() < 0.5 else path

    def _file(self) -> Path | None:
        for _ in range(9):
            folder, name = self._place()
            path = self.top / folder / name
            if self._is_free(path.parent) and path.is_file() and not path.is_symlink():
                return path
        return None

    def _folder(self) -> Path | None:
        for _ in range(9):
            path = self.top / self.dice.choice(FOLDERS[1:])
            if path.is_dir() and self._is_free(path):
                return path
        return None

    def _is_free(self, path: Path) -> bool:
        """Whether there are only folders on the way to a path, or nothing."""
        way = [path, *(parent for parent in path.parents if self.top in parent.parents)]
        return all((p.is_dir() and not p.is_symlink()) or not os.path.lexists(p) for p in way)


@pytest.mark.parametrize("seed", range(WALKS))
def test_a_save_with_a_cache_finds_what_one_without_finds(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    worktree = Worktree(tmp_path / "work", dice)
    with CheckpointManager(worktree.top) as manager:
        _save(worktree, manager)
        for _ in range(ROUNDS):
            for _ in range(dice.randrange(18)):
                worktree.step()
            if dice.random() < 0.8:
                time.sleep(SETTLED)
            if dice.random() < 0.1:
                away, back = dice.choice(DETOURS)
                worktree.steps.append(worktree.run(*away))
                _save(worktree, manager)
                worktree.steps.append(worktree.run(*back))
            _save(worktree, manager)
            if dice.random() < 0.1:
                _lose_everything(worktree)

    assert fsck(worktree.top) == []


def _save(worktree: Worktree, manager: CheckpointManager) -> None:
    kind = worktree.dice.choice(["manual", "auto"])
    saved = manager.create(kind=kind).checkpoint
    assert saved is not None
    worktree.steps.append(("save", kind, saved.id))
    _compare_without_cache(worktree, saved)


def _compare_without_cache(worktree: Worktree, saved: Checkpoint) -> None:
    """The same state, saved by someone who knows nothing, is the same checkpoint."""
    with knowing_nothing(worktree.top), CheckpointManager(worktree.top) as stranger:
        again = stranger.create(kind="auto").checkpoint
    assert again is not None
    if again.id != saved.id:
        told = difference(worktree.top, saved, again)
        steps = "\n".join(map(repr, worktree.steps))
        pytest.fail(f"{told}\nafter\n{steps}")


def _lose_everything(worktree: Worktree) -> None:
    """All checkpoints go, and git takes what nobody holds any more."""
    refs = git("for-each-ref", "--format=delete %(refname)", cwd=worktree.top)
    ours = [line for line in refs.splitlines() if " refs/checkpoints" in line]
    git("update-ref", "--stdin", cwd=worktree.top, stdin="\n".join([*ours, ""]))
    git("reflog", "expire", "--expire=now", "--all", cwd=worktree.top)
    git("gc", "-q", "--prune=now", cwd=worktree.top)
    worktree.steps.append(("gc",))
