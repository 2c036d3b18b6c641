# SPDX-License-Identifier: MIT
"""The hooks that ckpt offers to pre-commit, as users get them: built, installed and run by it.

Nothing is downloaded: pip takes wheels that are made of what is installed here.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from helpers import git, pre_commit
from wheelhouse import wheelhouse

from ckpt.commands.hook import EVENTS
from ckpt.manager import CheckpointManager

TOP = Path(__file__).resolve().parents[2]
MANIFEST = TOP / ".pre-commit-hooks.yaml"
TEMPLATE = TOP / "templates/pre-commit-config.yaml"
HOSTILE = "import os; os.abort()\n"


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The repository that a user names: this checkout, committed as it is."""
    ignore = shutil.ignore_patterns(
        ".git", ".venv*", ".*_cache", ".hypothesis", "__pycache__", "tests", "bench", "demo"
    )
    source = Path(shutil.copytree(TOP, tmp_path / "git-ckpt", ignore=ignore, symlinks=True))
    git("init", "-q", cwd=source)
    git("add", "-A", cwd=source)
    git("commit", "-q", "-m", "release", cwd=source)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheelhouse(tmp_path / "wheels")))
    return source


def edit(top: Path) -> None:
    """Edits of both kinds, in a repository that would be taken for ckpt and what it needs; a
    `json.py` is not in it, because pre-commit would fall for that itself."""
    (top / "src/app.py").write_text("print('staged')\n")
    git("add", "-A", cwd=top)
    (top / "README.md").write_text("# Not staged\n")
    for name in ("ckpt.py", "dulwich/__init__.py"):
        (top / name).parent.mkdir(exist_ok=True)
        (top / name).write_text(HOSTILE)


def check_saved(top: Path) -> None:
    with CheckpointManager(top) as manager:
        [saved] = manager.list()
    assert git("show", f"{saved.commit}:README.md", cwd=top) == "# Not staged\n"
    assert git("show", f"{saved.commit}:ckpt.py", cwd=top) == HOSTILE
    assert not saved.partial


def test_pre_commit_accepts_the_manifest_and_the_template() -> None:
    assert pre_commit("validate-manifest", MANIFEST) == ""
    assert pre_commit("validate-config", TEMPLATE) == ""


def test_every_hook_calls_an_event_and_cannot_be_led_astray() -> None:
    lines = [line.strip(" -") for line in MANIFEST.read_text(encoding="utf-8").splitlines()]
    ids = [line.removeprefix("id: ") for line in lines if line.startswith("id: ")]
    entries = [line.removeprefix("entry: ") for line in lines if line.startswith("entry: ")]

    assert set(ids) <= set(EVENTS)
    assert entries == [f"python -I -m ckpt hook {name}" for name in ids]
    assert all(f"id: {name}" in TEMPLATE.read_text(encoding="utf-8") for name in ids)


@pytest.mark.slow
def test_a_config_that_names_the_repository_saves_each_commit(source: Path, repo: Path) -> None:
    text = TEMPLATE.read_text(encoding="utf-8").replace("https://example.org/git-ckpt", str(source))
    rev = git("rev-parse", "HEAD", cwd=source).strip()
    (repo / ".pre-commit-config.yaml").write_text(text.replace("v0.1.0", rev))
    pre_commit("install", cwd=repo)
    git("add", "-A")
    git("commit", "-q", "-m", "config", "--no-verify")
    edit(repo)
    git("commit", "-m", "staged")

    check_saved(repo)


@pytest.mark.slow
def test_the_repository_can_be_tried_out(source: Path, repo: Path) -> None:
    edit(repo)

    said = pre_commit("try-repo", source, "ckpt-save", "--verbose", cwd=repo)

    assert "Passed" in said and "warning:" not in said
    check_saved(repo)
