# SPDX-License-Identifier: MIT
"""Gather the settings of a repository from every place they may stand.

Lowest first: the repository's own file (`ckpt.toml`, else `[tool.ckpt]` in
pyproject.toml), git config `ckpt.*`, the environment, then what the caller passes.
What each source may say is for `settings` to judge.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from ckpt.errors import UsageError
from ckpt.setting_sources import Source, from_environ, from_git_config
from ckpt.settings import Settings, load
from ckpt.store.repository import Repository
from ckpt.values import replace
from ckpt.worktree.reach import read_plain_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LARGEST = 1 << 20  # bytes of a settings file; a parser of TOML takes seconds for as many


def load_settings(repo: Repository, flags: Mapping[str, Any] | None = None) -> Settings:
    return load([*_file_sources(repo.worktree), *_trusted_sources(repo, flags)])


def load_forgiving(repo: Repository, flags: Mapping[str, Any] | None = None) -> Settings:
    """Settings for what must go on: defaults, and a note, in place of what is wrong.

    What is wrong in the repository's own file takes nothing from what the user has said, or
    any commit could make checkpoints go that he keeps.
    """
    notes: dict[str, None] = {}
    for with_file in (True, False):
        try:
            files = _file_sources(repo.worktree) if with_file else []
            found = load([*files, *_trusted_sources(repo, flags)])
            return replace(found, notes=(*notes, *found.notes))
        except UsageError as error:
            notes[f"settings ignored: {error.message}"] = None
    return Settings(notes=tuple(notes))


def _trusted_sources(repo: Repository, flags: Mapping[str, Any] | None) -> list[Source]:
    sources = [from_git_config(repo.config.items("ckpt")), from_environ(repo.env)]
    return [*sources, Source("flag", "settings", _flat(flags))] if flags else sources


def _file_sources(worktree: str) -> list[Source]:
    own = _read(worktree, "ckpt.toml")
    project = _read(worktree, "pyproject.toml")
    has_project = project is not None and b"ckpt" in project
    if own is None and not has_project:
        return []
    from ckpt.setting_files import from_ckpt_toml, from_pyproject

    sources = []
    if project is not None and has_project:
        sources.append(from_pyproject(project))
    if own is not None:
        if sources and sources[0].values:
            raise UsageError(
                "settings stand both in 'ckpt.toml' and in [tool.ckpt] of 'pyproject.toml'",
                hint="keep them in one of the two",
            )
        sources = [from_ckpt_toml(own)]
    return sources


def _flat(flags: Mapping[str, Any]) -> dict[str, object]:
    """Settings as a caller may nest them, by dotted keys."""
    if not any(isinstance(value, dict) for value in flags.values()):
        return dict(flags)
    from ckpt.setting_files import flat

    return dict(flat(flags))


def _read(worktree: str, name: str) -> bytes | None:
    return read_plain_file(os.path.join(os.fsencode(worktree), name.encode()), _LARGEST)
