# SPDX-License-Identifier: MIT
"""`git ckpt prune`: what goes goes through the trash, with its reason, and can come back."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import ckpt_here, git

from ckpt import CheckpointManager, Policy, Rules
from ckpt.engine.retention import DEFAULTS
from ckpt.models import Kind


def save(repo: Path, count: int, *words: str) -> list[str]:
    """Checkpoints of states that differ, newest first."""
    made = []
    for number in range(count):
        (repo / "README.md").write_text(f"{words} {number}\n")
        made.append(ckpt_here("save", *words, "--json", code=0).json["checkpoint"]["id"])
    return made[::-1]


def listed() -> list[str]:
    return [found["id"] for found in ckpt_here("list", "--json").json["checkpoints"]]


def test_the_last_five_of_a_session_stay(repo: Path) -> None:
    saved = save(repo, 8, "--kind", "auto", "--session", "s")
    told = ckpt_here("prune", "--json", code=0).json

    assert [one["action"] for one in told["decisions"]] == ["keep"] * 5 + ["drop"] * 3
    assert told["decisions"][-1] == {
        "id": saved[-1],
        "action": "drop",
        "reasons": ["no longer in: last 5"],
    }
    assert (told["emptied"], told["dry_run"]) == ([], False)
    assert listed() == saved[:5]
    ckpt_here("restore-dropped", saved[-1], code=0)
    assert saved[-1] in listed()
    assert git("fsck", "--strict") == ""


def test_a_dry_run_tells_the_same_and_drops_nothing(repo: Path) -> None:
    saved = save(repo, 4, "--kind", "session")
    dry = ckpt_here("prune", "--dry-run", code=0).stdout

    assert f"drop  {saved[3]}  session  no longer in: last 3\n" in dry
    assert dry.endswith("Would drop 1 of 4\n")
    assert listed() == saved
    assert ckpt_here("prune", code=0).stdout.count("\ndrop  ") == 1
    assert listed() == saved[:3]


def test_rules_that_are_typed_replace_the_usual_ones_of_all_but_what_is_kept_by_hand(
    repo: Path,
) -> None:
    mine = save(repo, 2)
    hooks = save(repo, 4, "--kind", "hook")
    ckpt_here("pin", hooks[3], code=0)
    ckpt_here("prune", "--keep-last", "2", code=0)

    assert set(listed()) == {*mine, *hooks[:2], hooks[3]}


def test_the_trash_is_emptied_of_what_is_a_week_old_or_at_once(repo: Path) -> None:
    save(repo, 5, "--kind", "session")
    ckpt_here("prune", code=0)
    old, new = git("for-each-ref", "--format=%(refname)", "refs/checkpoints-trash").split()
    commit = git("rev-parse", old).strip()
    git("update-ref", "refs/checkpoints-trash/20200101/" + old.rsplit("/", 1)[1], commit)
    git("update-ref", "-d", old)

    assert ckpt_here("prune", "--json", code=0).json["emptied"] == [old.rsplit("/", 1)[1]]
    assert git("for-each-ref", "--format=%(refname)", "refs/checkpoints-trash").split() == [new]
    assert ckpt_here("prune", "--now", code=0).stdout.endswith("Removed 1 from the trash\n")
    assert git("for-each-ref", "refs/checkpoints-trash") == ""


@pytest.mark.parametrize(
    "words", [["--keep-last", "-1"], ["--keep-within", "soon"], ["--keep-last", "x"]]
)
@pytest.mark.usefixtures("repo")
def test_rules_of_no_sense_are_refused(words: list[str]) -> None:
    assert "hint: " in ckpt_here("prune", *words, code=2).stderr or words == ["--keep-last", "x"]


def test_a_checkpoint_that_an_interrupted_rollback_needs_stays(repo: Path) -> None:
    saved = save(repo, 5, "--kind", "session")
    ckpt_here("rollback", saved[4], code=0)
    with CheckpointManager(repo) as manager:
        from ckpt.engine import journal

        safety = next(c for c in manager.list() if c.kind is Kind.SAFETY)
        journal.write(manager.repository.private_dir, journal.Journal(saved[4], safety.id, (), ()))
        told = {one.checkpoint.id: one for one in manager.prune().decisions}

    assert told[saved[4]].reasons == ("needed by a rollback",)


def test_from_python_with_a_policy_of_ones_own(repo: Path) -> None:
    save(repo, 3, "--kind", "hook")
    policy = Policy({**DEFAULTS, Kind.HOOK: Rules(last=1)})
    with CheckpointManager(repo) as manager:
        assert len(manager.prune(policy, dry_run=True).dropped) == 2
        assert len(manager) == 3
        assert len(manager.prune(policy).dropped) == 2
        assert len(manager) == 1


def test_the_hook_prunes_quietly_and_never_stops_git(repo: Path) -> None:
    saved = save(repo, 5, "--kind", "session")
    ran = ckpt_here("hook", "ckpt-prune", code=0)

    assert (ran.stdout, ran.stderr) == ("", "")
    assert listed() == saved[:3]
    (repo / ".git/refs/checkpoints-trash").rename(repo / ".git/refs/aside")
    (repo / ".git/refs/checkpoints-trash").write_text("")
    save(repo, 1, "--kind", "session")
    assert ckpt_here("hook", "ckpt-prune", code=0).stdout == ""
    assert len(listed()) >= 3
