# SPDX-License-Identifier: MIT
"""Four processes prune while four save and one goes back and forth, in one worktree.

What the rules keep is there in the end, what they let go is in the trash, and nothing else has
become of any checkpoint. With CKPT_TORTURE=1 they go on for half a minute.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from time import monotonic

from figures import PROPERTY
from helpers import ckpt_here, fsck, git, verified

from ckpt import Busy, CheckpointManager

SAVERS = PRUNERS = 4
ROUNDS = 12
SECONDS = 30 if os.environ.get("CKPT_TORTURE") == "1" else 0
LAST = 5  # of kind auto, in each session, by the defaults


def rounds(seconds: int) -> Iterator[int]:
    """So many, or as many as there is time for."""
    until = monotonic() + seconds
    for number in count():
        if number >= ROUNDS and monotonic() >= until:
            return
        yield number


def save_again_and_again(top: Path, name: str, seconds: int) -> list[str]:
    made = []
    with CheckpointManager(top, session=name) as manager:
        for number in rounds(seconds):
            (top / name).write_text(f"{name} {number}\n")
            saved = manager.create(f"{name}-{number}", kind="auto")
            assert saved.id is not None
            made.append(saved.id)
    return made


def prune_again_and_again(top: Path, name: str, seconds: int) -> list[str]:
    with CheckpointManager(top) as manager:
        for _ in rounds(seconds):
            try:
                manager.prune()
            except Busy:
                continue
    return []


def go_back_and_forth(top: Path, name: str, seconds: int) -> list[str]:
    """What every rollback relied on is there as long as it needs it."""
    safety = []
    with CheckpointManager(top) as manager:
        for _ in rounds(seconds):
            (top / "mine").write_text("wrecked")
            gone = manager.rollback("start", paths=[top / "mine"])
            assert (top / "mine").read_text() == "mine"
            assert manager.undo().written == ("mine",)
            assert (top / "mine").read_text() == "wrecked"
            assert gone.safety is not None
            safety.append(gone.safety.id)
    return safety


def main(work: str, top: str, name: str, seconds: int) -> None:
    made = globals()[work](Path(top), name, seconds)
    sys.stdout.write(json.dumps(made))


def start(work: str, top: Path, name: str) -> subprocess.Popen[bytes]:
    code = f"import sys; sys.path[:0] = {sys.path!r}; from faults.test_prune_together import main; "
    words = [sys.executable, "-c", code + f"main({work!r}, {str(top)!r}, {name!r}, {SECONDS})"]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def ids_under(prefix: str) -> set[str]:
    return {
        ref.rpartition("/")[2] for ref in git("for-each-ref", "--format=%(refname)", prefix).split()
    }


def test_what_should_be_kept_is_kept_whoever_prunes_meanwhile(
    repo: Path, record_property: Callable[[str, object], None]
) -> None:
    (repo / "mine").write_text("mine")
    ckpt_here("save", "start", code=0)
    [start_id] = ids_under("refs/checkpoints/")
    sessions = [f"session{number}" for number in range(SAVERS)]
    savers = [start(save_again_and_again.__name__, repo, name) for name in sessions]
    others = [start(prune_again_and_again.__name__, repo, "") for _ in range(PRUNERS)]
    others.append(start(go_back_and_forth.__name__, repo, ""))
    told = [process.communicate() for process in (*savers, *others)]

    assert [stderr for _, stderr in told] == [b""] * len(told)
    made = [json.loads(stdout) for stdout, _ in told]
    ckpt_here("prune", code=0)
    kept, dropped = ids_under("refs/checkpoints/"), ids_under("refs/checkpoints-trash/")
    assert start_id in kept
    for ids in made[:SAVERS]:
        assert kept & set(ids) == set(ids[-LAST:])
        assert dropped >= set(ids[:-LAST])
    assert kept >= set(made[-1][-10:])  # safety checkpoints: two a round, the last 20
    assert not kept & dropped
    assert fsck(repo) == []
    assert verified(repo) == []
    saves = sum(map(len, made[:SAVERS]))
    record_property(PROPERTY, {"saves beside pruning": saves, "of them dropped": len(dropped)})
