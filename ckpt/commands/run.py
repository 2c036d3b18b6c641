# SPDX-License-Identifier: MIT
"""`git ckpt run`: take a checkpoint, run a command, and on request roll back if it fails.

The command runs only if the checkpoint succeeds, and its exit code is ours. The report follows
on standard error. A rollback reverts everything since the checkpoint, HEAD included. Later
failures are reported without changing the exit code.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from functools import partial
from time import monotonic, sleep
from typing import NamedTuple

from ckpt import documents, ids
from ckpt.api.blocks import return_to, save_before
from ckpt.cli import Context
from ckpt.engine import diff, rollback  # noqa: F401  # imported before the command can change it
from ckpt.errors import CkptError, UsageError, as_ckpt_error
from ckpt.manager import CheckpointManager
from ckpt.models import Checkpoint, DiffResult, GitState, Kind, RollbackResult
from ckpt.render import kept, quoted, stats_text, warnings
from ckpt.settings.settings import SESSION, session_of_env
from ckpt.settings.sources import DURATION

_TRIGGER = "run"
_GRACE = 10.0  # seconds from SIGTERM to SIGKILL
_POLL = 0.02
_TIMED_OUT = 124
_FROM_TERMINAL = (signal.SIGINT, signal.SIGQUIT)
_FORWARDED = (*_FROM_TERMINAL, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


class CannotRun(CkptError):
    exit_code = 127


class Moved(NamedTuple):
    """HEAD before and after the command."""

    before: GitState
    after: GitState


class RunResult(NamedTuple):
    """The result of a command; `changed` is None if unknown, `head` if it did not move, and
    `problems` are failures after the command ended."""

    command: Sequence[str]
    exit_code: int
    signal: int | None
    timed_out: bool
    checkpoint: Checkpoint
    changed: DiffResult | None
    head: Moved | None
    rollback: RollbackResult | None
    problems: Sequence[CkptError]

    @property
    def rollback_command(self) -> str:
        return f"git ckpt rollback --head {self.checkpoint.id}"


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = (
        "git ckpt run [--name N] [--on-failure rollback|keep] [--timeout S]\n"
        "                    -- COMMAND [ARGUMENTS]"
    )
    add = parser.add_argument
    add("--name", metavar="N", help="name of the checkpoint before")
    what = "what becomes of its work if it fails (default: keep)"
    add("--on-failure", choices=["rollback", "keep"], help=what)
    add("--timeout", type=seconds, metavar="S", help="end it after S seconds, or 90m, or 2h")


def seconds(text: str) -> float:
    """Read a number of seconds, or one with a unit."""
    found = DURATION.read(text if text[-1:].isalpha() else text + "s")
    if not isinstance(found, float):
        raise ValueError(text)
    return found


def run(
    context: Context,
    name: str | None = None,
    on_failure: str = "keep",
    timeout: float | None = None,
    words: Sequence[str] = (),
) -> int:
    if not words:
        hint = "for example: git ckpt run --on-failure rollback -- make test"
        raise UsageError("no command after '--'", hint=hint)
    _check(words[0], context)
    manager = context.manager
    before = _save_before(context, manager, name)
    manager.close()  # the command may remove packs that are open
    start = partial(_start, context, words, before.session or "", timeout)
    with _forwarding(start) as child:
        status, timed_out = child.wait(timeout)
        died_of = -status if status < 0 else None
        code = _TIMED_OUT if timed_out else 128 + died_of if died_of else status
        changed = head = done = None
        problems: list[CkptError] = []
        if context.output.as_json or not context.output.quiet:
            with _noting(problems, "cannot tell what changed"):
                changed = manager.diff(before, patch=False)
                head = _moved(manager, before)
        if on_failure == "rollback" and code != 0:
            with _noting(problems, "not rolled back"):
                done = return_to(manager, before)
        ended = (words, code, died_of, timed_out)
        result = RunResult(*ended, before, changed, head, done, problems)
        if context.output.as_json:
            context.output.document(documents.of(result))
        else:
            for row in _summary(result):
                context.output.note(row)
            for problem in problems:
                context.output.error(problem)
        sys.stdout.flush()
        sys.stderr.flush()
        if died_of is not None and not timed_out:
            if died_of != signal.SIGKILL:
                signal.signal(died_of, signal.SIG_DFL)
            os.kill(os.getpid(), died_of)  # so that our caller sees the same signal
    return code


def _check(word: str, context: Context) -> None:
    """Refuse a command that cannot be run."""
    path = os.path.join(context.start, word) if "/" in word else word
    if not shutil.which(path, path=context.env.get("PATH", os.defpath)):
        hint = "name a program to run after '--'"
        raise CannotRun(f"'{word}' was not found, or is not executable", hint=hint)


def _save_before(context: Context, manager: CheckpointManager, name: str | None) -> Checkpoint:
    context.warn(manager.settings.notes)
    session = session_of_env(context.env)
    if session is None:
        session = "run-" + ids.new_id(datetime.now(timezone.utc), None)
    before = save_before(manager, name, kind=Kind.SESSION, session=session, trigger=_TRIGGER)
    assert before is not None  # this manager is enabled
    if before.partial:
        context.warn([f"checkpoint {before.id} is partial: see 'git ckpt show {before.id}'"])
    context.output.clear()
    return before


class _Child(NamedTuple):
    """The running command. With a time limit it leads a process group, which ends with it; at a
    terminal it stays in our group, to read what is typed, and ends alone."""

    process: subprocess.Popen[bytes]
    is_group: bool

    def wait(self, timeout: float | None) -> tuple[int, bool]:
        """Return its exit code, or its signal as a negative number, and whether it timed out."""
        try:
            return self.process.wait(timeout), False
        except subprocess.TimeoutExpired:
            due = monotonic() + _GRACE
        self.send(signal.SIGTERM)
        while self.send(0) and monotonic() < due:
            self.process.poll()
            sleep(_POLL)
        self.send(signal.SIGKILL)
        return self.process.wait(), True

    def send(self, number: int) -> bool:
        """Send a signal to the command or its group; return False if it has ended."""
        if self.process.returncode is not None and not self.is_group:
            return False
        try:
            os.kill(-self.process.pid if self.is_group else self.process.pid, number)
        except (ProcessLookupError, PermissionError):  # ended, or now of another user
            return False
        return True


def _start(context: Context, words: Sequence[str], session: str, timeout: float | None) -> _Child:
    is_group = timeout is not None and not os.isatty(0)
    try:
        process = subprocess.Popen(
            words,
            cwd=context.start,
            env={**context.env, SESSION: session},
            # Standard output is reserved for the JSON document.
            stdout=sys.stderr.fileno() if context.output.as_json else None,
            close_fds=False,  # make, for example, passes some to its children
            start_new_session=is_group,
        )
    except OSError as error:
        hint = "a script needs a first line such as '#!/bin/sh'"
        raise CannotRun(f"cannot run '{words[0]}': {error.strerror}", hint=hint) from None
    return _Child(process, is_group)


@contextmanager
def _forwarding(start: Callable[[], _Child]) -> Iterator[_Child]:
    """Start the command, and forward signals to it."""
    child: _Child | None = None
    early: list[int] = []

    def forward(number: int, _: object) -> None:
        if child is None:
            early.append(number)
        elif number not in _FROM_TERMINAL or child.is_group or not _is_foreground():
            child.send(number)

    # Ignored signals stay ignored for the command too, as under `nohup`.
    handled = [each for each in _FORWARDED if signal.getsignal(each) is not signal.SIG_IGN]
    before = {number: signal.signal(number, forward) for number in handled}
    try:
        child = start()
        for number in early:
            child.send(number)
        yield child
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_foreground() -> bool:
    """Return whether our process group is in the foreground of the terminal."""
    try:
        with open("/dev/tty", "rb", buffering=0) as terminal:
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:
        return False


# -- After the command


@contextmanager
def _noting(problems: list[CkptError], failure: str) -> Iterator[None]:
    """Collect any failure after the command, so that the next step still runs."""
    try:
        yield
    except Exception as error:  # the command has run: nothing may hide its result
        problem = as_ckpt_error(error)
        problem.message = f"{failure}: {problem.message}"
        problems.append(problem)


def _moved(manager: CheckpointManager, before: Checkpoint) -> Moved | None:
    then = GitState(before.head_commit, before.branch)
    now = manager.repository.refs.head().state
    return None if then == now else Moved(then, now)


def _summary(result: RunResult) -> Iterator[str]:
    """Report a failure, the changes, and the command to type next."""
    word = quoted(result.command[0])
    if result.timed_out:
        yield f"ckpt: '{word}' timed out"
    elif result.signal is not None:
        yield f"ckpt: '{word}' died of signal {result.signal}"
    elif result.exit_code != 0:
        yield f"ckpt: '{word}' failed with exit code {result.exit_code}"
    if result.changed is not None:
        files = result.changed.files
        what = stats_text(result.changed.stats) if files else "no files changed"
        yield f"ckpt: {what} since checkpoint {result.checkpoint.id}"
    if result.head is not None:
        yield f"  HEAD went from {_place(result.head.before)} to {_place(result.head.after)}"
    done = result.rollback
    if done is not None:
        if done.changed or done.skipped:
            verb = "rolled back" if done.changed else "not rolled back"
            yield f"ckpt: {verb} to checkpoint {done.target.id}"
        yield from (f"  {line}" for line in warnings(done))
        yield from kept(done)
        if done.undo_command is not None:
            yield f"  bring its work back with: {done.undo_command}"
    elif result.changed is None or result.changed.files or result.head is not None:
        yield f"  go back with: {result.rollback_command}"


def _place(state: GitState) -> str:
    commit = (state.commit_hash or "unborn")[:12]
    return commit if state.branch is None else f"{state.branch} ({commit})"
