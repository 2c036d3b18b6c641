# SPDX-License-Identifier: MIT
"""Undo returns to the state before the last rollback, and undone again, redoes it."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import ckpt_here as ckpt
from helpers import git, tree_state
from scenes import hollow, remove, state, write


def save(*words: str) -> str:
    return ckpt("save", "--json", *words, code=0).json["checkpoint"]["id"]


def text(repo: Path) -> str:
    return (repo / "README.md").read_text()


def test_without_a_rollback_there_is_nothing_to_undo(repo: Path) -> None:
    save()

    failed = ckpt("undo", "--json", code=3).json["error"]

    assert failed["code"] == "not-found"
    assert failed["hint"]


def test_undo_and_redo_and_so_on(repo: Path) -> None:
    save("start")
    write(repo, "README.md", "edited\n")
    ckpt("rollback", "start", code=0)
    seen = []
    for _ in range(4):
        ckpt("undo", code=0)
        seen.append(text(repo))

    assert seen == ["edited\n", "# An example\n", "edited\n", "# An example\n"]


def test_undo_is_about_the_last_rollback_only(repo: Path) -> None:
    for name in ("one", "two", "three"):
        write(repo, "README.md", name)
        save(name)
    ckpt("rollback", "one", code=0)
    ckpt("rollback", "two", code=0)

    ckpt("undo", code=0)

    assert text(repo) == "one"


def test_edits_made_after_the_rollback_are_saved_by_the_undo(repo: Path) -> None:
    save("start")
    write(repo, "README.md", "edited\n")
    ckpt("rollback", "start", code=0)
    write(repo, "README.md", "edited after the rollback\n")

    told = ckpt("undo", "--json", code=0).json
    assert text(repo) == "edited\n"
    assert git("show", f"{told['safety']['ref']}:README.md") == "edited after the rollback\n"
    ckpt("undo", code=0)
    assert text(repo) == "edited after the rollback\n"


def test_the_safety_checkpoint_says_what_it_is(repo: Path) -> None:
    saved = save()
    write(repo, "README.md", "edited\n")

    safety = ckpt("rollback", "--json", code=0).json["safety"]

    assert (safety["kind"], safety["trigger"]) == ("safety", "rollback")
    assert saved in safety["description"]
    assert ckpt("show", "latest", "--json").json["checkpoint"]["id"] == saved
    assert [c["id"] for c in ckpt("list", "--json").json["checkpoints"]] == [saved]
    kinds = [c["kind"] for c in ckpt("list", "--all", "--json").json["checkpoints"]]
    assert kinds == ["safety", "manual"]


def test_undo_after_the_safety_checkpoint_was_dropped_says_so(repo: Path) -> None:
    save("start")
    write(repo, "README.md", "edited\n")
    safety = ckpt("rollback", "start", "--json", code=0).json["safety"]["id"]
    ckpt("drop", safety, code=0)

    assert safety in ckpt("undo", code=3).stderr
    ckpt("restore-dropped", safety, code=0)
    ckpt("undo", code=0)
    assert text(repo) == "edited\n"


@pytest.mark.parametrize("where", [".gitignore", ".git/info/exclude"])
def test_undo_takes_away_a_file_that_was_ignored_and_absent_before(repo: Path, where: str) -> None:
    write(repo, "generated", "once\n")
    save("start")
    remove(repo, "generated")
    write(repo, where, "generated\n")
    before = state(repo)
    ckpt("rollback", "start", code=0)
    assert (repo / "generated").read_text() == "once\n"

    ckpt("undo", code=0)

    assert state(repo) == before


def test_undo_brings_empty_folders_back_and_takes_others_away(repo: Path) -> None:
    hollow(repo, "then/hollow")
    save("start")
    remove(repo, "then")
    hollow(repo, "now/hollow")
    before = tree_state(repo)
    ckpt("rollback", "start", code=0)

    ckpt("undo", code=0)

    assert tree_state(repo) == before
    assert not (repo / "then").exists()
