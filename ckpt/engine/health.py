# SPDX-License-Identifier: MIT
"""Report the status of a worktree, and diagnose its refs, journals, locks and remotes.

Each check yields diagnoses; a check that fails is one itself. `doctor --fix` only makes fixes that
lose nothing: it removes stale locks and dangling refs of ours. For other problems it prints the
command to run. A corrupt cache is not checked, as the next save rewrites it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from shlex import join, quote
from typing import TYPE_CHECKING, NamedTuple

from ckpt.disk import JOURNAL, clear_dead, is_interrupted, running_rollback
from ckpt.engine import trash
from ckpt.engine.catalog import Catalog
from ckpt.engine.space import Held, held
from ckpt.engine.trigger_log import TriggerLog, TriggerNotes
from ckpt.errors import Busy, CkptError, DiskError
from ckpt.git.config import parse_bool
from ckpt.git.operation import read
from ckpt.git.refs import branch_name
from ckpt.git.repository import Repository, in_worktree
from ckpt.ids import is_id
from ckpt.models import INSTALLED, REF_PREFIX, REPLACED, Checkpoint, Finding, GitState, Kind
from ckpt.settings.settings import Settings, disabled_by_env, load_forgiving
from ckpt.settings.sources import TRIGGERS

if TYPE_CHECKING:
    from ckpt.engine.verify import Target

WELL, FIXED, DOUBTFUL, WRONG = "ok", "fixed", "warning", "problem"
FIX = "git ckpt doctor --fix"
_OURS = "refs/checkpoints/x"


class Diagnosis(NamedTuple):
    """A finding; `mend` is the command that fixes it, if any. `fix` fixes it and may return what it
    did, which becomes `done`."""

    subject: str
    state: str
    detail: str
    mend: str | None = None
    done: str | None = None
    fix: Callable[[], str | None] | None = None


def find_flaws(repo: Repository, *, fix: bool = False) -> list[Diagnosis]:
    """Run all checks; with `fix`, fix what can be fixed."""
    found: list[Diagnosis] = []
    for subject, check in _CHECKS:
        try:
            for one in check(repo):
                if fix and one.fix is not None:
                    one = one._replace(state=FIXED, mend=None, done=one.fix() or "removed")
                found.append(one)
        except (CkptError, OSError) as error:
            told = error if isinstance(error, CkptError) else DiskError(error)
            found.append(Diagnosis(subject, WRONG, told.message, told.hint))
    return found


def _refs(repo: Repository) -> Iterator[Diagnosis]:
    from ckpt.engine.verify import every_target

    head = repo.refs.head().commit
    alternates = os.path.join(repo.objects.path, "info", "alternates")
    # The missing objects may be in an alternate that is not available now.
    is_doubtful = (head is not None and repo.objects.lacks(head)) or os.path.exists(alternates)
    for target in every_target(repo):
        problem = target.problem
        if target.commit is not None and repo.objects.lacks(target.commit):
            problem = f"missing commit {target.commit.decode()}"
        if problem is not None:
            told = f"'{target.ref}' names nothing: {problem}"
            fix = None if is_doubtful else partial(_remove, repo, target)
            mend = "git fsck" if is_doubtful else FIX
            yield Diagnosis("refs", WRONG, told, mend, fix=fix)


def _remove(repo: Repository, target: Target) -> str:
    """Remove a ref, and return a report with its former value."""
    if not repo.refs.remove(target.ref.encode("utf-8", "surrogateescape"), target.said):
        raise Busy("it changed meanwhile", hint=f"git show {quote(target.ref)}")
    said = target.said.decode("utf-8", "backslashreplace").strip()
    return f"removed; it said '{said}'. 'git ckpt rescue' lists lost commits"


def _journals(repo: Repository) -> Iterator[Diagnosis]:
    """Check all worktrees, as an unreadable journal in one prevents pruning in all."""
    running = running_rollback(repo.private_dir)
    if running is not None:
        told = f"in progress ({running})"
        yield Diagnosis("rollback", DOUBTFUL, told, "wait for it to end")
    for git_dir in repo.refs.git_dirs():
        private_dir = os.path.join(git_dir, "ckpt")
        if not is_interrupted(private_dir):
            continue
        is_own = git_dir == repo.git_dir
        where = "" if is_own else in_worktree(git_dir)
        path = os.path.join(private_dir, JOURNAL)
        away = join(["mv", path, path + ".broken"])
        try:
            ways = _open_ways(repo, private_dir)
        except CkptError as error:
            told = f"{error.message}{where}; the state before that rollback is the newest of "
            told += "'git ckpt list --all-worktrees --kind safety'"
            yield Diagnosis(JOURNAL, WRONG, told, away)
            continue
        if not ways:
            told = f"an interrupted rollback needs two checkpoints, and both are gone{where}; "
            told += "'git ckpt rescue' may find them"
            yield Diagnosis(JOURNAL, WRONG, told, f"to give that rollback up: {away}")
        elif is_own:
            told = "interrupted; use " + " or ".join(f"'{way}'" for way in ways)
            yield Diagnosis("rollback", WRONG, told, ways[0])


def _open_ways(repo: Repository, private_dir: str) -> tuple[str, ...]:
    """Return the commands that end an interrupted rollback; none if its checkpoints are gone."""
    from ckpt.engine import journal, recovery

    return recovery.open_ways(repo, journal.read(private_dir))


def _locks(repo: Repository) -> Iterator[Diagnosis]:
    for git_dir in repo.refs.git_dirs():
        dead = len(clear_dead(os.path.join(git_dir, "ckpt"), dry_run=True))
        if dead:
            told = f"{dead} stale file{'' if dead == 1 else 's'} of ckpt commands that were killed"
            yield Diagnosis("locks", DOUBTFUL, told, FIX, fix=partial(_clear, repo))


def _clear(repo: Repository) -> None:
    repo.refs.clear_dead()


def remotes(repo: Repository) -> Iterator[Diagnosis]:
    """Warn of remotes to which a plain `git push` sends checkpoints."""
    values: dict[str, list[str]] = {}
    for key, value, _ in repo.config.items("remote"):
        values.setdefault(key, []).append(value)
    for name in dict.fromkeys(key.rpartition(".")[0] for key in values):
        push, mend = values.get(f"{name}.push", []), ["^refs/checkpoints*"]
        if not push and parse_bool(values.get(f"{name}.mirror", ["no"])[-1]):
            push, mend = ["+refs/*:refs/*"], ["+refs/*:refs/*", *mend]
        sources = [refspec.lstrip("+").partition(":")[0] for refspec in push]
        is_sent = any(s[-1:] == "*" and _OURS.startswith(s[:-1]) for s in sources)
        if is_sent and not any(source.startswith("^refs/checkpoints") for source in sources):
            add = f"git config --add {quote(f'remote.{name}.push')} "
            told = f"'git push {quote(name)}' sends checkpoints along"
            yield Diagnosis("push", DOUBTFUL, told, "; ".join(f"{add}'{each}'" for each in mend))


_CHECKS = (
    ("refs", _refs),
    (JOURNAL, _journals),
    ("locks", _locks),
    ("remotes", remotes),
)


# -- status, without reading the worktree, so that it is fast


class TriggerStatus(NamedTuple):
    """The state of a trigger; `off` is the setting that disables it."""

    name: str
    finding: Finding | None
    off: str | None
    notes: TriggerNotes

    @property
    def is_known(self) -> bool:
        """Return whether the trigger was ever installed or fired."""
        was_there = self.finding is not None and self.finding.state in (INSTALLED, REPLACED)
        return was_there or self.notes != TriggerNotes()


class Footprint(NamedTuple):
    """The private files of a worktree, including those it shares with others."""

    files: int
    size: int


class Status(NamedTuple):
    """The status of a worktree. `elsewhere` counts the checkpoints of other worktrees. `refs` are
    all of ours, `foreign_refs` those of other tools. `held` is None if slow to compute. `notes`
    list ignored settings, `others` findings not about triggers. `ways_out` end an interrupted
    rollback."""

    worktree: str
    worktree_id: str
    git_dir: str
    head: GitState
    operation: str | None
    rollback_interrupted: bool
    kinds: Mapping[Kind, int]
    newest: Checkpoint | None
    oldest: Checkpoint | None
    elsewhere: int
    unreadable: int
    trash: int
    refs: int
    foreign_refs: int
    footprint: Footprint
    held: Held | None
    notes: tuple[str, ...]
    triggers: tuple[TriggerStatus, ...]
    others: tuple[Finding, ...]
    ways_out: tuple[str, ...]
    rollback_running: str | None

    @property
    def here(self) -> int:
        return sum(self.kinds.values())

    @property
    def is_rolling_back(self) -> bool:
        return self.rollback_running is not None


def look(repo: Repository, findings: Sequence[Finding]) -> Status:
    settings = load_forgiving(repo)
    head = repo.refs.head()
    operation = read(repo.git_dir).identity
    catalog = Catalog(repo)
    every, refs, in_trash = [*catalog], len(catalog.ids()), len(repo.refs.trash())
    here = [found for found in every if found.worktree == repo.worktree_id]
    kinds = [found.kind for found in here]
    is_dead = is_interrupted(repo.private_dir)
    ways_out: tuple[str, ...] = ()
    if is_dead:
        try:
            ways_out = _open_ways(repo, repo.private_dir)
        except CkptError:  # each command then reports the error
            ways_out = "git ckpt rollback --continue", "git ckpt rollback --abort"
    by_trigger = {finding.trigger: finding for finding in findings}
    log = TriggerLog(repo.private_dir)
    return Status(
        worktree=repo.worktree,
        worktree_id=repo.worktree_id,
        git_dir=repo.git_dir,
        head=GitState(None if head.commit is None else head.commit.decode(), branch_name(head)),
        operation=None if operation is None else operation.name,
        rollback_interrupted=is_dead,
        kinds={kind: kinds.count(kind) for kind in Kind},
        newest=here[0] if here else None,
        oldest=here[-1] if here else None,
        elsewhere=len(every) - len(here),
        unreadable=refs - len(every),
        trash=in_trash,
        refs=refs + in_trash,
        foreign_refs=sum(not is_id(name) for name in repo.refs.below(REF_PREFIX)),
        footprint=_footprint(repo),
        held=held(repo, every, [item.checkpoint for item in trash.dropped(repo)]),
        notes=settings.notes,
        triggers=tuple(
            TriggerStatus(name, by_trigger.get(name), _off(repo, settings, name), log.read(name))
            for name in TRIGGERS
        ),
        others=tuple(found for found in findings if found.trigger not in TRIGGERS),
        ways_out=ways_out,
        rollback_running=running_rollback(repo.private_dir),
    )


def _off(repo: Repository, settings: Settings, trigger: str) -> str | None:
    """Return the setting that disables a trigger; None if it is enabled."""
    if disabled_by_env(repo.env, trigger):
        return "CKPT_DISABLE"
    if settings.allows(trigger):
        return None
    return "ckpt.disable" if settings.enabled else "ckpt.enabled"


def _footprint(repo: Repository) -> Footprint:
    sizes = []
    for top in {repo.private_dir, os.path.join(repo.common_dir, "ckpt")}:
        for folder, _, names in os.walk(top):
            for name in names:
                with suppress(OSError):  # removed in the meantime
                    sizes.append(os.lstat(os.path.join(folder, name)).st_size)
    return Footprint(len(sizes), sum(sizes))
