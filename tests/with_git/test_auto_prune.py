# SPDX-License-Identifier: MIT
"""Retention by itself, after a save: quietly, within its time, and never at the save's cost."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import ckpt_here, fsck, git

OFTEN = 60  # so many saves that it looks at least twice


def save(count: int, *words: str, folder: Path = Path(".")) -> list[str]:
    """Checkpoints of states that differ, newest first."""
    made = []
    for number in range(count):
        (folder / "new.txt").write_text(f"{words} {number}\n")
        ran = ckpt_here("-C", str(folder), "save", *words, "--json", code=0)
        made.append(ran.json["checkpoint"]["id"])
    return made[::-1]


def listed(folder: Path = Path(".")) -> list[str]:
    words = ("-C", str(folder), "list", "--all", "-n", "0", "--json")
    found = ckpt_here(*words, code=0).json["checkpoints"]
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
    saved = save(OFTEN, "--kind", "session")

    assert listed() == saved[: len(listed())]
    assert 3 <= len(listed()) < OFTEN
    assert [one["checkpoint"]["id"] for one in ckpt_here("trash", "--json").json["trash"]] == saved[
        len(listed()) :
    ]
    said = pruning()["last_success"]
    assert isinstance(said, dict) and said["outcome"].startswith("dropped ")
    fsck(Path("."))


def test_triggers_do_so_too(repo: Path) -> None:
    git("config", "ckpt.retention.hook.last", "2")
    for number in range(OFTEN):
        (repo / "new.txt").write_text(f"{number}\n")
        ran = ckpt_here("hook", "pre-commit", code=0)
        assert (ran.stdout, ran.stderr) == ("", "")

    assert 2 <= len(listed()) < OFTEN
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

    assert listed() == [] and len(save(OFTEN, "--kind", "session")) == len(listed())
    assert pruning()["last_success"] is None


def test_whatever_goes_wrong_the_checkpoint_is_there_and_status_tells(repo: Path) -> None:
    (repo / ".git/ckpt").mkdir()
    (repo / ".git/ckpt/journal").write_bytes(b"garbage")
    saved = save(OFTEN, "--kind", "session")

    assert listed() == saved
    failure = pruning()["last_failure"]
    assert isinstance(failure, dict) and "checksum" in failure["message"]


@pytest.mark.usefixtures("repo")
def test_the_trash_is_emptied_by_itself_after_a_week() -> None:
    (old,) = save(1, "--kind", "session")
    commit = git("rev-parse", f"refs/checkpoints/{old}").strip()
    git("update-ref", f"refs/checkpoints-trash/20200101/{old}", commit)
    git("update-ref", "-d", f"refs/checkpoints/{old}")
    save(OFTEN)

    assert git("for-each-ref", "refs/checkpoints-trash") == ""
