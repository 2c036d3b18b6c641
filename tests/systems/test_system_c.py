# SPDX-License-Identifier: MIT
"""What a system of transparent checkpoints for agents does (git in subprocesses, a shadow
repository), line by line, through ckpt and an adapter of a screenful."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers import ckpt, ckpt_here, git
from systems.shadow import ShadowCheckpoints

from ckpt import CheckpointManager, CkptError, Outcome


@pytest.fixture
def shadow() -> ShadowCheckpoints:
    return ShadowCheckpoints()


@pytest.fixture
def top(repo: Path) -> str:
    return str(repo)


def edit(top: str, name: str, text: str = "agent\n") -> Path:
    path = Path(top) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_the_adapter_is_a_screenful() -> None:
    text = (Path(__file__).parent / "shadow.py").read_text()

    assert len(text.splitlines()) <= 60


# A master switch; once a turn and folder; never raising


def test_each_folder_has_one_checkpoint_a_turn(
    shadow: ShadowCheckpoints, top: str, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    edit(top, "a")
    edit(str(other), "a")

    assert shadow.ensure_checkpoint(top, "write_file")
    assert not shadow.ensure_checkpoint(top, "patch")
    assert shadow.ensure_checkpoint(str(other), "write_file")
    shadow.new_turn()
    edit(top, "b")
    assert shadow.ensure_checkpoint(top, "patch")
    assert [one["reason"] for one in shadow.list_checkpoints(top)] == ["patch", "write_file"]


def test_the_switch_turns_it_off_and_nothing_ever_raises(top: str, tmp_path: Path) -> None:
    off = ShadowCheckpoints(enabled=False)

    assert not off.ensure_checkpoint(top, "write_file")
    assert off.list_checkpoints(top) == []
    assert not ShadowCheckpoints().ensure_checkpoint(str(tmp_path / "no such folder"), "write_file")
    assert not ShadowCheckpoints().ensure_checkpoint("/", "write_file")


def test_the_outcome_says_why_there_is_no_new_checkpoint(top: str) -> None:
    """Theirs says False to all of these."""
    manager = CheckpointManager(top, session="s")
    outcomes = [manager.ensure("write_file"), manager.ensure("write_file")]
    manager.new_turn()
    outcomes.append(manager.ensure("write_file"))
    manager.enabled = False
    outcomes.append(manager.ensure("write_file"))
    manager.enabled = True
    manager.new_turn()
    edit(top, "a")
    (Path(top) / ".git").rename(Path(top) / "aside")
    outcomes.append(manager.ensure("write_file"))

    assert [(one.outcome, one.reason) for one in outcomes[:4]] == [
        (Outcome.CREATED, None),
        (Outcome.SKIPPED, "duplicate"),
        (Outcome.UNCHANGED, None),
        (Outcome.SKIPPED, "disabled"),
    ]
    assert outcomes[4].outcome is Outcome.FAILED
    assert outcomes[4].reason


# Before tools that write, and commands that destroy


@pytest.mark.parametrize(
    ("tool", "tool_input"),
    [
        ("Write", {"file_path": "a"}),
        ("Edit", {"file_path": "a"}),
        ("Bash", {"command": "rm -rf src"}),
        ("Bash", {"command": "mv a b"}),
        ("Bash", {"command": "sed -i s/a/b/ a"}),
        ("Bash", {"command": "truncate -s 0 a"}),
        ("Bash", {"command": "dd if=/dev/zero of=a"}),
        ("Bash", {"command": "git reset --hard"}),
        ("Bash", {"command": "git clean -fd"}),
        ("Bash", {"command": "git checkout -- ."}),
        ("Bash", {"command": "echo new > a"}),
    ],
)
def test_a_tool_that_writes_or_destroys_has_a_checkpoint_before_it(
    repo: Path, tool: str, tool_input: dict[str, str]
) -> None:
    edit(str(repo), "a", "mine\n")

    assert tell_hook(repo, tool, tool_input) == ["auto"]


def test_a_tool_that_reads_has_none(repo: Path) -> None:
    edit(str(repo), "a", "mine\n")

    assert tell_hook(repo, "Read", {"file_path": "a"}) == []


def tell_hook(repo: Path, tool: str, tool_input: dict[str, str]) -> list[str]:
    event = {"session_id": "s", "cwd": str(repo), "hook_event_name": "PreToolUse"}
    event |= {"tool_name": tool, "tool_input": tool_input}  # type: ignore[dict-item]  # JSON
    ckpt("hook", "claude-code", stdin=json.dumps(event), code=0)
    found: list[dict[str, Any]] = ckpt_here("list", "--json", code=0).json["checkpoints"]
    return [one["kind"] for one in found]


# Lists


def test_a_list_has_everything_that_theirs_has(shadow: ShadowCheckpoints, top: str) -> None:
    edit(top, "README.md", "# An example\nmore\n")
    edit(top, "new", "1\n2\n")
    shadow.ensure_checkpoint(top, "before write_file")

    [one] = shadow.list_checkpoints(top)
    assert one["reason"] == "before write_file"
    assert one["hash"].endswith(one["short_hash"])
    assert one["timestamp"].endswith("+00:00")
    assert (one["files_changed"], one["insertions"], one["deletions"]) == (2, 3, 0)
    assert shadow.manager(top).get(one["short_hash"]).id == one["hash"]
    said = ckpt_here("list", code=0).stdout
    assert one["hash"] in said
    assert "git ckpt rollback ID" in said


# Differences


def test_a_diff_shows_what_changed_since_and_how_much(shadow: ShadowCheckpoints, top: str) -> None:
    shadow.ensure_checkpoint(top, "one")
    edit(top, "README.md", "# Another\n")
    [one] = shadow.list_checkpoints(top)

    found = shadow.diff(top, one["hash"])

    assert "-# An example\n+# Another\n" in found["diff"]
    assert (found["stat"].insertions, found["stat"].deletions) == (1, 1)
    assert "README.md" in ckpt_here("diff", one["hash"], "--stat", code=0).stdout


def test_the_diff_of_a_session_begins_with_its_first_checkpoint(
    shadow: ShadowCheckpoints, top: str
) -> None:
    for name in ("a", "b"):
        shadow.ensure_checkpoint(top, name)
        edit(top, name)
        shadow.new_turn()

    told = ckpt_here("diff", "--session", "agent", "--json", code=0).json

    assert [file["path"] for file in told["files"]] == ["a", "b"]


# Restoring


def test_all_or_one_file_comes_back_and_the_state_before_is_kept(
    shadow: ShadowCheckpoints, top: str
) -> None:
    shadow.ensure_checkpoint(top, "one")
    readme, script = edit(top, "README.md"), edit(top, "run.sh")
    made = edit(top, "made")
    [one] = shadow.list_checkpoints(top)

    assert shadow.restore(top, one["hash"], "README.md")["success"]
    assert (readme.read_text(), script.read_text()) == ("# An example\n", "agent\n")
    assert shadow.restore(top, one["hash"])["success"]
    assert not made.exists(), "theirs leaves files that were created since"
    assert git("status", "--porcelain", cwd=top) == ""
    shadow.manager(top).undo()
    assert made.exists()


def test_a_checkpoint_can_be_named_by_its_number_in_the_list(
    shadow: ShadowCheckpoints, top: str
) -> None:
    for number in range(3):
        edit(top, "README.md", f"{number}\n")
        shadow.ensure_checkpoint(top, f"turn {number}")
        shadow.new_turn()

    listed = shadow.list_checkpoints(top)
    assert shadow.restore(top, 3)["id"] == listed[2]["hash"]
    assert (Path(top) / "README.md").read_text() == "0\n"
    assert not shadow.restore(top, 4)["success"]


def test_a_safe_restore_keeps_what_a_person_edited_after_the_agent(
    shadow: ShadowCheckpoints, top: str
) -> None:
    shadow.ensure_checkpoint(top, "write_file")
    for name in ("README.md", "run.sh", "made"):
        shadow.manager(top).record_write(edit(top, name))
    edit(top, "run.sh", "mine, after the agent\n")
    edit(top, "mine", "mine\n")

    restored = shadow.restore(top, 1, safe=True)

    assert restored["kept"] == ["mine", "run.sh"]
    assert (Path(top) / "README.md").read_text() == "# An example\n"
    assert (Path(top) / "run.sh").read_text() == "mine, after the agent\n"
    assert not (Path(top) / "made").exists()


# Any folder


def test_a_folder_without_a_repository_has_a_private_store(
    shadow: ShadowCheckpoints, tmp_path: Path, isolated: Path
) -> None:
    with open(isolated / ".gitconfig", "a") as config:
        config.write("[commit]\n gpgSign = true\n[core]\n hooksPath = /nowhere\n")
    path = edit(str(tmp_path), "plain/file", "mine\n")
    folder = str(path.parent)
    assert shadow.ensure_checkpoint(folder, "write_file")
    path.unlink()

    assert shadow.restore(folder, 1)["success"]
    assert [child.name for child in path.parent.iterdir()] == ["file"]
    assert path.read_text() == "mine\n"


# Limits


def test_what_is_too_large_secret_or_made_by_tools_is_left_out_and_left_alone(
    shadow: ShadowCheckpoints, top: str
) -> None:
    git("config", "ckpt.maxFileSize", "1000")
    large, secret = edit(top, "large", "x" * 2000), edit(top, ".env", "secret\n")
    module = edit(top, "node_modules/m/index.js", "x\n")
    shadow.ensure_checkpoint(top, "one")
    for path in (large, secret, module):
        path.write_text("changed\n" * 400)

    assert shadow.restore(top, 1)["success"]
    assert all(path.read_text() == "changed\n" * 400 for path in (large, secret, module))
    skipped = shadow.manager(top).get("latest").skipped
    assert {item.path.rstrip("/"): item.reason for item in skipped} == {
        "large": "oversize",
        ".env": "denied",
        "node_modules": "denied",
    }


@pytest.mark.parametrize("place", ["/", "home"])
def test_the_whole_disk_and_home_are_refused(place: str, isolated: Path) -> None:
    folder = str(isolated) if place == "home" else place

    with pytest.raises(CkptError, match="refusing to take checkpoints"):
        CheckpointManager(folder, store="user")


def test_more_files_than_theirs_takes_are_no_reason_to_refuse(
    shadow: ShadowCheckpoints, tmp_path: Path
) -> None:
    """Theirs ends at 50,000 files; here no number does, so a few stand for them."""
    folder = tmp_path / "plain"
    folder.mkdir()
    manager = shadow.manager(str(folder))

    assert manager.settings.max_new_files > 10**9


# Keeping


def test_what_is_cleared_is_counted_and_ids_never_change(
    shadow: ShadowCheckpoints, top: str
) -> None:
    for number in range(3):
        edit(top, "README.md", f"{number}\n")
        shadow.ensure_checkpoint(top, f"turn {number}")
        shadow.new_turn()
    manager = shadow.manager(top)
    ids = [one.id for one in manager]
    manager.delete(ids[1])

    assert [one.id for one in manager] == [ids[0], ids[2]]
    assert manager.clear() == 2
    assert len(manager) == 0
    assert ckpt_here("status", "--json", code=0).json["checkpoints"]["trash"] == 3


# Projects


MARKERS = [".git", ".hg", "Cargo.toml", "Gemfile", "Makefile", "go.mod", "package.json"]


@pytest.mark.parametrize("marker", [*MARKERS, "pom.xml", "pyproject.toml"])
def test_the_project_of_a_file_is_found(
    shadow: ShadowCheckpoints, tmp_path: Path, marker: str
) -> None:
    edit(str(tmp_path), f"project/{marker}")

    assert shadow.working_dir(f"{tmp_path}/project/src/new.py") == f"{tmp_path}/project"


# Names that are none


@pytest.mark.parametrize(
    "word", ["--all", "-rf", "../x", "HEAD", "latest~99", "", "refs/heads/main"]
)
def test_what_is_no_id_is_not_found(shadow: ShadowCheckpoints, top: str, word: str) -> None:
    shadow.ensure_checkpoint(top, "one")
    made = edit(top, "made")

    assert not shadow.restore(top, word)["success"]
    assert made.exists()


@pytest.mark.parametrize("path", ["../outside", "/etc/passwd", ".git/config", "src/../../outside"])
def test_a_path_that_leaves_the_folder_is_refused(
    shadow: ShadowCheckpoints, top: str, path: str
) -> None:
    shadow.ensure_checkpoint(top, "one")
    outside = edit(top, "../outside", "mine\n")
    made = edit(top, "made")

    with pytest.raises(CkptError):
        shadow.manager(top).rollback("latest", [f"{top}/{path}" if path[0] != "/" else path])
    assert not shadow.restore(top, 1, path)["success"]
    assert (outside.read_text(), made.exists()) == ("mine\n", True)
