# SPDX-License-Identifier: MIT
"""Where the files of git's hooks are, and whose they are.

Git looks in `core.hooksPath`, from the top of the worktree, or in the folder `hooks` of the
common dir. What lies in the git dir is the user's own and may be edited between marks.
What lies outside, in the worktree or in a folder for many repositories, is shared with
others and is not, unless they ask.
"""

from __future__ import annotations

import os
from shlex import join

from ckpt.errors import Refused
from ckpt.store.repository import Repository
from ckpt.values import value_class

# Where tools put a hook that they find: pre-commit runs it first, lefthook never.
_MOVED = (".legacy", ".old")


@value_class
class Place:
    """The folder of the hooks that git runs; `scripts` is where a user's own go.

    They differ under husky, which has scripts of its own in `.husky/_` that run, with `sh`,
    those in `.husky`, and writes the former anew at each `npm install`.
    """

    hooks: str
    scripts: str
    is_foreign: bool

    @property
    def is_husky(self) -> bool:
        return self.hooks != self.scripts

    def file(self, event: str) -> str:
        return os.path.join(self.scripts, event)


def find_place(repo: Repository) -> Place:
    """Where git looks for hooks now; refuses if it cannot find any there."""
    folder, configured = _folder(repo), repo.config.get_path("core.hookspath")
    if configured == "":
        raise _turned_off("empty, so that git looks for hooks in '/'")
    if os.path.isdir(folder) or not os.path.lexists(folder):
        return _place(folder, repo)
    if configured is not None:
        raise _turned_off(f"'{folder}', which is not a folder")
    raise Refused(
        f"git finds no hooks: '{folder}' is not a folder, nor a link to one",
        hint=f"{join(['mv', folder, folder + '.away'])} && git ckpt install",
    )


def _turned_off(how: str) -> Refused:
    return Refused(
        f"hooks are turned off: core.hooksPath is {how}",
        hint="git config --show-origin --get core.hooksPath",
    )


def _folder(repo: Repository) -> str:
    configured = repo.config.get_path("core.hookspath")
    if configured:
        return os.path.normpath(os.path.join(repo.worktree, configured))
    return os.path.join(repo.common_dir, "hooks")


def earlier_places(repo: Repository, noted: list[str]) -> list[Place]:
    """All the folders where hooks of ours may be: git may have looked elsewhere before."""
    folders = [_folder(repo), os.path.join(repo.common_dir, "hooks"), *noted]
    return [_place(folder, repo) for folder in dict.fromkeys(folders) if os.path.isdir(folder)]


def files_of(place: Place, event: str) -> list[str]:
    """The names under which the hook for an event may lie, the one that git runs first."""
    names = [place.file(event), *(place.file(event) + suffix for suffix in _MOVED)]
    return names if not place.is_husky else [*names, os.path.join(place.hooks, event)]


def is_run_by_pre_commit(path: str) -> bool:
    """Whether pre-commit has moved the hook to this name and runs it from its own."""
    hook = path.removesuffix(".legacy")
    return hook != path and b"pre-commit" in read_file(hook) and os.access(hook, os.X_OK)


def read_file(path: str) -> bytes:
    """What a plain file holds; nothing for a symbolic link, a folder or no file."""
    if os.path.islink(path) or not os.path.isfile(path):
        return b""
    with open(path, "rb") as file:
        return file.read()


def _place(hooks: str, repo: Repository) -> Place:
    parent, name = os.path.split(hooks)
    is_husky = (name, os.path.basename(parent)) == ("_", ".husky")
    return Place(hooks, parent if is_husky else hooks, is_foreign=not _is_inside(hooks, repo))


def _is_inside(hooks: str, repo: Repository) -> bool:
    real = os.path.join(os.path.realpath(hooks), "")
    return real.startswith(os.path.join(os.path.realpath(repo.common_dir), ""))
