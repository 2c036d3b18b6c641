# SPDX-License-Identifier: MIT
"""Save: from the present to a checkpoint that survives a crash.

Objects first and durable, the ref last and only if new: a save that dies leaves
nothing but unreachable objects, and a checkpoint that was reported is there. The
user's worktree, index, HEAD and configuration are read and never touched.

A trigger on an unchanged state makes no second ref. What was left out of the
checkpoint is in its manifest; what could not be read makes it partial.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone

from ckpt import disk, ids
from ckpt.engine import scan_cache
from ckpt.engine.capture import Present, capture, index_state, summarised
from ckpt.engine.catalog import Catalog, load
from ckpt.engine.index_facts import index_identity
from ckpt.engine.journal import journal_exists
from ckpt.engine.recorded import Manifest
from ckpt.engine.summary import Compared, summarise
from ckpt.errors import CkptError, Refused, UsageError
from ckpt.git import index as staging
from ckpt.git import operation as operation_record
from ckpt.git import record
from ckpt.git.formats import ObjectID
from ckpt.git.index import ASSUME_VALID, SKIP_WORKTREE, Index, IndexEntry, Staged, stage_trees
from ckpt.git.loose import TEMPORARY_OBJECT, clear_dead
from ckpt.git.objects import MissingObject, ObjectsPruned, ObjectStore
from ckpt.git.record import StateFile, Texts, read_commit
from ckpt.git.refs import Head, branch_name, object_id
from ckpt.git.repository import Repository, wait_for_pruning
from ckpt.git.trees import (
    FOLDER,
    GITLINK,
    Entries,
    TreeEntry,
    Unfolding,
    UnsafeTree,
    add_limited,
    lookup,
    read_tree,
    walk,
    write_tree,
)
from ckpt.locks import Waiting, worktree_lock
from ckpt.models import (
    BY_HAND,
    TRIGGERED,
    Checkpoint,
    Details,
    Kind,
    NestedState,
    Outcome,
    SaveResult,
    Scope,
    Skipped,
    Stats,
)
from ckpt.paths import folders_above, folders_of, to_str
from ckpt.settings.settings import Settings

_MERGED = "AUTO_MERGE"
_STASHES = ("MERGE_AUTOSTASH", "rebase-merge/autostash", "rebase-apply/autostash")


def rely_on_unnamed(objects: ObjectStore, files: Mapping[str, bytes], tree: ObjectID) -> None:
    """Have the next flush rely on them as on what was added; `files` are those of an operation,
    and `tree` is that of the worktree, which is safe."""
    for path in {_MERGED, *_STASHES} & files.keys():
        named = object_id(files[path], objects.object_format.hex_length)
        if named is None:  # as a power cut may leave it
            continue
        with suppress(MissingObject, UnsafeTree):
            if path == _MERGED:
                objects.keep(only_in(objects, named, tree))
            else:
                objects.keep(_stashed(objects, named))


def _stashed(objects: ObjectStore, stash: ObjectID) -> Iterator[ObjectID]:
    """A stash and the commits of its own: the first parent is where it was made."""
    yield stash
    found = read_commit(objects, stash)
    base = read_commit(objects, found.parents[0]).tree if found.parents else None
    yield from only_in(objects, found.tree, base)
    for other in found.parents[1:]:
        yield other
        yield from only_in(objects, read_commit(objects, other).tree, base)


def only_in(objects: ObjectStore, tree: ObjectID, base: ObjectID | None) -> Iterator[ObjectID]:
    """The trees and blobs that stand elsewhere than in another tree, or not there."""
    unfolding = Unfolding()
    todo, seen = [(tree, base)], {(tree, base)}
    while todo:
        now, before = todo.pop()
        if now == before:
            continue
        yield now
        entries, others = (
            () if each is None else read_tree(objects, each) for each in (now, before)
        )
        unfolding.add(b"", now, entries)
        unfolding.add(b"", before, others)
        there = {name: (mode, child) for name, mode, child in others}
        for name, mode, child in entries:
            was_mode, was = there.get(name, (0, None))
            if mode == FOLDER:
                both = (child, was if was_mode == FOLDER else None)
                if both not in seen:
                    seen.add(both)
                    todo.append(both)
            elif mode != GITLINK and child != was:
                yield child


# -- Is a new checkpoint whole, although git may have pruned while it was made?

_MOST_LOOKED_FOR = 1000


def is_whole(
    repo: Repository, present: Present, commit: ObjectID, relied_on: AbstractSet[ObjectID]
) -> bool:
    """False if an object of a commit is gone that a ref holds by now; it relied on those."""
    if present.source is not None and not scan_cache.is_held(repo, present.source):
        return False
    if repo.objects.missing({commit, *relied_on}):
        return False
    is_index_same = present.knows_index or index_identity(repo) == present.index.identity
    return is_index_same or (_holds_everything(repo, present, commit) and _keeps(repo, commit))


def has_what_it_relies_on(objects: ObjectStore, present: Present, compared: Compared) -> bool:
    """False if something is gone that the cache names and HEAD does not have, which is git's to
    look after. Of very many files a part is looked for, another part the next time."""
    if present.source is None:
        return True
    paths = [path for path, (_, now) in compared.changes.items() if now is not None]
    if len(paths) > _MOST_LOOKED_FOR:
        start = int.from_bytes(os.urandom(4), "big") % len(paths)
        paths = (paths + paths)[start : start + _MOST_LOOKED_FOR]
    return all(map(objects.has, _on_the_way(present, compared, paths)))


def flush_what_git_wrote(objects: ObjectStore, present: Present, compared: Compared) -> None:
    """Have the next flush include what `git add` and `git commit` may have left in memory: what
    is staged or taken over from the index since the last time, and the commit at HEAD. What is
    staged is missing also if only a broken file is left of it."""
    before = present.source
    changes = compared.changes if present.delta is None else present.delta
    new = {now.id for _, now in changes.values() if now is not None and now.mode != GITLINK}
    staged: set[ObjectID] = set()
    if before is None or not present.knows_index:
        staged = {ObjectID(entry.id) for entry in present.staged_at({*compared.staged})}
    was = None if before is None or before.compared is None else before.compared.commit
    if compared.commit is not None and compared.commit != was:
        new.add(compared.commit)
    for lost in sorted(objects.keep(new | staged) & staged):
        if not objects.is_partial:
            raise MissingObject(lost, "damaged object")


def leave_to_head(
    objects: ObjectStore,
    present: Present,
    compared: Compared,
    tree: ObjectID,
    packed: AbstractSet[ObjectID],
) -> None:
    """Have nothing written again that HEAD names: of the files and folders that only a pack has,
    all but what differs from HEAD, the folders on the way there, and what git would convert."""
    if not packed or compared.head_tree is None:
        return
    known: dict[ObjectID, Entries] = {}
    folders = (lookup(objects, tree, f, known) for f in (b"", *folders_of(compared.changes)))
    differing = {entry.id for entry in folders if entry is not None}
    differing |= {now.id for _, now in compared.changes.values() if now is not None}
    differing |= {converted.raw for converted in present.converted.values()}
    objects.leave_packed(packed - differing)


def _on_the_way(present: Present, compared: Compared, paths: list[bytes]) -> Iterator[ObjectID]:
    """The blobs of files, and the trees of all folders above them."""
    for path in paths:
        entry = compared.changes[path][1]
        if entry is not None and entry.mode != GITLINK:
            yield entry.id
    folders = {folder for path in paths for folder in (*folders_above(path), b"")}
    for listing in filter(None, map(present.listings.get, sorted(folders))):
        if listing.tree:
            yield ObjectID(listing.tree.hex().encode())


def _holds_everything(repo: Repository, present: Present, commit: ObjectID) -> bool:
    try:
        found = record.read_commit(repo.objects, commit)
        state = record.read_commit(repo.objects, found.parents[-1])
        blobs = _blobs(repo, found.tree) | _blobs(repo, state.tree)
    except MissingObject:
        return False
    if repo.objects.is_partial:  # of which the remote may have the rest
        blobs = {entry.id for path, entry in present.entries.items() if path in present.stats}
    return not repo.objects.missing(blobs)


def _keeps(repo: Repository, commit: ObjectID) -> bool:
    """Write once more what the index named until now, and only a pack has; False if it is gone."""

    objects = repo.objects
    try:
        found = record.read_commit(objects, commit)
        head = record.read_commit(objects, found.parents[0]).tree if found.parents[1:] else None
        state = record.read_commit(objects, found.parents[-1]).tree
        for tree in (found.tree, *filter(None, stage_trees(objects, state))):
            objects.keep(only_in(objects, tree, head))
        objects.flush()
    except (MissingObject, ObjectsPruned):
        return False
    return True


def _blobs(repo: Repository, tree: ObjectID) -> set[ObjectID]:
    return {entry.id for _, entry in walk(repo.objects, tree) if entry.mode != GITLINK}


# -- What the index or HEAD names and the object store has not, as after a power cut: git does not

_MOST_TOLD = 10


def gone_of_index(objects: ObjectStore, index: Index) -> list[IndexEntry]:
    """What is staged and is not there; in a partial clone nobody can tell."""
    if objects.is_partial:
        return []
    entries = [e for e in index.entries if e.mode != GITLINK and not e.intent_to_add]
    whole = objects.whole({ObjectID(entry.id) for entry in entries})
    return [entry for entry in entries if entry.id not in whole]


def gone_of_head(objects: ObjectStore, head: Head) -> str | None:
    """What of HEAD cannot be read, if anything: its commit, or a tree of that."""
    if head.commit is None or objects.is_partial:
        return None
    lacks = "the commit at HEAD is gone"
    try:
        top = read_commit(objects, head.commit).tree
        lacks = "a tree of the commit at HEAD is gone"
        todo, seen = [top], {top}
        while todo:
            folders = {child for _, mode, child in read_tree(objects, todo.pop()) if mode == FOLDER}
            todo += folders - seen
            seen |= folders
    except MissingObject:
        return lacks
    return None


def is_any(repo: Repository) -> bool:
    index = staging.read_staged(repo).index
    lacks = gone_of_head(repo.objects, repo.refs.head())
    return lacks is not None or bool(gone_of_index(repo.objects, index))


def leave_out(objects: ObjectStore, present: Present) -> None:
    """Have the present hold neither, and tell so. Where HEAD was is not known then: without its
    commit, its branch would be one that has none yet."""
    index = present.staged.index
    entries = gone_of_index(objects, index)
    lacks = gone_of_head(objects, present.head)
    present.gone = (*_told(entries), *([] if lacks is None else [lacks]))
    if lacks is not None:
        present.head = Head(None, None)
    if present.gone:  # also of HEAD alone, the scan cache shall not know
        remaining = _without(objects, index, entries, present.head.commit)
        present.restage(Staged(remaining, present.staged.mtime_ns))


def _without(
    objects: ObjectStore, index: Index, gone: list[IndexEntry], head: ObjectID | None
) -> Index:
    """An index but for some entries; where nothing of a path is left, it is as at HEAD, unless
    something else has its place."""
    left_out = set(gone)
    entries = [entry for entry in index.entries if entry not in left_out]
    files = {entry.path for entry in entries}
    folders = folders_of(files)
    paths = {entry.path: entry for entry in gone if entry.path not in files}
    if head is not None and paths:
        at_head = _at(objects, read_commit(objects, head).tree, paths)
        fitting = (e for e in at_head if e.path not in folders)
        entries += (e for e in fitting if files.isdisjoint(folders_above(e.path)))
    entries.sort(key=lambda entry: (entry.path, entry.stage))
    return Index(index.version, entries, hash_len=index.hash_len)


def _at(
    objects: ObjectStore, tree: ObjectID, paths: Mapping[bytes, IndexEntry]
) -> Iterator[IndexEntry]:
    """What a tree has at some paths and can be read, with the flags of other entries there."""
    known: dict[ObjectID, Entries] = {}
    for path, entry in paths.items():
        found = lookup(objects, tree, path, known)
        if found is not None and found.mode != FOLDER and objects.whole([found.id]):
            marks = entry.flags & (ASSUME_VALID | SKIP_WORKTREE)
            yield IndexEntry.of(path, found.id, found.mode)._replace(flags=marks)


def _told(entries: list[IndexEntry]) -> Iterator[str]:
    paths = _paths(entries)
    yield from (f"what was staged of '{path}' is gone" for path in paths[:_MOST_TOLD])
    if len(paths) > _MOST_TOLD:
        yield f"what was staged of {len(paths) - _MOST_TOLD} more files is gone"


def _paths(entries: list[IndexEntry]) -> list[str]:
    return [to_str(path) for path in sorted({entry.path for entry in entries})]


def refusal(repo: Repository) -> Refused | None:
    """Why no rollback can begin, if that is because of the index or HEAD."""
    from shlex import quote  # for a hint that few see

    lacks = gone_of_head(repo.objects, repo.refs.head())
    if lacks is not None:
        return Refused(
            f"{lacks}, and no checkpoint could hold it",
            hint="'git update-ref HEAD @{1}' goes back to where its branch was before, "
            "and leaves all files; then try again",
        )
    paths = _paths(gone_of_index(repo.objects, staging.read_staged(repo).index))
    if not paths:
        return None
    name = paths[0]
    return Refused(
        f"what was staged of '{name}' is gone, and no checkpoint could hold it",
        hint=f"'git add -- {quote(name)}' stages the file as it is now, "
        f"'git reset -- {quote(name)}' what HEAD has; then try again",
        details={"gone": paths},
    )


# -- What a save misses while it is at work, and whether to try again


class Losses:
    """Those of the attempts at one checkpoint."""

    def __init__(self, repo: Repository) -> None:
        self._repo = repo
        self._missed: set[str] = set()
        self._leaves_out = False

    def leave_out(self, present: Present) -> None:
        """Take out of the present what turned out to be gone for good."""
        if self._leaves_out:
            leave_out(self._repo.objects, present)

    def may_pass(self, error: Exception) -> bool:
        """Whether another attempt may do without what this one has missed, or find it."""
        if isinstance(error, MissingObject):
            return self._may_pass(error.details["object"])
        gone = error.filename if isinstance(error, FileNotFoundError) else None
        return isinstance(error, ObjectsPruned) or TEMPORARY_OBJECT in os.fsdecode(gone or "")

    def _may_pass(self, name: str) -> bool:
        is_known = name in self._missed
        self._missed.add(name)
        if not self._leaves_out:
            # which few ever need

            self._leaves_out = is_any(self._repo)
            is_known = is_known and not self._leaves_out
        return not is_known


# -- How many checkpoints were taken here since retention last looked: whether it is time again

EVERY = 25  # saves; in between, that many more than the rules keep are there
_A_DAY = 86400
_NAME = "saves"
_HEAD = 11  # bytes: seconds since 1970, and a line break
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW


def count_save(private_dir: str) -> bool:
    """Count one more; True if it is time to look."""
    path = os.path.join(private_dir, _NAME)
    try:
        fd = disk.open_or_create(path, _FLAGS)
    except OSError:
        return False
    try:
        head = os.pread(fd, _HEAD, 0)
        if not head:
            disk.write(fd, b"%010d\n" % time.time())
            return False
        disk.write(fd, b".")
        since = int(head) if head[-1:] == b"\n" else 0
        return os.fstat(fd).st_size - _HEAD >= EVERY or not 0 <= time.time() - since < _A_DAY
    except (OSError, ValueError):
        return False
    finally:
        os.close(fd)


def start_again(private_dir: str) -> None:
    """Retention has looked."""
    try:
        disk.replace_cache(os.path.join(private_dir, _NAME), [b"%010d\n" % time.time()])
    except OSError:
        pass


# -- The last step of every save: an id, a commit, and the ref that makes it a checkpoint

LONGEST_WAIT = 10.0
# Of a state commit, so that checkpoints whose states are equal share it.
NO_TIME = datetime.fromtimestamp(0, timezone.utc)


def draft_of(
    repo: Repository, request: SaveRequest, scope: Scope, tree: ObjectID, state: ObjectID
) -> Checkpoint:
    """The checkpoint that will be; what it lacks is an id and a time."""
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
        partial=False,
        during_rollback=False,
        head_commit=None,
        branch=None,
        stats=Stats(),
        _details=Details,
        _dirty_files=tuple,
    )


def publish(
    repo: Repository,
    catalog: Catalog,
    draft: Checkpoint,
    tree: ObjectID,
    parents: tuple[ObjectID, ...],
    is_whole: Callable[[ObjectID, AbstractSet[ObjectID]], bool],
    *,
    is_ours: bool = True,
) -> Checkpoint:
    """Give a checkpoint its id and ref; a taken name is tried again with another. It counts as
    made here unless what is in it came from elsewhere."""
    relied_on = {tree, *parents}
    while True:
        now = datetime.now(timezone.utc)
        draft = replace(draft, timestamp=now, id=ids.new_id(now, None))
        newest = catalog.newest_here(draft.id[:19])
        if newest is not None:
            draft = replace(draft, id=ids.new_id(now, newest))
        message = record.compose_message(draft)
        commit = record.write_commit(repo.objects, tree, parents, message, now)
        noted = record.note(repo.common_dir, draft.id, commit.decode()) if is_ours else ()
        relied_on |= repo.objects.flush(noted)
        if repo.refs.create(draft.ref.encode(), commit):
            is_over = wait_for_pruning(repo.common_dir, repo.config, LONGEST_WAIT)
            if not is_over or not is_whole(commit, relied_on):
                repo.refs.remove(draft.ref.encode(), commit)
                raise ObjectsPruned
            return load(repo, draft.id, commit)
        time.sleep(0.001)
        catalog = Catalog(repo)


# -- Save: from the present to a checkpoint that survives a crash

LOCK_TIMEOUT = 60.0
# Beside a `git gc --prune=now`; it is over in a moment.
_ATTEMPTS = 5
LAST_ATTEMPT = _ATTEMPTS - 1


@dataclass(frozen=True, slots=True)
class SaveRequest:
    """What is asked of a save; `force` are paths to take whatever the rules say,
    `keep` commits that must stay reachable through the checkpoint, `state` is what agents
    have it hold and `state_files` are files that come back as they are, ignored or not. If
    `state_is_given` for this checkpoint, beyond that of tracked objects, it has a ref of its own.
    """

    name: str | None = None
    description: str | None = None
    kind: Kind = Kind.MANUAL
    trigger: str | None = None
    session: str | None = None
    state: Texts = field(default_factory=dict)
    state_files: tuple[bytes, ...] = ()
    state_is_given: bool = False
    pinned: bool = False
    force: tuple[bytes, ...] = ()
    keep: tuple[ObjectID, ...] = ()

    @property
    def has_state(self) -> bool:
        return bool(self.state or self.state_files)

    @property
    def wants_own_ref(self) -> bool:
        """False for a trigger that would be content with an equal checkpoint."""
        is_named = self.name is not None or self.pinned
        return self.kind not in TRIGGERED or is_named or self.state_is_given

    def is_met_by(self, found: Checkpoint) -> bool:
        """Whether a checkpoint of the same state is one that this session finds, and is kept at
        least as long as its own would be."""
        if self.session is not None and found.session != self.session:
            return False
        is_alike = found.kind is self.kind and found.session == self.session
        return is_alike or found.pinned or found.kind in BY_HAND


def save(
    repo: Repository,
    settings: Settings,
    request: SaveRequest,
    *,
    progress: Callable[[int, int], None] | None = None,
    waiting: Waiting | None = None,
    timeout: float = LOCK_TIMEOUT,
    budget: float | None = None,
    complete: Callable[[Present], None] | None = None,
) -> SaveResult:
    """Take a checkpoint of the present; waits while a rollback is at work.

    After `budget` seconds, the wait included, untracked files that are not read yet are left
    out and the checkpoint is partial. `complete` may add to the present before it is written.
    """
    request = checked(request)
    deadline = None
    if budget is not None:
        from ckpt.worktree.scan import Deadline

        deadline, timeout = Deadline(budget), min(timeout, budget)
    losses = Losses(repo)
    with worktree_lock(repo.private_dir, exclusive=False, timeout=timeout, waiting=waiting):
        for attempt in range(_ATTEMPTS):
            try:
                present = capture(
                    repo,
                    settings,
                    repo.objects,
                    force=request.force,
                    progress=progress,
                    cache=scan_cache.load(repo),
                    clock=scan_cache.clock(repo),
                    reads_index=False,
                    deadline=deadline,
                )
                losses.leave_out(present)
                if complete is not None:
                    complete(present)
                result = _write(repo, present, request)
                present.let_go_of_index()
                _remember(repo, present, result)
                return result
            except (ObjectsPruned, FileNotFoundError, MissingObject) as error:
                if not losses.may_pass(error):
                    raise
                scan_cache.forget(repo)
                if attempt == LAST_ATTEMPT:
                    raise error if isinstance(error, MissingObject) else ObjectsPruned from None
                wait_for_pruning(repo.common_dir, repo.config, LONGEST_WAIT)
            finally:  # of what was not written nothing is left
                repo.objects.discard()
        raise AssertionError("the last attempt returns or raises")


def write(repo: Repository, present: Present, request: SaveRequest) -> SaveResult:
    """Write a captured state as a checkpoint. The caller holds the worktree's lock."""
    result = _write(repo, present, request)
    _remember(repo, present, result)
    return result


