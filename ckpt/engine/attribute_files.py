# SPDX-License-Identifier: MIT
"""The attributes files that git reads: in the worktree, in the repository, of user and system.

A .gitattributes that is not on disk counts all the same if the index has it, as in git. Where
no file asks for a conversion, and configuration does not either, there is nothing to look up.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from ckpt.engine.excludes import config_home, read_followed
from ckpt.store.objects import MissingObject, ObjectID
from ckpt.store.repository import Repository
from ckpt.values import value_class
from ckpt.worktree.found import Scan
from ckpt.worktree.reach import LARGEST_TEXT, read_plain_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ckpt.worktree.attributes import AttributeTree

_NAME = b".gitattributes"


@value_class
class Attributed:
    """What the attributes say of every path; `tree` is None if nothing is converted in this
    worktree. The fingerprint is another one whenever that, or what is done then, could be."""

    tree: AttributeTree | None
    fingerprint: bytes


def attribute_tree(
    repo: Repository,
    staged: Mapping[bytes, bytes],
    found: Scan,
    instead: Mapping[bytes, bytes] | None = None,
) -> Attributed:
    """`staged` are the blobs of the attributes files in the index; the texts of `instead` count
    in place of those on disk."""
    instead = instead or {}
    reader = _Reader(repo, staged, instead)
    outside = _outside(repo)
    named = (*found.attribute_files, *staged, *instead)
    # A folder that was left out has tracked files below it, if it is listed all the same.
    unwalked = found.folders.keys() - (found.walked.keys() - found.skipped.keys())
    inside = {b"", *unwalked, *(path.rpartition(b"/")[0] for path in named)}
    texts = {folder: text for folder in sorted(inside) if (text := reader.read(folder))}
    autocrlf = repo.config.get("core.autocrlf")
    if autocrlf is None and not any(outside.values()) and not texts:
        return Attributed(None, b"")
    from ckpt.worktree.attributes import AttributeTree
    from ckpt.worktree.convert import converts

    if not converts(autocrlf, [*outside.values(), *texts.values()]):
        return Attributed(None, b"")
    ignore_case = repo.config.get_bool("core.ignorecase", False)
    drivers = sorted(repo.config.items("filter"))
    tree = AttributeTree(
        texts.get,
        info=outside["info"],
        user=outside["user"],
        system=outside["system"],
        ignore_case=ignore_case,
    )
    return Attributed(tree, repr((autocrlf, texts, outside, ignore_case, drivers)).encode())


def _outside(repo: Repository) -> dict[str, bytes]:
    user = repo.config.get_path("core.attributesfile")
    return {
        "system": b"" if repo.env.get("GIT_ATTR_NOSYSTEM") else read_followed("/etc/gitattributes"),
        "user": read_followed(user or os.path.join(config_home(repo), "git", "attributes")),
        "info": read_followed(os.path.join(repo.common_dir, "info", "attributes")),
    }


class _Reader:
    """Reads the attributes file of a folder, from disk or else as it is staged."""

    def __init__(
        self, repo: Repository, staged: Mapping[bytes, bytes], instead: Mapping[bytes, bytes]
    ) -> None:
        self._instead = instead
        self._top = os.fsencode(repo.worktree)
        self._objects = repo.objects
        self._staged = staged

    def read(self, folder: bytes) -> bytes | None:
        path = folder + b"/" + _NAME if folder else _NAME
        if path in self._instead:
            return self._instead[path]
        text = read_plain_file(os.path.join(self._top, path))
        if text is not None or path not in self._staged:
            return text
        try:
            return self._objects.read(ObjectID(self._staged[path]), b"blob", LARGEST_TEXT)
        except MissingObject:
            return None
