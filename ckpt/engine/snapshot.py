# SPDX-License-Identifier: MIT
"""Save the working state as a checkpoint that survives a crash.

Flushes the objects, then creates the ref: an interrupted save leaves only unreachable objects.
If an object is missing or pruned meanwhile, drops the scan cache and captures again. A trigger on
an unchanged state creates no ref. The manifest lists skipped files; a file that cannot be read
makes the checkpoint partial.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ckpt import disk, ids
from ckpt.disk import journal_exists, worktree_lock
from ckpt.engine import scan_cache
from ckpt.engine.capture import capture
from ckpt.engine.catalog import Catalog, load
from ckpt.engine.scan_cache import ScanCache
from ckpt.engine.scan_rules import inside
from ckpt.engine.working_state import Present
from ckpt.errors import CkptError, UsageError
from ckpt.git import operation as operation_record
from ckpt.git import record
from ckpt.git.objects import MissingObject, ObjectID, ObjectsPruned, ObjectStore
from ckpt.git.record import Manifest, StateFile
from ckpt.git.refs import HeadMoved
from ckpt.git.repository import Repository
from ckpt.git.trees import (
    FOLDER,
    GITLINK,
    Entries,
    TreeEntry,
    add_limited,
    diff_trees,
    write_tree,
)
from ckpt.models import (
    BY_HAND,
    TRIGGERED,
    Checkpoint,
    Kind,
    Outcome,
    SaveResult,
    Scope,
    SkipReason,
    Stats,
)
from ckpt.paths import folders_above, folders_of, is_repository, is_within, to_str
from ckpt.settings.settings import Settings
from ckpt.worktree.scan import Deadline

if TYPE_CHECKING:
    from ckpt.worktree.write import Worktree

LOCK_TIMEOUT = 60.0
_Result = TypeVar("_Result")
ATTEMPTS = 3
# The date of a state commit, so that checkpoints with equal states share it.
NO_TIME = datetime.fromtimestamp(0, timezone.utc)


class SaveRequest(NamedTuple):
    """The options of a save: `keep` are commits to keep reachable, `state` is the state of agents.
    `state_is_given`: it has more than that of tracked objects, so an equal checkpoint will not do.
    """

    name: str | None = None
    description: str | None = None
    kind: Kind = Kind.MANUAL
    trigger: str | None = None
    session: str | None = None
    state: Mapping[str, bytes] = {}
    state_files: tuple[bytes, ...] = ()
    state_is_given: bool = False
    pinned: bool = False
    keep: tuple[ObjectID, ...] = ()
    progress: Callable[[int, int], None] | None = None

    @property
    def wants_own_ref(self) -> bool:
        """Return False for a trigger that accepts an equal checkpoint."""
        is_named = self.name is not None or self.pinned
        return self.kind not in TRIGGERED or is_named or self.state_is_given

    def is_met_by(self, found: Checkpoint) -> bool:
        """Return whether a checkpoint of the same state suffices: of the requested session, and
        kept at least as long."""
        if self.session is not None and found.session != self.session:
            return False
        is_alike = found.kind is self.kind and found.session == self.session
        return is_alike or found.pinned or found.kind in BY_HAND


def save(
    repo: Repository,
    settings: Settings,
    request: SaveRequest,
    *,
    budget: float | None = None,
    complete: Callable[[Present], Present] | None = None,
) -> SaveResult:
    """Take a checkpoint of the working state, waiting for a rollback in progress.

    After `budget` seconds, including the wait, the remaining untracked files are skipped and the
    checkpoint is partial. `complete` may add to the state before it is written.
    """
    request = checked(request)
    deadline = None if budget is None else Deadline(budget)
    timeout = LOCK_TIMEOUT if budget is None else min(LOCK_TIMEOUT, budget)

    def attempt() -> SaveResult:
        present = capture(
            repo,
            settings,
            repo.objects,
            progress=request.progress,
            cache=scan_cache.load(repo),
            clock=scan_cache.clock(repo),
            reads_index=False,
            deadline=deadline,
        )
        return write(repo, present if complete is None else complete(present), request)

    with worktree_lock(repo.private_dir, exclusive=False, timeout=timeout):
        return again_if_pruned(repo, attempt)


def again_if_pruned(repo: Repository, attempt: Callable[[], _Result]) -> _Result:
    """Call `attempt`, and again without the scan cache if an object is missing or HEAD moved."""
    for number in range(1, ATTEMPTS + 1):
        try:
            return attempt()
        except (HeadMoved, ObjectsPruned, MissingObject, FileNotFoundError):
            scan_cache.forget(repo)
            if number == ATTEMPTS:
                raise
        finally:  # drop objects that were not written
            repo.objects.discard()
    raise AssertionError("the last attempt returns or raises")


def write(repo: Repository, present: Present, request: SaveRequest) -> SaveResult:
    """Write a captured state as a checkpoint. The caller holds the worktree's lock."""
    objects, source, head = repo.objects, present.source, present.head.commit
    index = present.index_entries[record.INDEX].id
    compared, new = compare(objects, head, present.tree, index, source)
    # Objects that git has just written may not be on disk yet; HEAD or the previous checkpoint
    # holds the others.
    missing = objects.keep(new)
    if missing and not objects.is_partial:
        raise MissingObject(min(missing), "missing or damaged object")
    keep = {*request.keep, *operation_record.commits_to_keep(objects, present.operation)}
    state = _state_commit(repo, _write_state_tree(repo, present, request), sorted(keep))
    draft = draft_of(repo, request, Scope.FULL, present.tree, state)._replace(
        partial=present.is_partial,
        during_rollback=journal_exists(repo.private_dir),
        head_commit=present.head.state.commit_hash,
        branch=present.head.state.branch,
        stats=Stats(*compared.stats),
    )
    result = _published(repo, request, draft, source)
    found = result.checkpoint
    if present.is_cut or (result.outcome is Outcome.CREATED and draft.partial):
        result = result._replace(outcome=Outcome.PARTIAL)  # what was not read may have changed
    if present.cache is not None and found is not None:
        scan_cache.store(repo, present.cache._replace(compared=tuple(compared)), found)
    return result._replace(reason="budget") if present.is_cut else result


