# SPDX-License-Identifier: MIT
"""What checkpoints hold is what git would let go of: its own walk is the oracle.

Repositories that were worked in at random: edits, commits, amended and reset ones, branches that
went, stashes, tags, moved folders, dropped checkpoints, a repack in between.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from helpers import git

from ckpt import CheckpointManager
from ckpt.engine import space
from ckpt.engine.space import Space

OURS = ("refs/checkpoints/*", "refs/checkpoints-trash/*")


class Worker:
    """Somebody who works in a repository without a plan."""

    def __init__(self, top: Path, seed: int) -> None:
        self.top = top
        self.random = random.Random(seed)
        self.manager = CheckpointManager(top)
        self.count = 0

    def work(self, steps: int) -> None:
        acts: list[Callable[[], object]] = [
            *(self.edit, self.edit, self.save, self.save, self.commit, self.amend, self.reset),
            *(self.branch_gone, self.stash, self.tag, self.stage, self.drop, self.move),
            *(self.return_to_old, self.forget_reflog),
        ]
        for _ in range(steps):
            self.random.choice(acts)()

    def edit(self) -> None:
        self.count += 1
        name = self.random.choice(["a.txt", "src/b.txt", "src/deep/c.txt", "new/d.txt"])
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{self.random.choice([1, 2, self.count])}\n" * self.random.randint(1, 90))

    def save(self) -> None:
        self.edit()
        self.manager.create(kind=self.random.choice(["manual", "hook"]))

    def commit(self, *words: str) -> None:
        git("add", "-A", cwd=self.top)
        git("commit", "-qm", "more", "--allow-empty", *words, cwd=self.top)

    def amend(self) -> None:
        self.edit()
        self.commit("--amend")

    def reset(self) -> None:
        if git("rev-list", "--count", "HEAD", cwd=self.top) != "1\n":
            git("reset", "-q", self.random.choice(["--hard", "--soft"]), "HEAD~1", cwd=self.top)

    def branch_gone(self) -> None:
        git("checkout", "-qfb", "side", cwd=self.top)
        self.edit()
        self.commit()
        self.save()
        git("checkout", "-qf", "main", cwd=self.top)
        git("branch", "-qD", "side", cwd=self.top)

    def stash(self) -> None:
        self.edit()
        git("stash", "-qu", cwd=self.top)

    def tag(self) -> None:
        git("tag", "-fam", "note", f"t{self.random.randint(1, 3)}", cwd=self.top)

    def stage(self) -> None:
        self.edit()
        git("add", "-A", cwd=self.top)

    def drop(self) -> None:
        found = self.manager.list()
        if found:
            self.manager.delete(self.random.choice(found))

    def move(self) -> None:
        for old, new in (("src", "moved"), ("moved", "src")):
            if (self.top / old).exists() and not (self.top / new).exists():
                (self.top / old).rename(self.top / new)
                return

    def return_to_old(self) -> None:
        git("checkout", "-q", "HEAD", "--", ".", cwd=self.top)

    def forget_reflog(self) -> None:
        git("reflog", "expire", "--expire=all", "HEAD", "main", cwd=self.top)


def reachable(top: Path, *tips: str) -> set[str]:
    lines = git("rev-list", "--objects", *tips, cwd=top).splitlines()
    return {line.split(" ")[0] for line in lines}


def on_disk(top: Path, object_ids: Iterable[str]) -> int:
    asked = "".join(f"{object_id}\n" for object_id in object_ids)
    sizes = git("cat-file", "--batch-check=%(objectsize:disk)", cwd=top, stdin=asked)
    return sum(map(int, sizes.split()))


def by_git(top: Path) -> tuple[dict[str, int], int, int]:
    """Sizes, total and trash, from what git can reach."""
    others = [f"--exclude={pattern}" for pattern in OURS]
    kept = reachable(top, *others, "--all", "--reflog", "--indexed-objects")
    refs = git("for-each-ref", "--format=%(refname)", *(p[:-2] for p in OURS), cwd=top).split()
    held = {ref: reachable(top, ref) - kept for ref in refs}
    living = {ref: held[ref] for ref in refs if ref.startswith("refs/checkpoints/")}
    total = set().union(*living.values())
    sizes = {}
    for ref, objects in living.items():
        rest = set().union(*(found for other, found in living.items() if other != ref))
        sizes[os.path.basename(ref)] = on_disk(top, objects - rest)
    return sizes, on_disk(top, total), on_disk(top, set().union(*held.values()) - total)


def told(found: Space) -> tuple[dict[str, int], int, int]:
    return found.sizes, found.total, found.trash


@pytest.mark.parametrize("seed", range(4))
def test_sizes_are_what_git_would_let_go_of(repo: Path, seed: int) -> None:
    worker = Worker(repo, seed)
    for _ in range(2):
        worker.work(30)

        assert by_git(repo) == told(space.measure(worker.manager.repository))

        git("repack", "-adq", "--keep-unreachable", cwd=repo)
        git("prune-packed", cwd=repo)
        assert by_git(repo) == told(space.measure(worker.manager.repository))


def test_dropping_one_after_the_other_frees_what_git_says_in_any_order(repo: Path) -> None:
    worker = Worker(repo, 7)
    worker.work(25)
    left = space.measure(worker.manager.repository).dropping()
    names = [checkpoint.id for checkpoint in worker.manager.list()]
    worker.random.shuffle(names)
    for name in names:
        _, before, _ = by_git(repo)
        size = left.size(name)
        freed = left.drop(name)
        worker.manager.delete(name)
        _, after, waiting = by_git(repo)

        assert (size, freed) == (before - after, before - after)
        assert (left.total, left.trash) == (after, waiting)
