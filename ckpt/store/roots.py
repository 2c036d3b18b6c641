# SPDX-License-Identifier: MIT
"""What git itself holds on to, whatever becomes of checkpoints.

These are the places from which `git gc` sets out: every ref but ours, the HEAD and the reflogs
of every worktree, and what is staged in their indexes. What cannot be read is passed over, as
who asks wants to know how much space something takes, not whether it is whole. Left out: reflogs
in reftables, and the files of an operation in progress, which git began to follow in 2.44.
"""

from __future__ import annotations

import os
from binascii import unhexlify

from ckpt import regular
from ckpt.errors import CkptError
from ckpt.paths import to_str
from ckpt.store.index import UnsupportedIndex, read_index
from ckpt.values import value_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ckpt.store.index import Index
    from ckpt.store.repository import Repository

_OURS = ("refs/checkpoints", "refs/checkpoints-trash")
_FOLDER = 0o040000


@value_class
class Roots:
    """Raw ids: `tips` of any kind, `trees` that only an index may hold, and `whole`, objects all
    of whose contents are among these, too, so that nobody has to look into them."""

    tips: set[bytes]
    trees: set[bytes]
    whole: set[bytes]


def held_by_git(repo: Repository) -> Roots:
    found = Roots(set(map(unhexlify, repo.refs.others())), set(), set())
    for git_dir in git_dirs(repo):
        found.tips.update(_heads(repo, git_dir))
        found.tips.update(_logged(os.path.join(git_dir, "logs"), repo.object_format.hex_length))
        for index in _indexes(repo, git_dir):
            _add_staged(index, found)
    return found


def git_dirs(repo: Repository) -> list[str]:
    """Of the main worktree, and of the linked ones."""
    linked = os.path.join(repo.common_dir, "worktrees")
    names = sorted(os.listdir(linked)) if os.path.isdir(linked) else []
    return [repo.common_dir, *(os.path.join(linked, name) for name in names)]


def worktree_of(git_dir: str) -> str | None:
    """The folder to which a git dir of `git_dirs` belongs, whether or not it is there; None if
    nobody can tell."""
    if os.path.basename(git_dir) == ".git":
        return os.path.dirname(git_dir)
    try:
        named = regular.read(os.path.join(git_dir, "gitdir")).rstrip(b"\n")
    except OSError:
        return None
    return os.path.dirname(os.path.join(git_dir, to_str(named))) if named else None


def present_worktrees(repo: Repository) -> list[str]:
    """The folders of all worktrees of a repository that are there, its own first."""
    places = [place for place in map(worktree_of, git_dirs(repo)) if place is not None]
    linked = (os.path.realpath(place) for place in places if os.path.isdir(place))
    return [*dict.fromkeys([repo.worktree, *linked])]


def in_worktree(git_dir: str) -> str:
    """Where something was found, for who looks from another worktree."""
    return f", in worktree '{worktree_of(git_dir) or git_dir}'"


def _heads(repo: Repository, git_dir: str) -> Iterator[bytes]:
    refs = type(repo.refs)(git_dir, repo.common_dir, repo.object_format.hex_length)
    try:
        commit = refs.head().commit
    except (CkptError, OSError):
        return
    if commit is not None:
        yield unhexlify(commit)
    yield from map(unhexlify, refs.own())


def _logged(logs: str, hex_length: int) -> set[bytes]:
    """The old and the new value of each line of each reflog."""
    found: set[bytes] = set()
    for folder, folders, names in os.walk(logs):
        folders[:] = [
            name
            for name in folders
            if os.path.relpath(os.path.join(folder, name), logs) not in _OURS
        ]
        for name in names:
            try:
                lines = regular.read(os.path.join(folder, name), regular.LARGE).split(b"\n")
            except OSError:
                continue
            for line in lines:
                found.update(line[: 2 * hex_length + 1].split(b" "))
    ids = (word for word in found if len(word) == hex_length and word.strip(b"0"))
    return {unhexlify(word) for word in ids if not word.strip(b"0123456789abcdef")}


def _indexes(repo: Repository, git_dir: str) -> Iterator[Index]:
    """A worktree's index, if it can be read."""
    try:
        data = regular.read(os.path.join(git_dir, "index"), regular.LARGE)
        yield read_index(
            data, hash_len=repo.object_format.oid_length, hash_name=repo.format.hash_name
        )
    except UnsupportedIndex:  # what it names is not known
        raise
    except (OSError, CkptError):
        return


def _add_staged(index: Index, found: Roots) -> None:
    if index.is_sparse:  # a folder may stand for all that is in it
        ids = [(entry.id, entry.mode == _FOLDER) for entry in index.entries]
        found.trees.update(unhexlify(object_id) for object_id, is_folder in ids if is_folder)
        found.whole.update(unhexlify(object_id) for object_id, is_folder in ids if not is_folder)
    else:
        found.whole.update(map(unhexlify, [entry.id for entry in index.entries]))
    # The tree of a folder whose entries are all here, and so are the trees of those in it.
    cached = found.trees if index.is_sparse else found.whole
    cached.update(unhexlify(node.id) for node in index.cache_tree.values())
