# SPDX-License-Identifier: MIT
"""Several processes at once: saves beside saves, saves beside a rollback."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

from faults.rollbacks import checkpoints, has_journal, whole
from faults.striking import Blow, Driver, kill, start
from helpers import fsck, git, verified
from scenes import write

from ckpt import CheckpointManager

PROCESSES = 16


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    """Until the process has come as far as to make the file."""
    while not path.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)


def save_together(top: Path, go: Path, operation: str, path: str = "") -> list[Any]:
    """Several saves that all wait for each other before an operation; what they report."""
    blow = Blow(1, operation, path, wait_for=str(go))
    processes = [start(top, "save", "--json", blow=blow) for _ in range(PROCESSES)]
    for process in processes:
        wait_for(go.with_name(f"{go.name}.{process.pid}"), process)
    go.touch()
    outputs = [process.communicate() for process in processes]
    assert [process.returncode for process in processes] == [0] * PROCESSES, outputs
    assert [stderr for _, stderr in outputs] == [""] * PROCESSES
    return [json.loads(stdout) for stdout, _ in outputs]


def test_processes_that_save_the_same_new_content_at_once_all_succeed(tmp_path: Path) -> None:
    scene = whole(tmp_path / "before")
    top = scene.copy()
    for number in range(40):
        write(top, f"new/{number}", f"content {number}\n")

    # All know that the first object is missing before any of them writes it.
    saved = save_together(top, tmp_path / "go", "create")

    assert {document["outcome"] for document in saved} == {"created"}
    refs = {document["checkpoint"]["ref"] for document in saved}
    assert len(refs) == PROCESSES
    assert refs <= checkpoints(top).keys()
    assert len({git("rev-parse", f"{ref}^{{tree}}", cwd=top) for ref in refs}) == 1
    assert fsck(top) == []
    assert verified(top) == []
    assert not list((top / ".git/objects").glob("*/tmp_*"))


def test_processes_that_publish_at_the_same_moment_get_ids_of_their_own(tmp_path: Path) -> None:
    scene = whole(tmp_path / "before")
    top = scene.copy()

    saved = save_together(top, tmp_path / "go", "link", "refs/checkpoints/*.lock")

    assert len({document["checkpoint"]["id"] for document in saved}) == PROCESSES
    assert len(checkpoints(top)) == len(scene.checkpoints) + PROCESSES


def test_a_save_waits_while_a_rollback_is_at_work(driver: Driver, tmp_path: Path) -> None:
    scene = whole(tmp_path / "before")
    top = scene.copy()
    go, waits = tmp_path / "go", tmp_path / "waits"
    amid = Blow(1, "rename", "edited", wait_for=str(go))

    rollback = start(top, *scene.words, blow=amid)
    wait_for(tmp_path / f"go.{rollback.pid}", rollback)
    save = start(top, "save", "patient", "--json", announce_sleep=waits)
    wait_for(waits, save)
    go.touch()

    assert rollback.communicate()[1] == "" and rollback.returncode == 0
    stdout, stderr = save.communicate()
    assert (save.returncode, stderr) == (0, "")
    saved = json.loads(stdout)["checkpoint"]
    assert saved["during_rollback"] is False
    scene.check(top, scene.after)
    assert driver.run(top, "rollback", "patient", "--json").json["safety"] is None


def test_a_rollback_that_is_at_work_is_not_called_interrupted(
    driver: Driver, tmp_path: Path
) -> None:
    scene = whole(tmp_path / "before")
    top = scene.copy()
    go = tmp_path / "go"
    rollback = start(top, *scene.words, blow=Blow(1, "rename", "edited", wait_for=str(go)))
    wait_for(tmp_path / f"go.{rollback.pid}", rollback)

    for words in (("list",), ("diff", "target"), ("prune", "--dry-run")):
        told = driver.run(top, *words)
        assert told.stderr == "warning: a rollback is at work in this worktree\n"
        assert told.code == 0
    assert driver.run(top, "list", "-q").stderr == ""
    assert driver.run(top, "list", "--json").stderr == ""
    told = driver.run(top, "status")
    assert "in progress" in told.stdout
    assert "--continue" not in told.stdout
    told = driver.run(top, "doctor", "--fix")
    assert told.code == 0
    assert "in progress" in told.stdout and "--continue" not in told.stdout
    stands = driver.run(top, "status", "--json").json
    assert (stands["rollback_running"], stands["rollback_interrupted"]) == (True, False)
    assert has_journal(top)
    with CheckpointManager(top) as manager:
        assert manager.rollback_running
        assert not manager.rollback_interrupted

    rollback.kill()
    rollback.communicate()
    stands = driver.run(top, "status", "--json").json
    assert (stands["rollback_running"], stands["rollback_interrupted"]) == (False, True)
    assert "rollback --continue" in driver.run(top, "list").stderr


def test_a_save_after_a_crash_is_marked_and_never_the_latest(
    driver: Driver, tmp_path: Path
) -> None:
    scene = whole(tmp_path / "before")
    top = scene.copy()
    assert driver.run(top, *scene.words, blow=kill(1, "rename", "edited")).killed

    saved = driver.run(top, "save", "amid", "--json").json["checkpoint"]

    assert saved["during_rollback"] is True
    assert has_journal(top)
    latest = driver.run(top, "show", "latest", "--json").json["checkpoint"]
    assert latest["name"] == "target"
    assert driver.run(top, "show", "latest~1", "--json").code == 3
    assert driver.run(top, "rollback", "--abort").code == 0
    latest = driver.run(top, "show", "latest", "--json").json["checkpoint"]
    assert latest["name"] == "target"
    scene.check(top, scene.before)
    assert driver.run(top, "save", "later").code == 0
    latest = driver.run(top, "show", "latest", "--json").json["checkpoint"]
    assert latest["name"] == "later"


def test_an_ordinary_rollback_is_refused_after_a_crash_and_names_the_two_ways_out(
    driver: Driver, tmp_path: Path
) -> None:
    scene = whole(tmp_path / "before")
    top = scene.copy()
    assert driver.run(top, *scene.words, blow=kill(1, "rename", "edited")).killed

    refused = driver.run(top, *scene.words)

    assert refused.code == 4
    assert "--continue" in refused.stderr and "--abort" in refused.stderr
    assert has_journal(top)
