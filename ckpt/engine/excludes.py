# SPDX-License-Identifier: MIT
"""What the rules of a scan follow from, besides the worktree: read at every save.

Git's two private exclude files, and settings. Only where these are others than last time, or a
folder has changed, rules are made of them (`rules`).
"""

from __future__ import annotations

import os

from ckpt.settings import DENIED_FILES, Settings
from ckpt.store.repository import Repository
from ckpt.worktree.reach import read_plain_file


def read_excludes(repo: Repository) -> dict[str, bytes]:
    """`global` is core.excludesFile or its default place, `info` the repository's own file."""
    default = os.path.join(config_home(repo), "git", "ignore")
    files = {
        "global": repo.config.get_path("core.excludesfile") or default,
        "info": os.path.join(repo.common_dir, "info", "exclude"),
    }
    return {name: read_followed(path) for name, path in files.items()}


def config_home(repo: Repository) -> str:
    home = repo.env.get("HOME", "")
    return repo.env.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")


def read_followed(path: str) -> bytes:
    """A file that is the user's own and may be a link, unlike a `.gitignore`."""
    return read_plain_file(os.fsencode(os.path.realpath(path))) or b""


def fingerprint(repo: Repository, settings: Settings, excludes: dict[str, bytes]) -> bytes:
    """Another one if a scan could find something else on the same disk, with the same index."""
    return repr(
        (
            sorted(excludes.items()),
            repo.config.get_bool("core.ignorecase", False),
            DENIED_FILES,
            settings.deny_patterns,
            settings.include,
            settings.trusted_include,
            settings.max_file_size,
            inside(repo.worktree, repo.git_dir, repo.common_dir),
        )
    ).encode()


def inside(worktree: str, *folders: str) -> list[bytes]:
    top = os.path.join(worktree, "")
    return [os.fsencode(path[len(top) :]) for path in folders if path.startswith(top)]
