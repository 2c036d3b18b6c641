# SPDX-License-Identifier: MIT
"""A checkpoint that nobody asked for by hand: it must never be in anybody's way.

Whatever goes wrong is returned, not raised: git, pre-commit or an agent is waiting and
has work of its own. Broken settings count as the defaults, a busy repository is waited
for no longer than the trigger's time budget, and every outcome is noted for `status`.
What is to be printed comes back as warnings; what the failure does to the command that
is waiting is the caller's to say (`Fired.blocks`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from time import monotonic, time
from typing import TYPE_CHECKING

from ckpt import ids
from ckpt.errors import Busy, CkptError
from ckpt.git.repository import Repository
from ckpt.models import Kind, Outcome, SaveResult
from ckpt.settings.settings import Settings, disabled_by_env, session_of_env
from ckpt.settings.sources import TRIGGERS

if TYPE_CHECKING:
    from ckpt.engine.capture import Present

# What the same failure, or the same wrong setting, is told of once by a burst of triggers.
_BURST = 10.0
_WITH_GUARD_BUDGET = ("guard", "wrapper")
_STORES = ("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES")


@dataclass(frozen=True, slots=True)
class Fired:
    """What became of a trigger, what to tell of it, and whether the command should stop."""

    result: SaveResult
    warnings: tuple[str, ...] = ()
    blocks: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """Which trigger fires, and how; `complete` may add to what is saved, as in the engine.

    Without a `session`, it belongs to that of the environment, if there is one. `is_stranger` if
    only the place of a file has led to the repository: nothing that it configures is run.
    """

    trigger: str
    kind: Kind = Kind.HOOK
    session: str | None = None
    recurse: bool = False
    is_stranger: bool = False
    complete: Callable[[Repository, Present], Present] | None = None


class NothingToSave(Exception):
    """Raised by `complete`: the state that was found is not worth a checkpoint."""


def fire(start: str, env: Mapping[str, str], request: Request) -> Fired:
    """Take a checkpoint of the worktree at `start` for a trigger."""
    if disabled_by_env(env, request.trigger):
        return _skipped("disabled")
    try:
        return _fire(start, env, request)
    except Exception as error:
        return _failed(error, None, request)


def _fire(start: str, env: Mapping[str, str], request: Request) -> Fired:
    from ckpt.git.repository import NotARepository, TooBroad, discover

    try:
        repo = discover(start, _own(env))
        if repo.index_path != os.path.join(repo.git_dir, "index"):
            repo = discover(start, _own(env, "GIT_INDEX_FILE"))
        if request.is_stranger:
            from ckpt.engine.nested import as_stranger

            repo = as_stranger(repo)
    except NotARepository:
        return _skipped("no-repository")
    except TooBroad as error:
        return Fired(SaveResult(Outcome.SKIPPED, reason="too-broad"), (error.message,))
    from ckpt.settings.settings import load_forgiving

    with repo:
        try:
            settings = load_forgiving(repo)
        except Exception as error:
            return _failed(error, repo, request)
        if not settings.allows(request.trigger):
            return _skipped("disabled")
        return _save(repo, settings, request)


def fire_other(
    start: str, env: Mapping[str, str], trigger: str, work: Callable[[Repository], None]
) -> Fired | None:
    """Do something else than save for a trigger, with the same care; None if it was done."""
    if disabled_by_env(env, trigger):
        return _skipped("disabled")
    from ckpt.git.repository import NotARepository, discover
    from ckpt.settings.settings import load_forgiving

    repo = None
    try:
        with discover(start, _own(env)) as repo:
            if not load_forgiving(repo).allows(trigger):
                return _skipped("disabled")
            work(repo)
    except NotARepository:
        return _skipped("no-repository")
    except Exception as error:
        return _failed(error, repo, Request(trigger), what=f"{trigger} did nothing")
    return None


def _own(env: Mapping[str, str], *others: str) -> Mapping[str, str]:
    """The environment without stores and files that a tool has for the moment only: the ref of a
    checkpoint is in the repository, so its objects must be; and its index is the user's."""
    if not env.get("GIT_QUARANTINE_PATH"):
        others = (*others, *(name for name in _STORES if name in env))
    return {name: value for name, value in env.items() if name not in others} if others else env


def _save(repo: Repository, settings: Settings, request: Request) -> Fired:
    started = monotonic()
    try:
        repo.check_writable()
        result = _engine_save(repo, settings, request)
    except NothingToSave:
        return _skipped("clean")
    except Exception as error:
        told = _failed(error, repo, request, blocks=settings.on_error == "block")
        if isinstance(error, Busy):
            return replace(told, result=SaveResult(Outcome.SKIPPED, reason="busy"))
        return told
    notes = settings.notes if settings.notes and not _is_in_burst(repo) else ()
    _note_success(repo, request.trigger, result, monotonic() - started)
    _prune_if_due(repo, settings, request, result, monotonic() - started)
    missed = (*result.warnings, *_left_out(result, request.trigger))
    return Fired(result, (*notes, *_partial(result, request.trigger), *missed))


