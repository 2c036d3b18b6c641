# SPDX-License-Identifier: MIT
"""The helpers see what they are there to see, and nothing of this machine."""

from __future__ import annotations

import os
import time
from pathlib import Path

from helpers import fsck, git, status, tree_state


def test_tree_state_tells_content_mode_link_and_empty_folder_apart(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"one")
    (tmp_path / "run").write_bytes(b"two")
    (tmp_path / "run").chmod(0o750)
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "empty/inner").mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    os.mkfifo(tmp_path / "pipe")

    assert tree_state(tmp_path) == {
        b"file": ("file", 0o644, b"one"),
        b"run": ("file", 0o750, b"two"),
        b"link": ("link", 0, b"nowhere"),
        b"empty/inner": ("folder", 0o755, b""),
        b"pipe": ("special", 0o644, b""),
    }


def test_status_shows_ignored_files_and_leaves_the_index_alone(repo: Path) -> None:
    (repo / "run.log").write_text("")
    os.utime(repo / "README.md", (1, 1))
    before = (repo / ".git/index").read_bytes()

    assert "! run.log\0" in status(repo)
    assert before == (repo / ".git/index").read_bytes()


def test_fsck_finds_nothing_wrong_with_a_sound_repository(repo: Path) -> None:
    assert fsck(repo) == []


def test_fsck_tells_of_a_missing_object(repo: Path) -> None:
    blob = git("rev-parse", "HEAD:README.md").strip()
    (repo / ".git/objects" / blob[:2] / blob[2:]).unlink()

    assert any(blob in line for line in fsck(repo))


def test_nothing_of_the_machine_is_visible(isolated: Path) -> None:
    assert Path.home() == isolated
    assert isolated == Path.cwd()
    assert not [name for name in os.environ if name.startswith("CKPT_")]
    assert "NO_COLOR" not in os.environ
    assert time.tzname[0] == "UTC"
    origins = git("config", "--list", "--show-origin").splitlines()
    assert {line.split("\t")[0] for line in origins} == {f"file:{isolated}/.gitconfig"}
