# SPDX-License-Identifier: MIT
"""Checkpoints of a folder that is no repository: a private store of ours, made on request.

The store is a git repository in the user's data folder, one for each folder, whose worktree the
folder is. Nothing is written to the folder itself. It is opened as any repository is, in an
environment in which git finds this one and nothing of the user's: no configuration, signing,
excludes or attributes but those in the folder and the store.

A folder that becomes a repository, or part of one, keeps the store that it has.

A store whose folder has vanished goes after a while, but only where it is certain that the
folder was removed: what is not mounted, or not reachable, may come back. A clock that is wrong
once must not be enough, so it has to be missed on several days.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from hashlib import sha256
from time import time
from typing import Any

from ckpt import disk, jsontext
from ckpt.errors import Refused
from ckpt.git.repository import NotARepository, Repository, TooBroad, check_breadth, discover
from ckpt.paths import data_dir, from_json, is_within, to_json, to_str

_A_DAY = 86400
GONE_FOR = 7 * _A_DAY  # seconds; then nobody is going to put it back
_LEAST_DAYS = 3  # on which it was looked for
_GIT_DIR = "git"
_FOLDER = "folder.json"
_HEAD = b"ref: refs/heads/main\n"
_CONFIG = b"""\
[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = false
\tlogallrefupdates = false
[gc]
\tauto = 0
[ckpt]
\tmaxNewFiles = none
"""


def open_store(path: str, env: Mapping[str, str]) -> Repository:
    """The store of the nearest folder around `path` that has one, or a new one for it."""
    folder = os.path.realpath(path)
    stores = _stores(env)
    check_breadth(folder, env)
    _check_apart(folder, stores)
    known = next((one for one in _upwards(folder) if _is_made(_place(stores, one))), None)
    _check_no_repository(folder, env, known)
    top = known or folder
    place = _place(stores, top)
    _make(stores, place, top)
    forget_vanished(env)
    return discover(top, _environment(place, top, env))


def forget_vanished(env: Mapping[str, str], now: float | None = None) -> list[str]:
    """Take away the stores of folders that were removed long ago; returns which these are."""
    stores, now = _stores(env), time() if now is None else now
    gone = []
    for name in _names(stores):
        place = os.path.join(stores, name)
        try:
            if _has_vanished(place, now):
                folder = to_str(from_json(_read(place)))
                disk.remove_tree(place)
                gone.append(folder)
        except (OSError, ValueError, KeyError, TypeError):  # it is left for another day
            continue
    return gone


def _stores(env: Mapping[str, str]) -> str:
    return os.path.realpath(os.path.join(data_dir(env), "stores"))


def _place(stores: str, folder: str) -> str:
    return os.path.join(stores, sha256(os.fsencode(folder)).hexdigest()[:32])


def _upwards(folder: str) -> Iterator[str]:
    while folder != "/":
        yield folder
        folder = os.path.dirname(folder)


def _check_apart(folder: str, stores: str) -> None:
    """A store must not hold itself, nor others."""
    inside, outside = (os.path.join(path, "") for path in (stores, folder))
    if inside.startswith(outside) or outside.startswith(inside):
        raise TooBroad(
            f"refusing to take checkpoints of '{folder}': ckpt's own stores are there",
            hint="name a folder of its own with -C DIR",
        )


def _check_no_repository(folder: str, env: Mapping[str, str], known: str | None) -> None:
    """Refuse to begin a store in a repository, but not the one that was there before it: it may
    hold what exists nowhere else."""
    plain = {name: value for name, value in env.items() if not name.startswith("GIT_")}
    try:
        found = discover(folder, plain)
    except (NotARepository, TooBroad):  # one of the whole home does not serve its folders
        return
    if known is not None and is_within(os.fsencode(known), (os.fsencode(found.worktree),)):
        return
    raise Refused(
        f"'{found.worktree}' is a git repository, which keeps its own checkpoints",
        hint="leave '--store user' out",
    )


def _is_made(place: str) -> bool:
    return os.path.isfile(os.path.join(place, _GIT_DIR, "HEAD"))


def _is_whole(place: str) -> bool:
    """Whether it has also the folders that a copy may leave out, if they are empty."""
    return all(os.path.isdir(os.path.join(place, _GIT_DIR, part)) for part in ("objects", "refs"))


def _make(stores: str, place: str, folder: str) -> None:
    """Make a store, or what is missing of it; `HEAD` comes last, and makes it one."""
    known = _facts(folder)
    if _is_made(place) and _is_whole(place) and _read_or_none(place) == known:
        return
    git_dir = os.path.join(place, _GIT_DIR)
    parts = ("objects/info", "objects/pack", "refs/heads", "info")
    disk.ensure_user_dir(stores)
    for path in (place, git_dir):
        disk.ensure_dir(path)
    for part in parts:
        for path in (os.path.dirname(part), part):
            disk.ensure_dir(os.path.join(git_dir, path) if path else git_dir)
    disk.replace(os.path.join(place, _FOLDER), jsontext.dump(known))
    if not _is_made(place):
        disk.replace(os.path.join(git_dir, "config"), _CONFIG)
        disk.replace(os.path.join(git_dir, "HEAD"), _HEAD)


def _facts(folder: str) -> dict[str, Any]:
    """What will tell later whether the folder was removed."""
    return {
        **to_json(folder),
        "device": os.stat(folder).st_dev,
        "parent_device": os.stat(os.path.dirname(folder)).st_dev,
    }


def _environment(place: str, folder: str, env: Mapping[str, str]) -> dict[str, str]:
    plain = {name: value for name, value in env.items() if not name.startswith("GIT_")}
    return plain | {
        "GIT_DIR": os.path.join(place, _GIT_DIR),
        "GIT_WORK_TREE": folder,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "XDG_CONFIG_HOME": os.path.join(place, "no-configuration"),
    }


# -- vanished folders -----------------------------------------------------------------


def _has_vanished(place: str, now: float) -> bool:
    """Whether the folder of a store was found to be gone for long enough, and still is."""
    known = _read(place)
    seen = [int(day) for day in known.get("gone_on", ())]
    if not _was_removed(known):
        if seen:
            del known["gone_on"]
            _write(place, known)
        return False
    today = int(now) // _A_DAY
    if today < _last_used(place) // _A_DAY:  # by a clock that is behind
        return False
    if seen and today < seen[-1]:  # by one that was ahead
        seen = []
    if today not in seen:
        seen = [*seen, today]
        _write(place, known | {"gone_on": seen})
    return len(seen) >= _LEAST_DAYS and (today - seen[0]) * _A_DAY >= GONE_FOR


def _last_used(place: str) -> int:
    git_dir = os.path.join(place, _GIT_DIR)
    parts = (git_dir, *(os.path.join(git_dir, part) for part in ("ckpt", "refs/checkpoints")))
    return max(int(os.stat(part).st_mtime) for part in parts if os.path.isdir(part))


def _was_removed(known: dict[str, Any]) -> bool:
    """A folder that is not there, where nothing was mounted, and nothing is missing around it."""
    folder = to_str(from_json(known))
    if known["device"] != known["parent_device"] or os.path.lexists(folder):
        return False
    try:
        parent = os.stat(os.path.dirname(folder))
    except OSError:
        return False
    return stat.S_ISDIR(parent.st_mode) and parent.st_dev == known["parent_device"]


def _names(stores: str) -> list[str]:
    try:
        return os.listdir(stores)
    except OSError:
        return []


def _read(place: str) -> dict[str, Any]:
    known = jsontext.load(disk.read_private(os.path.join(place, _FOLDER)))
    if not isinstance(known, dict):
        raise ValueError("not an object")
    return known


def _read_or_none(place: str) -> dict[str, Any] | None:
    try:
        return _read(place)
    except (OSError, ValueError):
        return None


def _write(place: str, known: Mapping[str, Any]) -> None:
    disk.replace(os.path.join(place, _FOLDER), jsontext.dump(dict(known)))
