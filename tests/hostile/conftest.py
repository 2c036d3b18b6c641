# SPDX-License-Identifier: MIT
"""A repository to be attacked, made once and copied for each test."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

# Its assertions should say what they compared, like a test's own.
pytest.register_assert_rewrite("hostile.scene")

# ruff: noqa: E402 - to be imported after that
from hostile.scene import Scene


@pytest.fixture(scope="session")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Where the repository is once the first test has made it."""
    return []


@pytest.fixture
def scene(
    pattern: list[Path],
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    record_property: pytest.RecordProperty,
) -> Scene:
    if not pattern:
        made = tmp_path_factory.mktemp("hostile")
        Scene.make(made)
        pattern.append(made)
    subprocess.run(["cp", "-a", f"{pattern[0]}/.", str(tmp_path)], check=True)
    monkeypatch.chdir(tmp_path / "repo")
    return Scene(tmp_path, record_property)
