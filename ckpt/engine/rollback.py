# SPDX-License-Identifier: MIT
"""Rollback: back to a checkpoint, exactly, without ever losing the present.

In this order, and nothing is touched before the fourth step: validate the target down
to the last byte it needs; capture the present; plan; save the present as the safety
checkpoint; write the journal; change files, then the index, then HEAD; forget the
journal. Each step can be repeated, so a crash at any line leaves a state from which
`recovery` goes either way.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import replace

from ckpt.engine import head, journal, nested, scan_cache
from ckpt.engine import head as operation
from ckpt.engine import prepare as refusals
from ckpt.engine.apply import Applied, Applier, Found, keep, look
from ckpt.engine.capture import Present
from ckpt.engine.catalog import Catalog, still_holds
from ckpt.engine.changes import Action, FileState, HeadMove
from ckpt.engine.conversions import Converted, Smudger, Unrestorable
from ckpt.engine.head import (
    WITHOUT_HEAD,
    branches_to_return,
    commits_to_keep,
    head_report,
    move_head,
)
from ckpt.engine.journal import Journal, LastRollback, check_place, place_of
from ckpt.engine.plan import Plan
from ckpt.engine.prepare import Preparation, Prepared, RollbackOptions
from ckpt.engine.reading import VanishedFile, add_stable
from ckpt.engine.recorded import Recorded, opened
from ckpt.engine.restage import limited, restage, until_settled, without, writes_converted
from ckpt.engine.snapshot import (
    LAST_ATTEMPT,
    LOCK_TIMEOUT,
    LONGEST_WAIT,
    Losses,
    SaveRequest,
    write,
)
from ckpt.errors import Busy, CkptError, NotFound, Refused, RollbackError
from ckpt.git import index as staging
from ckpt.git import record as made_here
from ckpt.git.formats import ObjectID
from ckpt.git.objects import MissingObject, ObjectsPruned
from ckpt.git.operation import read_now
from ckpt.git.refs import HeadMoved
from ckpt.git.repository import Repository, wait_for_pruning
from ckpt.git.streams import UnreadableFile
from ckpt.git.trees import Entries, FilesOf, lookup
from ckpt.locks import prune_lock, worktree_lock
from ckpt.models import Checkpoint, HeadReport, Kind, RollbackResult, Skipped, SkipReason
from ckpt.paths import to_str
from ckpt.settings.settings import Settings
from ckpt.worktree.write import UnsafePath, Worktree


def hold_changing(repo: Repository, present: Present, plan: Plan) -> None:
    """Have the safety checkpoint hold what the plan changes; what cannot be read is left."""
    unreadable = hold(repo, present, [action.path for action in plan.actions])
    plan.leave(dict.fromkeys(unreadable, str(SkipReason.UNREADABLE)))
    plan.actions = [_as_held(action, present) for action in plan.actions]


def prove_changing(
    repo: Repository, worktree: Worktree, smudger: Smudger, present: Present, plan: Plan
) -> None:
    """Read what the plan changes, and have the present hold it as it is; what cannot be read is
    left alone. The object store is wary meanwhile."""
    unreadable = set()
    for number, action in enumerate(plan.actions):
        try:
            found = _proved(repo, worktree, smudger, present, action)
        except (OSError, UnsafePath):
            unreadable.add(action.path)
            continue
        plan.actions[number] = replace(action, before=found)
    plan.leave(dict.fromkeys(unreadable, str(SkipReason.UNREADABLE)))
    _prove_trees(repo, present, plan)


def _proved(
    repo: Repository, worktree: Worktree, smudger: Smudger, present: Present, action: Action
) -> FileState | None:
    """What a path holds, and the safety checkpoint will hold."""
    objects, path, before = repo.objects, action.path, action.before
    status = worktree.lstat(path) if before is not None else None
    found = None if status is None else look(objects, worktree, path, status)
    if before is None or status is None or found is None:
        return before  # it is looked at again when it is its turn
    if found == before and _is_given_by(smudger, before):
        return before
    entry = keep(objects, worktree, path, found)
    if entry.id != found.entry.id:
        raise UnreadableFile.changing()
    if found == before and path in present.converted:
        present.converted[path] = Converted(entry.id)
        return before if before.origin is None else _as_stored(before)
    present.put(path, entry, status)
    return found


def _is_given_by(smudger: Smudger, state: FileState) -> bool:
    """Whether the object store still gives what it should."""
    try:
        smudger.check(state)
    except (MissingObject, Unrestorable):
        return False
    return True


def _prove_trees(repo: Repository, present: Present, plan: Plan) -> None:
    """Have all trees written again if one on the way to a file is damaged."""
    tree = present.tree(repo.objects)
    read: dict[ObjectID, Entries] = {}  # each once: a folder may have thousands of the files
    try:
        for action in plan.actions:
            lookup(repo.objects, tree, action.path, read)
    except MissingObject:
        path, entry = next(iter(present.entries.items()))
        present.put(path, entry)


def _as_stored(state: FileState) -> FileState:
    assert state.origin is not None
    return replace(state, origin=replace(state.origin, in_lfs=False))


def _as_held(action: Action, present: Present) -> Action:
    before, held = action.before, present.converted.get(action.path)
    if before is None or before.origin is None or held is None or held.in_lfs:
        return action
    return replace(action, before=_as_stored(before))


def hold(repo: Repository, present: Present, paths: Iterable[bytes]) -> set[bytes]:
    """Have the present keep these files as they are on disk, where only Git LFS has them.

    Returns those that cannot be read. One that has changed since it was captured is left to
    whoever compares it with the present before it is replaced.
    """
    driven = [path for path in paths if _is_in_lfs(present, path)]
    unreadable = set()
    for path in driven:
        captured = present.converted[path].raw
        try:
            raw, _ = add_stable(repo.objects, os.path.join(os.fsencode(repo.worktree), path))
        except VanishedFile:
            continue
        except UnreadableFile:
            unreadable.add(path)
            continue
        if raw == captured:
            present.converted[path] = Converted(raw)
    return unreadable


def _is_in_lfs(present: Present, path: bytes) -> bool:
    converted = present.converted.get(path)
    return converted is not None and converted.in_lfs


# -- The beginning of a rollback: what it will do is written down before the first file changes


def journal_of(
    repo: Repository,
    target: Checkpoint,
    safety: Checkpoint,
    prepared: Prepared,
    options: RollbackOptions,
    name: str,
) -> Journal:
    plan = prepared.plan
    return Journal(
        target=target.id,
        safety=safety.id,
        paths=options.paths,
        actions=tuple(plan.actions),
        make_folders=tuple(plan.make_folders),
        remove_folders=tuple(plan.remove_folders),
        folders=plan.folders,
        index=prepared.changes_index,
        unstaged=prepared.unstaged,
        kept=plan.kept,
        blocked=plan.blocked,
        operation=prepared.changes_operation,
        head=prepared.move,
        asked_index=options.index,
        asked_head=options.head,
        asked_overwrite=options.overwrite_ignored,
        asked_trust=options.trust,
        family=name,
        target_commit=target.commit,
        safety_commit=safety.commit,
        worktree=place_of(repo),
    )


def begin(repo: Repository, record: Journal, target: Checkpoint, safety: Checkpoint) -> None:
    """Write the journal, unless a checkpoint that it needs has gone: whoever drops checkpoints
    has done so and is seen, or comes later and sees the journal."""
    with prune_lock(repo.common_dir, timeout=LOCK_TIMEOUT):
        _check_held(repo, target)
        _check_held(repo, safety)
        journal.write(repo.private_dir, record)


def _check_held(repo: Repository, needed: Checkpoint) -> None:
    """Refuse to begin what could be neither finished nor taken back."""
    if not still_holds(repo, needed.id, needed.tree.encode(), needed.state_commit.encode()):
        raise Refused(
            f"the rollback did not begin: checkpoint '{needed.id}' was dropped meanwhile",
            hint=f"nothing was touched; 'git ckpt restore-dropped {needed.id}' may bring it back",
        )


# -- What a rollback has done, or would do, for whoever asked for it


def foreseen(plan: Plan) -> Applied:
    """What there would be to report if all went well."""
    return Applied(
        written=[action.path for action in plan.writes],
        removed=[action.path for action in plan.removals],
    )


def report(
    repo: Repository,
    target: Recorded,
    prepared: Prepared,
    done: Applied,
    safety: Checkpoint | None,
    undo: str,
    *,
    dry_run: bool,
) -> RollbackResult:
    plan = prepared.plan
    return RollbackResult(
        target=target.checkpoint,
        safety=safety,
        written=tuple(map(to_str, done.written)),
        removed=tuple(map(to_str, done.removed)),
        kept=listed(plan.kept),
        skipped=listed({**plan.blocked, **done.blocked}),
        folders_changed=plan.changes_folders,
        index_changed=prepared.changes_index,
        head=_head(repo, target, prepared),
        dry_run=dry_run,
        undo_command=None if safety is None else undo,
        foreign=target.is_foreign,
    )


def listed(paths: Mapping[bytes, str]) -> tuple[Skipped, ...]:
    """Paths with the reason why they stay as they are."""
    return tuple(Skipped(to_str(path), reason) for path, reason in sorted(paths.items()))


def _head(repo: Repository, target: Recorded, prepared: Prepared) -> HeadReport:
    present = prepared.present
    head = head_report(repo, present.head, target, prepared.move)
    if not prepared.changes_operation:
        return head
    was, then = present.operation.files, target.operation.files
    return replace(head, operation=operation.report(was, then))


# -- The last rollback that finished in a worktree: remembered, and taken back


def finish(repo: Repository, record: Journal, done: Applied) -> None:
    """The rollback is complete: remember it for `undo`, and forget the journal."""
    put = [a for a in record.actions if a.after is not None and a.path not in done.blocked]
    last = LastRollback(
        record.target,
        record.safety,
        record.paths,
        index=record.asked_index,
        head=record.asked_head,
        overwrite=record.asked_overwrite,
        created=tuple(action.path for action in put if action.before is None),
        replaced=tuple(action.path for action in put if action.before is not None),
        move=record.head,
        target_commit=record.target_commit,
        safety_commit=record.safety_commit,
        worktree=record.worktree,
    )
    journal.remember(repo.private_dir, last)
    journal.remove(repo.private_dir)


def find_same(
    repo: Repository, catalog: Catalog, checkpoint_id: str, commit: str | None, *, trust: bool
) -> Checkpoint:
    """The checkpoint that was noted with the commit that it had, unless another's is there by now
    and is not trusted."""
    found = catalog.get(checkpoint_id)
    same = made_here.is_same(repo.common_dir, found.id, found.commit, commit)
    if not same and not trust:
        from ckpt.engine.way_out import another  # for a refusal that few see

        raise another(repo, found, commit)
    return found


def options_to_undo(
    repo: Repository, catalog: Catalog, last: LastRollback, options: RollbackOptions
) -> RollbackOptions:
    return replace(
        options,
        paths=last.paths,
        head=last.head,
        index=last.index,
        overwrite_ignored=last.overwrite,
        consented=_brought(repo, catalog, last),
        created=frozenset(last.created),
        replaced=frozenset(last.replaced),
        returning=branches_to_return(last.move),
        undoing=True,
        known=last.safety_commit,
    )


def _brought(repo: Repository, catalog: Catalog, last: LastRollback) -> Container[bytes]:
    """What a rollback may have brought: an undo takes that away without asking, unless another's
    checkpoint tells what that is, or what is there instead."""
    if catalog.commit_of(last.target) is None:
        return frozenset()
    target, safety = catalog.get(last.target), catalog.get(last.safety)
    is_own = safety.commit == last.safety_commit or not safety.foreign
    same = made_here.is_same(repo.common_dir, target.id, target.commit, last.target_commit)
    if not is_own or not same:
        return frozenset()
    return FilesOf(repo.objects, ObjectID(target.tree.encode()))


# -- Rollback: back to a checkpoint, exactly, without ever losing the present

UNDO = "git ckpt undo"

# Files that change while it runs are saved so many times; from then on they are left alone.
MOST_SAVES = 10

# Of a worktree that differs in so few files from what the scan cache knows, that need not know
# what is about to go again.
_FEW = 64


def rollback(
    repo: Repository,
    settings: Settings,
    target: Checkpoint,
    options: RollbackOptions,
    undone: LastRollback | None = None,
) -> RollbackResult:
    """Bring the worktree, the index and (if asked) HEAD back to `target`; `undone` is the rollback
    that this takes back, and has to be the last one still when nobody else can begin another."""
    if b"" in options.paths:  # the top of the worktree is all of it
        options = replace(options, paths=())
    losses = Losses(repo)
    for attempt in range(LAST_ATTEMPT + 1):
        with ExitStack() as stack:
            stack.enter_context(_locked(repo, options))
            if undone is not None and journal.last_rollback(repo.private_dir) != undone:
                raise Refused(
                    "another rollback has ended in this worktree meanwhile",
                    hint="look at what it did, then try again",
                )
            try:
                found = opened(repo, target, options.trust, options.known)
                return _Rollback(repo, settings, found, options, stack).go()
            except (ObjectsPruned, HeadMoved, MissingObject) as error:  # nothing is touched yet
                is_lost = isinstance(error, MissingObject) and not losses.may_pass(error)
                if is_lost or attempt == LAST_ATTEMPT:
                    raise
            finally:  # also if there was nothing to do: git prunes what is left lying about
                repo.objects.discard()
        wait_for_pruning(repo.common_dir, repo.config, LONGEST_WAIT)
    raise AssertionError("the last attempt returns or raises")


def _locked(repo: Repository, options: RollbackOptions) -> AbstractContextManager[None]:
    return worktree_lock(
        repo.private_dir, exclusive=True, timeout=LOCK_TIMEOUT, waiting=options.waiting
    )


class _Rollback:
    """The state of one rollback while it runs; the caller holds the lock.

    What is opened on the way is closed with `stack`.
    """

    _prepared: Prepared
    _safety: Checkpoint
    _record: Journal

    def __init__(
        self,
        repo: Repository,
        settings: Settings,
        target: Recorded,
        options: RollbackOptions,
        stack: ExitStack,
    ) -> None:
        self._repo = repo
        self._settings = settings
        self._target = target
        self._options = options
        self._worktree = stack.enter_context(Worktree(os.fsencode(repo.worktree), repo.git_dirs))
        self._smudger = Smudger(repo)
        self._name = os.urandom(8).hex()
        self._worktree.rollback = self._name.encode()
        self._saves = 0
        self._has_begun = False

    def go(self) -> RollbackResult:
        self.prepare()
        if self._options.dry_run or self.is_idle:
            return self.foresee()
        self.check_removals()
        self.secure()
        try:
            begin(self._repo, self._record, self._target.checkpoint, self._safety)
            self._has_begun = True
            return self._apply(self._prepared)
        except (OSError, Busy, MissingObject) as error:
            begun = self._has_begun or journal.exists(self._repo.private_dir)
            raise (refusals.interrupted if begun else refusals.not_begun)(error) from error

    @property
    def is_idle(self) -> bool:
        return self._prepared.is_idle and not self._options.moves_state

    # -- before anything is touched ---------------------------------------------------

    def prepare(self) -> None:
        preparation = Preparation(
            self._repo, self._settings, self._target, self._options, self._worktree, self._smudger
        )
        preparation.check()
        prepared = self._prepared = preparation.prepare()
        limits = self._options.paths
        prepared.plan.kept |= nested.left_alone(self._target, prepared.present, limits)
        prepared.plan.kept |= nested.gone(self._target, self._worktree, limits)
        self._options = replace(self._options, paths=prepared.paths)

    def check_removals(self) -> None:
        if not self._options.yes:
            refusals.check_removals(self._prepared, self._options.consented)

    def secure(self) -> Checkpoint:
        """Save the present; gives back the safety checkpoint."""
        present, plan, move = self._prepared.present, self._prepared.plan, self._prepared.move
        refusals.check_locks(self._repo, move)
        if present.source is not None and len(present.fresh) <= _FEW:
            present.cache = None
        with refusals.telling_what_is_gone(self._repo), self._repo.objects.wary():
            try:
                hold_changing(self._repo, present, plan)
                prove_changing(self._repo, self._worktree, self._smudger, present, plan)
                self._safety = self._save_safety(present, move)
            except (MissingObject, ObjectsPruned):  # maybe of a checkpoint that has gone
                scan_cache.forget(self._repo)
                raise
        self._record = journal_of(
            self._repo,
            self._target.checkpoint,
            self._safety,
            self._prepared,
            self._options,
            self._name,
        )
        return self._safety

    def _save_safety(self, present: Present, move: HeadMove | None) -> Checkpoint:
        request = SaveRequest(
            kind=Kind.SAFETY,
            trigger="rollback",
            description=f"The state before the rollback to {self._target.checkpoint.id}.",
            keep=commits_to_keep(present, move),
            state=self._options.state,
        )
        saved = write(self._repo, present, request).checkpoint
        if saved is None:
            raise RollbackError("the safety checkpoint was not made", hint="git ckpt save")
        if present.source is not None:  # whose own checkpoint may go, now that this one is there
            present.source = scan_cache.held_by(present.source, saved)
        return saved

    # -- from here on the worktree changes ----------------------------------------------

    def _save_again(self) -> None:
        """The present changed after the safety checkpoint: make another that has it."""
        self._safety = self._save_safety(self._prepared.present, self._record.head)
        safety = self._safety
        self._record = replace(self._record, safety=safety.id, safety_commit=safety.commit)
        journal.write(self._repo.private_dir, self._record)

    def _save_first(self, found: Found) -> bool:
        """Save what changed, unless so much did already that it would never end."""
        if self._saves == MOST_SAVES:
            return False
        first, *others = found
        self._keep(first, *found[first])
        self._saves += 1
        for path in others:
            with suppress(OSError, UnsafePath):  # it is looked at again when it is its turn
                self._keep(path, *found[path])
        self._save_again()
        return True

    def _keep(self, path: bytes, state: FileState, status: os.stat_result) -> None:
        entry = keep(self._repo.objects, self._worktree, path, state)
        self._prepared.present.put(path, entry, status)

    def _apply(self, prepared: Prepared) -> RollbackResult:
        record, present = self._record, prepared.present
        if record.operation:
            now = read_now(self._repo.refs)
            if now != present.operation:
                present.operation = now
                self._save_again()
            head.clear(self._repo)
        applier = Applier(
            self._repo.objects,
            self._smudger,
            self._worktree,
            present.status,
            self._save_first,
            record.folders,
        )
        applier.files(record.actions, record.remove_folders)
        applier.folders(record.make_folders)
        applier.sync()
        if self._options.index:
            self._restage(prepared, applier)
        if record.head is not None:
            move_head(self._repo, record.head, self._target.checkpoint.id)
        if record.operation:
            head.install(self._repo, self._target.operation)
        finish(self._repo, self._record, applier.done)
        return self._report(applier.done, self._safety)

    def _restage(self, prepared: Prepared, applier: Applier) -> None:
        """Write the index, if another is wanted, or if its sizes are not those of what git would
        convert to the same blobs."""
        if prepared.changes_index or any(map(writes_converted, self._record.actions)):
            until_settled(lambda: self._put_index(prepared, applier))

    def _put_index(self, prepared: Prepared, applier: Applier) -> None:
        present = prepared.present
        staged = staging.read_staged(self._repo)
        is_late = present.staged.mtime_ns != present.index.mtime_ns  # it is not of that moment
        if is_late or not staging.same(staged.index, present.staged.index):
            present.restage(staged)
            self._save_again()
            prepared.index = None
        index = prepared.index
        if index is None:
            wanted = without(self._target.index, prepared.unstaged)
            index = limited(wanted, staged.index, self._options.paths)
        restage(self._repo, index, staged, applier.known)

    # -- reports --------------------------------------------------------------------

    def foresee(self) -> RollbackResult:
        return self._report(foreseen(self._prepared.plan), None)

    def _report(self, done: Applied, safety: Checkpoint | None) -> RollbackResult:
        return report(
            self._repo,
            self._target,
            self._prepared,
            done,
            safety,
            UNDO,
            dry_run=self._options.dry_run,
        )


# -- Undo: the last rollback that finished is taken back by another, in the same scope


def undo(repo: Repository, settings: Settings, options: RollbackOptions) -> RollbackResult:
    """Take back the last rollback that finished in this worktree; again: redo it."""
    last = journal.last_rollback(repo.private_dir)
    if last is None:
        raise NotFound(
            "there is no rollback to undo in this worktree",
            hint="'git ckpt list --kind safety' shows the states before earlier rollbacks",
            details={"available": []},
        )
    check_place(repo, last.worktree, UNDO)
    catalog = Catalog(repo)
    safety = find_same(repo, catalog, last.safety, last.safety_commit, trust=options.trust)
    scope = options_to_undo(repo, catalog, last, options)
    try:
        return rollback(repo, settings, safety, scope, last)
    except CkptError as error:
        if error.hint == WITHOUT_HEAD:  # which is no option of undo
            error.hint = _with_less(error.hint, last)
        raise


def _with_less(hint: str, last: LastRollback) -> str:
    """The rollback to type that does all of an undo but for what cannot be."""
    from shlex import quote  # for a hint that few see

    words = ["git ckpt rollback", last.safety]
    words += [] if last.index else ["--no-index"]
    words += ["--", *(quote(to_str(path)) for path in last.paths)] if last.paths else []
    return f"{hint.partition(':')[0]}: {' '.join(words)}"
