# SPDX-License-Identifier: MIT
"""Retention by itself, after a save: quietly, within its time, and never at the save's cost."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from helpers import ckpt, ckpt_here, fsck, git

from ckpt import CheckpointManager
from ckpt.engine import prune, snapshot
from ckpt.engine.prune import look
from ckpt.locks import prune_lock
from ckpt.models import Checkpoint, Kind
from ckpt.settings.policy import Rules
from ckpt.settings.settings import Settings, load_forgiving


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look after every third save instead of after many."""
    monkeypatch.setattr(snapshot, "EVERY", 3)


def save(count: int, *words: str, folder: Path = Path(".")) -> list[str]:
    """Checkpoints of states that differ, newest first."""
    made = []
    for number in range(count):
        (folder / "new.txt").write_text(f"{words} {number}\n")
        ran = ckpt_here("-C", str(folder), "save", *words, "--json", code=0)
        made.append(ran.json["checkpoint"]["id"])
    return made[::-1]


def listed(folder: Path = Path(".")) -> list[str]:
    found = ckpt_here("-C", str(folder), "list", "--all", "--json", code=0).json["checkpoints"]
    return [checkpoint["id"] for checkpoint in found]


def pruning() -> dict[str, object]:
    """What `status` says of it."""
    (found,) = (
        trigger
        for trigger in ckpt_here("status", "--json", code=0).json["triggers"]
        if trigger["name"] == "ckpt-prune"
    )
    assert isinstance(found, dict)
    return found


@pytest.mark.usefixtures("repo")
def test_a_save_now_and_then_drops_what_no_rule_keeps_and_status_tells() -> None:
    saved = save(10, "--kind", "session")

    assert listed() == saved[: len(listed())]
    assert 3 <= len(listed()) < 3 + snapshot.EVERY
    assert [one["checkpoint"]["id"] for one in ckpt_here("trash", "--json").json["trash"]] == saved[
        len(listed()) :
    ]
    said = pruning()["last_success"]
    assert isinstance(said, dict) and said["outcome"] == "dropped 3"
    fsck(Path("."))


def test_triggers_do_so_too(repo: Path) -> None:
    git("config", "ckpt.retention.hook.last", "2")
    for number in range(8):
        (repo / "new.txt").write_text(f"{number}\n")
        ran = ckpt_here("hook", "pre-commit", code=0)
        assert (ran.stdout, ran.stderr) == ("", "")

    assert 2 <= len(listed()) < 2 + snapshot.EVERY
    ckpt_here("trash", code=0)


