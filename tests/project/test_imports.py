# SPDX-License-Identifier: MIT
"""What a command may import: every module is time that somebody waits for.

Real processes, one a command, asked at their end what they have loaded. How long that took
is for `bench/` to say.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers import ckpt, git
from seam import SETUP

TELL = "import sys; from ckpt.cli import main; main(); print(*sys.modules, file=sys.stderr)"
# What only a command that a person types has a use for.
SLOW = {"argparse", "asyncio", "difflib", "email", "logging", "shutil", "subprocess", "tempfile"}
# Of what a hook loads to find nothing changed. Few modules start quickly: add to these with care.
MOST_FOR_A_HOOK = 46
MOST_FOR_A_LIST = 25
MOST_FOR_NOTHING = 3


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of three files and a checkpoint, from which one has been changed."""
    top = tmp_path / "repo"
    top.mkdir()
    monkeypatch.chdir(top)
    git("init", "-q")
    for name in ("a.txt", "sub/b.txt", ".gitignore"):
        (top / name).parent.mkdir(exist_ok=True)
        (top / name).write_text("*.log\n")
    git("add", ".")
    git("commit", "-qm", "one")
    ckpt("save", "before", code=0)
    (top / "a.txt").write_text("changed\n")
    return top


def imported(*words: str, stdin: bytes = b"", code: str = TELL) -> set[str]:
    """What a command has loaded, whatever its exit code is."""
    command = [sys.executable, "-I", "-c", code, *words]
    ran = subprocess.run(command, input=stdin, capture_output=True)
    assert ran.returncode == 0, ran.stderr
    return set(ran.stderr.decode().split("\n")[-2].split())


def ours(modules: set[str]) -> list[str]:
    """Modules of ours with something in them, which packages have not."""
    packages = {name.rpartition(".")[0] for name in modules}
    return sorted(name for name in modules - packages if name.startswith("ckpt"))


def test_a_hook_with_nothing_to_save_loads_little_and_nothing_of_dulwich(repo: Path) -> None:
    time.sleep(0.2)  # rules that changed within a tick of the last look are read again
    ckpt("hook", "pre-commit", code=0)
    found = imported("hook", "pre-commit")

    assert "dulwich" not in found
    assert not found & SLOW
    assert len(ours(found)) <= MOST_FOR_A_HOOK, ours(found)


def test_a_save_beside_packs_loads_of_dulwich_what_reads_packs_and_no_more(repo: Path) -> None:
    git("repack", "-adq")
    found = imported("save")

    assert "ckpt.git.packs" in found
    loaded_by_dulwich = {"difflib", "logging"}
    more = {"dulwich.object_store", "dulwich.repo", "ckpt.engine.journal"}
    assert not found & (SLOW - {"argparse"} - loaded_by_dulwich | more)


def test_a_list_loads_neither_settings_nor_what_a_save_needs(repo: Path) -> None:
    found = imported("list")

    assert not found & (SLOW - {"argparse"} | {"dulwich", "ckpt.engine.snapshot"})
    assert len(ours(found)) <= MOST_FOR_A_LIST, ours(found)


EVENT = '{"session_id": "s", "cwd": "%s", "hook_event_name": "%s", "tool_name": "%s", %s}'


@pytest.mark.parametrize(
    ("event", "tool", "more"),
    [
        ("Stop", "", '"x": 1'),
        ("PostToolUse", "Bash", '"x": 1'),
    ],
)
def test_an_event_of_an_agent_that_does_not_matter_ends_at_once(
    repo: Path, event: str, tool: str, more: str
) -> None:
    found = imported("hook", "claude-code", stdin=(EVENT % (repo, event, tool, more)).encode())

    assert "ckpt.triggers.agents" in found
    assert not found & (SLOW | {"dulwich", "ckpt.engine.capture", "ckpt.engine.snapshot"})


@pytest.mark.parametrize(
    "line", ["--version", "-h", "help", "help save", "save -h", "no-such", "list -n many", "drop"]
)
def test_to_explain_itself_a_command_needs_nothing_of_dulwich(line: str) -> None:
    found = imported(*line.split())

    assert "dulwich" not in found
    assert line not in ("--version", "-h") or len(ours(found)) <= MOST_FOR_NOTHING, ours(found)


@pytest.mark.parametrize("line", ["rollback", "rollback --json", "undo", "rollback --head"])
@pytest.mark.usefixtures("repo")
def test_a_rollback_has_imported_everything_before_it_changes_a_file(line: str) -> None:
    """The files may be ckpt's own: from then on another version may lie there."""
    if line == "undo":
        ckpt("rollback", code=0)
    code = f"""if True:
        {SETUP}
        from ckpt import cli
        then = []
        def look(operation, path):
            if operation == "rename" and path.endswith("/journal"):
                then.extend(sys.modules)
        seam.observe(look)
        cli.main()
        late = [name for name in sys.modules if name.startswith("ckpt") and name not in then]
        print(bool(then), *late, file=sys.stderr)
    """
    ran = subprocess.run([sys.executable, "-I", "-c", code, *line.split()], capture_output=True)

    assert ran.stderr.split() == [b"True"]
