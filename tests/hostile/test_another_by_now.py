# SPDX-License-Identifier: MIT
"""Another's checkpoint under the id of one of ours, as a forced fetch brings it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from helpers import ckpt_here, git, tree_state
from hostile.forge import Forge
from scenes import write

from ckpt import CheckpointManager, Refused

FILES = [f"file-{number}" for number in range(9)]
ANOTHER = "is another one by now"


@pytest.fixture
def safety(repo: Path) -> str:
    """The safety checkpoint of a rollback that took an edit back and brought files."""
    for name in FILES:
        write(repo, name, f"{name}\n")
    ckpt_here("save", "start", code=0)
    for name in FILES:
        (repo / name).unlink()
    write(repo, "README.md", "edited\n")
    write(repo, "git~2", "a name that is refused in what others made\n")
    found: str = ckpt_here("rollback", "start", "--json", code=0).json["safety"]["id"]
    assert not (repo / "git~2").exists()
    return found


def swap(repo: Path, checkpoint_id: str, *names: str) -> str:
    """Put another commit there, with files of these names; returns the one that was."""
    made = git("rev-parse", f"refs/checkpoints/{checkpoint_id}", cwd=repo).strip()
    forge = Forge(repo, checkpoint_id)
    forge.id = checkpoint_id
    blob = forge.blob()
    entries = [("100644", name.encode(), blob) for name in sorted(names or ("theirs",))]
    forge.checkpoint(forge.tree(*entries))
    return made


def as_of_an_older_ckpt(repo: Path) -> None:
    """What `undo` reads, without the commits of the two checkpoints."""
    path = repo / ".git/ckpt/last-rollback"
    document = json.loads(path.read_bytes().partition(b"\n")[2])
    document.pop("target_commit", None)
    document.pop("safety_commit", None)
    data = json.dumps(document).encode()
    path.write_bytes(hashlib.sha256(data).hexdigest().encode() + b"\n" + data)


def forget_what_was_made_here(repo: Path) -> None:
    (repo / ".git/ckpt/made-here").unlink()


def test_undo_takes_the_option_that_it_asks_for(repo: Path, safety: str) -> None:
    as_of_an_older_ckpt(repo)
    forget_what_was_made_here(repo)

    refused = ckpt_here("undo", code=4).stderr
    assert "'git~2' is no name for a file" in refused
    assert "--trust takes it as it is" in refused
    ckpt_here("undo", "--trust", "--yes", code=0)
    assert (repo / "git~2").exists()


@pytest.mark.parametrize("words", [(), ("--dry-run",)], ids=["", "dry"])
def test_undo_does_not_go_to_another_checkpoint_than_its_own(
    repo: Path, safety: str, words: tuple[str, ...]
) -> None:
    made = swap(repo, safety)
    before = tree_state(repo)

    refused = ckpt_here("undo", *words, code=4).stderr
    bring_back = f"git update-ref refs/checkpoints/{safety} {made}"
    assert f"checkpoint '{safety}' {ANOTHER}" in refused
    assert f"hint: '{bring_back}' brings that one back" in refused
    assert tree_state(repo) == before
    git(*bring_back.split()[1:])
    ckpt_here("undo", code=0)
    assert (repo / "README.md").read_text() == "edited\n"


@pytest.mark.parametrize("age", ["of now", "older"])
def test_another_checkpoint_has_no_consent_to_remove_most_files(
    repo: Path, safety: str, age: str
) -> None:
    swap(repo, safety)
    trust = ["--trust"]
    if age == "older":
        as_of_an_older_ckpt(repo)
        trust = []
    before = tree_state(repo)

    assert "this rollback would remove" in ckpt_here("undo", *trust, code=4).stderr
    assert tree_state(repo) == before
    ckpt_here("undo", *trust, "--yes", code=0)
    assert (repo / "theirs").exists()


def test_another_checkpoint_does_not_tell_what_the_rollback_had_brought(
    repo: Path, safety: str
) -> None:
    """It would have all go that its tree names."""
    made = [f"made-since-{number}" for number in range(30)]
    for name in made:
        write(repo, name, "new\n")
    (start,) = ckpt_here("list", "--name", "start", "--json", code=0).json["checkpoints"]
    swap(repo, start["id"], *made, *FILES)

    assert "this rollback would remove" in ckpt_here("undo", code=4).stderr


def test_what_an_older_ckpt_remembered_is_undone(repo: Path, safety: str) -> None:
    as_of_an_older_ckpt(repo)

    ckpt_here("undo", code=0)

    assert (repo / "README.md").read_text() == "edited\n"
    assert not (repo / FILES[0]).exists()


def test_a_safety_checkpoint_that_was_pinned_is_undone_to(repo: Path, safety: str) -> None:
    ckpt_here("pin", safety, code=0)

    ckpt_here("undo", code=0)

    assert (repo / "README.md").read_text() == "edited\n"


def test_undo_goes_back_though_nobody_remembers_what_was_made_here(repo: Path, safety: str) -> None:
    """The safety checkpoint is known by its commit, and so may have any names."""
    forget_what_was_made_here(repo)

    told = ckpt_here("undo", "--json", code=0).json

    assert (repo / "git~2").exists() and not told["foreign"]


def test_so_it_does_after_a_rollback_that_was_interrupted(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The edits made since are in a later checkpoint than that of its beginning."""
    ckpt_here("save", "start", code=0)
    write(repo, "README.md", "edited\n")
    with monkeypatch.context() as patched:
        patched.setattr("ckpt.engine.rollback.finish", interrupt)
        assert ckpt_here("rollback", "start").code == 130
    write(repo, "README.md", "edited since\n")
    ckpt_here("rollback", "--continue", code=0)
    forget_what_was_made_here(repo)

    ckpt_here("undo", code=0)

    assert (repo / "README.md").read_text() == "edited since\n"


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_objects_are_not_put_back_from_another_checkpoint(repo: Path) -> None:
    restored: list[object] = []

    class Counter:
        number = 1

        def capture(self) -> object:
            return self.number

        def restore(self, state: object) -> None:
            restored.append(state)

    counter = Counter()
    with CheckpointManager(repo) as manager:
        manager.track("counter", counter)
        start = manager.create("start").id
        counter.number = 2
        write(repo, "README.md", "edited\n")
        safety = manager.rollback(start).safety
        assert safety is not None and restored == [1]
        swap(repo, safety.id)

        with pytest.raises(Refused, match=ANOTHER):
            manager.undo()
        assert restored == [1]