def _write(repo: Repository, present: Present, request: SaveRequest) -> SaveResult:
    objects = repo.objects
    tree = present.tree(objects)
    packed = objects.packed
    staged = index_state(objects, present).entries
    stats, compared = summarise(objects, present, tree, staged[record.INDEX].id)
    if not has_what_it_relies_on(objects, present, compared):
        raise ObjectsPruned
    flush_what_git_wrote(objects, present, compared)
    leave_to_head(objects, present, compared, tree, packed)
    if present.operation.files.contents:
        rely_on_unnamed(objects, present.operation.files.contents, tree)
    if present.cache is not None:
        present.cache = replace(present.cache, compared=compared)
    files: Mapping[bytes, StateFile] = {}
    if request.state_files:
        from ckpt.engine.state import read_files

        files = read_files(repo, objects, request.state_files)
    state_tree = _write_state_tree(objects, present, request, staged, files)
    catalog = Catalog(repo)
    if not request.wants_own_ref:

        def state_with(links: tuple[NestedState, ...]) -> ObjectID:
            """The state tree, had the same been saved together with nested repositories."""
            scratch = objects.scratch()
            return _write_state_tree(scratch, present, request, staged, files, links)

        existing = _existing(repo, catalog, request, tree, state_tree, present, state_with)
        if existing is not None:
            objects.discard()
            clear_dead(objects.path)  # which else is done when the first object is written
            if present.is_cut:  # it may have changed where nobody has looked
                return SaveResult(Outcome.PARTIAL, existing, "budget")
            return SaveResult(Outcome.UNCHANGED, existing)
    checkpoint = _commit(repo, catalog, present, request, tree, state_tree, stats)
    if not request.has_state:  # which JSON may have changed a little
        details = _details(present)
        checkpoint = replace(
            checkpoint, _details=lambda: details, _dirty_files=compared.dirty_files
        )
    if not checkpoint.partial:
        return SaveResult(Outcome.CREATED, checkpoint)
    reason = "gone" if present.gone else "budget" if present.is_cut else None
    return SaveResult(Outcome.PARTIAL, checkpoint, reason, present.gone)