def _prune_if_due(
    repo: Repository, settings: Settings, request: Request, result: SaveResult, elapsed: float
) -> None:
    from ckpt.engine.snapshot import count_save

    is_new = result.outcome in (Outcome.CREATED, Outcome.PARTIAL)
    if is_new and count_save(repo.private_dir):
        from ckpt.engine.prune import prune_by_itself

        left = _budget(settings, request) - elapsed
        prune_by_itself(repo, settings, result.id or "", left)


def _is_in_burst(repo: Repository) -> bool:
    """Whether a trigger was here just now, which told of the same settings."""
    from ckpt.git.trigger_log import TriggerLog

    log, since = TriggerLog(repo.private_dir, TRIGGERS), time() - _BURST
    last = [log.read(name).success for name in TRIGGERS]
    return any(success is not None and success.at >= since for success in last)


def _partial(result: SaveResult, trigger: str) -> tuple[str, ...]:
    if result.outcome is not Outcome.PARTIAL:
        return ()
    why = ""
    if result.reason == "budget":
        setting = "guardBudget" if trigger in _WITH_GUARD_BUDGET else "hookBudget"
        why = f"untracked files are missing, the time was up (ckpt.{setting}); "
    return (f"checkpoint {result.id} is partial: {why}see 'git ckpt show {result.id}'",)


def _left_out(result: SaveResult, trigger: str) -> tuple[str, ...]:
    """Before a command that removes files it matters that some are more than the limits allow."""
    if trigger not in _WITH_GUARD_BUDGET or result.outcome is not Outcome.CREATED:
        return ()
    assert result.checkpoint is not None
    over = sum(skipped.reason == "budget" for skipped in result.checkpoint.skipped)
    if not over:
        return ()
    limits = "ckpt.maxNewFiles, ckpt.maxNewBytes"
    return (f"checkpoint {result.id} lacks untracked files, over the limits ({limits})",)


def _budget(settings: Settings, request: Request) -> float:
    for_guard = request.trigger in _WITH_GUARD_BUDGET
    return settings.guard_budget if for_guard else settings.hook_budget


def _engine_save(repo: Repository, settings: Settings, request: Request) -> SaveResult:
    from ckpt.engine.snapshot import SaveRequest, save

    budget = _budget(settings, request)
    wanted = SaveRequest(
        kind=request.kind,
        trigger=request.trigger,
        session=request.session or session_of_env(repo.env),
    )
    if request.recurse:
        from ckpt.engine import recurse

        return recurse.save(repo, settings, wanted, budget=budget)
    complete = request.complete
    return save(
        repo,
        settings,
        wanted,
        budget=budget,
        complete=None if complete is None else lambda present: complete(repo, present),
    )


def _skipped(reason: str) -> Fired:
    return Fired(SaveResult(Outcome.SKIPPED, reason=reason))


def _note_success(repo: Repository, trigger: str, result: SaveResult, seconds: float) -> None:
    from ckpt.git.trigger_log import Success, TriggerLog

    log = TriggerLog(repo.private_dir, TRIGGERS)
    log.note_success(trigger, Success(time(), seconds, str(result.outcome), result.id or ""))


def _failed(
    error: Exception,
    repo: Repository | None,
    request: Request,
    *,
    blocks: bool = False,
    what: str = "no checkpoint was taken",
) -> Fired:
    # An id in it would make each failure one of its own.
    message = ids.PATTERN.sub("ID", _message(error, repo))
    if repo is None:
        is_new = True
    else:
        from ckpt.git.trigger_log import TriggerLog

        log, now = TriggerLog(repo.private_dir, TRIGGERS), time()
        is_new = not any(log.told(name, message, now - _BURST) for name in TRIGGERS)
        log.note_failure(request.trigger, now, message)
    warnings = (f"{what}: {message}",) if is_new or blocks else ()
    return Fired(SaveResult(Outcome.FAILED, reason=message), warnings, blocks)


def _place(path: object, repo: Repository | None) -> str:
    """Where something failed; of a file in the git dir, whose name may be one for the moment,
    only which part that is: else the same failure would have another name each time."""
    if not isinstance(path, str | bytes):
        return ""
    name = os.fsdecode(path)
    for folder in () if repo is None else (repo.git_dir, repo.common_dir):
        start = os.path.join(folder, "")
        if name.startswith(start):
            return start + name[len(start) :].partition("/")[0]
    return name


def _message(error: Exception, repo: Repository | None) -> str:
    if isinstance(error, CkptError):
        return error.message
    if isinstance(error, OSError) and error.strerror:
        place = None if error.filename is None else _place(error.filename, repo)
        return f"'{place}': {error.strerror}" if place else error.strerror
    from ckpt.crash import report

    start, env = (".", {}) if repo is None else (repo.worktree, repo.env)
    told = report(error, [], start, env)
    return f"{told.message} ({told.hint})"
