# SPDX-License-Identifier: MIT
"""Compare a checkpoint with another one, or with the worktree as it is now.

The present is captured into a scratch store, so that a diff leaves no trace in the repository.
Patches are those of `git diff`, by hand because dulwich's differ from them in 14 of 24 kinds. Left
out: renames, attributes, binary patches, the contents of large files, and git's taste in
indentation (a change that could stand in several places stands in the last).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from stat import S_IFMT
from typing import NamedTuple

from ckpt.engine import scan_cache
from ckpt.engine.capture import capture
from ckpt.engine.reading import add_stable, git_modes
from ckpt.engine.rules import read_excludes, scan_rules
from ckpt.errors import CkptError
from ckpt.git import linediff, record
from ckpt.git.formats import ObjectID
from ckpt.git.index import IndexEntry, Staged, matches, read_staged
from ckpt.git.linediff import Block, Lines, is_binary, lines_of
from ckpt.git.objects import LARGEST_KEPT, ObjectStore
from ckpt.git.patch import quote_path
from ckpt.git.repository import Repository
from ckpt.git.rules import IgnoreStack
from ckpt.git.trees import GITLINK, Change, TreeEntry, diff_trees, write_tree
from ckpt.models import Checkpoint, DiffResult, FileChange, SkipReason
from ckpt.paths import is_nested_repository, is_within, to_str
from ckpt.settings.settings import Settings
from ckpt.settings.sources import NO_LIMIT
from ckpt.worktree.scan import Deadline, Scan, scan


def diff(
    repo: Repository,
    settings: Settings,
    before: Checkpoint,
    after: Checkpoint | None,
    limits: tuple[bytes, ...] = (),
    *,
    with_patch: bool = True,
) -> DiffResult:
    """What changed from `before` to `after`, or to the present."""
    objects = repo.objects.scratch()
    if after is None:
        # Nothing is written: without a budget, no file that is there looks as if it were gone.
        settings = replace(settings, max_new_bytes=NO_LIMIT, max_new_files=NO_LIMIT)
        present = capture(repo, settings, objects, cache=scan_cache.load(repo), reads_index=False)
        tree = present.tree
    else:
        tree = ObjectID(after.tree.encode())
    changes = [
        change
        for change in diff_trees(objects, ObjectID(before.tree.encode()), tree)
        if not limits or is_within(change[0], limits)
    ]
    changes.sort(key=lambda change: change[0])
    files, patches = [], []
    for change in changes:
        files.append(_file_change(objects, change))
        if with_patch:
            patches.append(_patch(objects, change))
    return DiffResult(before, after, tuple(files), b"".join(patches))


def _file_change(objects: ObjectStore, change: Change) -> FileChange:
    path, before, after = change
    old, new = _content(objects, before) or b"", _content(objects, after) or b""
    insertions, deletions = linediff.count(old, new)
    binary = is_binary(old) or is_binary(new)
    return FileChange(to_str(path), _status(before, after), insertions, deletions, binary)


def _status(before: TreeEntry | None, after: TreeEntry | None) -> str:
    if before is None:
        return "A"
    if after is None:
        return "D"
    return "M" if before.mode >> 12 == after.mode >> 12 else "T"


def _patch(objects: ObjectStore, change: Change) -> bytes:
    path, before, after = change
    missing = b"0" * objects.object_format.hex_length
    return unified(
        _content(objects, before),
        _content(objects, after),
        path=path,
        old_mode=before.mode if before is not None else None,
        new_mode=after.mode if after is not None else None,
        old_id=before.id if before is not None else missing,
        new_id=after.id if after is not None else missing,
    )


def _content(objects: ObjectStore, entry: TreeEntry | None) -> bytes | None:
    if entry is None:
        return None
    if entry.mode == GITLINK:
        return b"Subproject commit " + entry.id + b"\n"
    size = objects.size(entry.id)
    is_elsewhere = size is None and objects.is_partial
    if is_elsewhere or (size is not None and size > LARGEST_KEPT):
        return b"\0" + entry.id  # no text, as far as a diff is concerned, and like itself alone
    return objects.read(entry.id, b"blob")


# The text of a patch


def unified(
    old: bytes | None,
    new: bytes | None,
    *,
    path: bytes,
    old_mode: int | None,
    new_mode: int | None,
    old_id: bytes,
    new_id: bytes,
    context: int = 3,
) -> bytes:
    """The patch from old to new as `git diff` prints it; None is a file that is not there.

    For a gitlink pass the text that git shows for one, "Subproject commit <id>".
    """
    before = _Side(old, old_mode or 0, old_id, b"a/" + path)
    after = _Side(new, new_mode or 0, new_id, b"b/" + path)
    if old is None or new is None or S_IFMT(before.mode) == S_IFMT(after.mode):
        return _section(before, after, context)
    gone, fresh = after._replace(content=None), before._replace(content=None)
    return _section(before, gone, context) + _section(fresh, after, context)


class _Side(NamedTuple):
    content: bytes | None
    mode: int
    id: bytes
    name: bytes

    @property
    def text(self) -> bytes:
        return self.content or b""

    @property
    def short_id(self) -> bytes:
        return self.id[:7] if self.content is not None else b"0000000"

    @property
    def label(self) -> bytes:
        return quote_path(self.name) if self.content is not None else b"/dev/null"

    @property
    def tabbed_label(self) -> bytes:
        """Git ends a name that holds a space with a tab, which old `patch` needs."""
        return self.label + (b"\t" if b" " in self.label else b"")


def _section(before: _Side, after: _Side, context: int) -> bytes:
    if before.content == after.content and before.mode == after.mode:
        return b""
    parts = [b"diff --git %s %s\n" % (quote_path(before.name), quote_path(after.name))]
    if before.content is None:
        parts.append(b"new file mode %06o\n" % after.mode)
    elif after.content is None:
        parts.append(b"deleted file mode %06o\n" % before.mode)
    elif before.mode != after.mode:
        parts.append(b"old mode %06o\nnew mode %06o\n" % (before.mode, after.mode))
    if before.content != after.content:
        parts += _content_change(before, after, context)
    return b"".join(parts)


def _content_change(before: _Side, after: _Side, context: int) -> Iterator[bytes]:
    both = before.content is not None and after.content is not None
    mode = b" %06o" % after.mode if both and before.mode == after.mode else b""
    yield b"index %s..%s%s\n" % (before.short_id, after.short_id, mode)
    if before.text == after.text:
        return
    if is_binary(before.text) or is_binary(after.text):
        yield b"Binary files %s and %s differ\n" % (before.label, after.label)
        return
    yield b"--- %s\n+++ %s\n" % (before.tabbed_label, after.tabbed_label)
    yield from _hunks(lines_of(before.text), lines_of(after.text), context)


def _hunks(a: Lines, b: Lines, context: int) -> Iterator[bytes]:
    heading, searched = b"", 0
    for group in _groups(linediff.changes(a, b), context):
        start = max(0, group[0].old - context)
        stop = min(len(a), group[-1].old_end + context)
        heading = _heading(a, searched, start, heading)
        searched = start
        new_start = group[0].new - (group[0].old - start)
        new_stop = group[-1].new_end + (stop - group[-1].old_end)
        ranges = _range(start, stop), _range(new_start, new_stop)
        yield b"@@ -%s +%s @@%s\n" % (*ranges, heading)
        for block in group:
            yield from _marked(b" ", a[start : block.old])
            yield from _marked(b"-", a[block.old : block.old_end])
            yield from _marked(b"+", b[block.new : block.new_end])
            start = block.old_end
        yield from _marked(b" ", a[start:stop])


def _groups(blocks: list[Block], context: int) -> Iterator[list[Block]]:
    """Blocks whose context would touch or overlap go into one hunk."""
    group = blocks[:1]
    for before, block in pairwise(blocks):
        if block.old - before.old_end > 2 * context:
            yield group
            group = []
        group.append(block)
    if group:
        yield group


def _heading(lines: Lines, start: int, stop: int, default: bytes) -> bytes:
    """What git takes for the function that a hunk is in: the last line not indented."""
    for number in range(stop - 1, start - 1, -1):
        if re.match(rb"[A-Za-z_$]", lines[number]):
            return b" " + lines[number][:80].rstrip(b" \t\r\n")
    return default


def _range(start: int, stop: int) -> bytes:
    length = stop - start
    if length == 1:
        return b"%d" % (start + 1)
    return b"%d,%d" % (start + 1 if length else start, length)


def _marked(mark: bytes, lines: Lines) -> Iterator[bytes]:
    for line in lines:
        yield (
            mark + line
            if line.endswith(b"\n")
            else mark + line + b"\n\\ No newline at end of file\n"
        )


# -- whether `git status` would show anything

_MOST_FILES = 100_000
_MOST_LEVELS = 30  # of repositories within each other


OpenNested = Callable[[Repository, bytes], Repository]


def is_dirty(
    repo: Repository,
    recorded: ObjectID | None,
    open_nested: OpenNested,
    deadline: Deadline | None = None,
    level: int = 0,
) -> bool | None:
    """Whether a repository has commits other than the `recorded` one, changes, or untracked files.

    None if that cannot be told from stat data and raw contents: no filter is run.
    """
    head, staged = repo.refs.head().commit, read_staged(repo)
    entries = staged.index.entries
    if recorded is not None and head != recorded:
        return True
    is_late = deadline is not None and deadline.is_over
    if len(entries) > _MOST_FILES or level > _MOST_LEVELS or is_late:
        return None
    if any(entry.stage or entry.intent_to_add for entry in entries):
        return True
    tree = write_tree(
        repo.objects.scratch(), {e.path: TreeEntry(e.mode, ObjectID(e.id)) for e in entries}
    )
    if entries and head is None:
        return True
    if head is not None and tree != record.read_commit(repo.objects, head).tree:
        return True
    facts = scan_cache.facts_of(staged, None)
    rules = scan_rules(repo, Settings(), read_excludes(repo), facts, staged)._replace(
        deny=IgnoreStack.root(),
        include=IgnoreStack.root(),
        include_paths=(),
        max_file_size=None,
    )
    found = scan(os.fsencode(repo.worktree), rules, deadline=deadline)
    if found.untracked or SkipReason.NESTED in found.skipped.values():
        return True
    converts = bool(facts.attributes) or repo.config.get("core.autocrlf") not in (None, "false")

    def is_inside_dirty(entry: IndexEntry) -> bool | None:
        place = os.path.join(os.fsencode(repo.worktree), entry.path)
        if not is_nested_repository(place):
            return not os.path.isdir(place)
        try:
            with open_nested(repo, entry.path) as inside:
                commit = ObjectID(entry.id)
                return is_dirty(inside, commit, open_nested, deadline, level + 1)
        except (CkptError, OSError):
            return None

    answers = {
        is_inside_dirty(entry)
        if entry.mode == GITLINK
        else _differs(repo, staged, found, entry, converts)
        for entry in entries
    }
    unknown = found.is_cut or None in answers or SkipReason.UNREADABLE in found.skipped.values()
    return True if True in answers else None if unknown else False


def _differs(
    repo: Repository, staged: Staged, found: Scan, entry: IndexEntry, converts: bool
) -> bool | None:
    if entry.assume_valid or entry.skip_worktree:
        return False
    place = os.path.join(os.fsencode(repo.worktree), entry.path)
    status = found.files.get(entry.path)
    if status is None:
        return None if entry.path in found.skipped else True
    modes = git_modes(repo, staged)
    if matches(entry, status, file_mode=modes.file_mode) and not staged.is_racy(entry):
        return False
    if modes.of(entry.path, status) != entry.mode:
        return True
    try:
        blob, _ = add_stable(repo.objects.scratch(), place)
    except (CkptError, OSError):
        return None
    return False if blob == entry.id else None if converts else True
