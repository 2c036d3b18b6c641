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
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from stat import S_IFMT
from typing import NamedTuple

from ckpt.engine import scan_cache
from ckpt.engine.capture import capture
from ckpt.engine.journal import journal_size
from ckpt.engine.reading import VanishedFile, add_stable, git_modes
from ckpt.engine.rules import attribute_tree, read_excludes, scan_rules
from ckpt.errors import CkptError
from ckpt.git import linediff, record
from ckpt.git.formats import ObjectID
from ckpt.git.index import Index, IndexEntry, Staged, matches, read_staged
from ckpt.git.linediff import Block, Lines, is_binary, lines_of
from ckpt.git.objects import LARGEST_KEPT, MissingObject, ObjectStore
from ckpt.git.patch import quote_path
from ckpt.git.repository import Repository
from ckpt.git.rules import AttributeTree, IgnoreStack
from ckpt.git.streams import LARGE, UnreadableFile
from ckpt.git.trees import GITLINK, SYMLINK, Change, TreeEntry, diff_trees, write_tree
from ckpt.models import Checkpoint, DiffResult, FileChange, SkipReason
from ckpt.paths import is_nested_repository, is_within, to_str
from ckpt.settings.settings import Settings
from ckpt.settings.sources import NO_LIMIT
from ckpt.worktree.filters import Conversion, Unconvertible, clean, conversion
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


# -- Whether `git status` would have anything to say about a repository

OpenNested = Callable[[Repository, bytes], Repository]

MOST_LEVELS = 30  # of repositories within each other; deeper ones are taken for an attack
_LONGEST_PATHS = 1 << 29  # bytes of all folders around all files, half as many at most
_LARGEST_JOURNAL = 1 << 20  # of a rollback that was interrupted; anybody can have packed one


class TooMuch(Exception):
    """There are more files than may be looked at, or than there is time for."""


@dataclass(slots=True)
class Allowance:
    """How many files may still be looked at, and until when; within how many repositories we
    are."""

    files: int
    deadline: Deadline | None = None
    level: int = 0

    def spend(self, files: int) -> None:
        self.files -= files
        if self.files < 0 or (self.deadline is not None and self.deadline.is_over):
            raise TooMuch


def is_dirty(
    repo: Repository, recorded: ObjectID | None, allowance: Allowance, open_nested: OpenNested
) -> bool | None:
    """True for commits other than the `recorded` one, changes, staged or not, and untracked
    files; None if something could not be compared and nothing else differs."""
    head = repo.refs.head()
    if recorded is not None and head.commit != recorded:
        return True
    staged = read_staged(repo, most=allowance.files)
    if sum(len(e.path) * e.path.count(b"/") for e in staged.index.entries) > _LONGEST_PATHS:
        raise TooMuch
    if _is_staged(repo, head.commit, staged.index):
        return True
    allowance.spend(len(staged.index.entries))
    found = _scan(repo, staged, allowance)
    if found.untracked or SkipReason.NESTED in found.skipped.values():
        return True
    unreadable = None if SkipReason.UNREADABLE in found.skipped.values() else False
    return _any([*_changes(repo, staged, found, allowance, open_nested), unreadable])


def _any(answers: Iterable[bool | None]) -> bool | None:
    seen = set()
    for answer in answers:
        if answer:
            return True
        seen.add(answer)
    return None if None in seen else False


def _is_staged(repo: Repository, commit: ObjectID | None, index: Index) -> bool:
    """The index holds something else than HEAD, or a conflict."""
    if any(entry.stage or entry.intent_to_add for entry in index.entries):
        return True
    if commit is None:
        return bool(index.entries)
    entries = {e.path: TreeEntry(e.mode, ObjectID(e.id)) for e in index.entries}
    tree = write_tree(repo.objects.scratch(), entries)
    return tree != record.read_commit(repo.objects, commit).tree