@pytest.mark.parametrize(
    ("config", "env"),
    [
        (["ckpt.retention.automatic", "false"], {}),
        (["ckpt.x", ""], {"CKPT_DISABLE": "1"}),
        (["ckpt.disable", "ckpt-prune"], {}),
    ],
)
@pytest.mark.usefixtures("repo")
def test_it_can_be_turned_off(
    config: list[str], env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if config[0] != "ckpt.x":
        git("config", *config)
    for name, value in env.items():
        monkeypatch.setenv(name, value)

    assert listed() == [] and len(save(8, "--kind", "session")) == len(listed())
    assert pruning()["last_success"] is None


@pytest.mark.parametrize("text", ["speed = 7\n", "[retention]\nhook = {last = 600}\n", "[\n"])
def test_what_is_wrong_in_the_repositorys_file_lets_nothing_go_that_the_user_keeps(
    text: str, repo: Path
) -> None:
    git("config", "ckpt.retention.session.last", "9")
    (repo / "ckpt.toml").write_text(text)
    with CheckpointManager(repo, worktree=False) as manager:
        made = [manager.create(f"{number}", kind="session").id for number in range(8)]
        by_triggers = load_forgiving(manager.repository)

    assert listed() == made[::-1] and pruning()["last_success"] is not None
    assert by_triggers.policy.rules(Kind.SESSION) == Rules(last=9)
    (note,) = by_triggers.notes
    assert note.startswith("settings ignored: ckpt.toml")


def test_whatever_goes_wrong_the_checkpoint_is_there_and_status_tells(repo: Path) -> None:
    (repo / ".git/ckpt").mkdir()
    (repo / ".git/ckpt/journal").write_bytes(b"garbage")
    saved = save(8, "--kind", "session")

    assert listed() == saved
    failure = pruning()["last_failure"]
    assert isinstance(failure, dict) and "damaged" in failure["message"]


@pytest.mark.usefixtures("repo")
def test_another_process_that_prunes_is_not_waited_for() -> None:
    with prune_lock(str(Path(".git").resolve()), timeout=0):
        saved = save(6, "--kind", "session")

    assert listed() == saved
    assert pruning()["last_failure"] is None


def test_a_lock_of_gits_that_is_never_given_up_is_told_of(repo: Path) -> None:
    (repo / ".git/packed-refs.lock").touch()
    saved = save(4, "--kind", "session")

    assert listed() == saved
    failure = pruning()["last_failure"]
    assert isinstance(failure, dict) and "packed-refs.lock' exists" in failure["message"]


def test_without_time_nothing_is_dropped_and_the_next_save_looks_again(repo: Path) -> None:
    saved = save(3, "--kind", "session")
    with CheckpointManager(repo) as manager:
        for seconds in (0.0, prune._LEAST):
            ends = iter([0.0, *[10.0] * 20])
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(prune, "monotonic", lambda ends=ends: next(ends))
                prune.prune_by_itself(manager.repository, Settings(), saved[0], seconds)
    git("config", "ckpt.retention.session.last", "1")

    assert listed() == saved
    (newest,) = save(1, "--kind", "session")
    assert listed() == [newest]


def test_the_checkpoint_just_taken_stays_whatever_the_rules(repo: Path) -> None:
    saved = save(2, "--kind", "session", "--session", "s")
    with CheckpointManager(repo) as manager:
        policy = Settings().policy
        from datetime import datetime, timedelta, timezone

        later = datetime.now(timezone.utc) + timedelta(days=400)
        needed = {saved[1]: "just taken"}
        told = {one.checkpoint.id: one for one in look(manager.repository, policy, later, needed)}

    assert "just taken" in told[saved[1]].reasons


@pytest.mark.usefixtures("repo")
def test_the_trash_is_emptied_by_itself_after_a_week() -> None:
    (old,) = save(1, "--kind", "session")
    commit = git("rev-parse", f"refs/checkpoints/{old}").strip()
    git("update-ref", f"refs/checkpoints-trash/20200101/{old}", commit)
    git("update-ref", "-d", f"refs/checkpoints/{old}")
    save(4)

    assert git("for-each-ref", "refs/checkpoints-trash") == ""
    said = pruning()["last_success"]
    assert isinstance(said, dict) and said["outcome"] == "removed 1 from the trash"


def test_with_wrong_settings_it_goes_by_the_usual_rules(repo: Path) -> None:
    git("config", "ckpt.retention.session.last", "none")
    with CheckpointManager(repo, worktree=False) as manager:
        for number in range(9):
            manager.create(kind="session", data=number)
        left = len(manager)

    assert 3 <= left < 3 + snapshot.EVERY
    ran = ckpt_here("status", code=0)
    assert "ckpt.retention.session.last: expected a number" in " ".join(ran.stdout.split())
    assert "expected a number" in ckpt_here("save", code=2).stderr
    assert "expected a number" in ckpt_here("prune", code=2).stderr


# Repositories inside others


@pytest.fixture
def inner(repo: Path) -> Path:
    """An untracked repository in another."""
    place = repo / "inner"
    place.mkdir()
    git("init", "-q", cwd=place)
    (place / "file").write_text("one\n")
    git("add", ".", cwd=place)
    git("commit", "-q", "-m", "one", cwd=place)
    return place


def together(repo: Path, inner: Path, count: int) -> list[Checkpoint]:
    """Checkpoints of both, newest first."""
    made = []
    with CheckpointManager(repo) as manager:
        for number in range(count):
            (inner / "file").write_text(f"{number}\n")
            found = manager.create(kind="session", recurse=True).checkpoint
            assert found is not None
            made.append(found)
    return made[::-1]


def test_a_checkpoint_that_one_around_it_names_stays_while_that_is_there(
    repo: Path, inner: Path
) -> None:
    git("config", "ckpt.retention.session.last", "2", cwd=inner)
    git("config", "ckpt.retention.automatic", "false")
    saved = together(repo, inner, 7)
    links = [found.nested[0].checkpoint for found in saved]

    assert listed(inner) == links
    told = ckpt_here("-C", str(inner), "prune", "--dry-run", "--json", code=0).json["decisions"]
    assert told[-1]["reasons"] == ["belongs to a checkpoint of the repository around it"]
    ckpt_here("rollback", "--recurse", "--yes", saved[-1].id, code=0)
    assert (inner / "file").read_text() == "0\n"
    ckpt_here("drop", saved[-1].id, code=0)
    assert links[-1] in listed(inner)  # it may come back
    ckpt_here("prune", "--now", code=0)
    told = ckpt_here("-C", str(inner), "prune", "--json", code=0).json["decisions"]
    assert {one["id"] for one in told if one["action"] == "drop"} >= {links[-1]}


def test_a_damaged_checkpoint_around_does_not_stop_it(repo: Path, inner: Path) -> None:
    save(4, "--kind", "session", folder=inner)
    (saved,) = together(repo, inner, 1)
    state = saved.state_commit
    (repo / ".git/objects" / state[:2] / state[2:]).unlink()

    told = ckpt_here("-C", str(inner), "prune", "--dry-run", "--json", code=0)
    assert any(one["action"] == "drop" for one in json.loads(told.stdout)["decisions"])


def test_a_command_whose_checkpoint_was_dropped_meanwhile_is_taken_back(repo: Path) -> None:
    script = 'echo 1 >new.txt; "$0" -I -m ckpt drop -q latest && exit 7'
    words = ["run", "--on-failure", "rollback", "--json", "--", "sh", "-c"]
    told = ckpt(*words, script, sys.executable, code=7).json

    assert told["exit_code"] == 7 and told["problems"] == []
    assert not (repo / "new.txt").exists()
    assert told["checkpoint"]["id"] in listed()
