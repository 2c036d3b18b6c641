# SPDX-License-Identifier: MIT
"""Whether `git status` would have anything to say about a repository.

One answer for a whole repository: the first difference ends the search. Stat data in
its index prove most files unchanged; only what they do not prove is read. Submodules in
it count as git counts them in turn. Nothing is written, not even a refreshed index, and
no command of its configuration is run: a file that only a filter driver could compare
leaves the answer open.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

from ckpt.engine.attribute_files import attribute_tree
from ckpt.engine.contents import VanishedFile, add_stable
from ckpt.engine.excludes import read_excludes
from ckpt.engine.git_modes import git_modes
from ckpt.engine.index_facts import facts_of
from ckpt.engine.pending import journal_size
from ckpt.engine.rules import scan_rules
from ckpt.errors import CkptError
from ckpt.models import SkipReason
from ckpt.settings import Settings
from ckpt.store import record
from ckpt.store.index import Index, IndexEntry, matches
from ckpt.store.objects import LARGEST_KEPT, MissingObject, ObjectID
from ckpt.store.repository import Repository
from ckpt.store.staging import Staged, read_staged
from ckpt.store.streams import LARGE, UnreadableFile
from ckpt.store.trees import GITLINK, SYMLINK, TreeEntry, write_tree
from ckpt.values import replace, value_class
from ckpt.worktree.attributes import AttributeTree
from ckpt.worktree.convert import Conversion, Unconvertible, clean, conversion
from ckpt.worktree.found import Scan
from ckpt.worktree.ignore import IgnoreStack
from ckpt.worktree.reach import is_nested_repository
from ckpt.worktree.scan import scan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ckpt.worktree.deadline import Deadline

OpenNested = Callable[[Repository, bytes], Repository]

MOST_LEVELS = 30  # of repositories within each other; deeper ones are taken for an attack
_LONGEST_PATHS = 1 << 29  # bytes of all folders around all files, half as many at most
_LARGEST_JOURNAL = 1 << 20  # of a rollback that was interrupted; anybody can have packed one


class TooMuch(Exception):
    """There are more files than may be looked at, or than there is time for."""


@value_class(frozen=False)
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
    facts = facts_of(staged, None)
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
        staged = facts_of(self._staged, None).attributes
        return attribute_tree(self._repo, staged, self._found).tree

    def _cleaned(self, asked: Conversion, data: bytes, entry: IndexEntry) -> ObjectID:
        objects = self._repo.objects
        blob = ObjectID(entry.id)
        stored = clean(asked, data, lambda: objects.read(blob, b"blob", LARGEST_KEPT))
        return objects.hash(b"blob", stored)
