# SPDX-License-Identifier: MIT
"""Prepare a rollback: validate the target, capture the present, and plan the changes.

Every object that the rollback needs is read, and files in the way on disk are found. Only files
captured in the present are replaced or removed. The worktree is not changed; a dry run ends here.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

from ckpt.disk import check_free, journal_exists
from ckpt.engine import head, nested, scan_cache
from ckpt.engine.apply import limited, link_target, look, stored
from ckpt.engine.capture import capture
from ckpt.engine.checkpoint import Recorded
from ckpt.engine.conversions import Unrestorable, pieces
from ckpt.engine.journal import Action, BranchMove, HeadMove, Journal, unfinished
from ckpt.engine.nested import SUBMODULE
from ckpt.engine.plan import Plan, plan_files, plan_folders
from ckpt.engine.scan_cache import NEVER
from ckpt.engine.sessions import Write, why_kept
from ckpt.engine.working_state import Present
from ckpt.errors import CkptError, Refused, RollbackError
from ckpt.git import index as staging
from ckpt.git.index import Index
from ckpt.git.objects import MissingObject, ObjectID, ObjectStore
from ckpt.git.record import Texts
from ckpt.git.refs import HeadMoved
from ckpt.git.repository import Repository
from ckpt.git.trees import GITLINK
from ckpt.models import SkipReason
from ckpt.paths import folders_above, folders_of, is_within, to_str
from ckpt.settings.settings import Settings
from ckpt.settings.sources import NO_LIMIT
from ckpt.worktree.write import Worktree

if TYPE_CHECKING:
    from collections.abc import Callable

    from ckpt.engine.recovery import Resumed

MAX_UNTRACKED_REMOVALS = 1000
_NOWHERE = (b"/",)  # a limit that matches no path
_PATIENCE = 0.5  # seconds: an editor's `git status` may briefly hold a lock


@dataclass(frozen=True)
class RollbackOptions:
    """Options of a rollback. `paths` limit it; `yes` allows it to remove many files.

    An undo or a recovery names the `earlier` rollback. The files it changed are restored even if
    ignored, or removed without `yes`, and the branches it moved are moved back. A recovery also
    sets what it `resumes`.

    With a `ledger`, only files that the agent wrote and that have not changed since are restored.
    `state` is the saved state of tracked objects; with `moves_state`, a safety checkpoint is taken
    even if no file changes.
    """

    paths: tuple[bytes, ...] = ()
    head: bool = False
    index: bool = True
    dry_run: bool = False
    overwrite_ignored: bool = False
    yes: bool = False
    earlier: Journal | None = None
    resumes: Resumed | None = None
    ledger: Mapping[bytes, Write] | None = None
    state: Texts = field(default_factory=dict)
    moves_state: bool = False
    progress: Callable[[int, int], None] | None = None

    @property
    def changed(self) -> frozenset[bytes]:
        """Return the files of the earlier rollback, which are removed without `yes`."""
        return frozenset(() if self.earlier is None else self.earlier.files)

    @property
    def returning(self) -> tuple[BranchMove, ...]:
        """Return the moves that take back, or complete, those of the earlier rollback."""
        move = None if self.earlier is None else self.earlier.head
        moves = () if move is None else move.branches
        if self.resumes is not None and self.resumes.forwards:
            return moves
        return tuple(BranchMove(branch, after, before) for branch, before, after in moves)


@dataclass
class Preparation:
    """The preparation of one rollback. The caller holds the worktree's lock."""

    repo: Repository
    settings: Settings
    target: Recorded
    options: RollbackOptions
    worktree: Worktree
    objects: ObjectStore = field(init=False)
    present: Present = field(init=False)

    def run(self) -> tuple[Present, Plan, Journal]:
        """Return the present, the plan, and a journal without a safety checkpoint yet."""
        repo, target, options, resumed = self.repo, self.target, self.options, self.options.resumes
        self.objects = repo.objects.scratch() if options.dry_run else repo.objects
        self._check_target()
        if resumed is not None:
            resumed.clear_unfinished(self.worktree)
        plan, paths = self._look()
        present = self.present
        changes_index = changes_operation = False
        try:
            plan = plan.leaving(self._unrestorable(plan))
            staged = present.index_entries
            is_staged = staging.is_stored(target.objects, target.state_tree, staged)
            if options.index and not is_staged:
                wanted = limited(target.index, present.staged, paths)
                self._check_staged(wanted, present.staged, plan)
                changes_index = not staging.same(wanted, present.staged)
        except MissingObject as error:
            raise RollbackError(
                f"checkpoint '{target.checkpoint.id}' is damaged: {error.message}",
                hint="nothing was touched; 'git ckpt list' shows other checkpoints, "
                "and --no-index leaves what is staged",
                details=error.details,
            ) from error
        move = None
        if options.head:
            move = head.plan_move(repo, present.head, target, options.returning)
            if repo.refs.head() != present.head:
                raise HeadMoved  # since it was captured
            changes_operation = head.differs(present.operation, target.operation)
        check_locks(repo, move)
        if resumed is not None:
            plan = plan._replace(folders=resumed.folders(present))
        else:
            plan = self._without_folders(plan_folders(plan, present, target, paths))
        plan = plan.keeping(nested.left_alone(target, present, self.worktree, options.paths))
        files = tuple(action.path for action in plan.actions)
        record = Journal(
            target=target.checkpoint.id,
            safety="",
            paths=paths,
            files=files if resumed is None else resumed.record.files,
            folders=plan.folders,
            index=changes_index,
            operation=changes_operation,
            head=move,
            asked_index=options.index,
            asked_head=options.head,
        )
        return present, plan, record

    def _is_asked(self, path: bytes) -> bool:
        return not self.options.paths or is_within(path, self.options.paths)

    def _check_target(self) -> None:
        repo, target, options = self.repo, self.target, self.options
        if options.resumes is None and journal_exists(repo.private_dir):
            raise unfinished()
        repo.refs.clear_dead()
        if target.checkpoint.foreign:
            from ckpt.engine import foreign

            foreign.check(target)
        if options.head:
            head.check_commits(repo, target)
        elif not options.paths:
            head.check_operation(repo, target, resumed=options.resumes is not None)
        for limit in options.paths if options.earlier is None else ():
            nested.check_limit(target, limit)
            staged = (entry.path for entry in target.index.entries)
            known = chain(target.state_files, target.manifest.empty_folders, staged)
            if (
                target.entry_at(limit) is None
                and not any(is_within(path, (limit,)) for path in known)
                and self.worktree.lstat(limit) is None
            ):
                raise CkptError(
                    f"pathspec '{to_str(limit)}' did not match any file of "
                    f"checkpoint '{target.checkpoint.id}'",
                    hint=f"git ckpt diff --name-status {target.checkpoint.id}",
                )

    def _look(self) -> tuple[Plan, tuple[bytes, ...]]:
        """Capture without limits and plan. Skipped files that may be overwritten are added to the
        present, until the plan has no more of them in the way."""
        repo, target, options = self.repo, self.target, self.options
        self.present = capture(
            repo,
            self.settings._replace(max_new_bytes=NO_LIMIT, max_new_files=NO_LIMIT),
            self.objects,
            progress=options.progress,
            cache=scan_cache.load(repo),
            clock=NEVER if options.dry_run else scan_cache.clock(repo),
        )
        ours = set(options.changed)
        if not target.checkpoint.foreign:
            ours.update(filter(self._is_asked, target.state_files))
        ours = set(filter(self.worktree.is_file, ours))
        given_up = options.changed & ours
        added = {path for path in ours if self.present.entry(path) is None}
        more = added
        while True:
            files = stored(self.objects, self.worktree, self.present, more)
            if files:
                self.present = self.present.with_files(self.objects, files)
            plan = self._plan(options.paths, given_up)
            more = {*plan.obstacles} - added
            if options.overwrite_ignored:
                given_up |= ours | more
            else:
                more = {p for p in more if self.present.skipped.get(p) is SkipReason.OVERSIZE}
            if not more:
                break
            added |= more
        if options.resumes is not None:
            plan = options.resumes.only_files(plan)
        if options.ledger is None:
            return plan, options.paths
        limits, kept = self._decided(plan, options.ledger)
        return self._plan(limits, given_up).keeping({**plan.kept, **kept}), limits

    def _decided(
        self, plan: Plan, ledger: Mapping[bytes, Write]
    ) -> tuple[tuple[bytes, ...], dict[bytes, str]]:
        """Return the paths to restore with `--keep-edits`, and those to keep. An unchanged path is
        restored, too, as its index entry may differ."""
        top = os.fsencode(self.repo.worktree)
        changing = {action.path: action.after is None for action in plan.actions}
        back, kept = set(filter(self._is_asked, self.target.state_files)), {}
        for path in {*changing, *filter(self._is_asked, ledger)} - back:
            is_going = changing.get(path, False)
            why = why_kept(ledger.get(path), os.path.join(top, path), is_going=is_going)
            if why is None:
                back.add(path)
            elif path in changing:
                kept[path] = why
        above = back & folders_of(kept)  # a file replaced, or replaced by, a directory
        kept |= dict.fromkeys(above & changing.keys(), "what is in its place is kept")
        return tuple(sorted(back - above)) or _NOWHERE, kept

    # -- files in the way

    def _plan(self, limits: tuple[bytes, ...], given_up: Collection[bytes]) -> Plan:
        """Plan, leaving blocked paths and files that would make room for them."""
        plan = plan_files(self.present, self.target, self.objects, limits, given_up)
        plan = plan.leaving(self._in_repositories(action.path for action in plan.actions))
        removed = {action.path for action in plan.removals if action.before is not None}
        as_wanted, found, blocked = set(), set[bytes](), dict[bytes, str]()
        for action in plan.actions:
            path = action.path
            if path in removed:
                continue
            try:
                obstacles = self._obstacles_to(action, removed)
                status = self.worktree.lstat(path) if obstacles == [path] else None
                if status and look(self.objects, self.worktree, path, status) == action.after:
                    as_wanted.add(path)  # ignored now, but not at the checkpoint
                elif obstacles:
                    found.update(obstacles)
                    blocked[path] = self._why_unheld(obstacles[0])
                elif action.before == action.after:
                    as_wanted.add(path)
            except OSError:
                blocked[path] = str(SkipReason.UNREADABLE)
        in_vain = {p for p in given_up if not blocked.keys().isdisjoint(folders_above(p))}
        left = as_wanted | blocked.keys() | in_vain
        return plan._replace(
            actions=tuple(action for action in plan.actions if action.path not in left),
            blocked={**plan.blocked, **blocked},
            obstacles=frozenset(found),
        )

    def _without_folders(self, plan: Plan) -> Plan:
        """Return the plan without new directories that exist, or are in another repository."""
        new = {change.path for change in plan.folders if change.before is None}
        out = {f for f in new if self.worktree.folder_permissions(f) is not None}
        out.update(self._in_repositories(new))
        return plan._replace(folders=tuple(c for c in plan.folders if c.path not in out))

    def _in_repositories(self, places: Iterable[bytes]) -> dict[bytes, str]:
        """Return the paths in nested repositories, with the kind of each, except those tracked
        here, of which a foreign checkpoint may have added some to the index. Looks on disk, as
        scans skip ignored and denied directories."""
        paths = [*places]
        found = {folder for folder in folders_of(paths) if self.worktree.is_repository(folder)}
        if not found:
            return {}
        inside = dict[bytes, str]()
        trusted = () if self.target.checkpoint.foreign else self.present.staged.entries
        tracked = {entry.path for entry in trusted}
        for path in paths:
            for folder in found.intersection(folders_above(path)):
                kind = nested.kind_of(self.present, folder)
                if kind == SUBMODULE or path not in tracked:
                    inside[path] = kind
        return inside

    def _obstacles_to(self, action: Action, removed: set[bytes]) -> list[bytes]:
        """Return the files that would be lost, or block the write, if the path were written."""
        worktree, path = self.worktree, action.path
        parent = worktree.in_the_way(path)
        if parent is not None:
            return [] if parent in removed else [parent]
        status = None if action.before is not None else worktree.lstat(path)
        if status is None:
            return []
        if stat.S_ISDIR(status.st_mode):
            return [*self._unheld_below(path, removed)]
        # If the file system ignores case, it may be a file that is removed anyway.
        others = (other for other in removed if other.lower() == path.lower())
        found = (worktree.lstat(other) for other in others)
        return [] if any(s and os.path.samestat(status, s) for s in found) else [path]

    def _unheld_below(self, top: bytes, held: set[bytes]) -> Iterator[bytes]:
        """Yield the file, or files in a directory, that the plan does not remove."""
        if top in held:
            return
        names = self.worktree.names(top)
        is_closed = self.worktree.is_repository(top) or any(n.lower() == b".git" for n in names)
        if is_closed or self.worktree.is_file(top):
            yield top
            return
        for name in sorted(names):
            yield from self._unheld_below(top + b"/" + name, held)

    def _why_unheld(self, obstacle: bytes) -> str:
        """Return why a file on disk was not captured."""
        for path in (obstacle, *folders_above(obstacle)):
            if path in self.present.skipped:
                return str(self.present.skipped[path])
            if self.present.entry(path) is not None:
                return "in the way"
        return "ignored"

    # -- reading all objects

    def _unrestorable(self, plan: Plan) -> dict[bytes, str]:
        """Read the contents to write; return the paths to leave, with reasons."""
        left = {}
        for action in plan.writes:
            after = action.after
            if after is None:
                continue
            try:
                if after.is_link:
                    link_target(self.objects, after)
                for _ in pieces(self.repo, after):
                    pass
            except Unrestorable as error:
                left[action.path] = str(error)
        return left

    def _check_staged(self, wanted: Index, now: Index, plan: Plan) -> None:
        """Check new objects in the index that are not written to files, as git would commit
        corrupt ones."""
        afters = (action.after for action in plan.writes)
        known = {after.id for after in afters if after is not None and not after.is_converted}
        known |= {ObjectID(entry.id) for entry in now.entries}
        for entry in wanted.entries:
            blob = ObjectID(entry.id)
            if blob in known or entry.mode == GITLINK or entry.intent_to_add:
                continue
            if self.objects.lacks(blob):
                raise MissingObject(blob, "missing staged object")
            if self.objects.has(blob):  # else not fetched by a partial clone
                self.objects.check(blob, b"blob")


