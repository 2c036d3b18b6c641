# SPDX-License-Identifier: MIT
"""A checkpoint that a trigger takes: it never gets in the way of git, pre-commit or an agent.

Errors are returned, not raised. Broken settings count as the defaults, a busy repository is
waited for no longer than the trigger's time budget, and every outcome is noted for `status`.
What is to be printed comes back as warnings; whether the command in progress should stop is in
`Fired.blocks`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import monotonic, time
from typing import TYPE_CHECKING, NamedTuple

from ckpt import ids
from ckpt.errors import Busy, CkptError
from ckpt.git.repository import NotARepository, Repository, TooBroad, discover
from ckpt.git.trigger_log import Success, TriggerLog
from ckpt.models import Kind, Outcome, SaveResult
from ckpt.settings.settings import Settings, disabled_by_env, load_forgiving, session_of_env
from ckpt.settings.sources import TRIGGERS

if TYPE_CHECKING:
    from ckpt.engine.present import Present

# Seconds in which the same failure, or wrong setting, is reported once by several triggers.
_BURST = 10.0
_WITH_GUARD_BUDGET = ("guard", "wrapper")
_STORES = ("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES")


class Fired(NamedTuple):
    """What became of a trigger, what to tell of it, and whether the command should stop."""

    result: SaveResult
    warnings: tuple[str, ...] = ()
    blocks: bool = False


class Request(NamedTuple):
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
    done = _run(start, env, request, "no checkpoint was taken", _save)
    assert done is not None, "a save has an outcome"
    return done


def fire_other(
    start: str, env: Mapping[str, str], trigger: str, work: Callable[[Repository], None]
) -> Fired | None:
    """Do something else than save for a trigger, with the same care; None if it was done."""

    def do(repo: Repository, settings: Settings, request: Request) -> None:
        work(repo)

    return _run(start, env, Request(trigger), f"{trigger} did nothing", do)


def _run(
    start: str,
    env: Mapping[str, str],
    request: Request,
    otherwise: str,
    work: Callable[[Repository, Settings, Request], Fired | None],
) -> Fired | None:
    if disabled_by_env(env, request.trigger):
        return _skipped("disabled")
    repo, blocks = None, False
    try:
        try:
            repo = _discover(start, env, request)
        except NotARepository:
            return _skipped("no-repository")
        except TooBroad as error:
            return Fired(SaveResult(Outcome.SKIPPED, reason="too-broad"), (error.message,))
        with repo:
            settings = load_forgiving(repo)
            if not settings.allows(request.trigger):
                return _skipped("disabled")
            blocks = settings.on_error == "block"
            return work(repo, settings, request)
    except NothingToSave:
        return _skipped("clean")
    except Exception as error:  # a trigger never stops what it guards
        return _failed(error, repo, request, otherwise, blocks)


def _discover(start: str, env: Mapping[str, str], request: Request) -> Repository:
    repo = discover(start, _own(env))
    if repo.index_path != os.path.join(repo.git_dir, "index"):
        repo = discover(start, _own(env, "GIT_INDEX_FILE"))
    if request.is_stranger:
        from ckpt.engine.nested import as_stranger

        repo = as_stranger(repo)
    return repo


def _own(env: Mapping[str, str], *others: str) -> Mapping[str, str]:
    """The environment without the temporary stores and index of a tool: the ref of a checkpoint
    is in the repository, so its objects must be; and its index is the user's."""
    if not env.get("GIT_QUARANTINE_PATH"):
        others = (*others, *_STORES)
    return {name: value for name, value in env.items() if name not in others}


def _save(repo: Repository, settings: Settings, request: Request) -> Fired:
    from ckpt.engine.snapshot import SaveRequest, count_save, save

    started = monotonic()
    repo.check_writable()
    for_guard = request.trigger in _WITH_GUARD_BUDGET
    budget = settings.guard_budget if for_guard else settings.hook_budget
    session = request.session or session_of_env(repo.env)
    wanted = SaveRequest(kind=request.kind, trigger=request.trigger, session=session)
    if request.recurse:
        from ckpt.engine import recurse

        result = recurse.save(repo, settings, wanted, budget=budget)
    else:
        complete = request.complete
        add = None if complete is None else lambda present: complete(repo, present)
        result = save(repo, settings, wanted, budget=budget, complete=add)
    notes = settings.notes if settings.notes and not _is_in_burst(repo) else ()
    elapsed = monotonic() - started
    success = Success(time(), elapsed, str(result.outcome), result.id or "")
    TriggerLog(repo.private_dir, TRIGGERS).note_success(request.trigger, success)
    is_new = result.outcome in (Outcome.CREATED, Outcome.PARTIAL)
    if is_new and count_save(repo.private_dir):
        from ckpt.engine.prune import prune_by_itself

        prune_by_itself(repo, settings, result.id or "", budget - elapsed)
    return Fired(result, (*notes, *_gaps(result, for_guard)))


