# SPDX-License-Identifier: MIT
"""Write a flat map of paths as nested tree objects, and read, compare and walk trees.

The children of a new tree must exist, so that no checkpoint refers to a missing object. Names are
checked on reading: an entry that leads out of its directory or into a git directory is an error.
dulwich parses trees; they are serialised here, since an unchanged save must not import dulwich.
"""

from __future__ import annotations

import stat
from binascii import unhexlify
from collections.abc import Container, Iterator, Mapping
from typing import NamedTuple, cast

from ckpt.errors import Refused
from ckpt.git.objects import MissingObject, ObjectID, ObjectStore

REGULAR = 0o100644
EXECUTABLE = 0o100755
SYMLINK = 0o120000
GITLINK = 0o160000
FOLDER = 0o040000
_MOST_KNOWN = 1000
_SUSPECT = (b"", b".")  # first bytes of names that may be unsafe

# The limit of a walk, in bytes: about two million files. A few hundred bytes of trees can nest ten
# copies of a directory on each of ten levels.
_MOST_BYTES = 1 << 30
_EACH_ENTRY = 400

# The limit of a blob of state, such as a manifest, in bytes.
LARGEST_STATE = 128 << 20


class TreeEntry(NamedTuple):
    """An entry of a tree: git's mode and the id of a blob, tree or submodule commit."""

    mode: int
    id: ObjectID


Entries = Mapping[bytes, TreeEntry]
Change = tuple[bytes, TreeEntry | None, TreeEntry | None]


class UnsafeTree(Refused):
    """A tree with a name that must not be written to a file system."""


def write_tree(objects: ObjectStore, entries: Entries) -> ObjectID:
    """Write the nested trees of a flat map of paths and return the id of the root."""
    folders: dict[bytes, list[tuple[bytes, int, ObjectID]]] = {b"": []}
    for path, entry in entries.items():
        folder, _, name = path.rpartition(b"/")
        above = folder
        while above not in folders:
            folders[above] = []
            above = above.rpartition(b"/")[0]
        folders[folder].append((name, entry.mode, entry.id))
    top = ObjectID(b"")
    # A directory's path is longer than its parent's, so children come first.
    for folder in sorted(folders, key=len, reverse=True):
        rows = [(name, mode, unhexlify(child)) for name, mode, child in folders[folder]]
        top = objects.add(b"tree", serialise(rows))
        if objects.is_new(top):
            for name, mode, child in folders[folder]:
                if mode != GITLINK and objects.lacks(child):
                    where = _join(folder, name).decode("utf-8", "replace")
                    raise MissingObject(child, f"'{where}' needs missing")
        if folder:
            parent, _, name = folder.rpartition(b"/")
            folders[parent].append((name, FOLDER, top))
    return top


def serialise(children: list[tuple[bytes, int, bytes]]) -> bytes:
    """Serialise a tree object from names, modes and raw ids; git sorts directories as if they ended
    in a slash."""
    ordered = sorted(children, key=lambda child: child[0] + b"/" * (child[1] == FOLDER))
    return b"".join([b"%o %s\0%s" % (mode, name, raw) for name, mode, raw in ordered])


def read_tree(objects: ObjectStore, tree_id: ObjectID) -> list[tuple[bytes, int, ObjectID]]:
    """Return the (name, mode, id) of each entry of a tree object."""
    data = objects.read(tree_id, b"tree")
    try:
        return parse_tree(data, objects.object_format.oid_length)
    except ValueError as error:
        raise MissingObject(tree_id, "damaged tree") from error


def parse_tree(data: bytes, id_length: int) -> list[tuple[bytes, int, ObjectID]]:
    """Parse a tree object; ValueError if it is corrupt."""
    from dulwich.errors import ObjectFormatException
    from dulwich.objects import parse_tree as parse

    try:
        entries = cast("list[tuple[bytes, int, ObjectID]]", list(parse(data, id_length)))
    except ObjectFormatException as error:
        raise ValueError(str(error)) from error
    for name, _, _ in entries:
        if b"/" in name or name[:1] in _SUSPECT:
            check_name(name)
    return entries


