# SPDX-License-Identifier: MIT
"""The attributes files that git reads: in the worktree, in the repository, of user and system.

A .gitattributes that is not on disk counts all the same if the index has it, as in git. Where
no file asks for a conversion, and configuration does not either, there is nothing to look up.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from ckpt.engine.rules import config_home, read_followed
from ckpt.store.objects import MissingObject, ObjectID
from ckpt.store.repository import Repository
from ckpt.store.staging import Staged
from ckpt.worktree.attributes import AttributeTree
from ckpt.worktree.convert import converts
from ckpt.worktree.scan import read_plain_file

_NAME = b".gitattributes"


def attribute_tree(
    repo: Repository, staged: Staged, files: Iterable[bytes]
) -> AttributeTree | None:
    """What the attributes say of every path; None if nothing is converted in this worktree."""
    reader = _Reader(repo, staged)
    outside = _outside(repo)
    inside = {b"", *_folders_with(files), *_folders_with(reader.staged)}
    texts = [text for text in map(reader.read, inside) if text]
    if not converts(repo.config.get("core.autocrlf"), [*outside.values(), *texts]):
        return None
    ignore_case = repo.config.get_bool("core.ignorecase", False)
    return AttributeTree(
        reader.read,
        info=outside["info"],
        user=outside["user"],
        system=outside["system"],
        ignore_case=ignore_case,
    )


def _folders_with(paths: Iterable[bytes]) -> list[bytes]:
    """Those that have an attributes file, of the folders of many paths."""
    found = [path[: -len(_NAME)] for path in paths if path.endswith(_NAME)]
    return [folder[:-1] for folder in found if not folder or folder.endswith(b"/")]


def _outside(repo: Repository) -> dict[str, bytes]:
    user = repo.config.get_path("core.attributesfile")
    return {
        "system": b"" if repo.env.get("GIT_ATTR_NOSYSTEM") else read_followed("/etc/gitattributes"),
        "user": read_followed(user or os.path.join(config_home(repo), "git", "attributes")),
        "info": read_followed(os.path.join(repo.common_dir, "info", "attributes")),
    }


class _Reader:
    """Reads the attributes file of a folder, from disk or else as it is staged."""

    def __init__(self, repo: Repository, staged: Staged) -> None:
        self._top = os.fsencode(repo.worktree)
        self._objects = repo.objects
        self.staged = {
            entry.path: ObjectID(entry.id)
            for entry in staged.index.entries
            if entry.stage == 0 and entry.path.endswith(_NAME)
        }

    def read(self, folder: bytes) -> bytes | None:
        path = folder + b"/" + _NAME if folder else _NAME
        text = read_plain_file(os.path.join(self._top, path))
        if text is not None or path not in self.staged:
            return text
        try:
            return self._objects.read(self.staged[path], b"blob")
        except MissingObject:
            return None
