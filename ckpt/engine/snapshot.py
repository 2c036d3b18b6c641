# SPDX-License-Identifier: MIT
"""Save: from the present to a checkpoint that survives a crash.

Objects first and durable, the ref last and only if new: a save that dies leaves nothing but
unreachable objects. If an object turns out to be missing or pruned meanwhile, the scan cache is
forgotten and all is captured once more. A trigger on an unchanged state makes no second ref.
What was left out is in the manifest; what could not be read makes the checkpoint partial.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from typing import NamedTuple

from ckpt import disk, ids
from ckpt.engine import scan_cache
from ckpt.engine.capture import capture
from ckpt.engine.catalog import Catalog, load
from ckpt.engine.manifest import Manifest
from ckpt.engine.present import Present, summarised
from ckpt.engine.scan_cache import index_identity
from ckpt.engine.summary import Compared, compare
from ckpt.errors import CkptError, Refused, UsageError
from ckpt.git import operation as operation_record
from ckpt.git import record
from ckpt.git.formats import ObjectID
from ckpt.git.loose import clear_dead
from ckpt.git.objects import MissingObject, ObjectsPruned, ObjectStore
from ckpt.git.record import StateFile
from ckpt.git.refs import Head, branch_name
from ckpt.git.repository import Repository, wait_for_pruning
from ckpt.git.trees import (
    FOLDER,
    GITLINK,
    Entries,
    TreeEntry,
    add_limited,
    lookup,
    walk,
    write_tree,
)
from ckpt.locks import Waiting, journal_exists, worktree_lock
from ckpt.models import (
    BY_HAND,
    TRIGGERED,
    Checkpoint,
    Details,
    Kind,
    Outcome,
    SaveResult,
    Scope,
    Stats,
)
from ckpt.paths import folders_of, to_str
from ckpt.settings.settings import Settings

LOCK_TIMEOUT = 60.0
LONGEST_WAIT = 10.0  # seconds, for a gc that prunes at once
ATTEMPTS = 3
# Of a state commit, so that checkpoints whose states are equal share it.
NO_TIME = datetime.fromtimestamp(0, timezone.utc)


class SaveRequest(NamedTuple):
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
    state: Mapping[bytes, bytes] = {}
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
        """Tell whether a checkpoint of the same state will do: of this session, and kept at least
        as long."""
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
    complete: Callable[[Present], Present] | None = None,
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

    def attempt() -> SaveResult:
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
        return write(repo, present if complete is None else complete(present), request)

    with worktree_lock(repo.private_dir, exclusive=False, timeout=timeout, waiting=waiting):
        return again_if_pruned(repo, attempt)


def again_if_pruned(repo: Repository, attempt: Callable[[], SaveResult]) -> SaveResult:
    """Save, and do so again without the scan cache if an object is missing by then."""
    for number in range(1, ATTEMPTS + 1):
        try:
            return attempt()
        except (ObjectsPruned, MissingObject, FileNotFoundError):
            scan_cache.forget(repo)
            if number == ATTEMPTS:
                raise
            wait_for_pruning(repo.common_dir, repo.config, LONGEST_WAIT)
        finally:  # of what was not written nothing is left
            repo.objects.discard()
    raise AssertionError("the last attempt returns or raises")


def write(repo: Repository, present: Present, request: SaveRequest) -> SaveResult:
    """Write a captured state as a checkpoint. The caller holds the worktree's lock."""
    present, compared, new = _compared(repo.objects, present)
    if present.gone and request.kind is Kind.SAFETY:
        raise _cannot_hold(present)
    result = _write(repo, present, request, compared, new)
    if present.memory is not None:
        present.memory.save()
    if present.cache is not None and result.checkpoint is not None:
        scan_cache.store(repo, replace(present.cache, compared=compared), result.checkpoint)
    return result


