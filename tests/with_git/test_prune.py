# SPDX-License-Identifier: MIT
"""`git ckpt prune`: what goes goes through the trash, with its reason, and can come back."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import ckpt_here, git
from seam import failing

from ckpt import CheckpointManager, Policy, Rules
from ckpt.models import Kind
from ckpt.settings.settings import DEFAULTS


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
        "reasons": ["not kept by: last 5"],
    }
    assert (told["emptied"], told["dry_run"]) == ([], False)
    assert listed() == saved[:5]
    ckpt_here("restore-dropped", saved[-1], code=0)
    assert saved[-1] in listed()
    assert git("fsck", "--strict") == ""


def test_a_dry_run_tells_the_same_and_drops_nothing(repo: Path) -> None:
    saved = save(repo, 4, "--kind", "session")
    dry = ckpt_here("prune", "--dry-run", code=0).stdout

    assert f"drop  {saved[3]}  session  not kept by: last 3\n" in dry
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
    emptied = ckpt_here("prune", "--now", code=0).stdout
    assert emptied.endswith("Removed 1 from the trash, for good\n")
    assert git("for-each-ref", "refs/checkpoints-trash") == ""


@pytest.mark.parametrize(
    "words", [["--keep-last", "-1"], ["--keep-within", "soon"], ["--keep-last", "x"]]
)
@pytest.mark.usefixtures("repo")
def test_rules_of_no_sense_are_refused(words: list[str]) -> None:
    assert "hint: " in ckpt_here("prune", *words, code=2).stderr or words == ["--keep-last", "x"]


def test_a_checkpoint_that_an_interrupted_rollback_needs_stays(repo: Path) -> None:
    saved = save(repo, 5, "--kind", "session")
    (repo / "README.md").write_text("edited\n")
    with failing("rename", path="/README.md"):
        ckpt_here("rollback", saved[4], "--yes", code=1)
    with CheckpointManager(repo) as manager:
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
    (repo / ".git/refs/checkpoints-trash").write_text("")
    save(repo, 1, "--kind", "session")
    assert ckpt_here("hook", "ckpt-prune", code=0).stdout == ""
    assert len(listed()) >= 3


def test_the_rules_of_the_settings_count_unless_others_are_typed(repo: Path) -> None:
    (repo / "ckpt.toml").write_text("[retention]\nhook = {last = 1}\nsession = {last = 4}\n")
    git("config", "ckpt.retention.hook.last", "2")
    hooks, sessions = save(repo, 4, "--kind", "hook"), save(repo, 5, "--kind", "session")
    ran = ckpt_here("prune", "--dry-run", code=0)

    assert "warning: ckpt.toml: retention.hook.last = 1 is ignored" in ran.stderr
    with CheckpointManager(repo) as manager:
        assert {one.checkpoint.id for one in manager.prune(dry_run=True).dropped} == {
            *hooks[2:],
            sessions[4],
        }
    ckpt_here("prune", "--keep-first", "1", code=0)
    assert listed() == [sessions[0], sessions[4], hooks[0], hooks[3]]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--keep-last", "0"], "the rules for kind 'auto' keep nothing"),
        (["--keep-within", "7"], "--keep-within: expected a time"),
    ],
)
@pytest.mark.usefixtures("repo")
def test_policies_that_cannot_be_meant_are_refused(words: list[str], message: str) -> None:
    assert message in ckpt_here("prune", *words, code=2).stderr


def test_worktrees_are_counted_each_by_itself_also_when_moved_or_removed(repo: Path) -> None:
    git("worktree", "add", "-q", "../side")
    git("worktree", "add", "-q", "../gone")
    side, gone = repo.parent / "side", repo.parent / "gone"
    saved = {}
    for folder in (repo, side, gone):
        ran_here = [ckpt_here("-C", str(folder), "save", "--kind", "session", "--json", code=0)]
        for number in range(3):
            (folder / "README.md").write_text(f"{number}\n")
            words = ["-C", str(folder), "save", "--kind", "session", "--json"]
            ran_here.append(ckpt_here(*words, code=0))
        saved[folder] = [one.json["checkpoint"]["id"] for one in ran_here]
    git("worktree", "move", "../side", "../aside")
    git("worktree", "remove", "--force", "../gone")
    told = ckpt_here("prune", "--json", code=0).json["decisions"]

    oldest = {ids[0] for ids in saved.values()}
    assert {one["id"] for one in told if one["action"] == "drop"} == oldest
    kept = {one["id"]: one["reasons"] for one in told if one["action"] == "keep"}
    assert kept[saved[gone][-1]] == ["last 3", "newest of kind session"]
    here = ckpt_here("-C", "../aside", "list", "--json", code=0).json["checkpoints"]
    assert {found["id"] for found in here} == set(saved[side][1:])


def test_what_was_fetched_does_not_push_out_what_was_made_here(repo: Path) -> None:
    git("clone", "-q", ".", "../other")
    saved = save(repo, 3, "--kind", "session")
    for number in range(4):
        (repo.parent / "other/README.md").write_text(f"{number}\n")
        ckpt_here("-C", "../other", "save", "--kind", "session", code=0)
    git("fetch", "-q", "../other", "refs/checkpoints/*:refs/checkpoints/*")
    ckpt_here("prune", code=0)

    assert {*listed()} >= {*saved}
    assert len(listed()) == 6
