# SPDX-License-Identifier: MIT
"""A repository with everything that a git command can destroy, and the guard in it.

Built once and copied: the commits, a remote, a state with staged, unstaged and untracked
changes. `Seen` is all of it that has to come back.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from helpers import ckpt_here, git, tree_state

# Where git is to leave no traces of its own.
OFF = {"CKPT_DISABLE": "1"}


def build(top: Path) -> Path:
    """Commits that change one file each, two branches, and a remote that is one commit ahead."""
    top.mkdir(parents=True)
    for name in (*(f"{letter}.txt" for letter in "abcde"), "gone.txt", "sub/f.txt", "side/g.txt"):
        write(top / name, f"{name}, line 1\nline 2\nline 3\n")
    write(top / "run.sh", "#!/bin/sh\n")
    write(top / ".gitignore", "*.log\n")
    git("init", "-q", cwd=top)
    git("add", ".", cwd=top)
    git("commit", "-q", "-m", "base", cwd=top)
    git("branch", "other", cwd=top)
    git("branch", "clash", cwd=top)
    _commit(top, "c.txt", "second\n")
    _commit(top, "d.txt", "third\n")
    _commit(top, "d.txt", "fourth\n")
    git("switch", "-q", "other", cwd=top)
    _commit(top, "e.txt", "of another branch\n")
    git("switch", "-q", "clash", cwd=top)
    write(top / "a.txt", "of the branch that is in the way\n")
    _commit(top, "c.txt", "clash\n")
    git("switch", "-q", "main", cwd=top)
    _remote(top)
    for branch in ("other", "clash"):
        git("format-patch", "-q", "-1", branch, "-o", "../patches", cwd=top)
    return top


def _remote(top: Path) -> None:
    remote = top.parent / "remote.git"
    git("clone", "-q", "--bare", str(top), str(remote), cwd=top)
    git("remote", "add", "origin", str(remote), cwd=top)
    git("switch", "-q", "--detach", cwd=top)
    _commit(top, "e.txt", "of the remote\n")
    git("push", "-q", "origin", "HEAD:main", cwd=top)
    git("switch", "-q", "main", cwd=top)
    git("branch", "-q", "--set-upstream-to=origin/main", cwd=top)


def _commit(top: Path, name: str, text: str) -> None:
    write(top / name, text)
    git("commit", "-q", "-am", text.strip(), cwd=top)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def copy(template: Path, top: Path) -> Path:
    """With an index that knows the files by their new inodes, which some commands ask for."""
    shutil.copytree(template, top, symlinks=True)
    git("update-index", "-q", "--refresh", cwd=top)
    return top


def install(top: Path, *words: str) -> None:
    """The guard, or what else `words` say, and no hooks."""
    ckpt_here("install", "--hooks", "none", *(words or ["--guard"]), cwd=top, code=0)


def start_with(script: Path, program: Path) -> None:
    """Let a script that was installed start something else than this Python."""
    text = re.sub(r"(?m)^python=.*", f"python='{program}'", script.read_text())
    script.write_text(text)


def install_all(top: Path) -> None:
    """The guard and all hooks."""
    ckpt_here("install", "--guard", cwd=top, code=0)


def spoil(top: Path, how: str = "all") -> None:
    """Untracked files and unstaged changes always; `light` stages a new file only, `none` none."""
    write(top / "a.txt", "edited\n")
    write(top / "new.txt", "never added\n")
    write(top / "deep/er/new.bin", "\0\1\2")
    write(top / "build.log", "ignored\n")
    (top / "gone.txt").unlink()
    (top / "run.sh").chmod(0o755)
    (top / "link").symlink_to("a.txt")
    if how in ("all", "light"):
        write(top / "staged.txt", "staged only\n")
        git("add", "staged.txt", cwd=top, env=OFF)
    if how == "all":
        write(top / "b.txt", "staged\n")
        git("add", "b.txt", cwd=top, env=OFF)
        write(top / "b.txt", "staged, then edited\n")


@dataclass(frozen=True)
class Seen:
    """What a worktree looks like, to people and to git."""

    files: dict[bytes, tuple[str, int, bytes]]
    index: str
    status: str
    head: str

    @classmethod
    def at(cls, top: Path) -> Seen:
        quiet = ["--no-optional-locks", "-c", "core.fsmonitor=false"]
        files = {p: s for p, s in tree_state(top).items() if p != b"build.log"}
        return cls(
            files,
            git(*quiet, "ls-files", "-s", "-v", cwd=top),
            git(*quiet, "status", "--porcelain=v2", "--branch", cwd=top),
            git("rev-parse", "HEAD", cwd=top) + git("rev-parse", "--abbrev-ref", "HEAD", cwd=top),
        )


def run(*words: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """A command as a person types it, whatever it returns."""
    return subprocess.run(
        words, cwd=cwd, env={**os.environ, **env}, capture_output=True, text=True, input=""
    )
