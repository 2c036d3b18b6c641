# SPDX-License-Identifier: MIT
"""`git ckpt run` with real commands, real signals and a real terminal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from helpers import ckpt, git, tree_state
from terminals import Terminal

PROGRAM = [sys.executable, "-I", "-m", "ckpt"]


def checkpoints(kind: str | None = None) -> list[dict[str, Any]]:
    """Oldest first."""
    found = ckpt("list", "--all", "--json", code=0).json["checkpoints"]
    return [one for one in reversed(found) if kind in (None, one["kind"])]


@contextmanager
def running(*words: str) -> Iterator[subprocess.Popen[str]]:
    """ckpt at work, in a process group of its own; the first line of its output is read."""
    started = subprocess.Popen(
        [*PROGRAM, "run", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with started:
        assert started.stdout is not None
        assert started.stdout.readline() == "ready\n"
        try:
            yield started
        finally:
            if started.poll() is None:
                started.kill()


# What the command gets


def test_the_state_before_is_a_session_checkpoint_to_which_the_command_belongs(repo: Path) -> None:
    ran = ckpt("run", "--name", "try", "--", "sh", "-c", "echo $CKPT_SESSION; echo new > new")

    [before] = checkpoints()
    assert (before["kind"], before["name"], before["trigger"]) == ("session", "try", "run")
    assert ran.stdout == before["session"] + "\n"
    assert before["session"].startswith("run-")
    assert "new" not in git("ls-tree", "--name-only", before["commit"])


def test_checkpoints_inside_it_belong_to_its_session(repo: Path) -> None:
    inside = f"{sys.executable} -I -m ckpt"
    script = f"{inside} save by-hand; touch new; {inside} hook pre-commit; {inside} run -- true"

    ckpt("run", "--", "sh", "-c", script, code=0)

    found = checkpoints()
    assert [one["trigger"] for one in found] == ["run", "command", "pre-commit", "run"]
    assert len({one["session"] for one in found}) == 1


def test_it_has_our_streams_open_files_and_folder(repo: Path) -> None:
    reader, writer = os.pipe()
    code = f"""if True:
        import os, sys
        print(sys.stdin.read() + os.getcwd())
        sys.stderr.write("told")
        os.write({writer}, b"passed")
    """
    ran = subprocess.run(
        [*PROGRAM, "-q", "-C", "src", "run", "--", sys.executable, "-c", code],
        input="given\n",
        capture_output=True,
        text=True,
        pass_fds=[writer],
    )

    assert (ran.returncode, ran.stderr) == (0, "told")
    assert ran.stdout == f"given\n{repo / 'src'}\n"
    assert os.read(reader, 99) == b"passed"
    os.close(reader)
    os.close(writer)


def test_its_own_words_are_not_read_as_ours(repo: Path) -> None:
    ran = ckpt("run", "-q", "--", "echo", "--json", "-q", "--", "-C", "x", "--timeout", "0")

    assert ran.stdout == "--json -q -- -C x --timeout 0\n"
    assert ran.stderr == ""


# How it ends


@pytest.mark.parametrize("code", [0, 1, 3, 130, 255])
def test_the_exit_code_is_that_of_the_command(repo: Path, code: int) -> None:
    assert ckpt("run", "--", "sh", "-c", f"exit {code}").code == code


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP", "KILL", "SEGV", "PIPE"])
def test_we_die_of_what_the_command_died_of(repo: Path, name: str) -> None:
    ran = ckpt("run", "--", "sh", "-c", f"kill -{name} $$")

    assert ran.code == -signal.Signals[f"SIG{name}"]
    assert not [*repo.glob("core*")]


@pytest.mark.parametrize("name", ["TERM", "HUP", "INT", "QUIT", "USR1"])
def test_a_signal_that_only_we_get_is_passed_on(repo: Path, name: str) -> None:
    """The second ends it: signals may come twice."""
    script = (
        f"trap 'trap \"exit 7\" {name}; echo once' {name}; echo ready;"
        " for i in $(seq 600); do sleep 0.05; done"
    )
    with running("--", "sh", "-c", script) as started:
        assert started.stdout is not None
        number = signal.Signals[f"SIG{name}"]
        started.send_signal(number)
        assert started.stdout.readline() == "once\n"
        started.send_signal(number)

        assert started.wait() == 7


def test_when_we_are_killed_the_command_goes_on_and_nothing_is_in_the_way(repo: Path) -> None:
    script = "echo ready; read line; echo new > new"
    started = subprocess.Popen(
        [*PROGRAM, "run", "--", "sh", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with started:
        assert started.stdin is not None and started.stdout is not None
        assert started.stdout.readline() == "ready\n"
        started.kill()
        started.wait()
        started.stdin.write("go\n")
        started.stdin.close()
        assert started.stdout.read() == ""  # it has ended too

    assert (repo / "new").exists()
    ckpt("rollback", code=0)
    assert not (repo / "new").exists()


# What is said


def test_the_summary_names_what_changed_and_the_command_that_goes_back(repo: Path) -> None:
    script = "echo two >> README.md; git commit -qam second; echo new > new; echo out"

    ran = ckpt("run", "--", "sh", "-c", script, code=0)

    [before] = checkpoints()
    assert ran.stdout == "out\n"
    assert f"ckpt: +2 -0 in 2 files since checkpoint {before['id']}\n" in ran.stderr
    assert "HEAD went from main (" in ran.stderr
    *_, command = ran.stderr.strip().partition("go back with: git ckpt ")
    ckpt(*command.split(), code=0)
    assert git("log", "--format=%s") == "first\n"
    assert git("status", "--porcelain") == ""


def test_quiet_says_nothing(repo: Path) -> None:
    ran = ckpt("run", "-q", "--", "sh", "-c", "echo new > new; exit 3", code=3)

    assert ran.stdout + ran.stderr == ""


def test_json_is_one_document_and_the_output_of_the_command_is_beside_it(repo: Path) -> None:
    script = "echo out; rm run.sh; exit 3"

    ran = ckpt("run", "--json", "--on-failure", "rollback", "--", "sh", "-c", script, code=3)

    told = ran.json
    assert ran.stderr == "out\n"
    assert told["command"] == ["sh", "-c", script]
    assert (told["exit_code"], told["signal"], told["timed_out"]) == (3, None, False)
    assert told["session"] == told["checkpoint"]["session"]
    assert [(file["path"], file["status"]) for file in told["files"]] == [("run.sh", "D")]
    assert [file["path"] for file in told["rollback"]["written"]] == ["run.sh"]
    assert told["rollback_command"] == f"git ckpt rollback --head {told['checkpoint']['id']}"
    assert (told["head"], told["problems"]) == (None, [])


# What becomes of its work


def test_when_it_fails_everything_goes_back_and_its_work_can_be_had_again(repo: Path) -> None:
    (repo / "draft").write_text("mine\n")
    before, status = tree_state(repo), git("status", "--porcelain=v2", "--branch")
    script = """
        git switch -qc topic; echo two >> README.md; git commit -qam second
        for n in 1 2 3 4 5 6 7 8 9; do echo $n > made-$n; done
        rm draft src/app.py; git add made-1; exit 5
    """

    ran = ckpt("run", "--on-failure", "rollback", "--", "sh", "-c", script, code=5)

    assert tree_state(repo) == before
    assert git("status", "--porcelain=v2", "--branch") == status
    assert "rolled back to checkpoint" in ran.stderr
    [safety] = checkpoints("safety")
    assert "second" in git("log", "--format=%s", safety["commit"])
    ckpt("undo", code=0)
    assert (repo / "made-9").exists()
    assert git("branch", "--show-current") == "topic\n"


def test_when_it_succeeds_or_keep_is_asked_nothing_goes_back(repo: Path) -> None:
    ckpt("run", "--on-failure", "rollback", "--", "touch", "one", code=0)
    ckpt("run", "--on-failure", "keep", "--", "sh", "-c", "touch two; false", code=1)

    assert (repo / "one").exists()
    assert (repo / "two").exists()
    assert checkpoints("safety") == []


def test_a_rollback_that_is_refused_is_told_with_the_command_for_later(repo: Path) -> None:
    script = "echo new > new; touch .git/index.lock; exit 6"

    ran = ckpt("run", "--on-failure", "rollback", "--", "sh", "-c", script, code=6)

    [before] = checkpoints()
    assert "error: not rolled back: " in ran.stderr
    assert f"go back with: git ckpt rollback --head {before['id']}" in ran.stderr
    assert (repo / "new").read_text() == "new\n"
    (repo / ".git/index.lock").unlink()
    ckpt("rollback", "--head", before["id"], code=0)
    assert not (repo / "new").exists()


# When it does not begin


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--", "no-such-program"], 127, "'no-such-program' was not found"),
        (["--", "./no/such"], 127, "'./no/such' was not found, or is not executable"),
        (["--", ""], 127, "'' was not found"),
        (["--", "./README.md"], 127, "'./README.md' was not found, or is not executable"),
        (["--", "./src"], 127, "'./src' was not found, or is not executable"),
        (["--"], 2, "no command after '--'"),
        ([], 2, "no command after '--'"),
        (["touch", "ran"], 2, "unrecognized arguments: touch ran"),
        (["--timeout", "0", "--", "touch", "ran"], 2, "invalid seconds value: '0'"),
        (["--timeout", "nan", "--", "touch", "ran"], 2, "invalid seconds value: 'nan'"),
        (["--name", "latest", "--", "touch", "ran"], 2, "invalid checkpoint name"),
    ],
)
def test_what_cannot_run_is_said_before_anything_is_done(
    repo: Path, words: list[str], code: int, said: str
) -> None:
    ran = ckpt("run", *words, code=code)

    assert said in ran.stderr
    assert checkpoints() == []
    assert not (repo / "ran").exists()


def test_nothing_runs_outside_a_repository(tmp_path: Path) -> None:
    ran = ckpt("run", "--", "touch", "ran", cwd=tmp_path, code=1)

    assert "not a git repository" in ran.stderr
    assert [*tmp_path.iterdir()] == []


def test_nothing_runs_without_a_checkpoint_to_go_back_to(repo: Path) -> None:
    (repo / ".git/refs/checkpoints").write_text("in the way\n")

    ckpt("run", "--", "touch", "ran", code=4)

    assert not (repo / "ran").exists()


def test_nothing_runs_amid_a_rollback_that_was_interrupted(repo: Path) -> None:
    ckpt("save", code=0)
    (repo / ".git/ckpt/journal").write_bytes(b"torn")

    ran = ckpt("run", "--", "touch", "ran", code=4)

    assert "git ckpt rollback --continue" in ran.stderr
    assert not (repo / "ran").exists()


# The time limit


def test_when_its_time_is_up_it_ends_and_so_does_what_it_has_started(repo: Path) -> None:
    script = "sh -c 'echo $$ > other; exec sleep 60' & echo one > one; sleep 60"

    ran = ckpt("run", "--timeout", "1.5", "--on-failure", "rollback", "--", "sh", "-c", script)

    assert ran.code == 124
    assert "timed out" in ran.stderr
    assert not (repo / "one").exists()
    [safety] = checkpoints("safety")
    other = git("show", f"{safety['commit']}:other")
    with pytest.raises(ProcessLookupError):
        os.kill(int(other), 0)


def test_a_signal_reaches_the_whole_group_of_a_command_with_a_time_limit(repo: Path) -> None:
    script = "echo ready; sh -c 'sleep 60; true'; true"
    with running("--timeout", "300", "--", "sh", "-c", script) as started:
        started.terminate()

        assert started.wait() == -signal.SIGTERM


# At a terminal

LIMITS = pytest.mark.parametrize("limit", [[], ["--timeout", "600"]], ids=["free", "limited"])


def at_terminal(*words: str) -> Terminal:
    return Terminal([*PROGRAM, "run", *words])


@LIMITS
def test_ctrl_c_reaches_the_command_once_and_we_wait_for_it(repo: Path, limit: list[str]) -> None:
    """We are held up meanwhile: two signals in one moment would count as one."""
    script = """if True:
        import os, signal, sys, time
        got = []
        signal.signal(signal.SIGINT, lambda *_: got.append(1))
        os.kill(os.getppid(), signal.SIGSTOP)
        print("ready", flush=True)
        while not got:
            time.sleep(0.01)
        os.kill(os.getppid(), signal.SIGCONT)
        time.sleep(0.3)
        print("got", len(got), flush=True)
        sys.exit(8)
    """
    with at_terminal(*limit, "--", sys.executable, "-c", script) as terminal:
        terminal.wait_for("ready")
        terminal.type("\x03")
        terminal.wait_for("got 1")

        assert terminal.end() == 8


@LIMITS
def test_a_command_that_ctrl_c_ends_is_rolled_back(repo: Path, limit: list[str]) -> None:
    code = """if True:
        import signal, time
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        open("new", "w").close()
        print("ready", flush=True)
        time.sleep(300)
    """
    words = [*limit, "--on-failure", "rollback", "--", sys.executable, "-c", code]
    with at_terminal(*words) as terminal:
        terminal.wait_for("ready")
        terminal.type("\x03")
        terminal.type("\x03")  # an impatient person

        assert terminal.end() == -signal.SIGINT
    assert not (repo / "new").exists()


@LIMITS
def test_the_command_sees_the_terminal_and_its_size(repo: Path, limit: list[str]) -> None:
    script = """
        trap 'stty size' WINCH
        test -t 0 && test -t 1 && test -t 2 && echo ready
        read line; echo "got $line"; for i in $(seq 600); do sleep 0.05; done
    """
    with at_terminal(*limit, "--", "sh", "-c", script) as terminal:
        terminal.wait_for("ready")
        terminal.type("words\n")
        terminal.wait_for("got words")
        terminal.resize(33, 77)
        terminal.wait_for("33 77")


def reading(limit: list[str]) -> str:
    """The line that runs a command which reads another."""
    script = "echo ready; read line; echo got $line"
    return " ".join([*PROGRAM, "run", *limit, "--", "sh", "-c", f"'{script}'"])


@contextmanager
def in_a_shell() -> Iterator[Terminal]:
    with Terminal(["bash", "--norc", "--noprofile", "-i"]) as terminal:
        yield terminal
        terminal.type("exit\n")
        terminal.end()


@LIMITS
def test_ctrl_z_stops_it_for_the_shell_and_it_goes_on(repo: Path, limit: list[str]) -> None:
    with in_a_shell() as terminal:
        terminal.type(f"PS1='prompt> '\n{reading(limit)}\n")
        terminal.wait_for("\nready")
        terminal.type("\x1a")
        terminal.wait_for("Stopped")
        terminal.wait_for("prompt> ")
        # A command that has not come round to stopping yet takes the first character.
        terminal.type(" fg; echo code $?\n")
        terminal.wait_for("run")  # the shell says what goes on
        terminal.type("words\n")
        terminal.wait_for("got words")
        terminal.wait_for("code 0")
