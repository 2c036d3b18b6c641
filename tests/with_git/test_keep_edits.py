# SPDX-License-Identifier: MIT
"""`rollback --keep-edits`: the agent's work goes, what a person did in the meantime stays."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from helpers import ckpt_here as ckpt
from helpers import fsck, git
from scenes import State, state, write
from seam import observe

from ckpt import CheckpointManager
from ckpt.errors import CkptError, UsageError
from ckpt.models import RollbackResult

SESSION = "s1"
EDITED = "edited since the agent wrote it"
NOT_WRITTEN = "not written by the agent"
REMOVED = "removed since the agent wrote it"


class Agent:
    """Writes files and tells the ledger, as its hooks do."""

    def __init__(self, top: Path) -> None:
        self._top = top
        self._manager = CheckpointManager(top, session=SESSION)

    def write(self, *names: str, data: str = "agent\n") -> None:
        for name in names:
            write(self._top, name, data)
            self._tell(name)

    def remove(self, *names: str) -> None:
        for name in names:
            (self._top / name).unlink()
            self._tell(name)

    def _tell(self, name: str) -> None:
        self._manager.record_write(self._top / name)


@pytest.fixture
def agent(repo: Path) -> Agent:
    """An agent whose session has begun with a checkpoint; two files were untracked then."""
    write(repo, "notes", "mine\n")
    write(repo, "draft", "mine\n")
    ckpt("save", "start", "--kind", "session", "--session", SESSION, code=0)
    return Agent(repo)


def texts(top: Path) -> dict[str, str]:
    """The files that are not links, by name."""
    paths = git("ls-files", "-co", "--exclude-standard", cwd=top).splitlines()
    files = [top / path for path in dict.fromkeys(paths) if (top / path).is_file()]
    return {str(f.relative_to(top)): f.read_text("latin-1") for f in files if not f.is_symlink()}


def kept(told: dict) -> dict[str, str]:
    return {item["path"]: item["reason"] for item in told["kept"]}


def both_at_work(repo: Path, agent: Agent) -> None:
    agent.write("README.md", "notes", "src/app.py", "made", "deep/er/made")
    agent.remove("draft", "run.sh")
    write(repo, "notes", "mine, after the agent\n")
    write(repo, "deep/mine", "mine\n")
    write(repo, ".gitignore", "*.log\nbuild/\n*.tmp\n")
    (repo / "src/app.py").unlink()


def test_each_path_goes_back_or_stays_by_who_changed_it_last(repo: Path, agent: Agent) -> None:
    then = texts(repo)
    both_at_work(repo, agent)

    told = ckpt("rollback", "start", "--keep-edits", "--json", code=0).json

    assert kept(told) == {
        "notes": EDITED,
        "src/app.py": REMOVED,
        "deep/mine": NOT_WRITTEN,
        ".gitignore": NOT_WRITTEN,
    }
    assert sorted(item["path"] for item in told["removed"]) == ["deep/er/made", "made"]
    assert sorted(item["path"] for item in told["written"]) == ["README.md", "draft", "run.sh"]
    del then["src/app.py"]
    assert texts(repo) == then | {
        "notes": "mine, after the agent\n",
        "deep/mine": "mine\n",
        ".gitignore": "*.log\nbuild/\n*.tmp\n",
    }
    assert not (repo / "deep/er").exists()
    assert fsck(repo) == []


def test_a_dry_run_says_the_same_and_changes_nothing(repo: Path, agent: Agent) -> None:
    both_at_work(repo, agent)
    before = state(repo)

    foreseen = ckpt("rollback", "start", "--keep-edits", "--dry-run", "--json", code=0).json

    assert state(repo) == before
    done = ckpt("rollback", "start", "--keep-edits", "--json", code=0).json
    for what in ("written", "removed", "kept", "skipped", "index_changed"):
        assert foreseen[what] == done[what]


def test_the_person_reads_what_was_kept_and_why(repo: Path, agent: Agent) -> None:
    both_at_work(repo, agent)

    said = ckpt("rollback", "start", "--keep-edits", code=0).stdout

    assert f"  kept notes ({EDITED})\n" in said
    assert f"  kept deep/mine ({NOT_WRITTEN})\n" in said


def test_undo_brings_back_what_the_agent_did_and_redo_takes_it_again(
    repo: Path, agent: Agent
) -> None:
    both_at_work(repo, agent)
    before = state(repo)
    ckpt("rollback", "start", "--keep-edits", code=0)
    after = state(repo)

    ckpt("undo", code=0)
    assert state(repo) == before
    ckpt("undo", code=0)
    assert state(repo) == after


def test_the_agents_work_goes_back_turn_by_turn(repo: Path, agent: Agent) -> None:
    agent.write("README.md", "made", data="in the first turn\n")
    ckpt("save", "second", "--session", SESSION, code=0)
    agent.write("README.md", "made", data="in the second turn\n")

    assert kept(ckpt("rollback", "second", "--keep-edits", "--json", code=0).json) == {}
    assert (repo / "made").read_text() == "in the first turn\n"
    write(repo, "made", "in the first turn, and mine\n")
    told = ckpt("rollback", "start", "--keep-edits", "--json", code=0).json

    assert (repo / "README.md").read_text() == "# An example\n"
    assert kept(told) == {"made": EDITED}


def test_a_file_that_a_person_made_since_does_not_go_because_the_agent_edited_it(
    repo: Path, agent: Agent
) -> None:
    write(repo, "mine", "agent\n")
    with CheckpointManager(repo, session=SESSION) as manager:
        manager.record_write("mine", existed=True)

    told = ckpt("rollback", "start", "--keep-edits", "--json", code=0).json

    assert kept(told) == {"mine": "made by somebody else before the agent wrote it"}
    assert (repo / "mine").exists()


def test_paths_limit_what_goes_back_further(repo: Path, agent: Agent) -> None:
    agent.write("README.md", "src/app.py", "src/made")
    write(repo, "src/mine", "mine\n")

    told = ckpt("rollback", "start", "--keep-edits", "--json", "--", "src", code=0).json

    assert kept(told) == {"src/mine": NOT_WRITTEN}
    assert (repo / "README.md").read_text() == "agent\n"
    assert not (repo / "src/made").exists()
    assert (repo / "src/mine").exists()


def test_from_python_it_is_an_option_of_rollback(repo: Path, agent: Agent) -> None:
    agent.write("made")
    write(repo, "mine", "mine\n")
    with CheckpointManager(repo, session=SESSION) as manager:
        done: RollbackResult = manager.rollback_to_latest(keep_edits=True)

        assert done.removed == ("made",)
        assert [(item.path, item.reason) for item in done.kept] == [("mine", NOT_WRITTEN)]
        with pytest.raises(UsageError, match="--head exclude each other"):
            manager.rollback("start", head=True, keep_edits=True)
        with pytest.raises(UsageError, match="--recurse exclude each other"):
            manager.rollback("start", recurse=True, keep_edits=True)
        with pytest.raises(UsageError, match="for --keep-edits only"):
            manager.rollback("start", session=SESSION)


@pytest.fixture
def broken_off(repo: Path, agent: Agent) -> tuple[State, State]:
    """The same rollback has died before it wrote the index; what it would have reached, and
    what was before."""
    both_at_work(repo, agent)
    git("add", "-A")
    write(repo, "notes", "mine, and not staged\n")
    before = state(repo)
    ckpt("rollback", "start", "--keep-edits", code=0)
    after = state(repo)
    ckpt("undo", code=0)

    def fail(operation: str, path: object) -> None:
        if operation == "rename" and os.fsdecode(str(path)).endswith("/index"):
            raise OSError(28, "No space left on device")

    observe(fail)
    try:
        with CheckpointManager(repo) as manager, pytest.raises(CkptError):
            manager.rollback("start", keep_edits=True)
    finally:
        observe(None)
    assert state(repo) != after
    return after, before


def test_continue_finishes_it_without_touching_what_is_kept(
    repo: Path, broken_off: tuple[State, State]
) -> None:
    ckpt("rollback", "--continue", code=0)

    assert state(repo) == broken_off[0]


def test_abort_returns_to_what_both_had_done(repo: Path, broken_off: tuple[State, State]) -> None:
    ckpt("rollback", "--abort", code=0)

    assert state(repo) == broken_off[1]
