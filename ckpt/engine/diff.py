# SPDX-License-Identifier: MIT
"""Compare a checkpoint with another one, or with the worktree.

The worktree is captured into a scratch store, so the repository is not changed. Patches have the
format of `git diff`, which dulwich's do not match in 14 of 24 cases. Not supported: renames,
attributes, binary patches, contents of large files, and the indent heuristic.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from stat import S_IFMT
from typing import NamedTuple

from ckpt.engine import scan_cache
from ckpt.engine.capture import capture
from ckpt.git import linediff, record
from ckpt.git.linediff import Block, Lines, is_binary, lines_of, quote_path
from ckpt.git.objects import LARGEST_KEPT, ObjectID, ObjectStore
from ckpt.git.repository import Repository
from ckpt.git.trees import GITLINK, TreeEntry, diff_trees, write_tree
from ckpt.models import Checkpoint, DiffResult, FileChange, SkipReason
from ckpt.paths import is_within, to_str
from ckpt.settings.settings import Settings
from ckpt.settings.sources import NO_LIMIT
from ckpt.worktree.scan import Deadline


def diff(
    repo: Repository,
    settings: Settings,
    before: Checkpoint,
    after: Checkpoint | None,
    limits: tuple[bytes, ...] = (),
    *,
    with_patch: bool = True,
) -> DiffResult:
    """Return the changes from `before` to `after`, or to the worktree."""
    objects = repo.objects.scratch()
    if after is None:
        # Nothing is written, and a file over the limits would look deleted.
        settings = settings._replace(max_new_bytes=NO_LIMIT, max_new_files=NO_LIMIT)
        present = capture(repo, settings, objects, cache=scan_cache.load(repo), reads_index=False)
        tree = present.tree
    else:
        tree = ObjectID(after.tree.encode())
    files, patches = [], []
    for path, old, new in sorted(diff_trees(objects, ObjectID(before.tree.encode()), tree)):
        if limits and not is_within(path, limits):
            continue
        a, b = _side(objects, old, b"a/" + path), _side(objects, new, b"b/" + path)
        insertions, deletions = linediff.count(a.text, b.text)
        binary = is_binary(a.text) or is_binary(b.text)
        files.append(FileChange(to_str(path), _status(old, new), insertions, deletions, binary))
        if with_patch:
            patches.append(unified(a, b))
    return DiffResult(before, after, tuple(files), b"".join(patches))


def _status(before: TreeEntry | None, after: TreeEntry | None) -> str:
    if before is None:
        return "A"
    if after is None:
        return "D"
    return "M" if before.mode >> 12 == after.mode >> 12 else "T"


def _side(objects: ObjectStore, entry: TreeEntry | None, name: bytes) -> Side:
    if entry is None:
        return Side(None, 0, b"", name)
    size = None if entry.mode == GITLINK else objects.size(entry.id)
    if entry.mode == GITLINK:
        content = b"Subproject commit " + entry.id + b"\n"  # as in `git diff`
    elif (size is None and objects.is_partial) or (size or 0) > LARGEST_KEPT:
        content = b"\0" + entry.id  # counts as binary, equal only to itself
    else:
        content = objects.read(entry.id, b"blob")
    return Side(content, entry.mode, entry.id, name)


# -- patches

_CONTEXT = 3  # lines around a change


class Side(NamedTuple):
    """One side of a diff; `name` has the prefix `a/` or `b/`, `content` is None for no file."""

    content: bytes | None
    mode: int
    id: bytes
    name: bytes

    @property
    def text(self) -> bytes:
        return self.content or b""


def unified(before: Side, after: Side) -> bytes:
    """Return the patch between two files as `git diff` prints it."""
    if None in (before.content, after.content) or S_IFMT(before.mode) == S_IFMT(after.mode):
        return _section(before, after)
    gone, fresh = after._replace(content=None), before._replace(content=None)
    return _section(before, gone) + _section(fresh, after)


def _section(before: Side, after: Side) -> bytes:
    if before.content == after.content and before.mode == after.mode:
        return b""
    parts = [b"diff --git %s %s\n" % (quote_path(before.name), quote_path(after.name))]
    mode = b""
    if before.content is None:
        parts.append(b"new file mode %06o\n" % after.mode)
    elif after.content is None:
        parts.append(b"deleted file mode %06o\n" % before.mode)
    elif before.mode != after.mode:
        parts.append(b"old mode %06o\nnew mode %06o\n" % (before.mode, after.mode))
    else:
        mode = b" %06o" % after.mode
    if before.content == after.content:
        return b"".join(parts)
    sides = before, after
    ids = [b"0000000" if side.content is None else side.id[:7] for side in sides]
    names = [b"/dev/null" if side.content is None else quote_path(side.name) for side in sides]
    parts.append(b"index %s..%s%s\n" % (*ids, mode))
    if is_binary(before.text) or is_binary(after.text):
        parts.append(b"Binary files %s and %s differ\n" % (*names,))
    elif before.text != after.text:
        # Git ends a name that holds a space with a tab, which old `patch` needs.
        names = [name + b"\t" * (b" " in name) for name in names]
        parts.append(b"--- %s\n+++ %s\n" % (*names,))
        parts += _hunks(lines_of(before.text), lines_of(after.text))
    return b"".join(parts)


def _hunks(a: Lines, b: Lines) -> Iterator[bytes]:
    heading, searched = b"", 0
    for group in _groups(linediff.changes(a, b)):
        start = max(0, group[0].old - _CONTEXT)
        stop = min(len(a), group[-1].old_end + _CONTEXT)
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


def _groups(blocks: list[Block]) -> Iterator[list[Block]]:
    """Group blocks into hunks if their context would touch or overlap."""
    group = blocks[:1]
    for before, block in pairwise(blocks):
        if block.old - before.old_end > 2 * _CONTEXT:
            yield group
            group = []
        group.append(block)
    if group:
        yield group


def _heading(lines: Lines, start: int, stop: int, default: bytes) -> bytes:
    """Return the function heading of a hunk: the last line that is not indented."""
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
        yield mark + line
        if not line.endswith(b"\n"):
            yield b"\n\\ No newline at end of file\n"


# -- nested repositories


def is_dirty(
    repo: Repository, recorded: ObjectID | None, deadline: Deadline | None = None
) -> bool | None:
    """Return whether HEAD differs from the `recorded` commit, or `git status` shows changes; None
    if the deadline is over, or only a filter, which is not run, could decide."""
    head, scratch = repo.refs.head().commit, repo.objects.scratch()
    if recorded is not None and head != recorded:
        return True
    if deadline is not None and deadline.is_over:
        return None
    present = capture(repo.without_filters(), Settings(), scratch, deadline=deadline)
    tree = present.index_entries[record.INDEX].id
    committed = record.read_commit(scratch, head).tree if head else write_tree(scratch, {})
    reasons = {*present.skipped.values()}
    answers = {state.dirty for state in present.nested}
    if committed != tree or any(e.stage or e.intent_to_add for e in present.staged.entries):
        return True
    if reasons - {SkipReason.SPECIAL, SkipReason.UNREADABLE, SkipReason.BUDGET}:
        return True
    if present.tree != committed:
        answers.add(None if present.converted else True)
    if present.is_cut or SkipReason.UNREADABLE in reasons:
        answers.add(None)
    return True if True in answers else None if None in answers else False
