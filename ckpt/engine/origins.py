# SPDX-License-Identifier: MIT
"""How a checkpoint keeps files whose bytes on disk are not those of git's blob.

The checkpoint's tree holds what `git add` would store. Beside it, in the state tree,
`convert/<path>` says how the bytes come from that blob, and `raw/<path>` holds the bytes
themselves where nothing gives them again. A path in neither is the same on disk and in git.

A recipe is a line of conversions (see worktree/convert.py). One that ends in
`filter=<driver> raw=<id>` needs a driver's smudge command, and names what it has to give.
"""

from __future__ import annotations

from collections.abc import Mapping

from ckpt.patterns import lazy_pattern
from ckpt.store.objects import MissingObject, ObjectID, ObjectStore
from ckpt.store.trees import FOLDER, REGULAR, TreeEntry, lookup, read_limited, walk, write_tree
from ckpt.values import value_class

RAW = b"raw"
CONVERT = b"convert"
_LONGEST = 1 << 16  # of a recipe
_ESCAPED = lazy_pattern(rb"%([0-9a-f]{2})")
_DRIVER = lazy_pattern(r"(?s)(?:^|(.*) )filter=(\S+) raw=([0-9a-f]{40,64})")


@value_class
class Converted:
    """The id that a file's bytes have as a blob, and how they come from git's blob.

    Without a recipe the bytes are stored as they are.
    """

    raw: ObjectID
    recipe: str


@value_class
class DriverRecipe:
    """A recipe taken apart: the conversions before the driver, its name, what it gives."""

    built_in: str
    driver: str
    raw: ObjectID

    def __str__(self) -> str:
        steps = [self.built_in] if self.built_in else []
        return " ".join([*steps, f"filter={_escape(self.driver)}", f"raw={self.raw.decode()}"])

    @classmethod
    def parse(cls, recipe: str) -> DriverRecipe | None:
        """None if the recipe needs no driver."""
        found = _DRIVER.fullmatch(recipe)
        if found is None:
            return None
        return cls(found[1] or "", _unescape(found[2]), ObjectID(found[3].encode()))


def _escape(name: str) -> str:
    data = name.encode("utf-8", "surrogateescape")
    return "".join(chr(b) if chr(b).isalnum() and b < 128 else f"%{b:02x}" for b in data)


def _unescape(text: str) -> str:
    data = _ESCAPED.sub(lambda m: bytes((int(m[1], 16),)), text.encode())
    return data.decode("utf-8", "surrogateescape")


def write_state(
    objects: ObjectStore, converted: Mapping[bytes, Converted]
) -> dict[bytes, ObjectID | None]:
    """The folders of a state tree that stand for these files; None for one that is empty."""
    raw = {p: TreeEntry(REGULAR, found.raw) for p, found in converted.items() if not found.recipe}
    blobs: dict[str, ObjectID] = {}
    convert = {}
    for path, found in converted.items():
        if found.recipe:
            if found.recipe not in blobs:
                blobs[found.recipe] = objects.add(b"blob", found.recipe.encode())
            convert[path] = TreeEntry(REGULAR, blobs[found.recipe])
    folders = {RAW: raw, CONVERT: convert}
    return {
        name: write_tree(objects, entries) if entries else None for name, entries in folders.items()
    }


class Origins:
    """The same, read from a state tree; nothing is opened before a path is asked for."""

    def __init__(self, objects: ObjectStore, state_tree: ObjectID) -> None:
        self._objects = objects
        self._state_tree = state_tree
        self._found: dict[bytes, dict[bytes, TreeEntry]] = {}
        self._recipes: dict[ObjectID, str] = {}

    def tree(self, name: bytes) -> ObjectID | None:
        entry = lookup(self._objects, self._state_tree, name)
        return None if entry is None or entry.mode != FOLDER else entry.id

    def of(self, path: bytes, blob: ObjectID) -> Converted | None:
        """None if the file is its blob. MissingObject if that cannot be told."""
        raw = self._entries(RAW).get(path)
        if raw is not None:
            return Converted(raw.id, "")
        entry = self._entries(CONVERT).get(path)
        if entry is None:
            return None
        recipe = self._recipe(entry.id)
        return Converted(raw_id(self._objects, blob, recipe), recipe)

    def _entries(self, name: bytes) -> dict[bytes, TreeEntry]:
        if name not in self._found:
            tree = self.tree(name)
            self._found[name] = {} if tree is None else dict(walk(self._objects, tree))
        return self._found[name]

    def _recipe(self, blob: ObjectID) -> str:
        if blob not in self._recipes:
            text = read_limited(self._objects, blob, _LONGEST)
            self._recipes[blob] = text.decode("ascii", "replace")
        return self._recipes[blob]


def raw_id(objects: ObjectStore, blob: ObjectID, recipe: str) -> ObjectID:
    """The id of the bytes that a recipe gives."""
    by_driver = DriverRecipe.parse(recipe)
    if by_driver is not None:
        return by_driver.raw
    return objects.hash(b"blob", built_in(objects, blob, recipe))


def built_in(objects: ObjectStore, blob: ObjectID, recipe: str) -> bytes:
    """The bytes that a recipe without a driver gives."""
    from ckpt.worktree.convert import smudge
    from ckpt.worktree.encodings import Unconvertible

    try:
        return smudge(recipe, objects.read(blob, b"blob"), blob)
    except Unconvertible as error:
        raise MissingObject(blob, f"{error}, to be done with blob") from None