def _remember(repo: Repository, present: Present, result: SaveResult) -> None:
    if present.memory is not None:
        present.memory.save()
    if present.cache is not None and result.checkpoint is not None:
        scan_cache.store(repo, present, result.checkpoint)
    else:
        scan_cache.clear_left_over(repo)


def checked(request: SaveRequest) -> SaveRequest:
    """The request as it can be stored; UsageError if it cannot."""
    if request.session is not None and not request.session.strip():
        raise UsageError("the session is empty", hint="leave --session out, or name one")
    for what, text in (("session", request.session), ("trigger", request.trigger)):
        if text is not None and not _can_be_stored(text):
            raise UsageError(f"the {what} is not text", hint="pass valid UTF-8")
    if request.name is not None:
        request = replace(request, name=ids.check_name(request.name))
    if request.description is not None:
        request = replace(request, description=ids.check_description(request.description))
    return request


def _can_be_stored(text: str) -> bool:
    """False for half a character, as a program makes it that cuts text in two."""
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def _write_state_tree(
    objects: ObjectStore,
    present: Present,
    request: SaveRequest,
    staged: Mapping[bytes, TreeEntry],
    files: Mapping[bytes, StateFile],
    nested: tuple[NestedState, ...] | None = None,
) -> ObjectID:
    skipped = summarised(present.skipped, lambda: present.entries)
    manifest = Manifest(
        modes=present.modes,
        empty_folders=present.empty_folders,
        skipped={path: str(reason) for path, reason in skipped.items()},
        excludes=present.excludes,
        include=present.include,
        operation=present.operation.files.operation,
        branch=branch_name(present.head),
        unskipped=present.unskipped,
        nested=present.nested if nested is None else nested,
    )
    entries = {**staged, **operation_record.write_state(objects, present.operation)}
    if present.converted:
        from ckpt.engine.conversions import RAW, write_raw

        raw = write_raw(objects, present.converted)
        if raw is not None:
            entries[RAW] = TreeEntry(FOLDER, raw)
    entries[record.MANIFEST] = add_limited(objects, manifest.dump(), "manifest.json")
    if request.has_state:
        entries |= record.write(objects, request.state, files)
    return write_tree(objects, entries)


