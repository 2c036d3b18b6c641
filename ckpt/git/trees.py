# SPDX-License-Identifier: MIT
"""Trees: from a flat map of paths to nested tree objects, and back.

The children of a new tree are looked up before it is written, so that no checkpoint names an
object that is not there. Names are checked as trees are read: an entry that could step out of
its directory or into a git directory stops the walk. dulwich's parser is not used: an unchanged
save reads trees, and must not wait for dulwich to be imported.
"""

from __future__ import annotations

import stat
from binascii import hexlify, unhexlify
from collections.abc import Iterator, Mapping, Sized
from typing import NamedTuple

from ckpt.errors import Refused
from ckpt.git.formats import ObjectID
from ckpt.git.objects import MissingObject, ObjectStore

REGULAR = 0o100644
EXECUTABLE = 0o100755
SYMLINK = 0o120000
GITLINK = 0o160000
FOLDER = 0o040000
_MODES = {b"%o" % mode: mode for mode in (REGULAR, EXECUTABLE, SYMLINK, GITLINK, FOLDER)}
_MOST_DIGITS = 10  # of a number of 32 bits, which a mode is
_MOST_KNOWN = 1000
_SUSPECT = (b"", b".")  # how a name begins that may be unsafe

# What a tree may unfold into, in bytes of paths: so much, and so many times its own size. A
# directory that holds itself, ten times on each of ten levels, is a few hundred bytes.
_ANY_SIZE = 128 << 20
_TIMES = 16
_EACH_ENTRY = 400

# Of a manifest, of an agent's data and the like.
LARGEST_STATE = 128 << 20


class TreeEntry(NamedTuple):
    """What a path holds: a mode of git's and the id of a blob or submodule commit."""

    mode: int
    id: ObjectID


Entries = Mapping[bytes, TreeEntry]
Change = tuple[bytes, TreeEntry | None, TreeEntry | None]


class UnsafeTree(Refused):
    """A tree holds a name that must never reach a file system."""


class Unfolding:
    """Counts the entries of trees, because a few objects can unfold into more than memory holds."""

    def __init__(self) -> None:
        self._seen: set[ObjectID] = set()
        self._left = _ANY_SIZE

    def add(self, folder: bytes, tree: ObjectID | None, entries: Sized) -> None:
        """Count a tree that stands at a path."""
        count = len(entries) + 1  # an empty directory takes its time, too
        if tree is None:
            return
        self._left -= count * (len(folder) + _EACH_ENTRY)
        if tree not in self._seen:
            self._seen.add(tree)
            self._left += count * _EACH_ENTRY * _TIMES
        if self._left < 0:
            raise UnsafeTree(
                f"tree '{tree.decode()}' exceeds the size limit",
                hint="this checkpoint is hostile; 'git ckpt drop' removes it",
            )


def write_tree(objects: ObjectStore, entries: Entries) -> ObjectID:
    """Write the nested trees for a flat map of paths; returns the top one's id."""
    folders: dict[bytes, list[tuple[bytes, int, ObjectID]]] = {b"": []}
    for path, entry in entries.items():
        folder, _, name = path.rpartition(b"/")
        _register(folders, folder)
        folders[folder].append((name, entry.mode, entry.id))
    top = ObjectID(b"")
    # A folder's path is longer than its parent's: children come first.
    for folder in sorted(folders, key=len, reverse=True):
        top = _write_folder(objects, folder, folders[folder])
        if folder:
            parent, _, name = folder.rpartition(b"/")
            folders[parent].append((name, FOLDER, top))
    return top


def _register(folders: dict[bytes, list[tuple[bytes, int, ObjectID]]], folder: bytes) -> None:
    while folder not in folders:
        folders[folder] = []
        folder = folder.rpartition(b"/")[0]


def _write_folder(
    objects: ObjectStore, folder: bytes, children: list[tuple[bytes, int, ObjectID]]
) -> ObjectID:
    tree_id = objects.add(b"tree", serialise(children))
    if objects.is_new(tree_id):
        for name, mode, child in children:
            if mode != GITLINK and objects.lacks(child):
                path = (folder + b"/" + name).lstrip(b"/")
                raise MissingObject(child, f"'{path.decode('utf-8', 'replace')}' needs missing")
    return tree_id


def serialise(children: list[tuple[bytes, int, ObjectID]]) -> bytes:
    """The bytes of one tree object; git sorts folders as if they ended in a slash."""
    ordered = sorted(children, key=lambda child: child[0] + b"/" * (child[1] == FOLDER))
    return b"".join(b"%o %s\0%s" % (mode, name, unhexlify(id)) for name, mode, id in ordered)


def read_tree(objects: ObjectStore, tree_id: ObjectID) -> list[tuple[bytes, int, ObjectID]]:
    """The (name, mode, id) of each entry of one tree object."""
    data = objects.read(tree_id, b"tree")
    try:
        return parse_tree(data, objects.object_format.oid_length)
    except ValueError as error:
        raise MissingObject(tree_id, "damaged tree") from error


def parse_tree(data: bytes, id_length: int) -> list[tuple[bytes, int, ObjectID]]:
    """The entries in a tree's bytes; ValueError if they are no tree."""
    entries = []
    at, end = 0, len(data)
    while at < end:
        space = data.index(b" ", at)
        zero = data.index(b"\0", space)
        name, after = data[space + 1 : zero], zero + 1 + id_length
        if after > end:
            raise ValueError("an id that was cut off")
        if b"/" in name or name[:1] in _SUSPECT:
            check_name(name)
        mode = data[at:space]
        entries.append(
            (name, _MODES.get(mode) or _mode(mode), ObjectID(hexlify(data[zero + 1 : after])))
        )
        at = after
    return entries


