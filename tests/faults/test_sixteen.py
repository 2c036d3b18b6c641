# SPDX-License-Identifier: MIT
"""Sixteen processes of ckpt and several of git at once, in a main and a linked worktree.

They save, go back by path, prune, collect, list and verify while git commits, stashes, rebases,
fetches, packs refs and collects garbage with nothing spared. Every checkpoint that somebody was
told is saved is there in the end, with the content that its process had written. With
CKPT_TORTURE=1 for half a minute.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from faults.rollbacks import leftovers, whole
from faults.striking import TORTURE, Blow, Driver, Sweep
from figures import PROPERTY
from helpers import ckpt_here, fsck, git, verified

from ckpt import CheckpointManager
from ckpt.errors import Busy, Refused

Record = Callable[[str, object], None]
SECONDS = 30 if TORTURE else 6


class Worker:
    """One process: does its work over and over until the time is up."""

    def __init__(self, top: Path, name: str, until: float) -> None:
        self.top = top
        self.name = name
        self.told: Counter[str] = Counter()
        self.saved: list[tuple[str, str]] = []
        self._until = until

    def turns(self) -> Iterator[int]:
        turn = 0
        while time.time() < self._until:
            yield turn
            turn += 1

    def trying(self, what: str, work: Callable[[], Any]) -> Any:
        """None if somebody else was at it, which is the only excuse."""
        try:
            done = work()
        except Busy as busy:
            assert busy.exit_code == 4 and busy.hint
            self.told[f"{what} that found it busy"] += 1
            return None
        self.told[what] += 1
        return done


def save(worker: Worker, manager: CheckpointManager) -> None:
    """A checkpoint of each content of a file that git's commits and stashes leave alone."""
    for turn in worker.turns():
        content = f"{worker.name} {turn}\n" * 50
        (worker.top / worker.name).write_text(content)
        saved = worker.trying("saves", lambda: manager.create("kept"))
        if saved is not None:
            assert saved.outcome in ("created", "unchanged"), saved
            worker.saved.append((saved.id, content))
        worker.trying("saves", lambda: manager.create(kind="auto", session=worker.name))


def go_back(worker: Worker, manager: CheckpointManager) -> None:
    """By path; one that git's lock on the index stops half way, whoever sees it takes back."""
    path = worker.top / worker.name
    path.write_text("good\n")
    good = None
    while good is None:
        good = worker.trying("saves", lambda: manager.create(worker.name))
    worker.saved.append((good.id, "good\n"))
    for turn in worker.turns():
        path.write_text(f"wrecked {turn}\n")
        try:
            gone = worker.trying("rollbacks by path", lambda: manager.rollback(good, paths=[path]))
        except Refused as refused:
            assert "--abort" in refused.hint, refused
            worker.trying("rollbacks taken back", lambda: abort(manager))
            continue
        if gone is not None and path.read_text() == "good\n":
            assert gone.safety is not None
            worker.saved.append((gone.safety.id, f"wrecked {turn}\n"))
            worker.told["rollbacks that stayed"] += 1


def abort(manager: CheckpointManager) -> None:
    try:
        manager.abort_rollback()
    except Busy:
        raise
    except Refused as refused:  # another process was first
        assert "no rollback was interrupted" in refused.message


def prune(worker: Worker, manager: CheckpointManager) -> None:
    for _ in worker.turns():
        worker.trying("prunes", manager.prune)


def collect(worker: Worker, manager: CheckpointManager) -> None:
    for _ in worker.turns():
        worker.trying("gcs", lambda: ckpt_here("gc", cwd=worker.top, code=0))
        time.sleep(0.2)


def look(worker: Worker, manager: CheckpointManager) -> None:
    for _ in worker.turns():
        listed = worker.trying("lists", manager.list)
        assert listed is not None
        assert len({one.id for one in listed}) == len(listed)


def check(worker: Worker, manager: CheckpointManager) -> None:
    """What is there all the time is whole all the time."""
    for _ in worker.turns():
        told = ckpt_here("verify", "--json", "steady", cwd=worker.top)
        assert told.code == 0, told
        worker.told["verifies"] += 1


WORKS = {work.__name__: work for work in (save, go_back, prune, collect, look, check)}
HERE = [*["save"] * 3, *["go_back"] * 2, "prune", "collect", "look", "check"]
LINKED = [*["save"] * 3, *["go_back"] * 2, "prune", "look"]

# Git's own, one after another: beside `--prune=now`, or a repack that drops what nothing names,
# git loses even its own commits.
GIT = {
    "commits": "date +%N >>tracked && git commit -qam more",
    "commits beside": "cd ../linked && date +%N >>tracked && git commit -qam more",
    "stashes": "date +%N >>tracked && git stash -q && git stash pop -q",
    "rebases": "git commit -qam more; git rebase -q --force-rebase HEAD~2",
    "fetches": "git fetch -q origin 'refs/heads/*:refs/remotes/origin/*'",
    "packings": "git pack-refs --all && git repack -Adq",
    "collections": "git gc -q",
}


def main(work: str, top: str, name: str, go: str) -> None:
    with CheckpointManager(top) as manager:
        manager.list()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while not os.path.exists(go):
            time.sleep(0.01)
        worker = Worker(Path(top), name, time.time() + SECONDS)
        WORKS[work](worker, manager)
    sys.stdout.write(json.dumps([worker.told, worker.saved]))


