# SPDX-License-Identifier: MIT
"""A trigger saves if it can, says so if it cannot, and is never in anybody's way."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from byhand import worktree
from helpers import Ran, ckpt, git
from saving import committed, write_all
from seam import failing

from ckpt.disk import worktree_lock
from ckpt.engine.trigger_log import TriggerLog, TriggerNotes
from ckpt.models import Kind, Outcome
from ckpt.triggers.fire import Fired, Request, fire

NO_TIME = "0.000000001s"


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A worktree in which a file is changed and one is new."""
    made = committed(tmp_path / "repo", {"a": b"first\n"})
    write_all(made, {"a": b"edited\n", "new": b"new\n"})
    return made


def fired(top: Path, trigger: str = "pre-commit", **env: str) -> Fired:
    return fire(str(top), {**os.environ, **env}, Request(trigger))


def notes(top: Path, trigger: str = "pre-commit") -> TriggerNotes:
    return TriggerLog(str(top / ".git/ckpt")).read(trigger)


def refs(top: Path) -> list[str]:
    return git("for-each-ref", "--format=%(refname)", "refs/checkpoints", cwd=top).split()


# -- when all is well ------------------------------------------------------------------


def test_a_checkpoint_is_taken_and_noted_and_nothing_is_said(top: Path) -> None:
    answer = fired(top)
    made = answer.result.checkpoint

    assert made is not None
    assert (made.kind, made.trigger) == (Kind.HOOK, "pre-commit")
    assert (answer.result.outcome, answer.warnings, answer.blocks) == (Outcome.CREATED, (), False)
    found = notes(top)
    assert found.success is not None and found.failure is None
    assert (found.success.outcome, found.success.id) == ("created", made.id)
    assert refs(top) == [made.ref]


def test_a_burst_of_triggers_on_one_state_leaves_one_checkpoint(top: Path) -> None:
    answers = [fired(top, trigger) for trigger in ("guard", "pre-commit", "post-checkout")]

    outcomes = [answer.result.outcome for answer in answers]
    assert outcomes == [Outcome.CREATED, Outcome.UNCHANGED, Outcome.UNCHANGED]
    assert len({answer.result.id for answer in answers}) == len(refs(top)) == 1


def test_session_and_kind_are_those_that_were_asked_for(top: Path) -> None:
    request = Request("claude-code", Kind.AUTO, session="s1")
    made = fire(str(top), dict(os.environ), request).result.checkpoint

    assert made is not None
    assert (made.kind, made.session, made.trigger) == (Kind.AUTO, "s1", "claude-code")


# -- turned off ------------------------------------------------------------------------


@pytest.mark.parametrize("words", ["1", "true", "all", "pre-commit", "guard:pre-commit"])
def test_the_environment_turns_a_trigger_off(words: str, top: Path) -> None:
    answer = fired(top, CKPT_DISABLE=words)

    assert (answer.result.outcome, answer.result.reason) == (Outcome.SKIPPED, "disabled")
    assert (answer.warnings, refs(top), notes(top)) == ((), [], TriggerNotes())


@pytest.mark.parametrize("words", ["", "0", "false", "guard", "pre-push:post-checkout"])
def test_the_environment_turns_off_no_other_trigger(words: str, top: Path) -> None:
    assert fired(top, CKPT_DISABLE=words).result.outcome is Outcome.CREATED


@pytest.mark.parametrize(
    ("key", "value", "is_off"),
    [
        ("ckpt.disable", "pre-commit", True),
        ("ckpt.disable", "all", True),
        ("ckpt.disable", "guard", False),
        ("ckpt.enabled", "false", True),
        ("ckpt.enabled", "true", False),
    ],
)
def test_configuration_turns_triggers_off(key: str, value: str, is_off: bool, top: Path) -> None:
    git("config", key, value, cwd=top)
    answer = fired(top)

    assert (answer.result.reason == "disabled") is is_off
    assert len(refs(top)) == (not is_off)


@pytest.mark.parametrize("text", ["enabled = false\n", 'disable = ["all"]\n'])
def test_a_repository_cannot_turn_its_own_triggers_off(text: str, top: Path) -> None:
    write_all(top, {"ckpt.toml": text.encode()})
    answer = fired(top)

    assert answer.result.outcome is Outcome.CREATED
    assert len(answer.warnings) == 1 and "is ignored" in answer.warnings[0]


def test_what_is_turned_off_by_the_environment_looks_at_nothing(tmp_path: Path) -> None:
    assert fired(tmp_path / "nowhere", CKPT_DISABLE="1").result.reason == "disabled"


