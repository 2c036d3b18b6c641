# SPDX-License-Identifier: MIT
"""The project around a file is the nearest folder with something in it that projects have."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import ckpt
from ckpt.paths import MARKERS, project_root


@pytest.mark.parametrize("marker", MARKERS)
def test_a_marker_makes_its_folder_a_project(tmp_path: Path, marker: str) -> None:
    (tmp_path / "top/deep/er").mkdir(parents=True)
    (tmp_path / "top" / marker).touch()

    assert ckpt.project_root(tmp_path / "top/deep/er/new.py") == str(tmp_path / "top")
    assert project_root(str(tmp_path / "top")) == str(tmp_path / "top")


def test_the_nearest_project_counts(tmp_path: Path) -> None:
    (tmp_path / "top/.git").mkdir(parents=True)
    (tmp_path / "top/web").mkdir()
    (tmp_path / "top/web/package.json").touch()

    assert project_root(tmp_path / "top/web/package.json") == str(tmp_path / "top/web")
    assert project_root(tmp_path / "top/not/yet/there") == str(tmp_path / "top")


def test_a_relative_path_begins_at_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "Makefile").touch()
    (tmp_path / "src").mkdir()
    monkeypatch.chdir(tmp_path / "src")

    assert project_root("x.c") == str(tmp_path)


def test_a_link_to_a_folder_is_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "top/.git").mkdir(parents=True)
    (tmp_path / "top/src").mkdir()
    (tmp_path / "short").symlink_to("top/src")

    assert project_root(tmp_path / "short/x.c") == str(tmp_path / "top")


def test_home_and_what_is_above_it_are_no_project(isolated: Path) -> None:
    """People keep a Makefile, or a repository of settings, in their home."""
    (isolated / ".git").mkdir()
    (isolated.parent / "Makefile").touch()
    (isolated / "project/src").mkdir(parents=True)

    assert project_root(isolated / "project/src/x.c") is None
    assert project_root(isolated) is None
    assert project_root(isolated.parent) is None
    assert project_root("/") is None
    (isolated / "project/go.mod").touch()
    assert project_root(isolated / "project/src/x.c") == str(isolated / "project")


def test_the_search_ends_where_another_file_system_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "mounted/src").mkdir(parents=True)
    stat = os.stat

    def elsewhere(path: Any, **options: Any) -> os.stat_result:
        found = stat(path, **options)
        if "mounted" not in os.fsdecode(path):
            return found
        return os.stat_result((*found[:2], found.st_dev + 1, *found[3:]))

    monkeypatch.setattr(os, "stat", elsewhere)

    assert project_root(tmp_path / "mounted/src/x.c") is None
    assert project_root(tmp_path / "x.c") == str(tmp_path)
