# SPDX-License-Identifier: MIT
"""Rollback: back to a checkpoint, exactly, without ever losing the present.

In this order, and nothing is touched before the fourth step: validate the target down to the
last byte it needs; capture the present and plan; save the present as the safety checkpoint; write
the journal; change files, then the index, then HEAD; end the journal. Each step can be repeated,
so a crash at any line leaves a state from which `recovery` goes either way.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace

from ckpt.engine import head, journal, scan_cache
from ckpt.engine.apply import (
    Applied,
    Applier,
    Found,
    limited,
    look,
    restage,
    until_settled,
    without,
    writes_converted,
)
from ckpt.engine.catalog import Catalog, still_holds
from ckpt.engine.conversions import Converted, Smudger
from ckpt.engine.head import WITHOUT_HEAD, branches_to_return, head_report, move_head
from ckpt.engine.journal import ABORT, CONTINUE, Action, HeadMove, Journal
from ckpt.engine.prepare import Prepared, RollbackOptions, check_locks, check_removals, prepare
from ckpt.engine.present import Correction, Present
from ckpt.engine.recorded import Recorded, file_state, opened
from ckpt.engine.snapshot import (
    ATTEMPTS,
    LOCK_TIMEOUT,
    LONGEST_WAIT,
    SaveRequest,
    write,
)
from ckpt.errors import Busy, CkptError, NotFound, Refused, RollbackError, disk_hint
from ckpt.git import index as staging
from ckpt.git import record as made_here
from ckpt.git.formats import ObjectID
from ckpt.git.objects import MissingObject, ObjectsPruned
from ckpt.git.operation import read_now
from ckpt.git.refs import HeadMoved
from ckpt.git.repository import Repository, wait_for_pruning
from ckpt.git.trees import Entries, FilesOf, lookup
from ckpt.locks import journal_exists, prune_lock, worktree_lock
from ckpt.models import Checkpoint, HeadReport, Kind, RollbackResult, Skipped, SkipReason
from ckpt.paths import to_str
from ckpt.settings.settings import Settings
from ckpt.worktree.write import UnsafePath, Worktree

UNDO = "git ckpt undo"

# Files that change while it runs are saved so many times; from then on they are left alone.
MOST_SAVES = 10


def rollback(
    repo: Repository,
    settings: Settings,
    target: Checkpoint,
    options: RollbackOptions,
    undone: Journal | None = None,
) -> RollbackResult:
    """Bring the worktree, the index and (if asked) HEAD back to `target`; `undone` is the rollback
    that this takes back, and has to be the last one still when nobody else can begin another."""
    if b"" in options.paths:  # the top of the worktree is all of it
        options = replace(options, paths=())
    for attempt in range(1, ATTEMPTS + 1):
        lock = worktree_lock(
            repo.private_dir, exclusive=True, timeout=LOCK_TIMEOUT, waiting=options.waiting
        )
        with lock, Worktree(os.fsencode(repo.worktree), repo.git_dirs) as worktree:
            if undone is not None and journal.last_rollback(repo.private_dir) != undone:
                raise Refused(
                    "another rollback has ended in this worktree meanwhile",
                    hint="look at what it did, then try again",
                )
            try:
                found = opened(repo, target, options.known)
                return _Rollback(repo, settings, found, options, worktree).go()
            except (ObjectsPruned, HeadMoved, MissingObject):  # nothing is touched yet
                if attempt == ATTEMPTS:
                    raise
            finally:  # also if there was nothing to do: git prunes what is left lying about
                repo.objects.discard()
        wait_for_pruning(repo.common_dir, repo.config, LONGEST_WAIT)
    raise AssertionError("the last attempt returns or raises")


class _Rollback:
    """One rollback, its steps in their order; the caller holds the worktree's lock."""

    def __init__(
        self,
        repo: Repository,
        settings: Settings,
        target: Recorded,
        options: RollbackOptions,
        worktree: Worktree,
    ) -> None:
        self._repo = repo
        self._settings = settings
        self._target = target
        self._options = options
        self._worktree = worktree
        self._smudger = Smudger(repo)
        self._present: Present
        self._record: Journal
        self._safety: Checkpoint
        self._saves = 0

    def go(self) -> RollbackResult:
        prepared = prepare(
            self._repo, self._settings, self._target, self._options, self._worktree, self._smudger
        )
        plan, self._present = prepared.plan, prepared.present
        if self._options.dry_run or (prepared.is_idle and not self._options.moves_state):
            written = [action.path for action in plan.writes]
            removed = [action.path for action in plan.removals]
            return self._report(prepared, Applied(written, removed), None)
        if not self._options.yes:
            check_removals(plan, self._present, self._options.consented)
        check_locks(self._repo, prepared.move)
        prepared = self._secure(prepared)
        is_begun = False
        try:
            self._begin(prepared)
            is_begun = True
            done = self._apply(prepared)
        except (OSError, Busy, MissingObject) as error:
            is_begun = is_begun or journal_exists(self._repo.private_dir)
            raise _stopped(error, is_begun) from error
        return self._report(prepared, done, self._safety)

    # -- save the present

    def _secure(self, prepared: Prepared) -> Prepared:
        """Take the safety checkpoint; all that the plan changes was read once more for it."""
        repo, present, plan = self._repo, self._present, prepared.plan
        try:
            changing = [a.path for a in plan.actions if a.before is not None]
            present, unreadable = hold(repo, self._worktree, present, changing)
            plan = plan.leaving(dict.fromkeys(unreadable, str(SkipReason.UNREADABLE)))
            plan = plan._replace(actions=tuple(_as_held(plan.actions, present)))
            prepared = replace(prepared, plan=plan)
            _check_trees(repo, present, changing)
            self._present = present
            self._record = self._journal_of(prepared)
            self._save(prepared.move)
        except (MissingObject, ObjectsPruned):  # maybe of a checkpoint that has gone
            scan_cache.forget(repo)
            raise
        return prepared

    def _save(self, move: HeadMove | None) -> None:
        present, target = self._present, self._target.checkpoint.id
        request = SaveRequest(
            kind=Kind.SAFETY,
            trigger="rollback",
            description=f"The state before the rollback to {target}.",
            keep=head.commits_to_keep(present, move),
            state=self._options.state,
        )
        saved = write(self._repo, present, request).checkpoint
        if saved is None:
            raise RollbackError("the safety checkpoint was not made", hint="git ckpt save")
        if present.source is not None:  # whose own checkpoint may go, now that this one is there
            source = scan_cache.held_by(present.source, saved)
            self._present = replace(present, source=source)
        self._safety = saved
        self._record = replace(self._record, safety=saved.id, safety_commit=saved.commit)

    # -- write the journal

    def _journal_of(self, prepared: Prepared) -> Journal:
        plan, options, target = prepared.plan, self._options, self._target.checkpoint
        name = os.urandom(8).hex()
        self._worktree.rollback = name.encode()
        return Journal(
            target=target.id,
            safety="",
            paths=prepared.paths,
            actions=plan.actions,
            make_folders=plan.make_folders,
            remove_folders=plan.remove_folders,
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
            family=name,
            target_commit=target.commit,
            worktree=journal.place_of(self._repo),
        )

    def _begin(self, prepared: Prepared) -> None:
        """Write the journal, unless a checkpoint that it needs has gone: whoever drops checkpoints
        has done so and is seen, or comes later and sees the journal."""
        with prune_lock(self._repo.common_dir, timeout=LOCK_TIMEOUT):
            for needed in (self._target.checkpoint, self._safety):
                tree, state = needed.tree.encode(), needed.state_commit.encode()
                if not still_holds(self._repo, needed.id, tree, state):
                    raise Refused(
                        "the rollback did not begin: "
                        f"checkpoint '{needed.id}' was dropped meanwhile",
                        hint="nothing was touched; "
                        f"'git ckpt restore-dropped {needed.id}' may bring it back",
                    )
            journal.write(self._repo.private_dir, self._record)

    # -- change files, then the index, then HEAD; from here on the worktree changes

    def _apply(self, prepared: Prepared) -> Applied:
        repo, record = self._repo, self._record
        if record.operation:
            now = read_now(repo.refs)
            if now != self._present.operation:
                self._present = replace(self._present, operation=now)
                self._save_again()
            head.clear(repo)
        applier = Applier(
            repo.objects,
            self._smudger,
            self._worktree,
            self._present.status,
            self._save_first,
            record.folders,
        )
        applier.files(record.actions, record.remove_folders)
        applier.folders(record.make_folders)
        applier.sync()
        resized = any(map(writes_converted, record.actions))
        if self._options.index and (prepared.changes_index or resized):
            until_settled(lambda: self._restage(prepared, applier))
        if record.head is not None:
            move_head(repo, record.head, self._target.checkpoint.id)
        if record.operation:
            head.install(repo, self._target.operation)
        journal.complete(repo.private_dir, self._record, applier.done.blocked)
        return applier.done

    def _save_first(self, found: Found) -> bool:
        """Save what changed since the safety checkpoint, unless so much did already that it would
        never end."""
        if self._saves == MOST_SAVES:
            return False
        self._saves += 1
        first = next(iter(found))
        files: dict[bytes, Correction] = {}
        for path in found:
            with suppress(*(() if path == first else (OSError, UnsafePath))):
                status = self._worktree.lstat(path)
                state = status and look(
                    self._repo.objects, self._worktree, path, status, store=True
                )
                if state and status is not None:
                    files[path] = state.entry, status
        self._present = self._present.with_files(self._repo.objects, files)
        self._save_again()
        return True

    def _save_again(self) -> None:
        """The present changed after the safety checkpoint: make another that has it."""
        self._save(self._record.head)
        journal.write(self._repo.private_dir, self._record)

    def _restage(self, prepared: Prepared, applier: Applier) -> None:
        present, repo, index = self._present, self._repo, prepared.index
        staged = staging.read_staged(repo)
        is_late = present.staged.mtime_ns != present.index.mtime_ns  # it is not of that moment
        if is_late or not staging.same(staged.index, present.staged.index):
            self._present = present.with_index(repo.objects, staged)
            self._save_again()
            index = None
        if index is None:
            wanted = without(self._target.index, prepared.unstaged)
            index = limited(wanted, staged.index, prepared.paths)
        restage(repo, index, staged, applier.known)

    # -- report

    def _report(
        self, prepared: Prepared, done: Applied, safety: Checkpoint | None
    ) -> RollbackResult:
        plan, target = prepared.plan, self._target
        return RollbackResult(
            target=target.checkpoint,
            safety=safety,
            written=tuple(map(to_str, done.written)),
            removed=tuple(map(to_str, done.removed)),
            kept=listed(plan.kept),
            skipped=listed({**plan.blocked, **done.blocked}),
            folders_changed=plan.changes_folders,
            index_changed=prepared.changes_index,
            head=self._head_report(prepared),
            dry_run=self._options.dry_run,
            undo_command=None if safety is None else UNDO,
            foreign=target.is_foreign,
        )

    def _head_report(self, prepared: Prepared) -> HeadReport:
        present, target = self._present, self._target
        found = head_report(self._repo, present.head, target, prepared.move)
        if not prepared.changes_operation:
            return found
        was, then = present.operation.files, target.operation.files
        return found._replace(operation=head.report(was, then))