def _scan(repo: Repository, staged: Staged, allowance: Allowance) -> Scan:
    """Everything that git looks at: what ckpt leaves out besides is untracked content too."""
    if journal_size(repo.private_dir) > _LARGEST_JOURNAL:
        raise TooMuch
    facts = scan_cache.facts_of(staged, None)
    rules = replace(
        scan_rules(repo, Settings(), read_excludes(repo), facts, staged),
        deny=IgnoreStack.root(),
        include=IgnoreStack.root(),
        include_paths=(),
        max_file_size=None,
    )

    def limit(files: int, _size: int) -> None:
        if files > allowance.files + len(staged.index.entries):
            raise TooMuch
        allowance.spend(0)

    return scan(os.fsencode(repo.worktree), rules, limit)


def _changes(
    repo: Repository, staged: Staged, found: Scan, allowance: Allowance, open_nested: OpenNested
) -> Iterator[bool | None]:
    """Whether each tracked path is gone, or has another mode or content."""
    compare = _Comparison(repo, staged, found)
    for entry in staged.index.entries:
        if entry.assume_valid or entry.skip_worktree:
            continue
        if entry.mode == GITLINK:
            yield _is_nested_dirty(repo, entry, allowance, open_nested)
        elif entry.path in found.files:
            allowance.spend(0)
            yield compare.differs(entry, found.files[entry.path])
        else:
            yield found.skipped.get(entry.path) is not SkipReason.UNREADABLE


def _is_nested_dirty(
    repo: Repository, entry: IndexEntry, allowance: Allowance, open_nested: OpenNested
) -> bool | None:
    place = os.path.join(os.fsencode(repo.worktree), entry.path)
    if not os.path.isdir(place):
        return True
    if not is_nested_repository(place):
        return False
    if allowance.level == MOST_LEVELS:
        return None
    allowance.level += 1
    try:
        with open_nested(repo, entry.path) as nested:
            return is_dirty(nested, ObjectID(entry.id), allowance, open_nested)
    except (CkptError, OSError):
        return None
    finally:
        allowance.level -= 1


class _Comparison:
    """Compares files with their entries in the index, as git does."""

    def __init__(self, repo: Repository, staged: Staged, found: Scan) -> None:
        self._repo = repo
        self._staged = staged
        self._found = found
        self._modes = git_modes(repo, staged)

    def differs(self, entry: IndexEntry, status: os.stat_result) -> bool | None:
        if not self._staged.is_racy(entry) and self._is_proved(entry, status):
            return False
        if self._modes.of(entry.path, status) != entry.mode:
            return True
        scratch = self._repo.objects.scratch()
        place = os.path.join(os.fsencode(self._repo.worktree), entry.path)
        try:
            raw, status = add_stable(scratch, place)
            asked = None if raw == entry.id or entry.mode == SYMLINK else self._asked(entry.path)
            if asked is None:
                return raw != entry.id
            if asked.driver is not None or status.st_size > LARGE:
                return None
            return self._cleaned(asked, scratch.read(raw, b"blob"), entry) != entry.id
        except VanishedFile:
            return True
        except (UnreadableFile, MissingObject, Unconvertible):
            return None

    def _is_proved(self, entry: IndexEntry, status: os.stat_result) -> bool:
        return matches(entry, status, file_mode=self._modes.file_mode)

    def _asked(self, path: bytes) -> Conversion | None:
        if self._attributes is None:
            return None
        autocrlf = self._repo.config.get("core.autocrlf")
        return conversion(self._attributes.attributes(path), autocrlf)

    @cached_property
    def _attributes(self) -> AttributeTree | None:
        staged = scan_cache.facts_of(self._staged, None).attributes
        return attribute_tree(self._repo, staged, self._found).tree

    def _cleaned(self, asked: Conversion, data: bytes, entry: IndexEntry) -> ObjectID:
        objects = self._repo.objects
        blob = ObjectID(entry.id)
        stored = clean(asked, data, lambda: objects.read(blob, b"blob", LARGEST_KEPT))
        return objects.hash(b"blob", stored)
