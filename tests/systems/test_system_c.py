# SPDX-License-Identifier: MIT
"""Transparent checkpoints of the folders that an agent works in, done through ckpt.

The adapter has the names that programs of that system use; each test is a line of the table
of what it does. Its folders need be no repositories: ckpt keeps a private store for each.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ckpt import CheckpointManager, CkptError, RollbackResult, SaveResult, project_root


class FolderCheckpoints:
    """The adapter."""

    def __init__(self, enabled: bool = True, session: str = "agent") -> None:
        self.enabled, self._session = enabled, session
        self._managers: dict[str, CheckpointManager] = {}

    def _of(self, folder: str | Path) -> CheckpointManager:
        key = str(folder)
        if key not in self._managers:
            self._managers[key] = CheckpointManager(folder, session=self._session, store="user")
        self._managers[key].enabled = self.enabled
        return self._managers[key]

    def new_turn(self) -> None:
        for manager in self._managers.values():
            manager.new_turn()

    def ensure_checkpoint(self, folder: str | Path, reason: str) -> SaveResult | None:
        try:
            return self._of(folder).ensure(reason)
        except CkptError:  # `/`, the home folder, or no folder at all
            return None

    def list_checkpoints(self, folder: Path) -> list[dict[str, Any]]:
        return [
            {
                "hash": found.commit,
                "short_hash": found.commit[:8],
                "timestamp": found.timestamp.isoformat(),
                "reason": found.description,
                "files_changed": found.stats.files_changed,
                "insertions": found.stats.insertions,
                "deletions": found.stats.deletions,
                "id": found.id,
            }
            for found in self._of(folder).list(kind="auto")
        ]

    def diff(self, folder: Path, which: str) -> str:
        return self._of(folder).diff(which).patch.decode()

    def restore(self, folder: Path, which: str, file: str | None = None) -> RollbackResult:
        return self._of(folder).rollback(which, None if file is None else [file])

    def safe_restore(self, folder: Path, which: str) -> RollbackResult:
        return self._of(folder).rollback(which, keep_edits=True)

    def record_write(self, folder: Path, file: str) -> None:
        self._of(folder).record_write(file)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("one\n")
    (folder / "b.txt").write_text("one\n")
    return folder


@pytest.fixture
def made() -> FolderCheckpoints:
    return FolderCheckpoints()


def told(result: SaveResult | None) -> tuple[str, str | None]:
    assert result is not None
    return result.outcome.value, result.reason


def test_the_adapter_fits_on_a_screen() -> None:
    lines = Path(__file__).read_text().split("\n")
    start = lines.index("class FolderCheckpoints:")

    assert lines.index("@pytest.fixture") - start <= 60


def test_once_a_turn_and_folder_and_the_outcome_says_why_not(
    made: FolderCheckpoints, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()

    assert told(made.ensure_checkpoint(folder, "write_file")) == ("created", None)
    assert told(made.ensure_checkpoint(folder, "patch")) == ("skipped", "duplicate")
    assert told(made.ensure_checkpoint(tmp_path / "other", "patch")) == ("created", None)
    made.new_turn()
    assert told(made.ensure_checkpoint(folder, "patch")) == ("unchanged", None)
    made.enabled = False
    assert told(made.ensure_checkpoint(folder, "patch")) == ("skipped", "disabled")


@pytest.mark.parametrize("where", ["/", "~", "nowhere"])
def test_what_is_too_broad_or_not_there_is_refused_without_raising(
    made: FolderCheckpoints, where: str, tmp_path: Path
) -> None:
    place = tmp_path / where if where == "nowhere" else Path(where).expanduser()

    assert made.ensure_checkpoint(place, "rm -rf") is None


def test_the_list_has_hash_time_reason_and_stats(made: FolderCheckpoints, folder: Path) -> None:
    made.ensure_checkpoint(folder, "write_file")
    made.new_turn()
    (folder / "a.txt").write_text("one\ntwo\n")
    made.ensure_checkpoint(folder, "rm -rf build")

    newest, oldest = made.list_checkpoints(folder)
    assert (newest["reason"], oldest["reason"]) == ("rm -rf build", "write_file")
    assert newest["timestamp"] > oldest["timestamp"]
    assert (newest["files_changed"], newest["insertions"], newest["deletions"]) == (2, 3, 0)
    assert newest["hash"].startswith(newest["short_hash"])


def test_diff_restore_of_all_or_one_and_by_number(made: FolderCheckpoints, folder: Path) -> None:
    made.ensure_checkpoint(folder, "first")
    made.new_turn()
    (folder / "a.txt").write_text("two\n")
    made.ensure_checkpoint(folder, "second")
    for name in ("a.txt", "b.txt", "new.txt"):
        (folder / name).write_text("three\n")

    assert "-two\n+three\n" in made.diff(folder, "latest")
    made.restore(folder, "latest~1", "a.txt")
    assert (folder / "a.txt").read_text() == "one\n"
    assert (folder / "b.txt").read_text() == "three\n"
    result = made.restore(folder, "latest")
    assert (folder / "a.txt").read_text() == "two\n"
    assert not (folder / "new.txt").exists()  # theirs leaves it
    assert result.safety is not None
    assert sorted(path.name for path in folder.iterdir()) == ["a.txt", "b.txt"]


def test_safe_restore_keeps_what_a_person_edited(made: FolderCheckpoints, folder: Path) -> None:
    made.ensure_checkpoint(folder, "write_file")
    for name in ("a.txt", "b.txt", "new.txt"):
        (folder / name).write_text("agent\n")
        made.record_write(folder, name)
    (folder / "b.txt").write_text("me\n")

    result = made.safe_restore(folder, "latest")

    assert (folder / "a.txt").read_text() == "one\n"
    assert (folder / "b.txt").read_text() == "me\n"
    assert not (folder / "new.txt").exists()
    assert [item.path for item in result.kept] == ["b.txt"]


@pytest.mark.parametrize(
    ("which", "file"),
    [("--help", None), ("-n1", None), ("", None), ("latest", "../x"), ("latest", "/etc/passwd")],
)
def test_ids_like_options_and_paths_that_leave_are_rejected(
    made: FolderCheckpoints, folder: Path, which: str, file: str | None
) -> None:
    made.ensure_checkpoint(folder, "x")

    with pytest.raises(CkptError):
        made.restore(folder, which, file)


def test_the_project_of_a_file_is_found(folder: Path) -> None:
    (folder / "pyproject.toml").touch()
    (folder / "src").mkdir()

    assert project_root(folder / "src/new.py") == str(folder)