def _mode(digits: bytes) -> int:
    """A mode that is rare, or that an old git wrote with a zero before it."""
    if digits.strip(b"01234567") or not 0 < len(digits) <= _MOST_DIGITS:
        raise ValueError("no mode")
    return int(digits, 8)


def check_name(name: bytes) -> None:
    """Refuse a path component that git itself would never put in a worktree."""
    if name in (b"", b".", b"..") or b"/" in name or b"\0" in name or name.lower() == b".git":
        shown = name.decode("utf-8", "backslashreplace")
        raise UnsafeTree(f"tree holds the unsafe name '{shown}'", hint="this checkpoint is hostile")


def is_null(object_id: bytes) -> bool:
    """Whether an id is the one that git keeps for what is not there, a submodule's commit too."""
    return not object_id.strip(b"0")


def walk(
    objects: ObjectStore,
    tree_id: ObjectID,
    prefix: bytes = b"",
    unfolding: Unfolding | None = None,
) -> Iterator[tuple[bytes, TreeEntry]]:
    """Every file, link and gitlink below a tree, with its path. `unfolding` counts what comes out
    of several."""
    unfolding = unfolding or Unfolding()
    known: dict[ObjectID, Entries] = {}
    todo = [(prefix, tree_id)]
    while todo:
        folder, current = todo.pop()
        entries = _known_children(objects, current, known)
        unfolding.add(folder, current, entries)
        for name, entry in entries.items():
            path = _join(folder, name)
            if stat.S_ISDIR(entry.mode):
                todo.append((path, entry.id))
            else:
                yield path, entry


def diff_trees(
    objects: ObjectStore,
    old: ObjectID | None,
    new: ObjectID | None,
    known: dict[ObjectID, Entries] | None = None,
) -> Iterator[Change]:
    """Paths whose entry differs; folders with the same id are never opened.

    `known` are trees that need not be read again; those that are read are added, as long as
    they are not many.
    """
    unfolding = Unfolding()
    known = {} if known is None else known
    todo = [(b"", old, new)]
    while todo:
        folder, before, after = todo.pop()
        if before == after:
            continue
        left, right = (_known_children(objects, tree, known) for tree in (before, after))
        unfolding.add(folder, before, left)
        unfolding.add(folder, after, right)
        for name in left.keys() | right.keys():
            path = _join(folder, name)
            was, now = left.get(name), right.get(name)
            if was == now:
                continue
            was_folder, was_file = _split_entry(was)
            now_folder, now_file = _split_entry(now)
            if was_folder or now_folder:
                todo.append((path, was_folder, now_folder))
            if was_file != now_file:
                yield path, was_file, now_file


def lookup(
    objects: ObjectStore,
    tree_id: ObjectID,
    path: bytes,
    known: dict[ObjectID, Entries] | None = None,
) -> TreeEntry | None:
    """The entry at a path, a folder's included; None where there is nothing. `known` as above."""
    entry: TreeEntry | None = TreeEntry(FOLDER, tree_id)
    for name in path.split(b"/") if path else ():
        if entry is None or entry.mode != FOLDER:
            return None
        entry = _known_children(objects, entry.id, known).get(name)
    return entry


def read_limited(objects: ObjectStore, blob: ObjectID, most: int = LARGEST_STATE) -> bytes:
    """The content of a blob that others may have made, and that has no reason to be large."""
    size = objects.size(blob)
    if size is not None and size > most:
        raise MissingObject(blob, f"too large ({size:,} bytes): blob")
    return objects.read(blob, b"blob")


def add_limited(objects: ObjectStore, text: bytes, name: str) -> TreeEntry:
    """A part of the state that `read_limited` will read again."""
    if len(text) > LARGEST_STATE:
        raise Refused(
            f"the checkpoint's '{name}' would be {len(text):,} bytes, too large to be read again",
            hint="ignore folders with very many files, and track large '.gitignore' files",
        )
    return TreeEntry(REGULAR, objects.add(b"blob", text))


class FilesOf:
    """The paths of all files of a tree, each looked up when it is asked for."""

    def __init__(self, objects: ObjectStore, tree_id: ObjectID) -> None:
        self._objects = objects
        self._tree_id = tree_id
        self._known: dict[ObjectID, Entries] = {}

    def __contains__(self, path: object) -> bool:
        assert isinstance(path, bytes)
        entry = lookup(self._objects, self._tree_id, path, self._known)
        return entry is not None and not stat.S_ISDIR(entry.mode)


def _known_children(
    objects: ObjectStore, tree_id: ObjectID | None, known: dict[ObjectID, Entries] | None
) -> Entries:
    if tree_id is None:
        return {}
    found = None if known is None else known.get(tree_id)
    if found is None:
        found = _children(objects, tree_id)
        if known is not None and len(known) < _MOST_KNOWN:
            known[tree_id] = found
    return found


def _children(objects: ObjectStore, tree_id: ObjectID) -> dict[bytes, TreeEntry]:
    entries = read_tree(objects, tree_id)
    found = {name: TreeEntry(mode, id) for name, mode, id in entries}
    _check_names(tree_id, entries, found)
    return found


def _check_names(tree_id: ObjectID, entries: Sized, names: Sized) -> None:
    """Refuse a name that stands for two things: a link, and a folder that is written to."""
    if len(names) < len(entries):
        raise MissingObject(tree_id, "two entries of one name in tree")


def _split_entry(entry: TreeEntry | None) -> tuple[ObjectID | None, TreeEntry | None]:
    if entry is not None and stat.S_ISDIR(entry.mode):
        return entry.id, None
    return None, entry


def _join(folder: bytes, name: bytes) -> bytes:
    return folder + b"/" + name if folder else name