def _published(
    repo: Repository, request: SaveRequest, draft: Checkpoint, source: ScanCache | None = None
) -> SaveResult:
    """Publish a draft, or return an existing checkpoint if the request accepts one."""
    catalog = Catalog(repo)
    found = None if request.wants_own_ref else _existing(repo, catalog, request, draft)
    if found is not None:
        return SaveResult(Outcome.UNCHANGED, found)
    return SaveResult(Outcome.CREATED, publish(repo, catalog, draft, source))


def _existing(
    repo: Repository, catalog: Catalog, request: SaveRequest, draft: Checkpoint
) -> Checkpoint | None:
    """Return a checkpoint of exactly this state, made here, that meets the request."""
    if repo.objects.is_new(ObjectID(draft.state_commit.encode())):
        return None  # new, missing or corrupt
    for found in catalog.here():
        if found.during_rollback or found.scope is not draft.scope or found.foreign:
            continue
        if draft.scope is Scope.STATE and found.session != draft.session:
            continue
        same = (draft.tree, draft.state_commit, draft.head_commit, draft.branch)
        if (found.tree, found.state_commit, found.head_commit, found.branch) != same:
            return None
        if request.is_met_by(found):
            return found
    return None


def checked(request: SaveRequest) -> SaveRequest:
    """Return the request in the form to store; raise UsageError if it is invalid."""
    if request.session is not None and not request.session.strip():
        raise UsageError("the session is empty", hint="leave --session out, or name one")
    for what, text in (("session", request.session), ("trigger", request.trigger)):
        try:
            (text or "").encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:  # a lone surrogate, from text cut inside a character
            raise UsageError(f"the {what} is not text", hint="pass valid UTF-8") from None
    if request.name is not None:
        request = request._replace(name=ids.check_name(request.name))
    if request.description is not None:
        request = request._replace(description=ids.check_description(request.description))
    return request


def _write_state_tree(repo: Repository, present: Present, request: SaveRequest) -> ObjectID:
    objects, operation = repo.objects, present.operation.identity
    manifest = Manifest(
        modes=present.modes,
        empty_folders=present.empty_folders,
        skipped={path: str(reason) for path, reason in _summarised(present).items()},
        excludes=present.excludes,
        include=present.include,
        operation=None if operation is None else operation.name,
        unskipped=present.unskipped,
        nested=present.nested,
    )
    entries = {
        **present.index_entries,
        **operation_record.write_state(objects, present.operation),
        record.MANIFEST: add_limited(objects, manifest.dump(), "manifest.json"),
    }
    if present.converted:
        from ckpt.engine.conversions import RAW, write_raw

        raw = write_raw(objects, present.converted)
        if raw is not None:
            entries[RAW] = TreeEntry(FOLDER, raw)
    if request.state or request.state_files:
        files = _read_state_files(repo, request.state_files) if request.state_files else {}
        entries |= record.write(objects, request.state, files)
    return write_tree(objects, entries)


