# SPDX-License-Identifier: MIT
"""Checkpoints taken by triggers, which never interrupt git, pre-commit or an agent.

Errors are returned, not raised. Invalid settings fall back to the defaults, a busy repository is
waited for within the trigger's time budget, and every outcome is logged for `status`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import monotonic, time
from typing import TYPE_CHECKING, NamedTuple

from ckpt.engine.trigger_log import Success, TriggerLog
from ckpt.errors import Busy, CkptError, as_ckpt_error
from ckpt.git.repository import NotARepository, Repository, TooBroad, discover
from ckpt.models import Kind, Outcome, SaveResult
from ckpt.settings.settings import Settings, disabled_by_env, load_forgiving, session_of_env

if TYPE_CHECKING:
    from ckpt.engine.working_state import Present

_WITH_GUARD_BUDGET = ("guard", "wrapper")
_TEMPORARY = ("GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES")


class Fired(NamedTuple):
    """The result of a trigger, its warnings, and whether to stop the command."""

    result: SaveResult
    warnings: tuple[str, ...] = ()
    blocks: bool = False


class Request(NamedTuple):
    """Which trigger fires, and how. `complete` may add to the state to save. `is_stranger`: found
    by the path of a file, so no program from the repository's configuration is run."""

    trigger: str
    kind: Kind = Kind.HOOK
    session: str | None = None
    recurse: bool = False
    is_stranger: bool = False
    complete: Callable[[Repository, Present], Present] | None = None


class NothingToSave(Exception):
    """Raised by `complete` if the state needs no checkpoint."""


def fire(
    start: str,
    env: Mapping[str, str],
    request: Request,
    work: Callable[[Repository, Settings], None] | None = None,
) -> Fired:
    """Take a checkpoint of the worktree at `start`, or do `work` instead, without raising."""
    if disabled_by_env(env, request.trigger):
        return skipped("disabled")
    repo, blocks = None, False
    try:
        with find_repository(start, env, request) as repo:
            settings = load_forgiving(repo)
            if not settings.allows(request.trigger):
                return skipped("disabled")
            blocks = settings.on_error == "block"
            if work is None:
                return _save(repo, settings, request)
            work(repo, settings)
            return skipped("needless")
    except NotARepository:
        return skipped("no-repository")
    except TooBroad as error:
        return Fired(SaveResult.skipped("too-broad"), (error.message,))
    except NothingToSave:
        return skipped("clean")
    except Exception as error:  # a trigger must not interrupt the command
        otherwise = "no checkpoint was taken" if work is None else f"{request.trigger} did nothing"
        return _failed(error, repo, request, otherwise, blocks)


def find_repository(start: str, env: Mapping[str, str], request: Request) -> Repository:
    """Open the repository at `start`, ignoring the temporary index and object directories of a
    git command: a checkpoint's objects must be where its ref is."""
    repo = discover(start, {name: env[name] for name in env if name not in _TEMPORARY})
    if request.is_stranger:
        from ckpt.engine.nested import as_stranger

        repo = as_stranger(repo)
    return repo


def _save(repo: Repository, settings: Settings, request: Request) -> Fired:
    from ckpt.engine.snapshot import SaveRequest, count_save, save

    started = monotonic()
    for_guard = request.trigger in _WITH_GUARD_BUDGET
    budget = settings.guard_budget if for_guard else settings.hook_budget
    session = request.session or session_of_env(repo.env)
    wanted = SaveRequest(kind=request.kind, trigger=request.trigger, session=session)
    if request.recurse:
        from ckpt.engine import nested

        result = nested.save(repo, settings, wanted, budget=budget)
    else:
        complete = request.complete
        add = None if complete is None else lambda present: complete(repo, present)
        result = save(repo, settings, wanted, budget=budget, complete=add)
    elapsed = monotonic() - started
    success = Success(time(), elapsed, str(result.outcome), result.id or "")
    TriggerLog(repo.private_dir).note_success(request.trigger, success)
    if count_save(repo.private_dir, result):
        from ckpt.engine.trash import prune_by_itself

        prune_by_itself(repo, settings, result.id or "", budget - elapsed)
    return Fired(result, (*settings.notes, *_gaps(result, for_guard)))


def _gaps(result: SaveResult, for_guard: bool) -> Iterator[str]:
    """Yield warnings about files missing from the checkpoint."""
    if result.outcome is Outcome.PARTIAL:
        why = ""
        if result.reason == "budget":
            setting = "guardBudget" if for_guard else "hookBudget"
            why = f"untracked files are missing, the time was up (ckpt.{setting}); "
        yield f"checkpoint {result.id} is partial: {why}see 'git ckpt show {result.id}'"
    yield from result.warnings
    saved = result.checkpoint if result.outcome is Outcome.CREATED else None
    # Files over the limits matter before a command that removes files.
    if for_guard and saved and any(skipped.reason == "budget" for skipped in saved.skipped):
        limits = "ckpt.maxNewFiles, ckpt.maxNewBytes"
        yield f"checkpoint {result.id} lacks untracked files, over the limits ({limits})"


def skipped(reason: str) -> Fired:
    """Return the result of a trigger that did nothing."""
    return Fired(SaveResult.skipped(reason))


def _failed(
    error: Exception, repo: Repository | None, request: Request, otherwise: str, blocks: bool
) -> Fired:
    message = _message(error, repo)
    if repo is not None:
        TriggerLog(repo.private_dir).note_failure(request.trigger, time(), message)
    warnings = (f"{otherwise}: {message}",)
    if isinstance(error, Busy):
        return Fired(SaveResult.skipped("busy"), warnings, blocks)
    return Fired(SaveResult.failed(message), warnings, blocks)


def _message(error: Exception, repo: Repository | None) -> str:
    if isinstance(error, CkptError | OSError):
        return as_ckpt_error(error).message
    start, env = (".", {}) if repo is None else (repo.worktree, repo.env)
    told = unexpected(error, [], start, env)
    return f"{told.message} ({told.hint})"


def unexpected(
    error: Exception, words: Sequence[str], start: str, env: Mapping[str, str]
) -> CkptError:
    """Return a one-line error for a bug in ckpt, and write the traceback to `error.log`."""
    import sys
    import traceback

    from ckpt import __version__, disk

    text = f"git-ckpt {__version__}, Python {sys.version.split()[0]}, {sys.platform}\n"
    text += "".join([f"words: {list(words)!r}\n", *traceback.format_exception(error)])
    hint = "this is a bug in ckpt; please report it"
    try:
        path = os.path.join(discover(start, env).private_dir, "error.log")
        disk.replace(path, text.encode("utf-8", "backslashreplace"))
        hint += f" with '{path}'"
    except Exception:  # nowhere to write a log, or the same bug again
        pass
    return CkptError(f"unexpected {type(error).__name__}: {error}", hint=hint)
