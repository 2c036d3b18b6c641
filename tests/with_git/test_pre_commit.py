# SPDX-License-Identifier: MIT
"""`ckpt-save` inside real pre-commit: it saves what the user had on typing `git commit`.

By then pre-commit has taken unstaged edits off the disk. Each test takes the state before,
commits, destroys everything and rolls back: what is there then must be what was there first.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from helpers import ckpt_here, copy_repository, fsck, git, git_commit, pre_commit
from scenes import State, link, remove, state, write

from ckpt.manager import CheckpointManager
from ckpt.models import Checkpoint

SAVE = f"{sys.executable} -I -m ckpt hook ckpt-save"
LEFT = ["-q", "-f", "-d", "-x"]
ODD = b'odd "\tname\\ \xc3\xbc'


def config(*entries: str, stages: str = "pre-commit") -> str:
    """A config with these commands as hooks, which shows what they print."""
    hooks = [
        f"  - {{id: hook{n}, name: hook{n}, language: system, always_run: true, verbose: true, "
        f"pass_filenames: false, stages: [{stages}], entry: '{entry}'}}\n"
        for n, entry in enumerate(entries)
    ]
    return "repos:\n- repo: local\n  hooks:\n" + "".join(hooks)


@pytest.fixture
def top(
    once: Callable[[Callable[[Path], object]], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    top = copy_repository(once(project), tmp_path / "repo")
    monkeypatch.chdir(top)
    return top


def project(top: Path) -> None:
    """A file of every kind, and pre-commit, which runs `ckpt-save`."""
    git("init", "-q", cwd=top)
    write(top, ".pre-commit-config.yaml", config(SAVE))
    write(top, "text", "".join(f"line {n}\n" for n in range(40)))
    write(top, "no newline", "one\ntwo")
    write(top, "crlf", "one\r\ntwo\r\n")
    write(top, "binary", bytes(range(256)) * 20)
    write(top, "small binary", b"\0")
    write(top, "gone", "gone\n")
    write(top, "moved", "".join(f"moved {n}\n" for n in range(20)))
    write(top, "tool", "#!/bin/sh\n", 0o755)
    write(top, "plain", "plain\n")
    write(top, "staged", "1\n2\n3\n")
    write(top, "other", "other\n")
    write(top, "empty")
    write(top, "deep/in/folders", "deep\n")
    write(top, ODD, "odd\n")
    link(top, "link", "text")
    link(top, "link to file", "text")
    write(top, "file to link", "file\n")
    git("add", "-A", cwd=top)
    git("commit", "-q", "-m", "first", cwd=top)
    pre_commit("install", cwd=top)


def work(top: Path) -> None:
    """Staged edits, unstaged ones, and both in one file."""
    write(top, "staged", "1\nstaged\n3\n")
    write(top, "new", "staged\n")
    write(top, "new and gone", "staged\n")
    git("add", "staged", "new", "new and gone", cwd=top)
    git("rm", "-q", "--cached", "other", cwd=top)
    write(top, "staged", "1\nstaged\n3\nnot staged\n")
    write(top, "new", "not staged\n", 0o755)
    remove(top, "new and gone")
    write(top, "text", "first\n" + "".join(f"line {n}\n" for n in range(39)))
    write(top, "no newline", "one\ntwo\nthree")
    write(top, "crlf", "one\r\n2\r\n")
    write(top, "binary", bytes(range(256)) * 18 + b"other" * 200)
    write(top, "small binary", b"\0\xff")
    write(top, "empty", "no more\n")
    write(top, ODD, "edited\n")
    remove(top, "gone")
    remove(top, "deep")
    os.rename(top / "moved", top / "moved elsewhere")
    (top / "tool").chmod(0o644)
    (top / "plain").chmod(0o755)
    link(top, "link", "elsewhere")
    write(top, "link to file", "a file now\n")
    link(top, "file to link", "a link now")
    write(top, "untracked", "untracked\n")


def commit(top: Path, *words: str, code: int = 0) -> str:
    return git_commit(*words, cwd=top, code=code)


def use(top: Path, text: str, **files: str | bytes) -> None:
    """Commit another config, and other files with it."""
    write(top, ".pre-commit-config.yaml", text)
    for name, content in files.items():
        write(top, name, content)
    git("add", "-A", cwd=top)
    commit(top, "--no-verify")


def checkpoints(top: Path) -> list[Checkpoint]:
    with CheckpointManager(top) as manager:
        return manager.list()


def roll_back(top: Path) -> State:
    """Destroy everything, go back to the only checkpoint; what is there then."""
    [saved] = checkpoints(top)
    git("reset", "-q", "--hard", cwd=top)
    git("clean", *LEFT, cwd=top)
    ckpt_here("rollback", saved.id, "--head", "--yes", cwd=top, code=0)
    assert fsck(top) == []
    return state(top)


def quiet(said: str) -> bool:
    return "Passed" in said and "warning:" not in said and "partial" not in said


def stage(top: Path) -> None:
    """Something to commit, whatever else is there."""
    write(top, "staged", "staged\n")
    git("add", "staged", cwd=top)


def check_commit(top: Path, *words: str) -> None:
    """A commit saves what is on disk now, and has nothing to say about it."""
    before = state(top)

    assert quiet(commit(top, *words))

    assert roll_back(top) == before


@pytest.mark.parametrize(
    "words",
    [(), ("-a",), ("--amend",), ("--", "staged"), ("--only", "--", "text"), ("-i", "--", "plain")],
    ids=lambda words: " ".join(words) or "plain",
)
def test_a_commit_saves_what_was_on_disk_when_it_was_typed(top: Path, words: Sequence[str]) -> None:
    work(top)
    before = state(top)

    assert quiet(commit(top, *words))

    assert not checkpoints(top)[0].partial
    assert roll_back(top) == before


@pytest.mark.parametrize("words", [(), ("--", "text")], ids=["plain", "path"])
def test_a_linked_worktree_is_saved_just_so(
    top: Path, tmp_path: Path, words: Sequence[str]
) -> None:
    linked = tmp_path / "linked"
    git("worktree", "add", "-q", linked, cwd=top)
    work(linked)
    before = state(linked)

    assert quiet(commit(linked, *words))

    assert roll_back(linked) == before


def test_what_other_hooks_do_to_edited_files_is_not_saved(top: Path) -> None:
    """Nor does a hook that fails do harm: pre-commit takes back what it changed."""
    spoil = 'sh -c "for f in staged plain text; do echo spoilt >>$f; done; exit 1"'
    write(top, ".pre-commit-config.yaml", config(*("REPLACED",) * 3))
    text = (top / ".pre-commit-config.yaml").read_text()
    for entry in (spoil, SAVE, spoil):
        text = text.replace("REPLACED", entry.replace("'", "''"), 1)
    write(top, ".pre-commit-config.yaml", text)
    git("add", "-A", cwd=top)
    commit(top, "--no-verify")
    work(top)
    before = state(top)

    said = commit(top, code=1)

    assert "Rolling back fixes" in said
    assert state(top) == before
    assert roll_back(top) == before


def test_hooks_that_fail_again_and_again_leave_one_checkpoint(top: Path) -> None:
    use(top, config(SAVE, "false"))
    work(top)

    commit(top, code=1)
    commit(top, code=1)

    [saved] = checkpoints(top)
    assert (saved.kind, saved.trigger) == ("hook", "ckpt-save")


def test_a_later_save_does_not_take_hidden_edits_for_what_is_on_disk(top: Path) -> None:
    work(top)
    commit(top)
    assert not (top / ".git/ckpt/scan").exists()
    git("reset", "-q", "--hard", cwd=top)
    before = state(top)

    ckpt_here("save", "last", cwd=top, code=0)

    git("rm", "-q", "-r", ".", cwd=top)
    ckpt_here("rollback", "last", "--yes", cwd=top, code=0)
    assert state(top) == before


def test_files_that_shall_be_added_later_are_saved_as_untracked(top: Path) -> None:
    """pre-commit takes them out of the index, and nothing tells that they were there."""
    write(top, "intended", "intended\n")
    git("add", "--intent-to-add", "intended", cwd=top)
    stage(top)
    write(top, "text", "edited\n")
    before = state(top)

    assert quiet(commit(top))

    after = roll_back(top)
    assert after.files == before.files
    assert [line for line, _ in after.index] == [
        line for line, _ in before.index if not line.endswith("\tintended")
    ]


def test_edits_are_found_before_a_merge_is_committed_and_a_push_is_made(
    top: Path, tmp_path: Path
) -> None:
    use(top, config(SAVE, stages="pre-merge-commit, pre-push"))
    git("clone", "-q", "--bare", top, tmp_path / "remote", cwd=top)
    git("checkout", "-q", "-b", "side", cwd=top)
    write(top, "plain", "side\n")
    commit(top, "--no-verify", "-a")
    git("checkout", "-q", "main", cwd=top)
    write(top, "tool", "main\n", 0o755)
    commit(top, "--no-verify", "-a")
    pre_commit("install", "-t", "pre-merge-commit", "-t", "pre-push", cwd=top)
    write(top, "text", "edited\n")

    git("merge", "-q", "--no-edit", "side", cwd=top)
    git("push", "-q", tmp_path / "remote", "main", cwd=top)

    pushed, merged = checkpoints(top)
    assert [git("show", f"{each.commit}:text", cwd=top) for each in (pushed, merged)] == [
        "edited\n",
        "edited\n",
    ]


@pytest.mark.parametrize("words", [(), ("--all-files",)], ids=["hidden", "not hidden"])
def test_pre_commit_run_by_hand_saves_what_is_on_disk(top: Path, words: Sequence[str]) -> None:
    work(top)
    before = state(top)

    assert quiet(pre_commit("run", *words, cwd=top))

    assert roll_back(top) == before


# -- patches that are none -------------------------------------------------------------

PLANT = """
import os, sys, time
what, text, store = sys.argv[1:]
now = time.time()
made = now - 3600 if what == "old name" else now
path = os.path.join(store, f"patch{int(made)}-{os.getppid()}")
os.makedirs(store, exist_ok=True)
if what == "link":
    os.symlink(text, path)
    sys.exit()
