# SPDX-License-Identifier: MIT
"""The two that are compared: ckpt as a user starts it, and git's plumbing.

The plumbing is what a careful script would do in four processes, on a copy of git's index
so that the user's is not touched. It is started straight from here, without a shell, and
the time that passes between its processes is not counted. It does not wait until its
objects are on the disk (that is git's default); ckpt does.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import perf_counter
from types import TracebackType

from bench.processes import BenchError, Environment, Ran, git_program, run
from bench.repositories import Clone

CHECKOUT = Path(__file__).resolve().parent.parent
_ID = re.compile(r"\b\d{8}-\d{6}-\d{3}-[0-9a-z]{4}\b")


@dataclass(frozen=True, slots=True)
class Saved:
    seconds: float
    ref: str
    peak: int = 0


def with_ckpt(env: Environment) -> dict[str, str]:
    """The environment in which programs find the ckpt of this checkout."""
    scripts = str(Path(sys.executable).parent)
    found = {**env, "PATH": f"{scripts}:{env['PATH']}"}
    return found if _is_installed() else {**found, "PYTHONPATH": str(CHECKOUT)}


@cache
def _is_installed() -> bool:
    """Whether the interpreter comes upon this checkout by itself, and not another ckpt."""
    words = [sys.executable, "-I", "-c", "import ckpt; print(ckpt.__file__)"]
    said = subprocess.run(words, capture_output=True, text=True).stdout.strip()
    return bool(said) and Path(said).resolve().parent.parent == CHECKOUT


def ckpt_program() -> list[str]:
    """The console script, run by its interpreter; from a bare checkout, the module."""
    script = Path(sys.executable).parent / "git-ckpt"
    return [sys.executable, str(script)] if script.exists() else [sys.executable, "-m", "ckpt"]


def ckpt(clone: Clone, *words: str, env: Environment | None = None) -> Ran:
    return run([*ckpt_program(), *words], clone.top, {**with_ckpt(clone.env), **(env or {})})


def ckpt_save(clone: Clone, *words: str, env: Environment | None = None) -> Saved:
    return _saved(ckpt(clone, "save", *words, env=env))


def ckpt_save_through_git(clone: Clone) -> Saved:
    return _saved(run([git_program(), "ckpt", "save"], clone.top, with_ckpt(clone.env)))


def _saved(ran: Ran) -> Saved:
    found = _ID.search(ran.out)
    if found is None:
        raise BenchError(f"'git ckpt save' named no checkpoint: {ran.out.strip()!r}")
    return Saved(ran.seconds, f"refs/checkpoints/{found[0]}", ran.peak)


class Worker:
    """A running process that has a manager open, for a session by a trigger or by hand."""

    def __init__(self, clone: Clone, *session: str) -> None:
        program = Path(__file__).with_name("worker.py")
        self._process = subprocess.Popen(
            [sys.executable, str(program), str(clone.top), *session],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=clone.top,
            env=with_ckpt(clone.env),
            text=True,
        )

    def save(self) -> Saved:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write("create\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # the answer tells
        line = self._process.stdout.readline()
        if not line:
            raise BenchError("manager.create() failed in the running process; see above")
        answer = json.loads(line)
        return Saved(answer["seconds"], answer["ref"])

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        self._process.communicate()


def plumbing_save(clone: Clone, name: str) -> Saved:
    index = clone.git_dir / "bench-index"
    env = {**clone.env, "GIT_INDEX_FILE": str(index)}
    started = perf_counter()
    shutil.copyfile(clone.git_dir / "index", index)
    seconds = perf_counter() - started
    added = _git(clone, env, "add", "-A")
    tree = _git(clone, env, "write-tree")
    commit = _git(clone, env, "commit-tree", "-p", "HEAD", "-m", name, tree.out.strip())
    ref = f"refs/bench/{name}"
    updated = _git(clone, env, "update-ref", ref, commit.out.strip())
    index.unlink()
    ran = (added, tree, commit, updated)
    return Saved(seconds + sum(one.seconds for one in ran), ref, max(one.peak for one in ran))


def _git(clone: Clone, env: Environment, *words: str) -> Ran:
    return run([git_program(), *words], clone.top, env)


def tree_of(clone: Clone, ref: str) -> str:
    return clone.git("rev-parse", f"{ref}^{{tree}}").strip()
