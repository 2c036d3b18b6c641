# SPDX-License-Identifier: MIT
"""What others have staged makes nothing tracked that is ignored, denied or left out here."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from helpers import ckpt_here, git
from hostile.forge import Forge
from hostile.inputs import FILE, FOLDER, nested
from hostile.scene import Scene

from ckpt.engine import recovery, rollback
from ckpt.engine.apply import Applier

OURS = ("README.md", "src/app.py")
HIDDEN = {".env": "denied", "build/tool": "ignored", "x.log": "ignored"}
NOT_STAGED = {path: f"{reason}, so not staged" for path, reason in HIDDEN.items()}


@pytest.fixture
def hidden(scene: Scene) -> Path:
    """A worktree with files that no checkpoint would hold; returns its top."""
    (scene.repo / ".git/info/exclude").write_text("*.log\nbuild/\n")
    (scene.repo / "build").mkdir()
    for path in HIDDEN:
        (scene.repo / path).write_text("ours\n")
    return scene.repo


def with_hidden(forge: Forge, files: Mapping[str, bytes] | None = None) -> str:
    """A tree of the files of the scene, and of others."""
    more = dict.fromkeys(HIDDEN, b"theirs\n") if files is None else files
    return nested(forge, dict.fromkeys(OURS, b"staged\n") | more)


def intended(forge: Forge) -> str:
    items = [{"path": path, "mode": FILE} for path in HIDDEN]
    flags = json.dumps({"version": 2, "intent_to_add": items}).encode()
    return forge.state(index_flags__json=(FILE, forge.blob(flags)))


def in_conflict(forge: Forge) -> str:
    sides = nested(forge, dict.fromkeys(HIDDEN, b"theirs\n"))
    stages = forge.tree(*((FOLDER, b"%d" % stage, sides) for stage in (1, 2, 3)))
    return forge.state(stages=(FOLDER, stages))


def staged(forge: Forge) -> str:
    return forge.state(index=(FOLDER, with_hidden(forge)))


def tracked(top: Path) -> list[str]:
    return sorted({*git("ls-files", cwd=top).split()})


def left(top: Path, *words: str, code: int = 4) -> dict[str, str]:
    """What a rollback leaves alone, with the reasons."""
    told = ckpt_here("rollback", "--json", *words, cwd=top, code=code).json
    return {item["path"]: item["reason"] for item in told["skipped"]}


@pytest.mark.parametrize("state", [staged, in_conflict, intended])
def test_what_is_hidden_here_is_not_tracked_because_others_track_it(
    scene: Scene, hidden: Path, state: Callable[[Forge], str]
) -> None:
    scene.forge.checkpoint(state=state(scene.forge))

    assert left(hidden, scene.forge.id, "--yes") == NOT_STAGED
    assert tracked(hidden) == [*OURS]
    saved = ckpt_here("save", "next", "--json", cwd=hidden, code=0).json["checkpoint"]
    assert not HIDDEN.keys() & {*git("ls-tree", "-r", "--name-only", saved["ref"]).split()}
    git("reset", "-q", "--hard", cwd=hidden)
    assert [(hidden / path).read_text() for path in HIDDEN] == ["ours\n"] * 3
    scene.count("hostile inputs without effect")


def test_a_dry_run_tells_the_same(scene: Scene, hidden: Path) -> None:
    (hidden / ".gitignore").write_text("*.tmp\n")
    (hidden / "x.tmp").write_text("ours\n")
    files = {"x.tmp": b"theirs\n", ".env": b"theirs\n"}
    index = with_hidden(scene.forge, files)
    scene.forge.checkpoint(state=scene.forge.state(index=(FOLDER, index)))

    told = {"x.tmp": "ignored, so not staged", ".env": "denied, so not staged"}
    assert left(hidden, scene.forge.id, "--yes", "--dry-run") == told
    assert left(hidden, scene.forge.id, "--yes") == told


def test_where_the_file_is_left_alone_so_is_the_index(scene: Scene, hidden: Path) -> None:
    tree = with_hidden(scene.forge)
    scene.forge.checkpoint(tree, scene.forge.state(index=(FOLDER, tree)))

    assert left(hidden, scene.forge.id, "--yes") == HIDDEN
    assert tracked(hidden) == [*OURS]
    assert left(hidden, scene.forge.id, "--yes", "--overwrite-ignored", code=0) == {}
    assert tracked(hidden) == sorted({*OURS, *HIDDEN})
    ckpt_here("undo", cwd=hidden, code=0)
    assert tracked(hidden) == [*OURS]
    assert [(hidden / path).read_text() for path in HIDDEN] == ["ours\n"] * 3


def test_nor_is_it_tracked_before_it_is_there(scene: Scene, hidden: Path) -> None:
    for path in HIDDEN:
        (hidden / path).unlink()
    scene.forge.checkpoint(state=staged(scene.forge))

    assert left(hidden, scene.forge.id, "--yes") == NOT_STAGED
    assert tracked(hidden) == [*OURS]


def test_a_file_that_comes_along_is_staged_as_it_was(scene: Scene, hidden: Path) -> None:
    for path in HIDDEN:
        (hidden / path).unlink()
    tree = with_hidden(scene.forge)
    scene.forge.checkpoint(tree, scene.forge.state(index=(FOLDER, tree)))

    assert left(hidden, scene.forge.id, "--yes", code=0) == {}
    assert tracked(hidden) == sorted({*OURS, *HIDDEN})


def test_what_is_tracked_here_already_is_staged_whatever_the_rules_say(
    scene: Scene, hidden: Path
) -> None:
    git("add", "-f", ".env", "x.log", cwd=hidden)
    scene.forge.checkpoint(state=staged(scene.forge))

    assert left(hidden, scene.forge.id, "--yes", "--", "build", ".env", "x.log") == {
        "build/tool": "ignored, so not staged"
    }
    assert git("show", ":.env", ":x.log", cwd=hidden) == "theirs\n" * 2


def test_nothing_is_tracked_in_a_repository_inside(scene: Scene, hidden: Path) -> None:
    git("init", "-q", "inside", cwd=hidden)
    (hidden / "inside/file").write_text("ours\n")
    index = with_hidden(scene.forge, {"inside/file": b"theirs\n"})
    scene.forge.checkpoint(state=scene.forge.state(index=(FOLDER, index)))

    assert left(hidden, scene.forge.id, "--yes") == {"inside/file": "nested, so not staged"}
    assert tracked(hidden) == [*OURS]


def test_nor_in_a_git_dir_of_another_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    top = tmp_path / "repo"
    git("init", "-q", f"--separate-git-dir={top}/meta", str(top))
    monkeypatch.chdir(top)
    (top / "file").write_text("ours\n")
    git("add", "file")
    git("commit", "-qm", "first")
    forge = Forge(top, ckpt_here("save", "--json", code=0).json["checkpoint"]["id"])
    forge.git_dir = top / "meta"
    index = nested(forge, {"file": b"staged\n", "meta/config": b"theirs\n"})
    forge.checkpoint(state=forge.state(index=(FOLDER, index)))

    assert left(top, forge.id, "--yes") == {"meta/config": "inside a git dir, so not staged"}
    assert tracked(top) == ["file"]


def test_with_trust_the_index_comes_back_as_it_was(scene: Scene, hidden: Path) -> None:
    scene.forge.checkpoint(state=staged(scene.forge))

    assert left(hidden, scene.forge.id, "--yes", "--trust", code=0) == {}
    assert tracked(hidden) == sorted({*OURS, *HIDDEN})


def test_so_does_that_of_a_checkpoint_made_here(hidden: Path) -> None:
    git("add", "-f", *HIDDEN, cwd=hidden)
    ckpt_here("save", "own", cwd=hidden, code=0)
    git("rm", "-q", "--cached", *HIDDEN, cwd=hidden)

    ckpt_here("rollback", "own", cwd=hidden)

    assert tracked(hidden) == sorted({*OURS, *HIDDEN})


def test_what_is_staged_while_a_rollback_runs_lets_nothing_in(
    scene: Scene, hidden: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (hidden / "new").write_text("ours\n")
    scene.forge.checkpoint(state=staged(scene.forge))
    usual = Applier.sync

    def meanwhile(applier: Applier) -> None:
        git("add", "README.md", cwd=hidden)
        usual(applier)

    monkeypatch.setattr(Applier, "sync", meanwhile)

    assert left(hidden, scene.forge.id, "--yes") == NOT_STAGED
    assert tracked(hidden) == [*OURS]


@pytest.mark.parametrize("edited", [False, True], ids=["", "after an edit"])
def test_nor_does_a_rollback_that_was_interrupted(
    scene: Scene, hidden: Path, edited: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.forge.checkpoint(with_hidden(scene.forge, {}), staged(scene.forge))

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(rollback, "restage", killed)
        assert ckpt_here("rollback", scene.forge.id, "--yes", cwd=hidden).code == 130
    if edited:
        git("add", "src", cwd=hidden)

    assert left(hidden, "--continue") == NOT_STAGED
    assert tracked(hidden) == [*OURS]
    assert [(hidden / path).read_text() for path in HIDDEN] == ["ours\n"] * 3
    ckpt_here("undo", cwd=hidden, code=0)
    assert tracked(hidden) == [*OURS]


def test_an_index_without_them_is_no_stranger_s(
    scene: Scene, hidden: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Aborting after the index was written, nobody has worked on since."""
    scene.forge.checkpoint(state=staged(scene.forge))

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(rollback, "finish", killed)
        assert ckpt_here("rollback", scene.forge.id, "--yes", cwd=hidden).code == 130
    monkeypatch.setattr(recovery.Strangers, "_save", killed)

    ckpt_here("rollback", "--abort", cwd=hidden, code=0)
    assert tracked(hidden) == [*OURS]