# -- The parts that recovery needs too


def hold(
    repo: Repository, worktree: Worktree, present: Present, paths: Iterable[bytes]
) -> tuple[Present, set[bytes]]:
    """Have the present hold these files as they are on disk: read now, and in the object store
    even where only Git LFS has them. Returns those, too, that cannot be read."""
    unreadable = set()
    files: dict[bytes, Correction] = {}
    stored = {}
    modes = present.modes
    for path in paths:
        try:
            status = worktree.lstat(path)
            state = status and look(repo.objects, worktree, path, status, store=True)
        except (OSError, UnsafePath):
            unreadable.add(path)
            continue
        if not state or status is None:
            continue  # gone, or no file by now: it is looked at again when it is its turn
        converted = present.converted.get(path)
        if file_state(path, present.entry(path), modes, converted) != state:
            files[path] = state.entry, status
        elif converted is not None and converted.in_lfs:
            stored[path] = Converted(state.entry.id)
    if files:
        present = present.with_files(repo.objects, files)
    if stored:
        present = replace(present, converted={**present.converted, **stored})
    return present, unreadable


def _as_held(actions: Iterable[Action], present: Present) -> Iterator[Action]:
    """The same actions, from the files that the present holds by now."""
    modes = present.modes
    for action in actions:
        path, before = action.path, action.before
        if before is not None:
            converted = present.converted.get(path)
            before = file_state(path, present.entry(path), modes, converted)
        yield action._replace(before=before)


