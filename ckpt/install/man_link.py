# SPDX-License-Identifier: MIT
"""The man page, for `git help ckpt` and `man git-ckpt`: a link where `man` looks for it.

Only where `man` is there and does not find the page by itself, as it does when ckpt was
installed into a place on PATH, and only if the link helps. Without it, `git ckpt help` shows
the same text.
"""

from __future__ import annotations

import os

from ckpt import disk
from ckpt.install.assets import asset
from ckpt.install.programs import man_finds
from ckpt.install.record import missing_folders, remove_folders
from ckpt.install.target import ADDED, CHANGED, KEPT, REMOVED, Step, Target
from ckpt.install.user_files import data_home
from ckpt.store.sharing import NOT_SHARED

_PAGE = "git-ckpt"
_PART = "man"


def install(target: Target) -> list[Step]:
    path, page = _link(target), str(asset("man/git-ckpt.1"))
    if os.path.islink(path) and os.readlink(path) == page:
        return [Step(KEPT, "man page", path)]
    was_ours = _is_ours(target, path)
    if not was_ours and (os.path.lexists(path) or man_finds(_PAGE, target.env) is not False):
        return []
    notes = target.user_record.get(_PART)
    made = notes.get("made", []) or missing_folders(os.path.dirname(path))
    target.user_record.put(_PART, {"page": page, "made": made})
    if was_ours:
        disk.unlink(path)
    NOT_SHARED.make_folders(os.path.dirname(path))
    disk.symlink(page, path)
    if not man_finds(_PAGE, target.env):  # it does not look there either
        return uninstall(target)[1:]
    return [Step(CHANGED if was_ours else ADDED, "man page", path)]


def uninstall(target: Target) -> list[Step]:
    path = _link(target)
    is_ours = _is_ours(target, path)
    if is_ours:
        disk.unlink(path)
    if is_ours or not os.path.lexists(path):  # one that was killed may have noted it only
        remove_folders(target.user_record.get(_PART).get("made", []))
        target.user_record.drop(_PART)
    return [Step(REMOVED, "man page", path)] if is_ours else []


def _link(target: Target) -> str:
    return os.path.join(data_home(target.env), "man", "man1", f"{_PAGE}.1")


def _is_ours(target: Target, path: str) -> bool:
    if not os.path.islink(path):
        return False
    page = target.user_record.get(_PART).get("page")
    return os.readlink(path) in (page, str(asset("man/git-ckpt.1")))
