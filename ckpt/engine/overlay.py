# SPDX-License-Identifier: MIT
"""A patch laid over the present: edits that somebody has taken off the disk for a moment.

The patch says what the files held, as git stores it, against an index. It counts as a whole
or not at all: each file that it changes must be in that index with the very content that
the patch was made from, and the content that comes out must be the one that it names.
What a file was on disk is what git makes of that content: by the conversions in force, and
a filter's smudge command.

Left out, because a patch does not tell: permissions but for the executable bit, line endings
that git would not write itself, folders in which nothing is left, and what only edited rules
let in.
"""

from __future__ import annotations

import stat
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from ckpt.engine.conversions import Converted, open_filters
from ckpt.engine.present import Correction, Present, status_off_disk
from ckpt.engine.rules import Included, attribute_tree, ignore_stack
from ckpt.git.formats import ObjectID
from ckpt.git.index import Index, IndexEntry
from ckpt.git.objects import MissingObject
from ckpt.git.patch import LARGEST, BadPatch, FilePatch
from ckpt.git.repository import Repository
from ckpt.git.rules import AttributeTree, IgnoreTree
from ckpt.git.trees import EXECUTABLE, GITLINK, REGULAR, SYMLINK, TreeEntry
from ckpt.paths import is_within, to_str
from ckpt.worktree.filters import Filters
from ckpt.worktree.scan import Scan

_OTHER_INDEX = "it was made for another content"
_ATTRIBUTES, _IGNORE = b".gitattributes", b".gitignore"


class Edited(NamedTuple):
    """What a file held: its mode and content, as git stores them, and the blob it came from."""

    mode: int
    content: bytes
    base: ObjectID | None


def edits(
    repo: Repository, patches: Iterable[FilePatch], index: Index
) -> dict[bytes, Edited | None]:
    """What a patch makes of the files of an index; None for those that are gone.

    BadPatch if it was made for another index.
    """
    staged = {e.path: e for e in index.entries if e.stage == 0 and not e.intent_to_add}
    found: dict[bytes, Edited | None] = {}
    size = 0
    for patch in patches:
        base = _base(patch, staged)
        path = patch.old_path if patch.new_path is None else patch.new_path
        if path is None or not _is_open(path, patch, staged, found):
            raise BadPatch(_OTHER_INDEX)
        edited = None if patch.new_path is None else _edited(repo, patch, base)
        size += 0 if edited is None else len(edited.content)
        if size > LARGEST:
            raise BadPatch(f"it has files of over {LARGEST >> 20} MiB together")
        if patch.old_path not in (None, path) and not patch.is_copy:
            found[patch.old_path] = None
        found[path] = edited
    return found


def _is_open(
    path: bytes,
    patch: FilePatch,
    staged: Mapping[bytes, IndexEntry],
    found: Mapping[bytes, Edited | None],
) -> bool:
    """Tell whether a patch may still change a path: each is changed once, but a change of kind is
    a removal and an addition."""
    if path in found:
        return found[path] is None and patch.old_path is None
    return path == patch.old_path or path not in staged


def _base(patch: FilePatch, staged: Mapping[bytes, IndexEntry]) -> IndexEntry | None:
    """The entry of the index that a patch is about."""
    if patch.old_path is None:
        return None
    entry = staged.get(patch.old_path)
    if entry is None or not entry.id.startswith(patch.old_id):
        raise BadPatch(_OTHER_INDEX)
    if patch.old_mode not in (None, entry.mode) or GITLINK in (entry.mode, patch.new_mode):
        raise BadPatch(_OTHER_INDEX)
    return entry


def _edited(repo: Repository, patch: FilePatch, base: IndexEntry | None) -> Edited:
    mode = patch.new_mode if patch.new_mode is not None else base and base.mode
    if mode not in (REGULAR, EXECUTABLE, SYMLINK):
        raise BadPatch("it does not say what kind of file is meant")
    content = patch.apply(b"" if base is None else _read(repo, ObjectID(base.id)))
    if not repo.objects.hash(b"blob", content).startswith(patch.new_id):
        raise BadPatch("it gives another content than it names")
    return Edited(mode, content, None if base is None else ObjectID(base.id))


def _read(repo: Repository, blob: ObjectID) -> bytes:
    try:
        if (repo.objects.size(blob) or 0) > LARGEST:
            raise BadPatch(f"it has a file of over {LARGEST >> 20} MiB")
        return repo.objects.read(blob, b"blob")
    except MissingObject:
        raise BadPatch("the content that it was made for is not here") from None


