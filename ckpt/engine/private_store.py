# SPDX-License-Identifier: MIT
"""Checkpoints of a directory that is not a repository, in a private store created on request.

The store is a git repository in the user's data directory, with the directory as its worktree. It
is opened in an environment that points git to it and hides the user's configuration. It ignores the
HEAD and index of a repository in the directory. A store is removed after its directory has been
missing for a month.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import sha256
from time import time

from ckpt import codec, disk
from ckpt.git.repository import Repository, TooBroad, check_breadth, discover
from ckpt.paths import data_dir, from_json, is_within, to_json

_GONE_FOR = 30 * 86400  # seconds
_GONE = "gone"  # a mark, created when a directory is first found missing
_FOLDER = "folder.json"
_PARTS = ("objects", "objects/info", "objects/pack", "refs", "refs/heads", "info")
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
    """Return the store of `path` or its nearest parent that has one, or create one for `path`."""
    top = folder = os.path.realpath(path)
    stores = os.path.realpath(os.path.join(data_dir(env), "stores"))
    check_breadth(folder, env)
    inside, around = os.fsencode(stores), os.fsencode(folder)
    if is_within(inside, (around,)) or is_within(around, (inside,)):
        raise TooBroad(
            f"refusing to take checkpoints of '{folder}': ckpt's own stores are there",
            hint="name a folder of its own with -C DIR",
        )
    plain = {name: value for name, value in env.items() if not name.startswith("GIT_")}
    while top != "/" and not _is_made(_place(stores, top)):
        top = os.path.dirname(top)
    top = folder if top == "/" else top
    place = _place(stores, top)
    _make(stores, place, top)
    _forget_removed(stores)
    ours = {
        "GIT_DIR": os.path.join(place, "git"),
        "GIT_WORK_TREE": top,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "XDG_CONFIG_HOME": os.path.join(place, "no-configuration"),
    }
    return discover(top, plain | ours)


def _place(stores: str, folder: str) -> str:
    return os.path.join(stores, sha256(os.fsencode(folder)).hexdigest()[:32])


def _is_made(place: str) -> bool:
    return os.path.isfile(os.path.join(place, "git", "HEAD"))


def _make(stores: str, place: str, folder: str) -> None:
    """Create a store unless it exists; `HEAD` comes last, as it makes it complete."""
    if _is_made(place):
        return
    git_dir = os.path.join(place, "git")
    os.makedirs(stores, 0o700, exist_ok=True)
    for path in (place, git_dir, *(os.path.join(git_dir, part) for part in _PARTS)):
        disk.ensure_dir(path)
    known = codec.dump({**to_json(folder), "device": os.stat(folder).st_dev})
    disk.replace(os.path.join(place, _FOLDER), known)
    disk.replace(os.path.join(git_dir, "config"), _CONFIG)
    disk.replace(os.path.join(git_dir, "HEAD"), b"ref: refs/heads/main\n")


def _forget_removed(stores: str) -> None:
    """Remove the stores of directories that were removed long ago."""
    for place in (os.path.join(stores, name) for name in disk.names_in(stores)):
        mark = os.path.join(place, _GONE)
        try:
            known = codec.load(disk.read_private(os.path.join(place, _FOLDER)))
            folder = from_json(known)
            # A directory on another file system than its parent may not be mounted.
            around = os.stat(os.path.dirname(folder))
            if os.path.lexists(folder) or around.st_dev != known["device"]:
                disk.discard(mark)
            elif not os.path.exists(mark):
                disk.replace(mark, b"")
            elif time() - os.lstat(mark).st_mtime > _GONE_FOR:
                from shutil import rmtree  # slow to import

                rmtree(place)
        except (OSError, ValueError, KeyError, TypeError):  # try again next time
            continue