# -- settings --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "files",
    [
        {"ckpt.toml": b"speed = 7\n"},
        {"ckpt.toml": b"max_file_size = [\n"},
        {"ckpt.toml": b"\xff\xfe"},
        {"pyproject.toml": b"[tool.ckpt]\nhook_budget = 3\n"},
        {"ckpt.toml": b"", "pyproject.toml": b'[tool.ckpt]\ndeny = ["x"]\n'},
    ],
)
def test_broken_settings_count_as_the_defaults_and_are_warned_of(
    files: dict[str, bytes], top: Path
) -> None:
    write_all(top, files)
    answer = fired(top)

    assert answer.result.outcome is Outcome.CREATED
    (warning,) = answer.warnings
    assert warning.startswith("settings ignored: ")


@pytest.mark.parametrize("env", [{"CKPT_HOOK_BUDGET": "soon"}, {"CKPT_ON_ERROR": "explode"}])
def test_a_broken_variable_counts_as_the_default_too(env: dict[str, str], top: Path) -> None:
    answer = fired(top, **env)

    assert answer.result.outcome is Outcome.CREATED
    assert next(iter(env)) in answer.warnings[0]


# -- time ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variable", "setting", "short", "others"),
    [
        ("CKPT_HOOK_BUDGET", "ckpt.hookBudget", ["pre-commit", "claude-code"], ["guard"]),
        ("CKPT_GUARD_BUDGET", "ckpt.guardBudget", ["guard", "wrapper"], ["pre-push"]),
    ],
)
def test_each_trigger_has_the_time_that_its_setting_gives(
    variable: str, setting: str, short: list[str], others: list[str], top: Path
) -> None:
    for trigger in short:
        write_all(top, {"a": trigger.encode()})
        answer = fired(top, trigger, **{variable: NO_TIME})
        assert answer.result.outcome is Outcome.PARTIAL
        (warning,) = answer.warnings
        assert setting in warning and f"git ckpt show {answer.result.id}" in warning
    for trigger in others:
        assert fired(top, trigger, **{variable: NO_TIME}).result.outcome is Outcome.CREATED


def test_what_changed_and_was_not_read_for_want_of_time_is_not_called_unchanged(top: Path) -> None:
    first = fired(top, CKPT_HOOK_BUDGET=NO_TIME)
    write_all(top, {"new": b"changed since\n"})
    second = fired(top, CKPT_HOOK_BUDGET=NO_TIME)

    assert (second.result.outcome, second.result.reason) == (Outcome.PARTIAL, "budget")
    assert second.warnings == first.warnings != ()
    assert len(refs(top)) == 1


def test_a_worktree_that_is_being_rolled_back_is_not_waited_for_longer(top: Path) -> None:
    with worktree_lock(str(top / ".git/ckpt"), exclusive=True, timeout=0):
        answer = fired(top, CKPT_HOOK_BUDGET=NO_TIME)

    assert (answer.result.outcome, answer.result.reason) == (Outcome.SKIPPED, "busy")
    (warning,) = answer.warnings
    assert warning.startswith("no checkpoint was taken: another ckpt command is at work")
    assert notes(top).is_failing and not answer.blocks


# -- what goes wrong -------------------------------------------------------------------


def test_where_there_is_no_repository_there_is_nothing_to_do(tmp_path: Path) -> None:
    answer = fired(tmp_path)

    assert (answer.result.reason, answer.warnings) == ("no-repository", ())


def test_the_home_folder_is_too_broad(isolated: Path) -> None:
    worktree(isolated)
    answer = fired(isolated)

    assert (answer.result.outcome, answer.result.reason) == (Outcome.SKIPPED, "too-broad")
    assert len(answer.warnings) == 1


def test_a_failure_is_warned_of_and_noted_each_time(top: Path) -> None:
    fired(top)  # after which there is a log, as on a disk that has become full
    write_all(top, {"a": b"again\n"})
    with failing("create", "write"):
        told = [fired(top, trigger).warnings for trigger in ("guard", "pre-commit", "pre-commit")]
        told.append(fired(top).warnings)

    for (warning,) in told:
        assert warning.startswith(f"no checkpoint was taken: '{top / '.git'}")
        assert warning.endswith(": No space left on device")
    found = notes(top)
    assert found.is_failing and found.failure is not None
    assert found.failure.times == 3
    assert len(refs(top)) == 1


