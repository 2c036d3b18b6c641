# SPDX-License-Identifier: MIT
"""Eight threads with one manager and eight processes with their own, in one worktree.

Each has a file of its own, which it edits and takes back; what it saved is there in the end,
with the state it was given. Nobody sees an error but that others were at work for too long.
With CKPT_TORTURE=1 they go on for half a minute.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any

from helpers import fsck, verified

from ckpt import Busy, CheckpointManager

WORKERS = 8
ROUNDS = 3
SECONDS = 30 if os.environ.get("CKPT_TORTURE") == "1" else 0


class Worker:
    """`kept` are the checkpoints that must be there in the end, with their data."""

    def __init__(
        self, manager: CheckpointManager, top: Path, name: str, seconds: int = SECONDS
    ) -> None:
        self._manager = manager
        self._seconds = seconds
        self._state = CheckpointManager(top, worktree=False, session=name)
        self._name = name
        self._file = top / name
        self.kept: dict[str, Any] = {}

    def work(self) -> None:
        until = monotonic() + self._seconds
        for number in count():
            if number >= ROUNDS and monotonic() >= until:
                return
            try:
                self._round(number)
            except Busy:
                continue

    def _round(self, number: int) -> None:
        data = {"by": self._name, "round": (number, b"x" * number)}
        self._file.write_text(f"then {number}")
        saved = self._manager.create(f"{self._name}-{number}", data=data)
        assert saved.id is not None
        self._keep(saved.id, data)
        self._file.write_text("now")
        self._manager.rollback(saved, paths=[self._file])
        assert self._file.read_text() == f"then {number}"
        assert self._manager.ensure("x").outcome in ("created", "unchanged", "skipped")
        self._manager.new_turn()
        state = self._state.create(data=data)
        assert state.id is not None
        self._keep(state.id, data)
        assert self._state.rollback_to_latest().data == data
        gone = self._state.create("gone")
        self._state.delete(gone)
        assert self._state.latest("gone") is None
        assert saved.id in [c.id for c in self._manager.list()]

    def _keep(self, checkpoint_id: str, data: Any) -> None:
        assert self._manager.get(checkpoint_id).data == data
        self.kept[checkpoint_id] = data


def main(top: str, name: str, seconds: int) -> None:
    """What a process does; tells which checkpoints it made."""
    with CheckpointManager(top) as manager:
        worker = Worker(manager, Path(top), name, seconds)
        worker.work()
        sys.stdout.write(json.dumps([*worker.kept]))


def test_threads_and_processes_lose_nothing_to_each_other(repo: Path) -> None:
    errors: list[BaseException] = []

    def run(worker: Worker) -> None:
        try:
            worker.work()
        except BaseException as error:
            errors.append(error)

    code = f"import sys; sys.path[:0] = {sys.path!r}; from faults.test_api_together import main; "
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code + f"main({str(repo)!r}, 'process{number}', {SECONDS})"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for number in range(WORKERS)
    ]
    shared = CheckpointManager(repo)
    workers = [Worker(shared, repo, f"thread{number}") for number in range(WORKERS)]
    threads = [threading.Thread(target=run, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    told = [process.communicate() for process in processes]

    assert errors == []
    assert [stderr for _, stderr in told] == [b""] * WORKERS
    kept = [name for stdout, _ in told for name in json.loads(stdout)]
    kept += [name for worker in workers for name in worker.kept]
    assert len(kept) == len({*kept}) > WORKERS
    for name in kept:
        data = shared.get(name).data
        assert data["round"][1] == b"x" * data["round"][0]
    assert fsck(repo) == []
    assert verified(repo) == []
