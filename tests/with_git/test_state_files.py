# SPDX-License-Identifier: MIT
"""State files: kept although they are ignored, and put back with the rollback's own care."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers import ckpt, fsck, git
from seam import observing

from ckpt import CheckpointManager, CkptError, RollbackError

FEATURES = '{"features": ["auth"]}\n'


@pytest.fixture
def manager(repo: Path) -> Iterator[CheckpointManager]:
    (repo / ".gitignore").write_text("*.state\nbuild/\n")
    git("add", ".gitignore")
    git("commit", "-qm", "rules")
    with CheckpointManager(repo) as manager:
        yield manager


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_an_ignored_state_file_comes_back_with_content_and_mode(
    repo: Path, manager: CheckpointManager
) -> None:
    file = repo / "build/list.state"
    file.parent.mkdir()
    file.write_bytes(b"then\r\n\0")
    file.chmod(0o600)
    saved = manager.create(state_files=["build/list.state"])
    file.write_text("now")
    file.chmod(0o755)

    result = manager.rollback(saved)

    assert (file.read_bytes(), mode(file)) == (b"then\r\n\0", 0o600)
    assert result.written == ("build/list.state",)
    assert result.is_complete
    manager.undo()
    assert (file.read_text(), mode(file)) == ("now", 0o755)
    manager.undo()
    assert file.read_bytes() == b"then\r\n\0"
    assert fsck(repo) == []


def test_one_that_is_gone_is_written_and_one_that_was_not_there_is_removed(
    repo: Path, manager: CheckpointManager
) -> None:
    gone, new, other = (repo / name for name in ("gone.state", "new.state", "other.state"))
    gone.write_text("then")
    saved = manager.create(state_files=[gone, "new.state"])
    gone.unlink()
    new.write_text("now")
    other.write_text("mine")

    result = manager.rollback(saved)

    assert gone.read_text() == "then"
    assert not new.exists()
    assert other.read_text() == "mine"
    assert (result.written, result.removed) == (("gone.state",), ("new.state",))
    manager.undo()
    assert not gone.exists()
    assert new.read_text() == "now"


def test_what_a_rollback_replaces_is_held_by_the_safety_checkpoint(
    repo: Path, manager: CheckpointManager
) -> None:
    (repo / "x.state").write_text("then")
    saved = manager.create(state_files=["x.state"])
    (repo / "x.state").write_text("precious")

    safety = manager.rollback(saved).safety

    assert safety is not None
    assert git("show", f"{safety.ref}:x.state") == "precious"


def test_secrets_links_and_large_files_are_kept_if_they_are_named(
    repo: Path, manager: CheckpointManager
) -> None:
    manager = CheckpointManager(repo, settings={"max_file_size": 10})
    (repo / ".env").write_text("KEY=1")
    (repo / "large").write_text("x" * 100)
    (repo / "link.state").symlink_to("nowhere")
    saved = manager.create(state_files=[".env", "large", "link.state"])
    (repo / ".env").write_text("KEY=2")
    (repo / "large").write_text("y" * 100)
    (repo / "link.state").unlink()

    assert manager.rollback(saved).is_complete
    assert (repo / ".env").read_text() == "KEY=1"
    assert (repo / "large").read_text() == "x" * 100
    assert os.readlink(repo / "link.state") == "nowhere"


def test_a_dry_run_tells_and_touches_nothing(repo: Path, manager: CheckpointManager) -> None:
    (repo / "x.state").write_text("then")
    saved = manager.create(state_files=["x.state"])
    (repo / "x.state").write_text("now")

    assert manager.rollback(saved, dry_run=True).written == ("x.state",)
    assert (repo / "x.state").read_text() == "now"


@pytest.mark.parametrize("forwards", [True, False])
def test_an_interrupted_rollback_goes_either_way(
    repo: Path, manager: CheckpointManager, forwards: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repo / "a.state").write_text("then")
    saved = manager.create(state_files=["a.state", "b.state"])
    (repo / "a.state").write_text("now")
    (repo / "b.state").write_text("now")

    def fail(operation: str, path: str) -> None:
        if operation == "rename" and path.endswith("/a.state"):
            raise OSError(28, "No space left on device")

    with observing(fail), pytest.raises(RollbackError):
        manager.rollback(saved)

    assert (repo / "a.state").read_text() == "now"
    assert not (repo / "b.state").exists()
    manager.resume_rollback() if forwards else manager.abort_rollback()
    assert (repo / "a.state").read_text() == ("then" if forwards else "now")
    assert (repo / "b.state").exists() is not forwards


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (".", "no state file"),
        ("../x", "outside the worktree"),
        ("/etc/passwd", "outside the worktree"),
        (".git/config", "inside a git dir"),
        ("src", "it is no file"),
        ("linked/x", "beyond a symbolic link"),
        ("README.md/x", "it is no file"),
        ("inner/x", "inside another repository"),
        ("store/config", "inside another repository"),
        ("pipe", "it is no file"),
        ("", "empty string"),
    ],
)
def test_what_is_no_file_of_the_worktree_is_refused(
    repo: Path, manager: CheckpointManager, path: str, message: str
) -> None:
    (repo / "linked").symlink_to("src")
    git("init", "-q", "inner")
    git("init", "-q", "--bare", "store")
    os.mkfifo(repo / "pipe")

    with pytest.raises(CkptError, match=message):
        manager.create(state_files=[path])

    assert len(manager) == 0


def test_the_snapshot_of_features_is_a_path_in_the_checkpoint(
    repo: Path, manager: CheckpointManager
) -> None:
    for name in ("list.state", "progress.state"):
        (repo / name).write_text(name)
    files = ["list.state", "progress.state"]
    first = manager.create(features={"current": "auth-003"}, state_files=files).checkpoint
    second = manager.create(
        features={"current": "auth-003", "snapshot_path": "progress.state"}, state_files=files
    ).checkpoint

    for found, name in ((first, "list.state"), (second, "progress.state")):
        assert found is not None
        assert found.feature_state is not None
        path = found.feature_state.snapshot_path
        assert git("show", f"{found.state_commit}:{path}") == name
        assert found.state_files == ("list.state", "progress.state")


def test_the_command_line_names_state_files_from_any_folder(
    repo: Path, manager: CheckpointManager
) -> None:
    (repo / "src/x.state").write_text(FEATURES)
    saved = ckpt("-C", "src", "save", "--json", "--state-file", "x.state", code=0).json
    (repo / "src/x.state").write_text("{}")

    assert saved["checkpoint"]["state_files"] == [{"path": "src/x.state"}]
    ckpt("rollback", code=0)
    assert (repo / "src/x.state").read_text() == FEATURES