# -- Refusals before any change


def check_removals(plan: Plan, present: Present, created: Container[bytes]) -> None:
    """Refuse to remove most of the files, or many untracked ones."""
    removed = [action.path for action in plan.removals if action.path not in created]
    untracked = set(removed)
    if len(removed) > MAX_UNTRACKED_REMOVALS:
        untracked.difference_update(entry.path for entry in present.staged.entries)
    if 2 * len(removed) > present.file_count or len(untracked) > MAX_UNTRACKED_REMOVALS:
        raise Refused(
            f"this rollback would remove {len(removed)} of {present.file_count} files",
            hint="look with --dry-run, then repeat the command with --yes",
            details={"removed": [to_str(path) for path in removed]},
        )


def check_locks(repo: Repository, move: HeadMove | None) -> None:
    """Refuse if git holds the lock of the index, or of a ref to move."""
    named = os.path.join(repo.worktree, repo.env.get("GIT_INDEX_FILE") or repo.index_path)
    if os.path.realpath(named) != repo.index_path:
        raise Refused(
            f"GIT_INDEX_FILE names another index: '{named}'",
            hint="a rollback inside a git hook would change the index git is using",
        )
    files = [repo.index_path]
    if move is not None:
        moves = move.branches
        branches = {each.branch for each in moves} | {move.before.branch, move.after.branch}
        files += repo.refs.files_of(sorted(filter(None, branches)))
    check_free(files, repo.private_dir, patience=_PATIENCE)
