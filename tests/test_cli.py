# SPDX-License-Identifier: MIT
"""Words to commands, errors to exit codes; and one line for whatever goes wrong."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from byhand import open_repository as opened
from byhand import worktree, write_checkpoint
from helpers import ckpt_here

from ckpt import cli
from ckpt.commands import list as list_command


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository that git has never seen; the current folder."""
    monkeypatch.chdir(worktree(tmp_path / "repo"))
    return tmp_path / "repo"


@pytest.fixture
def asked(top: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What `list` is asked for, in place of its work."""
    got: dict[str, Any] = {}

    def run(context: cli.Context, **values: Any) -> int:
        got.update(values, start=context.start, output=context.output)
        return 0

    monkeypatch.setattr(list_command, "run", run)
    monkeypatch.setattr(cli.Context, "open", lambda *_, **__: nullcontext())
    return got


def raising(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def run(context: cli.Context, **values: Any) -> int:
        raise error

    monkeypatch.setattr(list_command, "run", run)


@pytest.mark.parametrize("words", [(), ("-h",), ("--help",)])
def test_without_a_command_every_command_is_listed(words: tuple[str, ...]) -> None:
    shown = ckpt_here(*words, code=0).stdout

    for name, summary in cli.COMMANDS.items():
        assert f"  {name:<16} {summary}\n" in shown
    assert "exit codes: 0 done, 1 failed, 2 usage, 3 no such checkpoint, 4 refused" in shown


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_each_command_explains_itself_with_its_options(command: str) -> None:
    shown = ckpt_here(command, "-h", code=0).stdout

    assert shown.startswith(f"usage: git ckpt {command} ")
    assert cli.COMMANDS[command][1:] + "." in " ".join(shown.split())
    assert "--json" in shown
    assert "-C DIR" in shown


def test_the_version_is_that_of_the_package() -> None:
    from ckpt import __version__

    assert ckpt_here("--version", code=0).stdout == f"git-ckpt {__version__}\n"


@pytest.mark.parametrize(
    ("word", "message", "hint"),
    [
        ("sve", "'sve' is not a ckpt command", "did you mean 'git ckpt save'?"),
        ("rolback", "'rolback' is not a ckpt command", "did you mean 'git ckpt rollback'?"),
        ("xyzzy", "'xyzzy' is not a ckpt command", "git ckpt -h"),
        ("--xyzzy", "'--xyzzy' is not a ckpt option", "git ckpt -h"),
    ],
)
def test_an_unknown_word_is_named_with_the_nearest_command(
    word: str, message: str, hint: str
) -> None:
    assert ckpt_here(word, code=2).stderr == f"error: {message}\nhint: {hint}\n"


@pytest.mark.parametrize(
    "words", [("list", "--xyzzy"), ("list", "-n", "many"), ("list", "word"), ("drop",)]
)
def test_wrong_arguments_are_an_error_of_use(words: tuple[str, ...], top: Path) -> None:
    ran = ckpt_here(*words, code=2)

    assert ran.stderr.startswith("error: ")
    assert ran.stderr.endswith(f"hint: git ckpt {words[0]} -h\n")
    assert ran.stdout == ""


def test_options_are_not_guessed_from_their_beginning(top: Path) -> None:
    assert "--sess" in ckpt_here("list", "--sess=x", code=2).stderr


@pytest.mark.parametrize("words", [("--json", "list"), ("list", "--json")])
def test_the_common_options_stand_before_or_after_the_command(
    words: tuple[str, ...], asked: dict[str, Any]
) -> None:
    ckpt_here(*words, code=0)

    assert asked["output"].as_json is True
    assert asked["output"].quiet is False


@pytest.mark.parametrize("option", ["-q", "--quiet"])
def test_quiet_has_two_spellings(option: str, asked: dict[str, Any]) -> None:
    ckpt_here("list", option, code=0)

    assert asked["output"].quiet is True


@pytest.mark.parametrize(
    ("words", "start"),
    [
        ((), "."),
        (("-C", "a"), "./a"),
        (("-C", "a", "-C", "b"), "./a/b"),
        (("-C", "a", "-C", "/b"), "/b"),
    ],
)
def test_folders_add_up_as_in_git(
    words: tuple[str, ...], start: str, asked: dict[str, Any]
) -> None:
    ckpt_here(*words, "list", code=0)
    assert asked["start"] == start

    ckpt_here("list", *words, code=0)
    assert asked["start"] == start


def test_a_folder_option_without_a_folder_is_an_error() -> None:
    assert "option -C needs a directory" in ckpt_here("list", "-C", code=2).stderr


def test_after_two_dashes_everything_is_a_path(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ckpt.commands import diff

    got: dict[str, Any] = {}
    monkeypatch.setattr(diff, "run", lambda context, **values: got.update(values) or 0)
    ckpt_here("diff", "latest", "--", "--json", "-q", "-C", "--", code=0)

    assert got["id"] == "latest"
    assert got["paths"] == ["--json", "-q", "-C", "--"]


def test_json_after_two_dashes_does_not_make_an_error_json() -> None:
    ran = ckpt_here("xyzzy", "--", "--json", code=2)

    assert ran.stdout == ""
    assert ran.stderr.startswith("error: ")


@pytest.mark.parametrize(
    ("words", "code", "name"),
    [
        (("xyzzy",), 2, "usage"),
        (("list", "--xyzzy"), 2, "usage"),
        (("show", "nobody"), 3, "not-found"),
    ],
)
def test_an_error_is_one_document_when_json_was_asked_for(
    words: tuple[str, ...], code: int, name: str, top: Path
) -> None:
    for placed in (("--json", *words), (*words, "--json")):
        ran = ckpt_here(*placed, code=code)
        assert ran.stderr == ""
        assert ran.json["schema"] == 1
        assert ran.json["error"]["code"] == name
        assert ran.json["error"]["hint"]


def test_outside_a_repository_the_hint_says_what_to_do(tmp_path: Path) -> None:
    ran = ckpt_here("list", cwd=tmp_path, code=1)

    assert ran.stderr.startswith("error: not a git repository")
    assert "git init" in ran.stderr


def test_a_folder_that_is_not_there_is_named() -> None:
    assert "cannot change to './nowhere'" in ckpt_here("-C", "nowhere", "list", code=1).stderr


@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (errno.ENOSPC, "check free space and permissions"),
        (errno.EMFILE, "allow more open files, as 'ulimit -n 1024' does"),
        (errno.EROFS, "mount the file system for writing"),
    ],
)
def test_an_error_of_the_system_is_one_line_with_the_path_and_what_to_do(
    number: int, hint: str, top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raising(monkeypatch, OSError(number, os.strerror(number), b"/x/caf\xe9"))
    ran = ckpt_here("list", code=1)

    assert ran.stderr.splitlines() == [
        f"error: '/x/caf\\xe9': {os.strerror(number)}",
        f"hint: {hint}, then try again",
    ]


def test_an_interruption_has_its_own_exit_code(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raising(monkeypatch, KeyboardInterrupt())

    assert ckpt_here("list", code=130).stderr == "interrupted\n"
    assert ckpt_here("list", "--json", code=130).json["error"]["code"] == "interrupted"


def test_a_bug_is_one_line_and_a_log(
    top: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raising(monkeypatch, ZeroDivisionError("of all things"))
    code = cli.main(["list", "--session", "caf\udce9"])

    log = top / ".git/ckpt/error.log"
    assert code == 1
    assert capsys.readouterr().err.splitlines() == [
        "error: unexpected ZeroDivisionError: of all things",
        f"hint: this is a bug in ckpt; please report it with '{log}'",
    ]
    assert "Traceback" in log.read_text()
    assert "words: ['list', '--session', 'caf\\udce9']" in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a full device")
def test_output_that_cannot_be_written_is_an_error(top: Path) -> None:
    with open("/dev/full", "wb") as full:
        ran = subprocess.run(
            [sys.executable, "-I", "-m", "ckpt", "list"], stdout=full, stderr=subprocess.PIPE
        )

    assert ran.returncode == 1
    assert ran.stderr == b"error: unable to write the output: No space left on device\n"


def test_a_name_that_the_locale_cannot_show_is_shown_as_escapes(top: Path) -> None:
    with opened(top) as repo:
        write_checkpoint(repo, name="naïve 日本")
    env = {**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    ran = subprocess.run(
        [sys.executable, "-m", "ckpt", "list"], env=env, capture_output=True, check=True
    )

    assert b"na\\xefve \\u65e5\\u672c" in ran.stdout


def test_json_is_ascii_whatever_the_name(top: Path) -> None:
    with opened(top) as repo:
        write_checkpoint(repo, name="naïve 日本")
    ran = ckpt_here("list", "--json", code=0)

    assert ran.stdout.isascii()
    assert ran.stdout.count("\n") == 1
    assert json.loads(ran.stdout)["checkpoints"][0]["name"] == "naïve 日本"


def test_json_without_a_command_is_a_usage_error_as_a_document() -> None:
    ran = ckpt_here("--json", code=2)

    assert ran.json["error"]["code"] == "usage"
    assert ran.stderr == ""


PROGRAM = "import atexit; atexit.register(print, 'late'); from ckpt.cli import program; program()"


def run_program(*words: str, **streams: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-c", PROGRAM, *words], **streams)


@pytest.mark.parametrize(
    ("words", "code"), [(("--version",), 0), (("no-such",), 2), (("list", "-n", "-1"), 2)]
)
def test_the_program_ends_with_the_exit_code_and_at_once(words: tuple[str, ...], code: int) -> None:
    ran = run_program(*words, capture_output=True)

    assert ran.returncode == code
    assert ran.stdout + ran.stderr != b""
    assert b"late" not in ran.stdout


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a full device is Linux's")
@pytest.mark.parametrize("words", [["--version"], ["save", "-h"], ["help"]], ids=" ".join)
def test_the_program_tells_if_its_output_could_not_be_written(words: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        ran = run_program(*words, stdout=full, stderr=subprocess.PIPE)

    assert ran.returncode == 1
    assert b"No space left on device\n" in ran.stderr