def _check_trees(repo: Repository, present: Present, paths: Iterable[bytes]) -> None:
    """MissingObject if a tree on the way to a file is damaged: the next attempt writes it anew."""
    read: dict[ObjectID, Entries] = {}  # each once: a folder may have thousands of the files
    for path in paths:
        lookup(repo.objects, present.tree, path, read)


def listed(paths: Mapping[bytes, str]) -> tuple[Skipped, ...]:
    """Paths with the reason why they stay as they are."""
    return tuple(Skipped(to_str(path), reason) for path, reason in sorted(paths.items()))


def _stopped(error: OSError | Busy | MissingObject, is_begun: bool) -> CkptError:
    """Why a rollback stopped half way, or could not even write its journal; and what to do."""
    kind = Busy if isinstance(error, Busy) else RollbackError
    if isinstance(error, CkptError):
        cause, mend = error.message, "wait for it to end"
    else:
        cause = error.strerror or str(error)
    if is_begun:
        ways = f"'{CONTINUE}' finishes it, '{ABORT}' returns to the state before it"
        return kind(f"the rollback stopped half way: {cause}", hint=ways)
    if isinstance(error, OSError):
        mend = disk_hint(error)
    return kind(
        f"the rollback did not begin: {cause}", hint=f"nothing was touched; {mend}, then try again"
    )