def check_name(name: bytes) -> None:
    """Refuse a path component that git never checks out."""
    if name in (b"", b".", b"..") or b"/" in name or b"\0" in name or name.lower() == b".git":
        shown = name.decode("utf-8", "backslashreplace")
        raise UnsafeTree(f"tree holds the unsafe name '{shown}'", hint="this checkpoint is hostile")


def walk(objects: ObjectStore, tree_id: ObjectID) -> Iterator[tuple[bytes, TreeEntry]]:
    """Yield the path and entry of every file, symbolic link and gitlink in a tree."""
    for path, _, entry in diff_trees(objects, None, tree_id):
        assert entry is not None
        yield path, entry


def diff_trees(
    objects: ObjectStore,
    old: ObjectID | None,
    new: ObjectID | None,
    known: dict[ObjectID, Entries] | None = None,
) -> Iterator[Change]:
    """Yield the paths whose entries differ; subtrees with equal ids are not read.

    `known` caches trees; those that are read are added, up to a limit.
    """
    left_over = _MOST_BYTES
    known = {} if known is None else known
    todo = [(b"", old, new)]
    while todo:
        folder, before, after = todo.pop()
        if before == after:
            continue
        left, right = (_children(objects, tree, known) for tree in (before, after))
        # An empty directory counts too.
        left_over -= (len(left) + len(right) + 1) * (len(folder) + _EACH_ENTRY)
        if left_over < 0:
            raise UnsafeTree(
                f"the tree at '{folder.decode('utf-8', 'replace')}' holds too many files",
                hint="this checkpoint is hostile; 'git ckpt drop' removes it",
            )
        for name in {**left, **right}:
            was, now = left.get(name), right.get(name)
            if was == now:
                continue
            path = _join(folder, name)
            was_folder, was_file = _split_entry(was)
            now_folder, now_file = _split_entry(now)
            if was_folder or now_folder:
                todo.append((path, was_folder, now_folder))
            if was_file != now_file:
                yield path, was_file, now_file


def reach(
    objects: ObjectStore,
    top: ObjectID,
    found: set[ObjectID],
    known: Container[ObjectID] = (),
) -> None:
    """Add the objects of a tree that are not in `known`."""
    todo = [top]
    while todo:
        tree = todo.pop()
        if tree in found or tree in known:
            continue
        found.add(tree)
        for _, mode, child in read_tree(objects, tree):
            if mode == FOLDER:
                todo.append(child)
            elif mode != GITLINK and child not in known:
                found.add(child)


def lookup(
    objects: ObjectStore,
    tree_id: ObjectID,
    path: bytes,
    known: dict[ObjectID, Entries] | None = None,
) -> TreeEntry | None:
    """Return the entry at a path, also of a directory; `known` is as in `diff_trees`."""
    entry: TreeEntry | None = TreeEntry(FOLDER, tree_id)
    for name in path.split(b"/") if path else ():
        if entry is None or entry.mode != FOLDER:
            return None
        entry = _children(objects, entry.id, {} if known is None else known).get(name)
    return entry


def add_limited(objects: ObjectStore, text: bytes, name: str) -> TreeEntry:
    """Write a blob of state that is small enough to be read."""
    if len(text) > LARGEST_STATE:
        raise Refused(
            f"the checkpoint's '{name}' would be {len(text):,} bytes, too large to be read again",
            hint="ignore folders with very many files, and track large '.gitignore' files",
        )
    return TreeEntry(REGULAR, objects.add(b"blob", text))


def _children(
    objects: ObjectStore, tree_id: ObjectID | None, known: dict[ObjectID, Entries]
) -> Entries:
    if tree_id is None:
        return {}
    found = known.get(tree_id)
    if found is None:
        entries = read_tree(objects, tree_id)
        found = {name: TreeEntry(mode, id) for name, mode, id in entries}
        # A name could be both a symbolic link and a directory, to write through the link.
        if len(found) < len(entries):
            raise MissingObject(tree_id, "two entries of one name in tree")
        if len(known) < _MOST_KNOWN:
            known[tree_id] = found
    return found


def _split_entry(entry: TreeEntry | None) -> tuple[ObjectID | None, TreeEntry | None]:
    if entry is not None and stat.S_ISDIR(entry.mode):
        return entry.id, None
    return None, entry


def _join(folder: bytes, name: bytes) -> bytes:
    return folder + b"/" + name if folder else name