with open(text, "rb") as patch, open(path, "wb") as file:
    file.write(patch.read())
if what in ("old name", "old file"):
    os.utime(path, (now - 3600, now - 3600))
if what == "foreign":
    os.chown(path, 12345, 12345)
"""


@pytest.fixture
def planted(top: Path, tmp_path: Path, isolated: Path) -> Callable[[str, bytes], str]:
    """Commits while such a patch lies in pre-commit's store, with its process id."""

    def commit_with(what: str, patch: bytes) -> str:
        (tmp_path / "plant.py").write_text(PLANT)
        (tmp_path / "patch").write_bytes(patch)
        script, text, store = tmp_path / "plant.py", tmp_path / "patch", isolated / ".cache"
        plant = f'{sys.executable} {script} "{what}" {text} {store / "pre-commit"}'
        use(top, config(plant, SAVE))
        write(top, "staged", "staged\n")
        git("add", "staged", cwd=top)
        return commit(top)

    return commit_with


def patch_of(top: Path) -> bytes:
    """Of an edit that is then taken back."""
    write(top, "text", "another time\n")
    words = ["git", "diff", "--binary"]
    patch = subprocess.run(words, cwd=top, capture_output=True, check=True).stdout
    git("checkout", "-q", "--", "text", cwd=top)
    return patch


