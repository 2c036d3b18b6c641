# SPDX-License-Identifier: MIT
"""gc in a loop beside processes that save and prune, and beside git's own gc: nothing is lost."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from faults.striking import TORTURE, Sweep
from helpers import ckpt_here, fsck, git

Record = Callable[[str, object], None]
SAVERS = 4
SAVES = 120 if TORTURE else 12

# Each process waits until all are ready; those that go on for ever, until the savers have ended.
PART = """
import os, sys, time
from ckpt import CheckpointManager, Policy
from ckpt.engine import gc
from ckpt.errors import Busy, CkptError
top, number = sys.argv[1:]
go, stop = top + "/.git/go", top + "/.git/stop"
manager = CheckpointManager(top)
print("ready", flush=True)
while not os.path.exists(go):
    time.sleep(0.001)
turns = 0
"""
SAVE = """
for turn in range({saves}):
    content = f"{{number}} {{turn}}\\n" * 40
    with open(f"{{top}}/file-{{number}}", "w") as file:
        file.write(content)
    kept = manager.create(f"kept-{{number}}-{{turn}}")
    assert kept.outcome == "created", kept
    print(kept.id, flush=True)
    noise = manager.create(kind="auto", session=number)
    assert noise.outcome in ("created", "unchanged"), noise
"""
COLLECT = """
while not os.path.exists(stop):
    try:
        gc.collect(manager.repository, force=True, grace=0)
        turns += 1
    except Busy:
        pass
print(turns, flush=True)
"""
PRUNE = """
while not os.path.exists(stop):
    manager.prune(Policy())
    turns += 1
print(turns, flush=True)
"""
GIT = """
while [ ! -e .git/stop ]; do
    git gc -q; git repack -adq; git pack-refs --all; git multi-pack-index write
done
"""


def begin(top: Path, part: str, number: int) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", PART + part, str(top), str(number)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n", process.communicate()
    return process


def test_while_ckpt_and_git_collect_nothing_that_is_kept_is_lost(
    repo: Path, record_property: Record
) -> None:
    savers = [begin(repo, SAVE.format(saves=SAVES), number) for number in range(SAVERS)]
    others = [begin(repo, part, 0) for part in (COLLECT, COLLECT, PRUNE, PRUNE)]
    collecting = subprocess.Popen(["sh", "-c", GIT], stderr=subprocess.DEVNULL)
    (repo / ".git/go").touch()
    outputs = [process.communicate() for process in savers]
    (repo / ".git/stop").touch()
    told = [process.communicate() for process in others]
    collecting.wait()

    assert [process.returncode for process in savers] == [0] * SAVERS, outputs
    assert [process.returncode for process in others] == [0] * 4, told
    assert sum(int(stdout) for stdout, _ in told[:2]) > 0
    with Sweep(record_property) as sweep:
        for number, (stdout, _) in enumerate(outputs):
            for turn, name in enumerate(stdout.splitlines()):
                with sweep.trying(name):
                    sweep.count("checkpoints kept beside gc")
                    content = git("show", f"refs/checkpoints/{name}:file-{number}")
                    assert content == f"{number} {turn}\n" * 40
        assert sum(len(stdout.splitlines()) for stdout, _ in outputs) == SAVERS * SAVES
    assert fsck(repo) == []
    check_tidy(repo)


def check_tidy(repo: Path) -> None:
    ckpt_here("gc", "--force", code=0)
    left = [*repo.glob(".git/**/*.lock"), *repo.glob(".git/**/*.keep"), *repo.glob(".git/**/tmp_*")]
    assert left == []
    assert not list(repo.glob(".git/refs/checkpoints/*"))
    assert fsck(repo) == []
    git("gc", "-q", "--prune=now")
    assert fsck(repo) == []
    listed = ckpt_here("list", "-n", "0", "--kind", "manual", "--json", code=0).json
    assert len(listed["checkpoints"]) == SAVERS * SAVES
