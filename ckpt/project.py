# SPDX-License-Identifier: MIT
"""Which project a file belongs to, for programs that are told of files and not of projects.

Goes by what lies about in projects of all kinds, not by what can be saved: that a folder is
a project does not mean that it is a repository.
"""

from __future__ import annotations

import os

# Any of these, a file or a folder, makes the folder that it is in the top of a project.
MARKERS = (
    *(".git", ".hg"),
    *("pyproject.toml", "package.json", "Cargo.toml", "go.mod", "pom.xml", "Gemfile", "Makefile"),
)


def project_root(path: str | os.PathLike[str]) -> str | None:
    """The nearest folder around a path, or the path itself, that is the top of a project.

    None if there is none below the home folder, `/` and the next border of a file system,
    none of which is ever a project. The path itself need not exist.
    """
    folder = _nearest_folder(os.path.abspath(path))
    home = os.path.join(os.path.realpath(os.path.expanduser("~")), "")
    device = os.stat(folder).st_dev
    while not home.startswith(os.path.join(folder, "")):
        if any(os.path.lexists(os.path.join(folder, marker)) for marker in MARKERS):
            return folder
        folder = os.path.dirname(folder)
        if os.stat(folder).st_dev != device:
            return None
    return None


def _nearest_folder(path: str) -> str:
    """The folder that a path is, or the first above it that is there, without links."""
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return os.path.realpath(path)
