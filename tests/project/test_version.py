# SPDX-License-Identifier: MIT
"""One version, said alike by pyproject.toml, the package, the program and the changelog."""

from __future__ import annotations

import re
import sys
from importlib import metadata
from pathlib import Path

from helpers import ckpt

import ckpt as package

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TOP = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CHANGELOG = (TOP / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_package_has_the_version_of_pyproject() -> None:
    assert PROJECT["version"] == package.__version__


def test_the_installed_distribution_has_the_version_of_pyproject() -> None:
    """If not: the environment is older than pyproject.toml, install again."""
    assert PROJECT["version"] == metadata.version("git-ckpt")


def test_the_program_tells_its_version() -> None:
    ran = ckpt("--version", code=0)

    assert PROJECT["version"] in ran.stdout.split()


def test_the_changelog_begins_with_this_version() -> None:
    assert CHANGELOG.split("\n## ")[1].split()[0] == PROJECT["version"]


def test_the_supported_pythons_are_the_same_everywhere() -> None:
    prefix = "Programming Language :: Python :: 3."
    classified = [word for word in PROJECT["classifiers"] if word.startswith(prefix)]
    finder = (TOP / ".ci/pythons").read_text(encoding="utf-8")
    searched = re.search(r"^supported='(.+)'$", finder, re.MULTILINE)
    assert searched

    versions = ["3." + word.removeprefix(prefix) for word in classified]
    assert versions == sorted(searched[1].split())
    assert PROJECT["requires-python"] == f">={versions[0]}"