# -- Undo: the last rollback that finished is taken back by another, in the same scope


def undo_target(repo: Repository) -> tuple[Journal, Checkpoint]:
    """The last rollback that finished in this worktree, and the checkpoint from before it."""
    journal.check_ended(repo.private_dir)
    last = journal.last_rollback(repo.private_dir)
    if last is None:
        raise NotFound(
            "there is no rollback to undo in this worktree",
            hint="'git ckpt list --kind safety' shows the states before earlier rollbacks",
            details={"available": []},
        )
    journal.check_place(repo, last.worktree, UNDO)
    return last, find_same(repo, Catalog(repo), last.safety, last.safety_commit)


def undo(repo: Repository, settings: Settings, options: RollbackOptions) -> RollbackResult:
    """Take back the last rollback that finished in this worktree; again: redo it."""
    last, safety = undo_target(repo)
    scope = replace(
        options,
        paths=last.paths,
        head=last.asked_head,
        index=last.asked_index,
        overwrite_ignored=last.asked_overwrite,
        consented=_brought(repo, Catalog(repo), last),
        created=last.created,
        replaced=last.replaced,
        returning=branches_to_return(last.head),
        undoing=True,
        known=last.safety_commit,
    )
    try:
        return rollback(repo, settings, safety, scope, last)
    except CkptError as error:
        if error.hint == WITHOUT_HEAD:  # which is no option of undo
            from shlex import quote

            words = ["git ckpt rollback", last.safety]
            words += [] if last.asked_index else ["--no-index"]
            words += ["--", *(quote(to_str(path)) for path in last.paths)] if last.paths else []
            error.hint = f"{error.hint.partition(':')[0]}: {' '.join(words)}"
        raise


def find_same(
    repo: Repository, catalog: Catalog, checkpoint_id: str, commit: str | None
) -> Checkpoint:
    """The checkpoint that was noted with this commit; refused if another is there by now."""
    found = catalog.get(checkpoint_id)
    if not made_here.is_same(repo.common_dir, found.id, found.commit, commit):
        from ckpt.engine.recovery import bring_back_ref

        raise Refused(
            f"checkpoint '{found.id}' is another one by now: it was commit {commit}",
            hint=bring_back_ref(repo, found.id, commit) or f"git ckpt show {found.id}",
        )
    return found


def _brought(repo: Repository, catalog: Catalog, last: Journal) -> Container[bytes]:
    """What a rollback may have brought: an undo takes that away without asking, unless another
    checkpoint than its own tells what that is."""
    if catalog.commit_of(last.target) is None:
        return frozenset()
    target = catalog.get(last.target)
    if not made_here.is_same(repo.common_dir, target.id, target.commit, last.target_commit):
        return frozenset()
    return FilesOf(repo.objects, ObjectID(target.tree.encode()))
