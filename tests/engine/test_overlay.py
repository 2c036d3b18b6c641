# SPDX-License-Identifier: MIT
"""Patches laid over an index: what real git writes fits, and what is made for another does not."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers import git

from ckpt.engine.overlay import Edits, edits
from ckpt.git.index import read_staged
from ckpt.git.linediff import parse
from ckpt.git.objects import DamagedObject
from ckpt.git.repository import Repository, discover


@pytest.fixture
def opened(repo: Path) -> Iterator[Repository]:
    with discover(str(repo), os.environ) as opened:
        yield opened


def diff(*options: str) -> bytes:
    words = ["git", "diff", "--binary", *options]
    return subprocess.run(words, capture_output=True, check=True).stdout


def apply(opened: Repository, patch: bytes) -> Edits:
    return edits(opened, parse(patch), read_staged(opened))


def test_every_kind_of_change_is_found(repo: Path, opened: Repository) -> None:
    (repo / "README.md").write_text("# Another\n")
    (repo / "src/data.bin").write_bytes(bytes(range(255, -1, -1)) * 3)
    (repo / "run.sh").chmod(0o644)
    (repo / "current").unlink()
    (repo / "current").write_text("a file")
    (repo / "src/app.py").unlink()

    assert apply(opened, diff()) == {
        b"README.md": (0o100644, b"# Another\n"),
        b"current": (0o100644, b"a file"),
        b"run.sh": (0o100644, (repo / "run.sh").read_bytes()),
        b"src/app.py": None,
        b"src/data.bin": (0o100644, bytes(range(255, -1, -1)) * 3),
    }


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"-# An example\n", b"-# No example\n"),
        (b"+# Another\n", b"+# And another\n"),
        (b"/README.md", b"/NOTICE"),
        (b"/README.md", b"/../README.md"),
        (b"/README.md", b"/.git/config"),
        (b"100644", b"100755"),
        (b"100644", b"160000"),
        (b"index ", b"index 0"),
    ],
)
def test_a_patch_for_something_else_is_refused(
    repo: Path, opened: Repository, old: bytes, new: bytes
) -> None:
    (repo / "README.md").write_text("# Another\n")
    patch = diff()
    assert apply(opened, patch) == {b"README.md": (0o100644, b"# Another\n")}

    with pytest.raises(DamagedObject):
        apply(opened, patch.replace(old, new))


def test_a_patch_for_an_older_index_is_refused(repo: Path, opened: Repository) -> None:
    (repo / "README.md").write_text("# Another\n")
    patch = diff()
    git("add", "README.md")

    with pytest.raises(DamagedObject):
        apply(opened, patch)


@pytest.mark.parametrize(
    "option",
    [
        "diff.noprefix=true",
        "diff.mnemonicPrefix=true",
        "diff.context=0",
        "diff.renames=copies",
        "diff.suppressBlankEmpty=true",
        "diff.external=false",
        "core.quotePath=false",
        "core.abbrev=4",
        "core.abbrev=40",
        "color.ui=always",
    ],
)
def test_no_configuration_keeps_the_patch_of_pre_commit_from_being_read(
    repo: Path, opened: Repository, option: str
) -> None:
    (repo / "n\u00e4me").write_text("\n".join(["a", "", "b", "", "c", "d", "e", ""]))
    git("add", "-A")
    (repo / "n\u00e4me").write_text("\n".join(["a", "", "B", "", "c", "d", "e", ""]))
    tree = git("write-tree").strip()
    words = ["git", "-c", option, "diff-index", "--ignore-submodules", "--binary", "--exit-code"]
    words += ["--no-color", "--no-ext-diff", tree, "--"]
    patch = subprocess.run(words, capture_output=True).stdout

    content = b"a\n\nB\n\nc\nd\ne\n"
    assert apply(opened, patch) == {"n\u00e4me".encode(): (0o100644, content)}
