# SPDX-License-Identifier: MIT
"""Rollback: back to a checkpoint, exactly, without ever losing the present.

In this order, and nothing is touched before the fourth step: validate the target down to the
last byte it needs; capture the present and plan; save the present as the safety checkpoint; write
the journal; change files, then the index, then HEAD; end the journal. Each step can be repeated,
so a crash at any line leaves a state from which `recovery` goes either way.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import chain

from ckpt.engine import head, journal, nested, scan_cache
from ckpt.engine.apply import (
    Applied,
    Applier,
    Found,
    below_files,
    limited,
    look,
    needed_blobs,
    restage,
    until_settled,
    without,
    writes_converted,
)
from ckpt.engine.capture import Correction, Present, capture
from ckpt.engine.catalog import Catalog, still_holds
from ckpt.engine.conversions import Converted, Smudger, Unrestorable
from ckpt.engine.head import WITHOUT_HEAD, branches_to_return, head_report, move_head
from ckpt.engine.journal import ABORT, CONTINUE, Action, BranchMove, FileState, HeadMove, Journal
from ckpt.engine.plan import Plan, decide, is_file, make_plan
from ckpt.engine.reading import NEVER
from ckpt.engine.recorded import Recorded, file_state, opened
from ckpt.engine.sessions import Write
from ckpt.engine.sessions import look as look_at_content
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
from ckpt.git.index import Index
from ckpt.git.objects import MissingObject, ObjectsPruned
from ckpt.git.operation import in_progress, read_now
from ckpt.git.record import Texts
from ckpt.git.refs import HeadMoved
from ckpt.git.repository import Repository, wait_for_pruning
from ckpt.git.trees import Entries, FilesOf, lookup
from ckpt.locks import Waiting, check_free, prune_lock, worktree_lock
from ckpt.models import Checkpoint, HeadReport, Kind, RollbackResult, Skipped, SkipReason
from ckpt.paths import is_within, to_str
from ckpt.settings.settings import Settings
from ckpt.worktree.write import UnsafePath, Worktree

UNDO = "git ckpt undo"
MAX_UNTRACKED_REMOVALS = 1000

# Files that change while it runs are saved so many times; from then on they are left alone.
MOST_SAVES = 10

_PATIENCE = 0.5  # seconds: an editor's `git status` may hold a lock for a moment
_LONGEST_LINK = 4095
_BUDGETED = (SkipReason.OVERSIZE, SkipReason.BUDGET)


@dataclass(frozen=True, slots=True)
class RollbackOptions:
    """`paths` limit the rollback; `consented` are paths whose removal needs no `yes`.

    When `undoing`, it is said what the rollback did that is taken back: files that it
    `created` go and those that it `replaced` or removed come back, also if ignored now, and
    branches that it moved besides HEAD's are `returning`. The safety checkpoint that it made is
    `known` by its commit.

    With a `ledger`, only what the agent wrote and nobody changed since goes back. `state` is what
    the safety checkpoint shall hold of tracked objects; if the caller `moves_state`, one is taken
    even if no file changes. `waiting` is told if another process holds the lock for long.
    """

    paths: tuple[bytes, ...] = ()
    head: bool = False
    index: bool = True
    dry_run: bool = False
    overwrite_ignored: bool = False
    yes: bool = False
    recurse: bool = False
    consented: Container[bytes] = frozenset()
    created: frozenset[bytes] = frozenset()
    replaced: frozenset[bytes] = frozenset()
    returning: tuple[BranchMove, ...] = ()
    undoing: bool = False
    known: str | None = None
    ledger: Mapping[bytes, Write] | None = None
    state: Texts = field(default_factory=dict)
    moves_state: bool = False
    progress: Callable[[int, int], None] | None = None
    waiting: Waiting | None = None


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


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What a rollback is going to do. `index` is the wanted one, None if the index stays; of the
    target's entries, those of `unstaged` stay out. `paths` are the only ones that may change."""

    plan: Plan
    paths: tuple[bytes, ...]
    index: Index | None
    unstaged: Mapping[bytes, str]
    changes_index: bool
    changes_operation: bool
    move: HeadMove | None


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
        self._check_target()
        prepared = self._prepare()
        plan = prepared.plan
        changes = prepared.changes_index or prepared.changes_operation or prepared.move is not None
        is_idle = plan.is_empty and not changes and not self._options.moves_state
        if self._options.dry_run or is_idle:
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
            is_begun = is_begun or journal.journal_exists(self._repo.private_dir)
            raise _stopped(error, is_begun) from error
        return self._report(prepared, done, self._safety)

    # -- 1. validate the target

    def _check_target(self) -> None:
        repo, target, options = self._repo, self._target, self._options
        journal.check_ready(repo.private_dir)
        repo.refs.clear_dead()
        check_locks(repo, None)
        if target.is_foreign:
            from ckpt.engine import foreign

            foreign.check_target(target, head=options.head)
        if options.head:
            head.check_move(repo, target)
            head.check_operation_objects(target)
        elif not options.paths:
            moved = repo.refs.head().commit != target.head.commit
            now, then = in_progress(repo.git_dir), target.operation.files.operation
            head.check_operation(now, then, target.checkpoint.id, head_moved=moved)
        for limit in () if options.undoing else options.paths:
            nested.check_limit(target, limit)
            if not self._target_knows(limit) and self._worktree.lstat(limit) is None:
                raise CkptError(
                    f"pathspec '{to_str(limit)}' did not match any file of "
                    f"checkpoint '{target.checkpoint.id}'",
                    hint=f"git ckpt diff --name-status {target.checkpoint.id}",
                )

    def _target_knows(self, limit: bytes) -> bool:
        target = self._target
        staged = (entry.path for entry in target.index.entries)
        known = chain(target.state_files, target.manifest.empty_folders, staged)
        return target.entry_at(limit) is not None or any(is_within(p, (limit,)) for p in known)

    # -- 2. capture the present and plan

    def _prepare(self) -> _Prepared:
        target, options, repo = self._target, self._options, self._repo
        plan, paths = self._look()
        present = self._present
        plan = plan.leaving(self._unrestorable(plan))
        now = present.staged.index if options.index and not self._is_staged() else None
        index, unstaged = None, dict[bytes, str]()
        if now is not None:
            unstaged = self._unstaged(plan, now, paths)
            index = limited(without(target.index, unstaged), now, paths)
            self._check_staged(index, now, plan)
            plan = replace(plan, blocked={**unstaged, **plan.blocked})
        move = None
        if options.head:
            move = head.plan_move(repo, present, target, options.returning)
            if repo.refs.head() != present.head:
                raise HeadMoved  # since it was looked at, and nothing was done yet
        plan = plan.keeping(nested.left_alone(target, present, options.paths))
        plan = plan.keeping(nested.gone(target, self._worktree, options.paths))
        return _Prepared(
            plan,
            paths,
            index,
            unstaged,
            now is not None and index is not None and not staging.same(index, now),
            options.head and head.differs(present.operation.files, target.operation.files),
            move,
        )

    def _look(self) -> tuple[Plan, tuple[bytes, ...]]:
        """Capture and plan. What stands in the way, or a budget left out, is captured as well if
        it may go; only then can be told what else is in the way."""
        options, limits = self._options, self._options.paths
        created = frozenset(p for p in options.created if is_file(self._worktree, p))
        ours = created | {p for p in options.replaced if is_file(self._worktree, p)}
        if not self._target.is_foreign:
            places = (p for p in self._target.state_files if not limits or is_within(p, limits))
            ours |= {path for path in places if is_file(self._worktree, path)}
        force: frozenset[bytes] = frozenset()
        given_up = created
        while True:
            plan, paths = self._capture(force, given_up)
            more = {path for path in ours if self._present.entry(path) is None}
            more = (more or self._over_budget(plan)) - force
            if options.overwrite_ignored and not more:
                more = {*plan.obstacles} - force
                given_up |= ours | more
            if not more:
                return plan, paths
            force |= more

    def _over_budget(self, plan: Plan) -> set[bytes]:
        """What a budget left out and the plan is about: what stands in the way, and what was made
        since in such numbers that only a part of it would go."""
        skipped, limits = self._present.skipped, self._options.paths
        new = (path for path, reason in skipped.items() if reason is SkipReason.BUDGET)
        new = (path for path in new if not limits or is_within(path, limits))
        found = {path for path in new if self._target.left_out(path) is None}
        return found | {path for path in plan.obstacles if skipped.get(path) in _BUDGETED}

    def _capture(
        self, force: frozenset[bytes], given_up: frozenset[bytes]
    ) -> tuple[Plan, tuple[bytes, ...]]:
        try:
            return self._captured(force, given_up)
        except MissingObject:  # maybe one that only the cache names, and that can be made again
            scan_cache.forget(self._repo)
            return self._captured(force, given_up)

    def _captured(
        self, force: frozenset[bytes], given_up: frozenset[bytes]
    ) -> tuple[Plan, tuple[bytes, ...]]:
        options, repo, target = self._options, self._repo, self._target
        objects = repo.objects.scratch() if options.dry_run else repo.objects
        present = self._present = capture(
            repo,
            self._settings,
            objects,
            force=tuple(sorted(force)),
            progress=options.progress,
            cache=scan_cache.load(repo),
            clock=NEVER if options.dry_run else scan_cache.clock(repo),
        )
        undone = options.created | options.replaced

        def plan_of(paths: tuple[bytes, ...]) -> Plan:
            return make_plan(
                present, present.tree, target, objects, self._worktree, paths, given_up, undone
            )

        plan = plan_of(options.paths)
        if options.ledger is None:
            return plan, options.paths
        top, limits = os.fsencode(repo.worktree), options.paths
        decision = decide(
            {action.path for action in plan.actions},
            {p: w for p, w in options.ledger.items() if not limits or is_within(p, limits)},
            lambda path: look_at_content(os.path.join(top, path)),
            [path for path in target.state_files if not limits or is_within(path, limits)],
            {action.path for action in plan.removals},
        )
        kept = {**plan.kept, **decision.kept}
        return plan_of(decision.limits).keeping(kept), decision.limits

    def _unrestorable(self, plan: Plan) -> dict[bytes, str]:
        """Read all that is to be written to files; returns what has to be left, with reasons."""
        left = {}
        with self._naming("'git ckpt list' shows other checkpoints"):
            for action in plan.writes:
                after = action.after
                if after is None or not _changes_content(action):
                    continue
                try:
                    if not self._worktree.takes_names_of(action.path):
                        left[action.path] = "the file system takes no name that long"
                    if after.is_link and not self._is_link_possible(after):
                        left[action.path] = "no file system takes this link target"
                    self._smudger.check(after)
                except Unrestorable as error:
                    left[action.path] = str(error)
        return left

    def _is_link_possible(self, state: FileState) -> bool:
        objects = self._repo.objects
        if (objects.size(state.entry.id) or 0) > _LONGEST_LINK:
            return False
        target = objects.read(state.entry.id, b"blob")
        return bool(target) and b"\0" not in target

    def _check_staged(self, index: Index, now: Index, plan: Plan) -> None:
        """Read what the index shall name, and neither does at present nor is written to files: git
        would commit what is damaged, and find out later."""
        afters = [action.after for action in plan.writes if _changes_content(action)]
        read = {after.entry.id for after in afters if after is not None and after.origin is None}
        objects, target = self._repo.objects, self._target.checkpoint.id
        with self._naming(f"'git ckpt rollback --no-index {target}' leaves what is staged"):
            for blob in needed_blobs(index, now) - read:
                if objects.lacks(blob):
                    raise MissingObject(blob, "missing staged object")
                if objects.has(blob):  # else it is at the remote of a partial clone
                    objects.check(blob, b"blob")

    @contextmanager
    def _naming(self, way: str) -> Iterator[None]:
        """Say of a missing object whose it is, and what can be done without it."""
        try:
            yield
        except MissingObject as error:
            raise RollbackError(
                f"checkpoint '{self._target.checkpoint.id}' is damaged: {error.message}",
                hint=f"nothing was touched; {way}",
                details=error.details,
            ) from error

    def _unstaged(self, plan: Plan, now: Index, limits: tuple[bytes, ...]) -> dict[bytes, str]:
        """What the target has staged and stays out of the index, with the reasons. Of a foreign
        index, nothing gets in that is neither tracked nor held nor written here: git would take
        what is ignored for tracked, and checkpoints with it."""
        index = self._target.index
        hindered = below_files(index, now, limits) if limits else {}
        found = {p: f"'{to_str(f)}' is staged, so not staged" for p, f in hindered.items()}
        if not self._target.is_foreign:
            return found
        held = {entry.path for entry in now.entries} | {action.path for action in plan.writes}
        for path in {entry.path for entry in index.entries} - held - self._present.entries.keys():
            if not limits or is_within(path, limits):
                reason = plan.blocked.get(path, "not in this worktree")
                found[path] = f"{reason}, so not staged"
        return found

    def _is_staged(self) -> bool:
        """Whether the index is the target's."""
        target, entries = self._target, self._present.index_entries
        if target.is_foreign:
            return False
        return staging.is_stored(target.objects, target.state_tree, entries)

    # -- 3. save the present

    def _secure(self, prepared: _Prepared) -> _Prepared:
        """Take the safety checkpoint; all that the plan changes was read once more for it."""
        repo, present, plan = self._repo, self._present, prepared.plan
        try:
            changing = [a.path for a in plan.actions if a.before is not None]
            present, unreadable = hold(repo, self._worktree, present, changing)
            plan = plan.leaving(dict.fromkeys(unreadable, str(SkipReason.UNREADABLE)))
            plan = replace(plan, actions=tuple(_as_held(plan.actions, present)))
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

    # -- 4. write the journal

    def _journal_of(self, prepared: _Prepared) -> Journal:
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

    def _begin(self, prepared: _Prepared) -> None:
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

    # -- 5. change files, then the index, then HEAD; from here on the worktree changes

    def _apply(self, prepared: _Prepared) -> Applied:
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

    def _restage(self, prepared: _Prepared, applier: Applier) -> None:
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

    # -- 6. report

    def _report(
        self, prepared: _Prepared, done: Applied, safety: Checkpoint | None
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

    def _head_report(self, prepared: _Prepared) -> HeadReport:
        present, target = self._present, self._target
        found = head_report(self._repo, present.head, target, prepared.move)
        if not prepared.changes_operation:
            return found
        was, then = present.operation.files, target.operation.files
        return replace(found, operation=head.report(was, then))


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
        yield replace(action, before=before)


def _check_trees(repo: Repository, present: Present, paths: Iterable[bytes]) -> None:
    """MissingObject if a tree on the way to a file is damaged: the next attempt writes it anew."""
    read: dict[ObjectID, Entries] = {}  # each once: a folder may have thousands of the files
    for path in paths:
        lookup(repo.objects, present.tree, path, read)


def check_removals(plan: Plan, present: Present, consented: Container[bytes]) -> None:
    """Refuse to remove more than anyone is likely to mean."""
    most = len(plan.removals)
    if 2 * most <= present.least_files and most <= MAX_UNTRACKED_REMOVALS:
        return
    removed = [action.path for action in plan.removals if action.path not in consented]
    tracked = {entry.path for entry in present.staged.index.entries}
    untracked = [path for path in removed if path not in tracked]
    total = len(present.entries)
    if 2 * len(removed) > total or len(untracked) > MAX_UNTRACKED_REMOVALS:
        raise Refused(
            f"this rollback would remove {len(removed)} of {total} files",
            hint="look with --dry-run, then repeat the command with --yes",
            details={"removed": [to_str(path) for path in removed]},
        )


def check_locks(repo: Repository, move: HeadMove | None) -> None:
    """Refuse while git is at work with the index, or with a ref that is to move."""
    if not repo.owns_index:
        raise Refused(
            f"GIT_INDEX_FILE names another index: '{repo.env.get('GIT_INDEX_FILE')}'",
            hint="a rollback inside a git hook would change the index git is using",
        )
    files = [repo.index_path]
    if move is not None:
        ends = [end for other in move.others for end in (other.before, other.after)]
        comes_or_goes = None in (move.branch_before, move.after.commit, *ends)
        files += repo.refs.files_of(move.branches, removes=comes_or_goes)
    check_free(files, repo.private_dir, patience=_PATIENCE)


def listed(paths: Mapping[bytes, str]) -> tuple[Skipped, ...]:
    """Paths with the reason why they stay as they are."""
    return tuple(Skipped(to_str(path), reason) for path, reason in sorted(paths.items()))


def _changes_content(action: Action) -> bool:
    before, after = action.before, action.after
    return before is None or after is None or before.entry.id != after.entry.id


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


def undo(repo: Repository, settings: Settings, options: RollbackOptions) -> RollbackResult:
    """Take back the last rollback that finished in this worktree; again: redo it."""
    last = journal.last_rollback(repo.private_dir)
    if last is None:
        raise NotFound(
            "there is no rollback to undo in this worktree",
            hint="'git ckpt list --kind safety' shows the states before earlier rollbacks",
            details={"available": []},
        )
    journal.check_place(repo, last.worktree, UNDO)
    catalog = Catalog(repo)
    safety = find_same(repo, catalog, last.safety, last.safety_commit)
    scope = replace(
        options,
        paths=last.paths,
        head=last.asked_head,
        index=last.asked_index,
        overwrite_ignored=last.asked_overwrite,
        consented=_brought(repo, catalog, last),
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