def _details(present: Present) -> Details:
    """What the state tree says, for whoever asks now."""
    skipped = summarised(present.skipped, lambda: present.entries)
    operation = present.operation.files.operation
    return Details(
        skipped=tuple(Skipped(to_str(path), str(reason)) for path, reason in skipped.items()),
        operation=None if operation is None else operation.name,
        nested=present.nested,
    )


def _existing(
    repo: Repository,
    catalog: Catalog,
    request: SaveRequest,
    tree: ObjectID,
    state_tree: ObjectID,
    present: Present,
    state_with: Callable[[tuple[NestedState, ...]], ObjectID],
) -> Checkpoint | None:
    """A checkpoint of exactly this state, made here, that does instead of a new one."""
    for found in catalog.here():
        if found.during_rollback or found.scope is not Scope.FULL:
            continue
        if found.foreign:
            continue  # it may hold the same, but is not ours to rely on
        if found.tree.encode() != tree or found.head_commit != _text_id(present.head.commit):
            return None
        try:
            links = found.nested if present.nested else ()
            state = _state_tree(repo, found)
        except CkptError:  # it is damaged
            return None
        holds_more = links != present.nested and _without_links(links) == present.nested
        if state != (state_with(links) if holds_more else state_tree):
            return None
        if request.is_met_by(found):
            return found
    return None