def start(work: str, top: Path, name: str, go: Path) -> subprocess.Popen[str]:
    code = f"import sys; sys.path[:0] = {sys.path!r}; from faults.test_sixteen import main; "
    words = [sys.executable, "-c", code + f"main({work!r}, {str(top)!r}, {name!r}, {str(go)!r})"]
    return subprocess.Popen(
        words,
        env={**os.environ, "CKPT_TORTURE": "1" if TORTURE else ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def start_git(top: Path, stop: Path) -> subprocess.Popen[str]:
    """Names what went well, each time; what fails for a lock of ours would not go well at all."""
    turn = "".join(f"if ( {GIT[name]} ) >&2; then echo {name}; fi\n" for name in GIT)
    script = f"while [ ! -e '{stop}' ]; do {turn} done"
    with open(stop.with_name("git-said"), "w") as said:
        return subprocess.Popen(
            ["sh", "-c", script], cwd=top, stdout=subprocess.PIPE, stderr=said, text=True
        )


def prepare(repo: Path) -> Path:
    """Returns the linked worktree; what the processes write is no business of git's."""
    (repo / ".git/info").mkdir(exist_ok=True)
    for number in range(3):
        (repo / "tracked").write_text(f"{number}\n")
        git("add", "tracked")
        git("commit", "-q", "-m", f"tracked {number}")
    git("clone", "-q", "--bare", ".", "../origin.git")
    git("remote", "add", "origin", "../origin.git")
    linked = repo.parent / "linked"
    git("worktree", "add", "-q", "-b", "side", str(linked))
    (repo / "steady").write_text("steady\n")
    ckpt_here("save", "steady", code=0)
    return linked


def test_sixteen_processes_beside_git_lose_nothing(repo: Path, record_property: Record) -> None:
    linked = prepare(repo)
    stop = repo.parent / "stop"
    go = repo.parent / "go"
    processes = [start(work, repo, f"here-{n}", go) for n, work in enumerate(HERE)]
    processes += [start(work, linked, f"linked-{n}", go) for n, work in enumerate(LINKED)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", process.communicate()
    go.touch()
    gits = start_git(repo, stop)
    outputs = [process.communicate() for process in processes]
    stop.touch()
    done = Counter(gits.communicate()[0].splitlines())

    failures = [stderr for _, stderr in outputs if stderr]
    if failures:
        pytest.fail("\n".join(failures), pytrace=False)
    assert done.keys() == GIT.keys(), (repo.parent / "git-said").read_text()
    told = Counter({f"{name} of git's": count for name, count in done.items()})
    with Sweep(record_property) as sweep:
        for name, (stdout, _) in zip(names(), outputs, strict=True):
            counts, saved = json.loads(stdout)
            told.update(counts)
            top = repo if name.startswith("here") else linked
            for checkpoint, content in saved:
                sweep.count("checkpoints saved beside git and found again")
                with sweep.trying((name, checkpoint)):
                    check_comes_back(top, name, checkpoint, content)
    record_property(PROPERTY, {"processes of ckpt at once": 16, "seconds of that": SECONDS, **told})
    for place in (repo, linked):
        assert fsck(place) == []
        assert verified(place) == []
        ckpt_here("save", "after", cwd=place, code=0)
        assert [path for path in leftovers(place) if not path.endswith(ALLOWED)] == []
    assert told["saves"] and told["rollbacks by path"]


ALLOWED = ("/steady",)


def names() -> list[str]:
    return [f"here-{n}" for n in range(len(HERE))] + [f"linked-{n}" for n in range(len(LINKED))]


def check_comes_back(top: Path, name: str, checkpoint: str, content: str) -> None:
    refs = git("for-each-ref", "--format=%(refname)", f"refs/checkpoints/{checkpoint}", cwd=top)
    if not refs:  # a safety checkpoint beyond those that are kept
        ckpt_here("restore-dropped", checkpoint, cwd=top, code=0)
    held = git("show", f"refs/checkpoints/{checkpoint}:{name}", cwd=top)
    if held != content and content.startswith("wrecked"):
        # Whoever took back an interrupted rollback meanwhile has saved it first.
        held = next((found for found in recovered(top, name) if found == content), held)
    assert held == content


def recovered(top: Path, name: str) -> Iterator[str]:
    """What was in a file when a rollback was taken back."""
    prefixes = ("refs/checkpoints", "refs/checkpoints-trash")
    refs = git("for-each-ref", "--format=%(refname)", *prefixes, cwd=top).split()
    for ref in refs:
        if "Ckpt-Trigger: recovery" in git("log", "-1", "--format=%B", ref, cwd=top):
            yield git("show", f"{ref}:{name}", cwd=top)


def test_a_rollback_waits_while_git_refreshes_the_index(driver: Driver, tmp_path: Path) -> None:
    scene = whole(tmp_path / "before")
    top = scene.copy()
    refresh = "touch .git/index.lock; (sleep 0.3; rm .git/index.lock) &"

    gone = driver.run(top, *scene.words, blow=Blow(1, "rename", "edited", ("sh", "-c", refresh)))

    assert (gone.code, gone.stderr) == (0, "")
    scene.check(top, scene.after)