def test_a_failure_can_be_made_to_stop_the_command(top: Path) -> None:
    fired(top)
    write_all(top, {"a": b"again\n"})
    with failing("create", "write"):
        answers = [fired(top, CKPT_ON_ERROR="block") for _ in range(2)]
        assert not fired(top, CKPT_ON_ERROR="warn").blocks

    # Each time the reason is told: a command that stops without one helps nobody.
    assert [(answer.blocks, len(answer.warnings)) for answer in answers] == [(True, 1)] * 2
    assert not fired(top, CKPT_ON_ERROR="block").blocks


@pytest.mark.parametrize(
    ("path", "content"),
    [
        (".git/HEAD", b"ref: refs/heads/main"),
        (".git/HEAD", b"\xff" * 100),
        (".git/index", b"no index at all"),
        (".git/index", b"DIRC\0\0\0\2\0\0\xff\xff"),
        (".git/config", b"[core\n"),
        (".git/config", b"[core]\n\trepositoryformatversion = 99\n"),
        (".git/refs/heads/main", b"not an id\n"),
        (".git/packed-refs", b"\0\0\0"),
        (".git/info/exclude", b"[[[\\\n\xff/**/**/["),
        (".git/ckpt", b"a file where a folder should be"),
        (".git/objects/info/alternates", b"/nowhere\n\xff\n"),
    ],
)
def test_whatever_a_repository_holds_nothing_is_raised(
    path: str, content: bytes, top: Path
) -> None:
    write_all(top, {path: content})
    answer = fired(top)

    assert isinstance(answer, Fired) and not answer.blocks
    assert answer.result or answer.warnings or answer.result.reason == "no-repository"
    assert not any("this is a bug" in warning for warning in answer.warnings)


def _patched(target: str, error: BaseException) -> Callable[[pytest.MonkeyPatch], None]:
    def broken(*_: Any, **__: Any) -> Any:
        raise error

    return lambda patch: patch.setattr(target, broken)


@pytest.mark.parametrize(
    "error", [RuntimeError("odd"), RecursionError(), MemoryError(), AssertionError(), KeyError(1)]
)
@pytest.mark.parametrize(
    "target",
    [
        "ckpt.triggers.fire.discover",
        "ckpt.triggers.fire.load_forgiving",
        "ckpt.engine.snapshot.save",
        "ckpt.engine.snapshot.capture",
    ],
)
def test_a_bug_of_ours_is_a_failure_like_any_other(
    target: str, error: Exception, top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _patched(target, error)(monkeypatch)
    answer = fired(top)

    assert (answer.result.outcome, answer.blocks) == (Outcome.FAILED, False)
    (warning,) = answer.warnings
    assert type(error).__name__ in warning and "this is a bug in ckpt" in warning
    assert notes(top).is_failing is not target.endswith("discover")


def test_ctrl_c_is_not_held_up(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _patched("ckpt.engine.snapshot.save", KeyboardInterrupt())(monkeypatch)

    with pytest.raises(KeyboardInterrupt):
        fired(top)


# -- the command -----------------------------------------------------------------------


def hook(top: Path, **env: str) -> Ran:
    return ckpt("hook", "pre-commit", cwd=top, env=env)


def test_the_command_is_silent_when_all_is_well_and_ends_with_0_when_not(top: Path) -> None:
    assert hook(top) == Ran(0, "", "")
    write_all(top, {".git/index": b"no index at all"})
    ran = hook(top)
    assert ran.code == 0
    assert ran.stderr.startswith("warning: no checkpoint was taken: ")
    assert hook(top, CKPT_ON_ERROR="block").code == 4


@pytest.mark.parametrize("closed", ["2>/dev/full", "2>&-", "2>&- >&-"])
def test_a_warning_that_nobody_reads_stops_nothing(closed: str, top: Path) -> None:
    write_all(top, {"ckpt.toml": b"speed = 7\n"})
    command = shlex.join([sys.executable, "-I", "-m", "ckpt", "hook", "pre-commit"])
    ran = subprocess.run(["sh", "-c", f"{command} {closed}"], cwd=top, stdout=subprocess.PIPE)

    assert ran.returncode == 0
    assert len(refs(top)) == 1


@pytest.mark.parametrize("agent", ["claude-code", "codex", "gemini", "cursor"])
@pytest.mark.parametrize("closed", [">/dev/full", ">/dev/full 2>&1", ">&-", "| true"])
def test_an_answer_that_nobody_takes_is_no_failure(agent: str, closed: str, top: Path) -> None:
    command = shlex.join([sys.executable, "-I", "-m", "ckpt", "hook", agent])
    ran = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command} {closed}"], cwd=top, input=b"{}"
    )

    assert ran.returncode == 0
