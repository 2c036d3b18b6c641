# SPDX-License-Identifier: MIT
"""Gather the settings of a repository from every place they may stand.

Lowest first: the repository's own file (`ckpt.toml`, else `[tool.ckpt]` in
pyproject.toml), git config `ckpt.*`, the environment, then what the caller passes.
What each source may say is for `settings` to judge.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from ckpt import settings
from ckpt.errors import UsageError
from ckpt.settings import Settings, Source
from ckpt.store.repository import Repository
from ckpt.worktree.reach import read_plain_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def load_settings(repo: Repository, flags: Mapping[str, Any] | None = None) -> Settings:
    sources = _file_sources(repo.worktree)
    sources.append(settings.from_git_config(repo.config.items("ckpt")))
    sources.append(settings.from_environ(repo.env))
    if flags:
        sources.append(Source("flag", "settings", dict(flags)))
    return settings.load(sources)


def load_forgiving(repo: Repository, flags: Mapping[str, Any] | None = None) -> Settings:
    """Settings for what must go on: defaults, and a note, in place of what is wrong."""
    try:
        return load_settings(repo, flags)
    except UsageError as error:
        return Settings(notes=(f"settings ignored: {error.message}",))


def _file_sources(worktree: str) -> list[Source]:
    own = _read(worktree, "ckpt.toml")
    project = _read(worktree, "pyproject.toml")
    sources = []
    if project is not None and b"ckpt" in project:
        sources.append(settings.from_pyproject(project))
    if own is not None:
        if sources and sources[0].values:
            raise UsageError(
                "settings stand both in 'ckpt.toml' and in [tool.ckpt] of 'pyproject.toml'",
                hint="keep them in one of the two",
            )
        sources = [settings.from_ckpt_toml(own)]
    return sources


def _read(worktree: str, name: str) -> bytes | None:
    return read_plain_file(os.path.join(os.fsencode(worktree), name.encode()))