def _state_commit(
    repo: Repository, tree: ObjectID, keep: Sequence[ObjectID] = (), what: str = "the worktree"
) -> ObjectID:
    return record.write_commit(repo.objects, tree, keep, f"ckpt: state of {what}\n", NO_TIME)


# Above this number of paths, a directory without saved files is listed instead of its contents.
_MANY = 1000


def _summarised(present: Present) -> Mapping[bytes, SkipReason]:
    """Return the skipped paths, with thousands of them shortened to directories."""
    over = {path for path, why in present.skipped.items() if why is SkipReason.BUDGET}
    if len(over) <= _MANY:
        return present.skipped
    found = {path: why for path, why in present.skipped.items() if path not in over}
    held = folders_of(present.entries)
    for path in over:
        empty = [*takewhile(lambda folder: folder not in held, folders_above(path))]
        found[empty[-1] if empty else path] = SkipReason.BUDGET
    return dict(sorted(found.items()))


# -- publishing: the id, the commit and the ref


def draft_of(
    repo: Repository, request: SaveRequest, scope: Scope, tree: ObjectID, state: ObjectID
) -> Checkpoint:
    """Return a checkpoint to publish, without id, time and commit."""
    return Checkpoint(
        id="",
        name=request.name,
        description=request.description,
        kind=request.kind,
        trigger=request.trigger,
        scope=scope,
        timestamp=NO_TIME,
        commit="",
        tree=tree.decode(),
        state_commit=state.decode(),
        worktree=repo.worktree_id,
        session=request.session,
        pinned=request.pinned,
    )


def publish(
    repo: Repository, catalog: Catalog, draft: Checkpoint, source: ScanCache | None
) -> Checkpoint:
    """Give a checkpoint its id and ref, trying another id if one is taken. Raise ObjectsPruned if a
    concurrent gc pruned objects that the new ref points to."""
    names = filter(None, (draft.tree, draft.head_commit, draft.state_commit))
    relied_on = {ObjectID(name.encode()) for name in names}
    while True:
        now = datetime.now(timezone.utc)
        draft = draft._replace(timestamp=now, id=ids.new_id(now, None))
        newest = catalog.newest_here(draft.id[:19])
        if newest is not None:
            draft = draft._replace(id=ids.new_id(now, newest))
        commit = record.write_checkpoint(repo.objects, draft)
        noted = record.note(repo.common_dir, draft.id, commit.decode())
        relied_on |= repo.objects.flush(noted)
        if repo.refs.create(draft.ref.encode(), commit):
            if repo.objects.missing({commit, *relied_on}) or not scan_cache.is_held(repo, source):
                repo.refs.remove(draft.ref.encode(), commit)
                raise ObjectsPruned
            return load(repo, draft.id, commit)
        time.sleep(0.001)
        catalog = Catalog(repo)


# -- differences from HEAD in files and lines, stored with the checkpoint

Counts = dict[bytes, tuple[int, int]]  # inserted and deleted lines, by two blobs

# Lines of larger files are not counted, so as not to delay a save.
_COUNTED_SIZE = 1 << 20


class Compared(NamedTuple):
    """The differences of the worktree and the index from a commit with tree `head`, as data that
    `marshal` accepts."""

    commit: ObjectID | None
    tree: ObjectID
    index_tree: ObjectID
    head: ObjectID | None
    stats: tuple[int, int, int]
    counts: Counts


def compare(
    objects: ObjectStore,
    commit: ObjectID | None,
    tree: ObjectID,
    index: ObjectID,
    source: ScanCache | None,
) -> tuple[Compared, set[ObjectID]]:
    """Compare the trees of the worktree and the index with a commit; return also the blobs that are
    not in the cached trees, and the commit if it has changed."""
    before = None if source is None or source.compared is None else Compared(*source.compared)
    if before is not None and before[:3] == (commit, tree, index):
        return before, set()
    new: set[ObjectID] = set()
    head: ObjectID | None = None
    then: tuple[ObjectID | None, ObjectID | None] = None, None
    if before is not None and before.commit == commit:
        head, then = before.head, (before.tree, before.index_tree)
    elif commit is not None:
        head, new = record.read_commit(objects, commit).tree, {commit}
        then = head, head
    trees: dict[ObjectID, Entries] = {}
    for now, base in zip((tree, index), then, strict=True):
        changed = diff_trees(objects, base, now, trees)
        new |= {entry.id for _, _, entry in changed if entry and entry.mode != GITLINK}
    files = insertions = deletions = 0
    known: Counts = before.counts if before else {}
    counts: Counts = {}
    for _, was, present in diff_trees(objects, head, tree, trees):
        files += 1
        key = b"%s %s" % (_id(was), _id(present))
        with suppress(MissingObject):  # a partial clone may lack HEAD's blobs
            came, went = counts[key] = known.get(key) or _count(objects, was, present)
            insertions += came
            deletions += went
    return Compared(commit, tree, index, head, (files, insertions, deletions), counts), new