def _cannot_hold(present: Present) -> Refused:
    """Refuse a rollback that would replace what no checkpoint can hold."""
    from shlex import quote

    name = quote(to_str(present.lost[0])) if present.lost else ""
    return Refused(
        f"{present.gone[0]}, and no checkpoint could hold it",
        hint=f"'git add -- {name}' stages the file as it is now, "
        f"'git reset -- {name}' what HEAD has; then try again"
        if present.lost
        else "'git update-ref HEAD @{1}' goes back to where its branch was before, "
        "and leaves all files; then try again",
        details={"gone": [*map(to_str, present.lost)]},
    )


def _compared(objects: ObjectStore, present: Present) -> tuple[Present, Compared, set[ObjectID]]:
    """Compare the present with HEAD, and leave out of it what of HEAD and the index is missing:
    git does not flush what it writes."""
    commit = present.head.commit
    try:
        compared, new = _compare(objects, present)
    except MissingObject:
        if commit is None or objects.is_partial:
            raise
        what = "a tree of the commit at HEAD" if objects.has(commit) else "the commit at HEAD"
        present = replace(present, head=Head(None, None), lost_head=what, cache=None)
        compared, new = _compare(objects, present)
    broken = set() if objects.is_partial else {i for i in new if objects.size(i) is None}
    if broken and present.staged_now is None:
        raise MissingObject(min(broken), "damaged object")
    if broken:
        present = present.without_staged(objects, broken)
        compared, new = _compare(objects, present)
    return present, compared, new


def _compare(objects: ObjectStore, present: Present) -> tuple[Compared, set[ObjectID]]:
    index = present.index_entries[record.INDEX].id
    before = None if present.source is None else present.source.compared
    return compare(objects, present.head.commit, present.tree, index, before)


def _write(
    repo: Repository,
    present: Present,
    request: SaveRequest,
    compared: Compared,
    new: set[ObjectID],
) -> SaveResult:
    objects = repo.objects
    # What `git add` and `git commit` wrote a moment ago may be in memory only.
    objects.keep(new)
    objects.leave_packed(filter(None, [present.head.commit]))
    if objects.packed:  # HEAD, or the checkpoint before, holds the others
        objects.leave_packed(objects.packed - new - _folders_of(objects, compared))
    files: Mapping[bytes, StateFile] = {}
    if request.state_files:
        from ckpt.engine.state import read_files

        files = read_files(repo, objects, request.state_files)
    state_tree = _write_state_tree(objects, present, request, files)
    catalog = Catalog(repo)
    if not request.wants_own_ref:
        existing = _existing(repo, catalog, request, present, state_tree)
        if existing is not None:
            objects.discard()
            clear_dead(objects.path)  # which else is done when the first object is written
            if present.is_cut:  # it may have changed where nobody has looked
                return SaveResult(Outcome.PARTIAL, existing, "budget")
            return SaveResult(Outcome.UNCHANGED, existing)
    checkpoint = _commit(repo, catalog, present, request, state_tree, compared)
    if not checkpoint.partial:
        return SaveResult(Outcome.CREATED, checkpoint)
    reason = "gone" if present.gone else "budget" if present.is_cut else None
    return SaveResult(Outcome.PARTIAL, checkpoint, reason, present.gone)


def _folders_of(objects: ObjectStore, compared: Compared) -> set[ObjectID]:
    """The trees above all that differs from HEAD, in the worktree and in the index."""
    known: dict[ObjectID, Entries] = {}
    folders = (b"", *folders_of(compared.dirty))
    tops = (compared.tree, compared.index_tree)
    found = (lookup(objects, top, folder, known) for top in tops for folder in folders)
    return {entry.id for entry in found if entry is not None}