def saved_text(top: Path) -> str:
    [saved] = checkpoints(top)
    return git("show", f"{saved.commit}:text", cwd=top)


@pytest.mark.parametrize(
    "spoil",
    [lambda patch: patch.replace(b"-line 7\n", b"-line 8\n"), lambda patch: patch[:-20]],
    ids=["other content", "cut off"],
)
def test_a_patch_that_does_not_fit_is_not_used_and_told_of(
    top: Path, planted: Callable[[str, bytes], str], spoil: Callable[[bytes], bytes]
) -> None:
    before = (top / "text").read_text()

    said = planted("new", spoil(patch_of(top)))

    assert "warning: the unstaged edits in '" in said
    assert saved_text(top) == before
    assert checkpoints(top)[0].partial


def test_without_pre_commit_nothing_is_hidden(top: Path) -> None:
    write(top, "text", "edited\n")

    said = ckpt_here("hook", "ckpt-save", cwd=top, code=0)

    assert (said.stdout, said.stderr) == ("", "")
    assert saved_text(top) == "edited\n"


# -- conversions and rules ---------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["autocrlf", "eol"])
def test_converted_files_come_back_as_git_writes_them(top: Path, name: str) -> None:
    if name == "autocrlf":
        git("config", "core.autocrlf", "true", cwd=top)
    use(top, config(SAVE), **{".gitattributes": "*.txt eol=crlf\n" * (name == "eol"), "a.txt": ""})
    git("rm", "-q", "--cached", "a.txt", cwd=top)
    write(top, "a.txt", b"one\r\ntwo\r\n")
    git("add", "a.txt", cwd=top)
    commit(top, "--no-verify")
    remove(top, "a.txt")
    git("checkout", "--", "a.txt", cwd=top)
    write(top, "a.txt", (top / "a.txt").read_bytes().replace(b"two", b"3") + b"four\r\n")
    stage(top)

    check_commit(top)


# -- other repositories, other tools -----------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("sparse-checkout", "set", "--no-cone", "/*", "!/crlf", "!/deep"),
        ("update-index", "--index-version", "4"),
        ("update-index", "--skip-worktree", "crlf"),
        ("config", "core.abbrev", "4"),
        ("checkout", "-q", "--orphan", "unborn"),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_whatever_the_repository_is_like_the_edits_are_found(
    top: Path, words: Sequence[str]
) -> None:
    git(*words, cwd=top)
    work(top)

    check_commit(top)


def test_a_commit_in_a_subfolder_saves_everything(top: Path) -> None:
    work(top)
    write(top, "sub/file", "new\n")
    git("add", "sub", cwd=top)
    before = state(top)

    assert quiet(commit(top / "sub"))

    assert roll_back(top) == before


def test_a_hook_of_git_that_came_first_and_this_one_leave_one_checkpoint(top: Path) -> None:
    """pre-commit runs the hook that it found before it hides anything."""
    hook = f"#!/bin/sh\nexec {sys.executable} -I -m ckpt hook pre-commit\n"
    pre_commit("uninstall", cwd=top)
    write(top, ".git/hooks/pre-commit", hook, 0o755)
    pre_commit("install", cwd=top)
    work(top)

    check_commit(top)


@pytest.mark.parametrize("setting", ["CKPT_DISABLE=1", "CKPT_DISABLE=ckpt-save", "config"])
def test_it_can_be_turned_off(top: Path, monkeypatch: pytest.MonkeyPatch, setting: str) -> None:
    if setting == "config":
        git("config", "ckpt.disable", "ckpt-save", cwd=top)
    else:
        monkeypatch.setenv(*setting.split("="))
    work(top)

    assert quiet(commit(top))

    assert checkpoints(top) == []
