# SPDX-License-Identifier: MIT
"""Save: from the present to a checkpoint that survives a crash.

Objects first and durable, the ref last and only if new: a save that dies leaves
nothing but unreachable objects, and a checkpoint that was reported is there. The
user's worktree, index, HEAD and configuration are read and never touched.

A trigger on an unchanged state makes no second ref. What was left out of the
checkpoint is in its manifest; what could not be read makes it partial.
"""

from __future__ import annotations

from ckpt import ids
from ckpt.engine import scan_cache
from ckpt.engine.budget import summarised
from ckpt.engine.capture import capture
from ckpt.engine.catalog import Catalog
from ckpt.engine.index_state import index_state
from ckpt.engine.losses import Losses
from ckpt.engine.manifest import Manifest
from ckpt.engine.pending import journal_exists
from ckpt.engine.present import Present
from ckpt.engine.publishing import LONGEST_WAIT, NO_TIME, draft_of, publish
from ckpt.engine.summary import summarise
from ckpt.engine.wholeness import (
    flush_what_git_wrote,
    has_what_it_relies_on,
    is_whole,
    leave_to_head,
)
from ckpt.errors import CkptError, UsageError
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
from ckpt.paths import to_str
from ckpt.settings import Settings
from ckpt.store import agent_state, operation_record, record
from ckpt.store.kernel_lock import Waiting, worktree_lock
from ckpt.store.objects import MissingObject, ObjectID, ObjectsPruned, ObjectStore
from ckpt.store.pruning import wait_for_pruning
from ckpt.store.refs import branch_name
from ckpt.store.repository import Repository
from ckpt.store.temporaries import clear_dead
from ckpt.store.trees import FOLDER, TreeEntry, add_limited, write_tree
from ckpt.values import field, replace, value_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from collections.abc import Set as AbstractSet

    from ckpt.store.agent_state import StateFile, Texts

LOCK_TIMEOUT = 60.0
# Beside a `git gc --prune=now`; it is over in a moment.
_ATTEMPTS = 5
LAST_ATTEMPT = _ATTEMPTS - 1


@value_class
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
        from ckpt.worktree.deadline import Deadline

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
    staged = index_state(objects, present, tree).entries
    stats, compared = summarise(objects, present, tree, staged[record.INDEX].id)
    if not has_what_it_relies_on(objects, present, compared):
        raise ObjectsPruned
    flush_what_git_wrote(objects, present, compared)
    leave_to_head(objects, present, compared, tree, packed)
    if present.operation.files.contents:
        from ckpt.engine.unnamed import rely_on_unnamed

        rely_on_unnamed(objects, present.operation.files.contents, tree)
    if present.cache is not None:
        present.cache = replace(present.cache, compared=compared)
    files: Mapping[bytes, StateFile] = {}
    if request.state_files:
        from ckpt.engine.state_files import read_files

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
        entries |= agent_state.write(objects, request.state, files)
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