def _count(
    objects: ObjectStore, before: TreeEntry | None, after: TreeEntry | None
) -> tuple[int, int]:
    from ckpt.git import linediff

    return linediff.count(_text(objects, before), _text(objects, after))


def _id(entry: TreeEntry | None) -> bytes:
    return b"" if entry is None or entry.mode == GITLINK else entry.id


def _text(objects: ObjectStore, entry: TreeEntry | None) -> bytes:
    if entry is None or entry.mode == GITLINK:
        return b""
    size = objects.size(entry.id)
    return b"\0" if size is not None and size > _COUNTED_SIZE else objects.read(entry.id, b"blob")


# -- state files, which are saved and restored whatever the rules


def check_state_files(repo: Repository, paths: Iterable[bytes]) -> None:
    """Refuse a path that is not a file of this worktree."""
    top = os.fsencode(repo.worktree)
    git_dirs = inside(repo.worktree, repo.git_dir, repo.common_dir)
    for path in paths:
        if not path:
            place = "no state file"
        elif is_within(path, git_dirs):
            place = "inside a git dir"
        elif any(is_repository(os.path.join(top, folder)) for folder in folders_above(path)):
            place = "inside another repository"
        else:
            continue
        told = f"'{to_str(path) or '.'}' is {place}"
        raise UsageError(told, hint="name a file of this worktree")


def _read_state_files(repo: Repository, paths: Iterable[bytes]) -> dict[bytes, StateFile]:
    """Add the current contents of these files to the object store."""
    from ckpt.worktree.write import Worktree

    with Worktree(os.fsencode(repo.worktree), repo.git_dirs) as worktree:
        return {path: _read_state_file(repo.objects, worktree, path) for path in sorted(paths)}


def _read_state_file(objects: ObjectStore, worktree: Worktree, path: bytes) -> StateFile:
    from ckpt.engine.apply import look
    from ckpt.worktree.write import UnsafePath

    state, reason = None, "it is no file"
    try:
        status = worktree.lstat(path)
        if status is not None:
            state = look(objects, worktree, path, status, store=True)
        elif worktree.in_the_way(path) is None:
            return StateFile(None, 0)
    except (OSError, UnsafePath) as error:
        reason = error.message if isinstance(error, UnsafePath) else (error.strerror or "").lower()
    if state is None:
        raise CkptError(
            f"cannot read state file '{to_str(path)}': {reason}",
            hint="name a file that can be read",
        )
    return StateFile(state.entry, state.permissions)


# -- checkpoints of agent state alone: an empty tree, no index or HEAD, no lock


def save_state(repo: Repository, request: SaveRequest) -> SaveResult:
    """Save agent state; a trigger accepts an equal checkpoint."""
    request = checked(request)
    return again_if_pruned(repo, lambda: _published(repo, request, state_draft_of(repo, request)))


def state_draft_of(repo: Repository, request: SaveRequest) -> Checkpoint:
    """Add the objects of a state checkpoint and return it without id, time and commit."""
    tree = write_tree(repo.objects, {})
    entries = record.write(repo.objects, request.state, {})
    state = _state_commit(repo, write_tree(repo.objects, entries), what="an agent")
    return draft_of(repo, request, Scope.STATE, tree, state)


# -- the number of checkpoints taken here since the last prune

EVERY = 25  # saves between prunes
_NAME = "saves"


def count_save(private_dir: str, result: SaveResult) -> bool:
    """Count a new checkpoint; return True if it is time to prune."""
    if result.outcome not in (Outcome.CREATED, Outcome.PARTIAL):
        return False
    path = os.path.join(private_dir, _NAME)
    try:
        disk.append(path, b".")
        return os.path.getsize(path) > EVERY
    except OSError:
        return False


def start_again(private_dir: str) -> None:
    """Reset the count after a prune."""
    with suppress(OSError):
        os.unlink(os.path.join(private_dir, _NAME))
