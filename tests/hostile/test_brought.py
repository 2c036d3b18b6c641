# SPDX-License-Identifier: MIT
"""The same trees by the ways that checkpoints take: `git fetch`, and a bundle that is imported."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from helpers import ckpt_here, git, tree_state
from hostile.inputs import BOMBS, HARMLESS, TREES
from hostile.scene import Scene

from ckpt import CheckpointManager, CkptError

# Git itself sends no tree that names what is not there, or that it cannot parse.
NEVER_SENT = {
    *("blob for a folder", "blob at the top", "commit at the top", "commit for a file"),
    *("commit for a folder", "mode that is no number", "mode without end", "no mode"),
    *("nothing at the top", "nothing for a file", "nothing for a folder", "tree for a file"),
    *("tree for a link", "empty name", "empty name as a folder"),
}
SENT = sorted(TREES.keys() - NEVER_SENT - HARMLESS)


@pytest.fixture
def ours(scene: Scene) -> Path:
    top = scene.top / "ours"
    git("clone", "-q", str(scene.repo), str(top))
    return top


def test_what_git_fetches_is_refused(scene: Scene, ours: Path) -> None:
    made = {}
    for number, name in enumerate(SENT):
        scene.forge.id = f"20260101-000000-{number:03}-zzzz"
        TREES[name](scene.forge)
        made[scene.forge.id] = name
    git("fetch", "-q", str(scene.repo), "refs/checkpoints/*:refs/checkpoints/*", cwd=ours)
    outside, before = tree_state(scene.outside), tree_state(ours)

    for checkpoint_id, name in made.items():
        ran = ckpt_here("rollback", checkpoint_id, "--yes", "--json", cwd=ours)
        assert ran.json["error"]["code"] in ("refused", "failed"), name
        assert ran.code in (1, 4), name

    assert tree_state(ours) == before
    assert tree_state(scene.outside) == outside
    assert scene.good in ckpt_here("list", "-n", "0", "--json", cwd=ours, code=0).stdout
    ckpt_here("rollback", scene.good, cwd=ours, code=0)
    assert (ours / "README.md").read_text() == "# saved\n"
    scene.count("hostile inputs refused", len(made))


def test_what_is_in_a_bundle_is_not_imported(scene: Scene, ours: Path) -> None:
    wide = "ten thousand million files"
    inputs = {**{name: TREES[name] for name in SENT}, wide: BOMBS[wide]}
    with CheckpointManager(ours) as manager:
        for name, make in inputs.items():
            make(scene.forge)
            bundle, ref = scene.top / "bundle", f"refs/checkpoints/{scene.forge.id}"
            git("bundle", "create", "-q", str(bundle), ref, "^HEAD")
            with pytest.raises(CkptError):
                manager.import_(bundle)
                pytest.fail(name)

        assert len(manager) == 0
    assert not os.path.exists(ours / ".git/refs/checkpoints")
    scene.count("hostile inputs refused", len(inputs))
