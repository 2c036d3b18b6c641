# SPDX-License-Identifier: MIT
"""Private files and folders that are none, or were opened to others, as by `chmod -R` or a copy
without modes.

What others could only read is closed again. What they could write is told and left: once closed
it would be believed (see `private.read`), and only a person knows whether it is still theirs.
"""

from __future__ import annotations

import os
import stat
from shlex import join, quote

from ckpt import private
from ckpt.engine.flaws import Flaw
from ckpt.errors import CkptError
from ckpt.owners import claim, is_others
from ckpt.store.lock import SECOND_NAME
from ckpt.store.operation_files import ROOM
from ckpt.store.roots import git_dirs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ckpt.store.repository import Repository

_OF_GIT = (SECOND_NAME, ROOM)  # what becomes a file of git's, with the bits of one
# Files that are opened in their place, and what may come of something else there.
_HINDERED = {
    "lock": "to save and to roll back may fail",
    "last-rollback": "to roll back may fail",
    "prune-lock": "to drop and to mend may fail",
    "gc-lock": "to repack may fail",
    "made-here": "what is saved may count as foreign",
}


def no_folders(repo: Repository) -> Iterator[Flaw]:
    """What stands where our folder has to be, in any worktree's git dir. A link is none either:
    what it leads to is not ours."""
    for folder in (os.path.join(git_dir, "ckpt") for git_dir in git_dirs(repo)):
        if os.path.lexists(folder) and (os.path.islink(folder) or not os.path.isdir(folder)):
            told = f"'{folder}' is no folder, so that nothing can be saved or rolled back"
            by_hand = f"{join(['mv', folder, folder + '.away'])} && git ckpt doctor"
            yield Flaw("private files", True, told, by_hand=by_hand)


def no_files(repo: Repository) -> Iterator[Flaw]:
    """What stands where a file of ours has to be. Nobody reads through a link, either."""
    for folder in (os.path.join(git_dir, "ckpt") for git_dir in git_dirs(repo)):
        for name, hindered in _HINDERED.items():
            path = os.path.join(folder, name)
            if _is_no_file(path):
                told = f"'{path}' is no file, so that {hindered}"
                yield Flaw("private files", True, told, by_hand=join(["mv", path, path + ".away"]))


def _is_no_file(path: str) -> bool:
    try:
        return not stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:  # none is there, as at first
        return False


def open_to_others(repo: Repository) -> Iterator[Flaw]:
    for folder in (os.path.join(git_dir, "ckpt") for git_dir in git_dirs(repo)):
        found = [path for path in _below(folder) if private.is_open(path)]
        folders = [path for path in found if os.path.isdir(path)]
        files = [path for path in found if path not in folders]
        written = [path for path in files if private.is_writable(path)]
        readable = [path for path in files if path not in written]
        if folders:
            told = f"{_named(folders)} can be entered by other users"
            yield Flaw("private files", False, told, _close(folders))
        if readable:
            told = f"{_named(readable)} can be read by other users"
            yield Flaw("private files", False, told, _close(readable))
        if written:
            told = f"other users could write to {_named(written)}, so it may not be believed"
            by_hand = f"if nobody else has written there: {join(['chmod', '600', *written])}"
            yield Flaw("private files", False, told, by_hand=by_hand)
        yield from _of_others(folder)


def _of_others(folder: str) -> Iterator[Flaw]:
    git_dir = os.path.dirname(folder)
    found = [path for path in _below(folder) if _is_others(path, git_dir)]
    if found:
        told = f"{_named(found)} belongs to another user, so it may not be believed"
        by_hand = f"if nobody else has written there: {claim(found, git_dir)}"
        yield Flaw("private files", False, told, by_hand=by_hand)


def _is_others(path: str, git_dir: str) -> bool:
    try:
        return is_others(os.lstat(path), git_dir)
    except OSError:  # it is gone by now
        return False


def _below(path: str, levels: int = 3) -> Iterator[str]:
    """A private folder, and all that is in it and stays ours; a session's files are lowest."""
    yield path
    for name in private.names_in(path) if levels else ():
        if not name.startswith(_OF_GIT):
            yield from _below(os.path.join(path, name), levels - 1)


def _named(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return f"'{paths[0]}'{more}"


def _close(paths: Sequence[str]) -> Callable[[], str]:
    def close() -> str:
        for path in paths:
            if private.is_open(path):  # it may be gone by now
                private.close(path)
        still = next(filter(private.is_open, paths), None)
        if still is not None:
            raise CkptError(
                f"'{still}' stays as it is on its file system", hint=f"ls -ld {quote(still)}"
            )
        return "closed to others"

    return close