def lay_over(
    repo: Repository, present: Present, changes: Mapping[bytes, Edited | None]
) -> tuple[Present, list[str]]:
    """Return the state in which the files are as edited, and what is not certain about it."""
    files: dict[bytes, Correction] = {}
    converted = {}
    with _Checkout(repo, present, changes) as checkout:
        for path, edited in changes.items():
            if edited is None:
                files[path] = None
                continue
            size, raw = checkout.of(path, edited)
            blob = repo.objects.add(b"blob", edited.content)
            status = status_off_disk(_mode(present, path, edited.mode), size)
            files[path] = TreeEntry(edited.mode, blob), status
            if raw is not None:
                converted[path] = raw
    found = present.with_files(repo.objects, files)
    found = replace(found, converted={**found.converted, **converted})
    rules = [path for path in changes if path.rpartition(b"/")[2] == _IGNORE]
    if rules:
        hidden = _hidden(repo, found, {path.rpartition(b"/")[0] for path in rules})
        found = found.with_files(repo.objects, dict.fromkeys(hidden))
    opened = [path for path in rules if _lets_more_in(repo, changes[path])]
    doubts = (f"what only the edits of '{to_str(p)}' let in was not found" for p in opened)
    return replace(found, lacks_edits=bool(opened)), [*checkout.doubts, *doubts]


def _hidden(repo: Repository, present: Present, folders: Collection[bytes]) -> list[bytes]:
    """List what is untracked in some folders and ignored by the rules that are edited there."""
    ignore_case = repo.config.get_bool("core.ignorecase", False)

    def read(folder: bytes) -> bytes | None:
        path = folder + b"/" + _IGNORE if folder else _IGNORE
        entry = present.entry(path)
        if entry is None or entry.mode == SYMLINK:
            return present.excludes.get(to_str(path))
        return repo.objects.read(entry.id, b"blob")

    ignore = IgnoreTree(ignore_stack(present.excludes, ignore_case), read, ignore_case=ignore_case)
    included = Included(present.include, ignore_case)
    tracked = {*present.index.paths(), *present.index.gitlinks}
    return [
        path
        for path in present.entries
        if path not in tracked
        and is_within(path, tuple(folders))
        and ignore.ignored(path, False)
        and not included.takes(path, False, ignore)
    ]


def _lets_more_in(repo: Repository, edited: Edited | None) -> bool:
    """Tell whether a rule is gone, or one has come that takes others back."""
    if edited is None:
        return True
    before = set() if edited.base is None else _rules(repo.objects.read(edited.base, b"blob"))
    now = _rules(edited.content)
    return bool(before - now) or any(rule.startswith(b"!") for rule in now - before)


def _rules(text: bytes) -> set[bytes]:
    return {line for line in text.split(b"\n") if line.strip() and not line.startswith(b"#")}


def _mode(present: Present, path: bytes, mode: int) -> int:
    """A mode as on disk: with the permissions of the file that git put there, or for another
    kind of file, those that most have."""
    if mode == SYMLINK:
        return stat.S_IFLNK | 0o777
    entry, status = present.entry(path), present.status(path)
    if entry is not None and status is not None and entry.mode == mode:
        return status.st_mode
    usual = present.modes
    return stat.S_IFREG | (usual.executable if mode == EXECUTABLE else usual.plain)


class _Checkout:
    """Gives the bytes that git writes to disk for a content."""

    def __init__(
        self, repo: Repository, present: Present, changes: Mapping[bytes, Edited | None]
    ) -> None:
        self._repo = repo
        self._attributes = _attributes(repo, present, changes)
        self._filters: Filters | None = None
        self.doubts: list[str] = []

    def __enter__(self) -> _Checkout:
        return self

    def __exit__(self, *_: object) -> None:
        if self._filters is not None:
            self._filters.close()

    def of(self, path: bytes, edited: Edited) -> tuple[int, Converted | None]:
        """Return the size on disk, and the bytes if they differ from the content."""
        if self._attributes is None or edited.mode == SYMLINK:
            return len(edited.content), None
        from ckpt.worktree.filters import Unconvertible, checkout, conversion

        get, objects = self._repo.config.get, self._repo.objects
        attributes = self._attributes.attributes(path)
        asked = conversion(attributes, get("core.autocrlf"), get("core.eol"))
        data = edited.content
        if asked is not None:
            try:
                data = checkout(asked, data)
            except Unconvertible:
                self.doubts.append(f"'{to_str(path)}' may have had an encoding or $Id$ of its own")
            if asked.driver is not None:
                data = self._smudged(path, asked.driver, data)
        if data == edited.content:
            return len(data), None
        return len(data), Converted(objects.add(b"blob", data))

    def _smudged(self, path: bytes, name: str, data: bytes) -> bytes:
        from ckpt.worktree.filters import FilterFailed

        if self._filters is None:
            self._filters = open_filters(self._repo)
        with self._filters.file() as source:
            source.write(data)
            source.seek(0)
            try:
                blob = self._repo.objects.hash(b"blob", data)
                output = self._filters.run("smudge", name, path, source, blob)
            except FilterFailed as error:
                self.doubts.append(f"filter '{name}' failed for '{to_str(path)}': {error}")
                return data
        if output is None:
            return data
        with output:
            return output.read()


def _attributes(
    repo: Repository, present: Present, changes: Mapping[bytes, Edited | None]
) -> AttributeTree | None:
    """Read the attributes, with those files that are edited themselves."""
    found = Scan()
    found.attribute_files.update(present.attribute_files)
    instead = {
        path: edited.content
        for path, edited in changes.items()
        if path.rpartition(b"/")[2] == _ATTRIBUTES and edited is not None
    }
    return attribute_tree(repo, present.index.attributes, found, instead).tree