def _without_links(states: tuple[NestedState, ...]) -> tuple[NestedState, ...]:
    from ckpt.engine.nested import without_links

    return without_links(states)


def _state_tree(repo: Repository, checkpoint: Checkpoint) -> ObjectID:
    return record.read_commit(repo.objects, ObjectID(checkpoint.state_commit.encode())).tree


def _commit(
    repo: Repository,
    catalog: Catalog,
    present: Present,
    request: SaveRequest,
    tree: ObjectID,
    state_tree: ObjectID,
    stats: Stats,
) -> Checkpoint:
    keep = {*request.keep, *operation_record.commits_to_keep(repo.objects, present.operation)}
    state = record.write_commit(
        repo.objects, state_tree, sorted(keep), "ckpt: state of the worktree\n", NO_TIME
    )
    parents = tuple(filter(None, [present.head.commit, state]))
    draft = replace(
        draft_of(repo, request, Scope.FULL, tree, state),
        partial=present.is_partial,
        during_rollback=journal_exists(repo.private_dir),
        head_commit=_text_id(present.head.commit),
        branch=branch_name(present.head),
        stats=stats,
    )

    def is_whole_now(commit: ObjectID, relied_on: AbstractSet[ObjectID]) -> bool:
        return is_whole(repo, present, commit, relied_on)

    return publish(repo, catalog, draft, tree, parents, is_whole_now)


def _text_id(object_id: ObjectID | None) -> str | None:
    return None if object_id is None else object_id.decode()