def _is_in_burst(repo: Repository) -> bool:
    """Whether a trigger fired just now, which reported the same settings."""
    log, since = TriggerLog(repo.private_dir, TRIGGERS), time() - _BURST
    last = [log.read(name).success for name in TRIGGERS]
    return any(success is not None and success.at >= since for success in last)


def _gaps(result: SaveResult, for_guard: bool) -> Iterator[str]:
    """What the checkpoint lacks that the user should know of now."""
    if result.outcome is Outcome.PARTIAL:
        why = ""
        if result.reason == "budget":
            setting = "guardBudget" if for_guard else "hookBudget"
            why = f"untracked files are missing, the time was up (ckpt.{setting}); "
        yield f"checkpoint {result.id} is partial: {why}see 'git ckpt show {result.id}'"
    yield from result.warnings
    saved = result.checkpoint if result.outcome is Outcome.CREATED else None
    # Before a command that removes files it matters that some are over the limits.
    if for_guard and saved and any(skipped.reason == "budget" for skipped in saved.skipped):
        limits = "ckpt.maxNewFiles, ckpt.maxNewBytes"
        yield f"checkpoint {result.id} lacks untracked files, over the limits ({limits})"


def _skipped(reason: str) -> Fired:
    return Fired(SaveResult(Outcome.SKIPPED, reason=reason))


def _failed(
    error: Exception, repo: Repository | None, request: Request, otherwise: str, blocks: bool
) -> Fired:
    # An id in it would make each failure one of its own.
    message = ids.PATTERN.sub("ID", _message(error, repo))
    is_new = True
    if repo is not None:
        log, now = TriggerLog(repo.private_dir, TRIGGERS), time()
        is_new = not any(log.told(name, message, now - _BURST) for name in TRIGGERS)
        log.note_failure(request.trigger, now, message)
    warnings = (f"{otherwise}: {message}",) if is_new or blocks else ()
    if isinstance(error, Busy):
        return Fired(SaveResult(Outcome.SKIPPED, reason="busy"), warnings, blocks)
    return Fired(SaveResult(Outcome.FAILED, reason=message), warnings, blocks)


def _message(error: Exception, repo: Repository | None) -> str:
    if isinstance(error, CkptError):
        return error.message
    if isinstance(error, OSError) and error.strerror:
        place = _place(error.filename, repo)
        return f"'{place}': {error.strerror}" if place else error.strerror
    start, env = (".", {}) if repo is None else (repo.worktree, repo.env)
    told = unexpected(error, [], start, env)
    return f"{told.message} ({told.hint})"


def _place(path: object, repo: Repository | None) -> str:
    """Where something failed: of a temporary file in the git dir, the folder below that."""
    name = os.fsdecode(path) if isinstance(path, str | bytes) else ""
    for folder in () if repo is None else (repo.git_dir, repo.common_dir):
        start = os.path.join(folder, "")
        if name.startswith(start):
            return start + name[len(start) :].partition("/")[0]
    return name


def unexpected(
    error: Exception, words: Sequence[str], start: str, env: Mapping[str, str]
) -> CkptError:
    """A bug of ckpt: one line to show; the rest goes into a log among the private files."""
    import sys
    import traceback

    from ckpt import __version__, disk

    text = "\n".join(
        [
            f"git-ckpt {__version__}, Python {sys.version.split()[0]}, {sys.platform}",
            f"words: {list(words)!r}",
            *traceback.format_exception(error),
        ]
    )
    hint = "this is a bug in ckpt; please report it"
    try:
        path = os.path.join(discover(start, env).private_dir, "error.log")
        disk.replace(path, text.encode("utf-8", "backslashreplace"))
        hint += f" with '{path}'"
    except Exception:  # no place for a log, or the same bug once more
        pass
    return CkptError(f"unexpected {type(error).__name__}: {error}", hint=hint)