@pytest.fixture
def inside(repo: Path) -> Path:
    """A repository in the worktree, with an edit that was saved in a checkpoint `both`."""
    git("init", "-q", "inside")
    write(repo, "inside/file", "first\n")
    git("add", "file", cwd=repo / "inside")
    git("commit", "-q", "-m", "first", cwd=repo / "inside")
    write(repo, "inside/file", "saved\n")
    ckpt_here("save", "both", "--recurse", code=0)
    return repo / "inside"


def test_a_repository_inside_does_not_go_to_another_checkpoint_than_its_own(
    repo: Path, inside: Path
) -> None:
    (own,) = ckpt_here("list", "--json", cwd=inside, code=0).json["checkpoints"]
    made = swap(inside, own["id"], "file", "theirs")
    write(inside, "file", "edited\n")

    refused = ckpt_here("rollback", "both", "--recurse", code=4).stderr
    bring_back = f"git -C inside update-ref refs/checkpoints/{own['id']} {made}"
    assert f"in 'inside': checkpoint '{own['id']}' {ANOTHER}" in refused
    assert f"hint: '{bring_back}' brings that one back" in refused
    assert (inside / "file").read_text() == "edited\n"
    ckpt_here("rollback", "both", "--recurse", "--trust", code=0)
    assert (inside / "theirs").exists()


def test_nor_does_undo_take_it_there(repo: Path, inside: Path) -> None:
    write(inside, "file", "edited\n")
    told = ckpt_here("rollback", "both", "--recurse", "--json", code=0).json
    swap(inside, told["nested"][0]["safety"]["id"])

    assert ANOTHER in ckpt_here("undo", cwd=inside, code=4).stderr
    assert (inside / "file").read_text() == "saved\n"


def test_a_repository_inside_goes_to_its_own_checkpoint_after_that_was_pinned(
    repo: Path, inside: Path
) -> None:
    ckpt_here("pin", "both", cwd=inside, code=0)
    write(inside, "file", "edited\n")

    ckpt_here("rollback", "both", "--recurse", code=0)

    assert (inside / "file").read_text() == "saved\n"