def checked(request: SaveRequest) -> SaveRequest:
    """The request as it can be stored; UsageError if it cannot."""
    if request.session is not None and not request.session.strip():
        raise UsageError("the session is empty", hint="leave --session out, or name one")
    for what, text in (("session", request.session), ("trigger", request.trigger)):
        if text is not None and not _can_be_stored(text):
            raise UsageError(f"the {what} is not text", hint="pass valid UTF-8")
    if request.name is not None:
        request = request._replace(name=ids.check_name(request.name))
    if request.description is not None:
        request = request._replace(description=ids.check_description(request.description))
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
    files: Mapping[bytes, StateFile],
) -> ObjectID:
    manifest = Manifest(
        modes=present.modes,
        empty_folders=present.empty_folders,
        skipped={path: str(reason) for path, reason in summarised(present).items()},
        excludes=present.excludes,
        include=present.include,
        operation=present.operation.files.operation,
        branch=branch_name(present.head),
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
    if request.has_state:
        entries |= record.write(objects, request.state, files)
    return write_tree(objects, entries)


def _existing(
    repo: Repository,
    catalog: Catalog,
    request: SaveRequest,
    present: Present,
    state_tree: ObjectID,
) -> Checkpoint | None:
    """Find a checkpoint of exactly this state, made here, that does instead of a new one."""
    for found in catalog.here():
        if found.during_rollback or found.scope is not Scope.FULL or found.foreign:
            continue
        here = present.tree, _text_id(present.head.commit)
        if (found.tree.encode(), found.head_commit) != here:
            return None
        try:
            state = record.read_commit(repo.objects, ObjectID(found.state_commit.encode()))
        except CkptError:  # it is damaged
            return None
        if state.tree != state_tree:
            return None
        if request.is_met_by(found):
            return found
    return None


def _commit(
    repo: Repository,
    catalog: Catalog,
    present: Present,
    request: SaveRequest,
    state_tree: ObjectID,
    compared: Compared,
) -> Checkpoint:
    keep = {*request.keep, *operation_record.commits_to_keep(repo.objects, present.operation)}
    state = record.write_commit(
        repo.objects, state_tree, sorted(keep), "ckpt: state of the worktree\n", NO_TIME
    )
    parents = tuple(filter(None, [present.head.commit, state]))
    draft = replace(
        draft_of(repo, request, Scope.FULL, present.tree, state),
        partial=present.is_partial,
        during_rollback=journal_exists(repo.private_dir),
        head_commit=_text_id(present.head.commit),
        branch=branch_name(present.head),
        stats=Stats(*compared.stats),
    )
    return publish(
        repo, catalog, draft, present.tree, parents, lambda: _is_held(repo, present, state_tree)
    )


def _text_id(object_id: ObjectID | None) -> str | None:
    return None if object_id is None else object_id.decode()


# -- an id, a commit, and the ref that makes it a checkpoint


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
    is_held: Callable[[], bool] = lambda: True,
    *,
    is_ours: bool = True,
) -> Checkpoint:
    """Give a checkpoint its id and ref; a taken name is tried again with another. ObjectsPruned
    if a concurrent gc took objects that the new ref points to. It counts as made here unless
    what is in it came from elsewhere."""
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
            is_quiet = wait_for_pruning(repo.common_dir, repo.config, LONGEST_WAIT)
            if not is_quiet or repo.objects.missing({commit, *relied_on}) or not is_held():
                repo.refs.remove(draft.ref.encode(), commit)
                raise ObjectsPruned
            return load(repo, draft.id, commit)
        time.sleep(0.001)
        catalog = Catalog(repo)


def _is_held(repo: Repository, present: Present, state_tree: ObjectID) -> bool:
    """Tell whether all that the scan cache or the index named was there until the ref was."""
    if present.source is not None and not scan_cache.is_held(repo, present.source):
        return False
    if index_identity(repo) == present.index.identity:
        return True
    objects = repo.objects
    try:
        blobs = {
            entry.id
            for tree in (present.tree, state_tree)
            for _, entry in walk(objects, tree)
            if entry.mode != GITLINK
        }
    except MissingObject:
        return False
    # Of a partial clone the remote may have the rest.
    return objects.is_partial or not objects.missing(blobs)


# -- how many checkpoints were taken here since retention last looked

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
