# SPDX-License-Identifier: MIT
"""Report the status of a worktree, and diagnose its refs, journals, locks and remotes.

Each check yields diagnoses; a check that fails is one itself. `doctor --fix` only makes fixes that
lose nothing: it removes stale locks and dangling refs of ours. For other problems it prints the
command to run. A corrupt cache is not checked, as the next save rewrites it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from shlex import join, quote
from typing import NamedTuple

from ckpt.disk import JOURNAL, clear_dead, is_interrupted, is_rolling_back
from ckpt.engine import trash
from ckpt.engine.catalog import Catalog
from ckpt.engine.space import Held, held
from ckpt.engine.trigger_log import TriggerLog, TriggerNotes
from ckpt.errors import Busy, CkptError, as_ckpt_error
from ckpt.git.config import parse_bool
from ckpt.git.operation import read
from ckpt.git.repository import Repository
from ckpt.ids import is_id
from ckpt.models import INSTALLED, REF_PREFIX, REPLACED, Checkpoint, Finding, GitState, Kind
from ckpt.settings.settings import Settings, disabled_by_env, load_forgiving
from ckpt.settings.sources import TRIGGERS

WELL, FIXED, DOUBTFUL, WRONG = "ok", "fixed", "warning", "problem"
FIX = "git ckpt doctor --fix"


class Diagnosis(NamedTuple):
    """A finding; `mend` is the command that fixes it, if any, and `done` what has fixed it."""

    subject: str
    state: str
    detail: str
    mend: str | None = None
    done: str | None = None


def find_flaws(repo: Repository, *, fix: bool = False) -> list[Diagnosis]:
    """Run all checks; with `fix`, fix what can be fixed."""
    checks = {
        "refs": _refs(repo, fix=fix),
        JOURNAL: _journals(repo),
        "locks": _locks(repo, fix=fix),
        "remotes": remotes(repo),
    }
    found: list[Diagnosis] = []
    for subject, diagnoses in checks.items():
        try:
            found.extend(diagnoses)  # those before an error stay
        except (CkptError, OSError) as error:
            told = as_ckpt_error(error)
            found.append(Diagnosis(subject, WRONG, told.message, told.hint))
    return found


def _refs(repo: Repository, *, fix: bool) -> Iterator[Diagnosis]:
    from ckpt.engine.verify import every_target

    head = repo.refs.head().commit
    alternates = os.path.join(repo.objects.path, "info", "alternates")
    # The missing objects may be in an alternate that is not available now.
    is_doubtful = (head is not None and repo.objects.lacks(head)) or os.path.exists(alternates)
    for target in every_target(repo):
        if target.commit is not None and not repo.objects.lacks(target.commit):
            continue
        what = "no object" if target.commit is None else f"missing object {target.commit.decode()}"
        found = Diagnosis("refs", WRONG, f"'{target.ref}' names {what}", FIX)
        if is_doubtful:
            found = found._replace(mend="git fsck")
        elif fix:
            if not repo.refs.remove(target.ref.encode("utf-8", "surrogateescape"), target.said):
                raise Busy("it changed meanwhile", hint=f"git show {quote(target.ref)}")
            said = target.said.decode("utf-8", "backslashreplace").strip()
            done = f"removed; it said '{said}'. 'git ckpt rescue' lists lost commits"
            found = found._replace(state=FIXED, mend=None, done=done)
        yield found


def _journals(repo: Repository) -> Iterator[Diagnosis]:
    """Check all worktrees, as an unreadable journal in one prevents pruning in all."""
    from ckpt.engine import journal

    if is_rolling_back(repo.private_dir):
        yield Diagnosis("rollback", DOUBTFUL, "in progress", "wait for it to end")
    for git_dir in repo.refs.git_dirs():
        private_dir = os.path.join(git_dir, "ckpt")
        if not is_interrupted(private_dir):
            continue
        path = os.path.join(private_dir, JOURNAL)
        away = join(["mv", path, path + ".broken"])
        try:
            journal.read(private_dir)
        except CkptError as error:
            listed = "git ckpt list --all-worktrees --kind safety"
            told = f"{error.message}; the state before is the newest of '{listed}'"
            yield Diagnosis(JOURNAL, WRONG, told, away)
            continue
        if git_dir == repo.git_dir:
            told = f"interrupted; --abort returns to the state before; to give it up: {away}"
            yield Diagnosis("rollback", WRONG, told, journal.CONTINUE)


def _locks(repo: Repository, *, fix: bool) -> Iterator[Diagnosis]:
    private = [os.path.join(git_dir, "ckpt") for git_dir in repo.refs.git_dirs()]
    dead = sum(len(clear_dead(folder, dry_run=not fix)) for folder in private)
    if dead:
        told = f"{dead} stale file{'' if dead == 1 else 's'} of ckpt commands that were killed"
        found = Diagnosis("locks", DOUBTFUL, told, FIX)
        yield found._replace(state=FIXED, mend=None, done="removed") if fix else found


def remotes(repo: Repository) -> Iterator[Diagnosis]:
    """Warn of mirrors, to which a plain `git push` sends checkpoints."""
    values = {key: value for key, value, _ in repo.config.items("remote")}
    for key, value in values.items():
        name, _, variable = key.rpartition(".")
        if variable == "mirror" and parse_bool(value) and f"{name}.push" not in values:
            add = f"git config --add {quote(f'remote.{name}.push')} "
            mend = f"{add}'+refs/*:refs/*'; {add}'^refs/checkpoints*'"
            told = f"'git push {quote(name)}' sends checkpoints along"
            yield Diagnosis("push", DOUBTFUL, told, mend)


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


class Status(NamedTuple):
    """The status of a worktree. `elsewhere` counts the checkpoints of other worktrees. `refs` are
    all of ours, `foreign_refs` those of other tools. `held` is None if slow to compute. `notes`
    list ignored settings, `others` findings not about triggers."""

    worktree: str
    worktree_id: str
    git_dir: str
    head: GitState
    operation: str | None
    rollback_interrupted: bool
    kinds: Mapping[Kind, int]
    newest: Checkpoint | None
    elsewhere: int
    unreadable: int
    trash: int
    refs: int
    foreign_refs: int
    held: Held | None
    notes: tuple[str, ...]
    triggers: tuple[TriggerStatus, ...]
    others: tuple[Finding, ...]
    rollback_running: bool

    @property
    def here(self) -> int:
        return sum(self.kinds.values())


def look(repo: Repository, findings: Sequence[Finding]) -> Status:
    settings = load_forgiving(repo)
    head = repo.refs.head()
    operation = read(repo.git_dir).identity
    catalog = Catalog(repo)
    every, refs, in_trash = [*catalog], len(catalog.ids()), len(repo.refs.trash())
    here = [found for found in every if found.worktree == repo.worktree_id]
    kinds = [found.kind for found in here]
    by_trigger = {finding.trigger: finding for finding in findings}
    log = TriggerLog(repo.private_dir)
    return Status(
        worktree=repo.worktree,
        worktree_id=repo.worktree_id,
        git_dir=repo.git_dir,
        head=head.state,
        operation=None if operation is None else operation.name,
        rollback_interrupted=is_interrupted(repo.private_dir),
        kinds={kind: kinds.count(kind) for kind in Kind},
        newest=here[0] if here else None,
        elsewhere=len(every) - len(here),
        unreadable=refs - len(every),
        trash=in_trash,
        refs=refs + in_trash,
        foreign_refs=sum(not is_id(name) for name in repo.refs.below(REF_PREFIX)),
        held=held(repo, every, [item.checkpoint for item in trash.dropped(repo)]),
        notes=settings.notes,
        triggers=tuple(
            TriggerStatus(name, by_trigger.get(name), _off(repo, settings, name), log.read(name))
            for name in TRIGGERS
        ),
        others=tuple(found for found in findings if found.trigger not in TRIGGERS),
        rollback_running=is_rolling_back(repo.private_dir),
    )


def _off(repo: Repository, settings: Settings, trigger: str) -> str | None:
    """Return the setting that disables a trigger; None if it is enabled."""
    if disabled_by_env(repo.env, trigger):
        return "CKPT_DISABLE"
    if settings.allows(trigger):
        return None
    return "ckpt.disable" if settings.enabled else "ckpt.enabled"
