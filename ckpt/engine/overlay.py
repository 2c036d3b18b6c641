# SPDX-License-Identifier: MIT
"""Apply a patch to the captured state, for edits that a tool has set aside for a moment.

The patch changes files of an index, as git stores them. It applies completely or not at all: its
old contents must match the index, and its results must match the ids it names. A patch lacks
permissions other than the executable bit, the output of filters, empty directories, and the effect
of edited ignore rules and attributes.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable
from typing import NamedTuple

from ckpt.engine.conversions import Converted
from ckpt.engine.scan_rules import attribute_tree
from ckpt.engine.working_state import Correction, Present
from ckpt.git.index import Index
from ckpt.git.linediff import LARGEST, FilePatch
from ckpt.git.objects import DamagedObject, ObjectID
from ckpt.git.repository import Repository
from ckpt.git.trees import EXECUTABLE, REGULAR, SYMLINK, TreeEntry
from ckpt.paths import to_str
from ckpt.worktree.filters import Unconvertible, checkout, conversion

_MODES = (REGULAR, EXECUTABLE, SYMLINK)
_RULES = (b".gitignore", b".gitattributes")


class Edited(NamedTuple):
    """The mode and content of a file, as git stores them."""

    mode: int
    content: bytes


Edits = dict[bytes, Edited | None]


def edits(repo: Repository, patches: Iterable[FilePatch], index: Index) -> Edits:
    """Apply a patch to the files of an index; return None for removed ones. DamagedObject if it
    was made for another index, MissingObject if a content of the index is missing."""
    staged = {e.path: e for e in index.entries if e.stage == 0 and not e.intent_to_add}
    found: Edits = {}
    for patch in patches:
        path, mode, before = patch.new_path, patch.parsed.new_mode, b""
        if patch.old_path is not None:
            entry = staged.get(patch.old_path)
            is_base = entry is not None and entry.id.startswith(patch.old_id)
            if entry is None or not is_base or patch.parsed.old_mode not in (None, entry.mode):
                raise DamagedObject("it was made for another index")
            mode = entry.mode if mode is None else mode
            before = repo.objects.read(ObjectID(entry.id), b"blob", LARGEST)
            found[patch.old_path] = None
        elif path is None or found.get(path, patch) is not None:
            # `git diff` creates a file only after deleting it, for a change of type.
            raise DamagedObject("it was made for another index")
        if path is None:
            continue
        content = patch.apply(before)
        if mode not in _MODES or not repo.objects.hash(b"blob", content).startswith(patch.new_id):
            raise DamagedObject("it gives another content than it names")
        found[path] = Edited(mode, content)
    return found


def lay_over(repo: Repository, present: Present, changes: Edits) -> tuple[Present, list[str]]:
    """Return the state with the edits, and warnings about what is uncertain."""
    objects = repo.objects
    files: dict[bytes, Correction] = {}
    converted: dict[bytes, Converted] = {}
    attributes = attribute_tree(repo, present.attribute_files).tree
    autocrlf, eol = repo.config.get("core.autocrlf"), repo.config.get("core.eol")
    doubts: list[str] = []
    usual = present.modes
    for path, edited in changes.items():
        if edited is None:
            files[path] = None
            continue
        data, asked = edited.content, None
        if attributes is not None and edited.mode != SYMLINK:
            asked = conversion(attributes.attributes(path), autocrlf, eol)
        try:
            data = data if asked is None else checkout(asked, data)
        except Unconvertible as error:
            doubts.append(f"'{to_str(path)}' may have had other bytes: {error}")
        if data != edited.content:
            converted[path] = Converted(objects.add(b"blob", data))
        blob = objects.add(b"blob", edited.content)
        bits = usual.executable if edited.mode == EXECUTABLE else usual.plain
        mode = stat.S_IFLNK | 0o777 if edited.mode == SYMLINK else stat.S_IFREG | bits
        # No file on disk has these times.
        files[path] = TreeEntry(edited.mode, blob), (0, 0, 0, len(data), mode)
    found = present.with_files(objects, files)
    rules = [path for path in changes if path.rpartition(b"/")[2] in _RULES]
    doubts += [f"files were not saved by the edited '{to_str(path)}'" for path in rules]
    converted = {**found.converted, **converted}
    return found._replace(converted=converted, lacks_edits=bool(rules)), doubts
