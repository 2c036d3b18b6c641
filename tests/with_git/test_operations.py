# SPDX-License-Identifier: MIT
"""Operations in progress: each comes back as it was, and git goes on with it.

Every operation is stopped half way in two equal repositories. One is left alone. In the
other it is saved, given up or finished, its traces are wiped and collected as garbage,
and it is rolled back to. Then both are continued, and must end in the same commits.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from helpers import ckpt_here as ckpt
from helpers import copy_repository, fsck, git
from scenes import example, state, write
from seam import SETUP

# What is no part of an operation, or is told by git's own commands.
_ELSEWHERE = ("objects", "logs", "ckpt", "info", "hooks", "branches", "worktrees")
_UNRELATED = {"index", "config", "description", "packed-refs", "COMMIT_EDITMSG", "gc.pid"}


@dataclass(frozen=True)
class Stopped:
    """An operation: what begins it, what concludes it, what gives it up."""

    name: str
    begin: Callable[[], object]
    conclude: Callable[[], object]
    give_up: Callable[[], object]
    operation: str


def attempt(*words: str) -> None:
    """A git command that stops with a conflict, or ends."""
    subprocess.run(
        ["git", *words], capture_output=True, env={**os.environ, "GIT_EDITOR": "true"}, input=b""
    )


def editing(todo: str, *words: str) -> None:
    """An interactive rebase with this list of things to do."""
    editor = f"printf '{todo}' >"
    subprocess.run(
        ["git", "-c", f"sequence.editor={editor}", *words],
        capture_output=True,
        env={**os.environ, "GIT_EDITOR": "true"},
    )


def resolved(*words: str) -> Callable[[], None]:
    """Take what is on disk, with the marks of the conflict in it, and go on to the end."""

    def conclude() -> None:
        for step in range(6):
            if words[0] == "am" and not git("status", "--porcelain", "--untracked-files=no"):
                write(".", "src/app.py", f"resolved {step}\n")  # nothing of the patch applied
            git("add", "--all")
            attempt(*words)
            if not git("ls-files", "--unmerged") and not is_stopped():
                return

    return conclude


def is_stopped() -> bool:
    names = ("rebase-merge", "rebase-apply", "sequencer", "CHERRY_PICK_HEAD", "REVERT_HEAD")
    return any(os.path.exists(git("rev-parse", "--git-path", name).strip()) for name in names)


def giving_up(*words: str) -> Callable[[], None]:
    return lambda: attempt(*words)


def begin_rebase(*options: str) -> Callable[[], None]:
    def begin() -> None:
        git("switch", "-q", "topic")
        attempt("rebase", *options, "main")

    return begin


def begin_autostash_rebase() -> None:
    git("switch", "-q", "topic")
    write(".", "README.md", "dirty, to be stashed\n")
    write(".", "untracked", "stays\n")
    attempt("rebase", "--autostash", "main")


def begin_interactive_rebase() -> None:
    git("switch", "-q", "topic")
    first, second = git("rev-list", "--reverse", "main..topic").split()
    editing(f"edit {first}\\nexec true\\nfixup {second}\\nbreak\\n", "rebase", "-i", "main~1")
    write(".", "new", "amended\n")
    git("add", "new")


def begin_rebase_of_merges() -> None:
    git("switch", "-q", "topic")
    attempt("merge", "-q", "--no-ff", "-m", "joined", "side")
    attempt("rebase", "--rebase-merges", "main")


def begin_rebase_with_update_refs() -> None:
    git("branch", "middle", "topic~1")
    git("switch", "-q", "topic")
    attempt("rebase", "--update-refs", "main")


def begin_am(*options: str) -> Callable[[], None]:
    def begin() -> None:
        git("switch", "-q", "main")
        git("format-patch", "-q", "-o", "../patches", "topic~2..topic")
        patches = sorted(str(path) for path in Path("../patches").iterdir())
        attempt("am", *options, *patches)

    return begin


def begin_bisect() -> None:
    git("switch", "-q", "main")
    git("bisect", "start", "HEAD", "HEAD~3")


def conclude_bisect() -> None:
    while "is the first bad commit" not in git("bisect", "bad"):
        pass


def begin_merge(*options: str) -> Callable[[], None]:
    def begin() -> None:
        git("switch", "-q", "main")
        write(".", "README.md", "dirty\n")
        attempt("merge", *options, "topic")

    return begin


def begin_autostash_merge() -> None:
    git("switch", "-q", "main")
    write(".", "README.md", "dirty, to be stashed\n")
    attempt("merge", "--autostash", "topic")


OPERATIONS = [
    Stopped(
        "merge",
        begin_merge(),
        resolved("merge", "--continue"),
        giving_up("merge", "--abort"),
        "merge",
    ),
    Stopped(
        "merge without commit",
        begin_merge("--no-commit", "--no-ff", "-Xours"),
        resolved("merge", "--continue"),
        giving_up("merge", "--abort"),
        "merge",
    ),
    Stopped(
        "merge with autostash",
        begin_autostash_merge,
        resolved("merge", "--continue"),
        giving_up("merge", "--abort"),
        "merge",
    ),
    Stopped(
        "cherry-pick of one",
        lambda: attempt("cherry-pick", "topic~1"),
        resolved("cherry-pick", "--continue"),
        giving_up("cherry-pick", "--abort"),
        "cherry-pick",
    ),
    Stopped(
        "cherry-pick of several",
        lambda: attempt("cherry-pick", "topic~2..topic"),
        resolved("cherry-pick", "--continue"),
        giving_up("cherry-pick", "--abort"),
        "cherry-pick+sequencer",
    ),
    Stopped(
        "revert",
        lambda: attempt("revert", "--no-edit", "HEAD~1"),
        resolved("revert", "--continue"),
        giving_up("revert", "--abort"),
        "revert",
    ),
    Stopped(
        "revert of several",
        lambda: attempt("revert", "--no-edit", "HEAD~2..HEAD~1", "HEAD~3..HEAD~2"),
        resolved("revert", "--continue"),
        giving_up("revert", "--abort"),
        "revert+sequencer",
    ),
    Stopped(
        "rebase",
        begin_rebase(),
        resolved("rebase", "--continue"),
        giving_up("rebase", "--abort"),
        "rebase",
    ),
    Stopped(
        "rebase, apply backend",
        begin_rebase("--apply"),
        resolved("rebase", "--continue"),
        giving_up("rebase", "--abort"),
        "rebase",
    ),
    Stopped(
        "rebase with autostash",
        begin_autostash_rebase,
        resolved("rebase", "--continue"),
        giving_up("rebase", "--abort"),
        "rebase",
    ),
    Stopped(
        "interactive rebase",
        begin_interactive_rebase,
        resolved("rebase", "--continue"),
        giving_up("rebase", "--abort"),
        "rebase",
    ),
    Stopped(
        "rebase of merges",
        begin_rebase_of_merges,
        resolved("rebase", "--continue"),
        giving_up("rebase", "--abort"),
        "rebase",
    ),
    Stopped(
        "rebase that updates refs",
        begin_rebase_with_update_refs,
        resolved("rebase", "--continue"),
        giving_up("rebase", "--abort"),
        "rebase",
    ),
    Stopped(
        "am",
        begin_am(),
        resolved("am", "--continue"),
        giving_up("am", "--abort"),
        "am",
    ),
    Stopped(
        "am, three-way",
        begin_am("--3way"),
        resolved("am", "--continue"),
        giving_up("am", "--abort"),
        "am",
    ),
    Stopped(
        "bisect",
        begin_bisect,
        conclude_bisect,
        giving_up("bisect", "reset"),
        "bisect",
    ),
]
each_operation = pytest.mark.parametrize("stopped", OPERATIONS, ids=lambda stopped: stopped.name)


@pytest.fixture
def history(
    once: Callable[[Callable[[Path], object]], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    top = copy_repository(once(branches), tmp_path / "repo")
    monkeypatch.chdir(top)
    return top


def branches(top: Path) -> None:
    """Branches that conflict: `main` and `topic` change the same lines, `side` another file."""
    example(top)
    git("switch", "-q", "-c", "side", cwd=top)
    write(top, "aside", "aside\n")
    git("add", "--all", cwd=top)
    git("commit", "-q", "-m", "side", cwd=top)
    git("switch", "-q", "-c", "topic", "main", cwd=top)
    for number in (1, 2):
        write(top, "src/app.py", f"topic {number}\n")
        write(top, f"topic{number}", f"{number}\n")
        git("add", "--all", cwd=top)
        git("commit", "-q", "-m", f"topic {number}", cwd=top)
    git("switch", "-q", "main", cwd=top)
    for number in (1, 2, 3, 4):
        write(top, "src/app.py", f"main {number}\n")
        git("commit", "-q", "-a", "-m", f"main {number}", cwd=top)


def refs() -> str:
    wanted = ("refs/heads", "refs/bisect", "refs/rewritten", "refs/tags")
    head = git("rev-parse", "HEAD") + git("rev-parse", "--symbolic-full-name", "HEAD")
    return git("for-each-ref", *wanted) + head


def git_dir_files(top: Path, *known: str) -> dict[str, bytes]:
    """Every file of the git dir in which an operation may be remembered.

    An ORIG_HEAD where there was none is no harm: git leaves one after many commands.
    """
    found = {}
    for folder, folders, names in os.walk(top / ".git"):
        place = Path(folder).relative_to(top / ".git")
        if place == Path():
            folders[:] = [name for name in folders if name not in _ELSEWHERE]
        for name in set(names) - _UNRELATED:
            if not str(place / name).startswith(("refs/checkpoints", "refs/heads")):
                found[str(place / name)] = Path(folder, name).read_bytes()
    if known and "ORIG_HEAD" not in known:
        found.pop("ORIG_HEAD", None)
    return found


def objects_named(files: dict[str, bytes]) -> set[str]:
    """The commits and trees that are there and named in full."""
    names = {
        name.decode() for text in files.values() for name in re.findall(rb"[0-9a-f]{40}", text)
    }
    listing = git("cat-file", "--batch-check", stdin="".join(f"{n}\n" for n in sorted(names)))
    return {line for line in listing.splitlines() if " commit " in line or " tree " in line}


def save(*words: str) -> str:
    return ckpt("save", "--json", *words, code=0).json["checkpoint"]["id"]


def forget_everything() -> None:
    """What only reflogs and files of operations held is gone after this."""
    git("reflog", "expire", "--expire=now", "--all")
    git("gc", "-q", "--prune=now")


def wipe(top: Path) -> None:
    attempt("reset", "-q", "--hard")
    attempt("clean", "-q", "-f", "-d")


@each_operation
def test_a_stopped_operation_comes_back_and_goes_on_although_git_forgot_it(
    stopped: Stopped, history: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped.begin()
    shutil.copytree(history, tmp_path / "left alone", symlinks=True)
    before, held, named = state(history), git_dir_files(history), refs()
    objects, saved = objects_named(held), save()
    shown = ckpt("show", saved, code=0).stdout
    assert f"a {stopped.operation}\n" in shown
    assert f"git ckpt rollback {saved} --head\n" in shown

    stopped.give_up()
    wipe(history)
    git("switch", "-q", "--detach", "side")
    git("branch", "-q", "-D", "topic", "main")
    forget_everything()
    told = ckpt("rollback", "--yes", "--json", saved, "--head", code=0).json

    assert told["head"]["operation"] == {"before": None, "after": stopped.operation}
    assert state(history) == before
    assert git_dir_files(history, *held) == held
    if stopped.operation != "rebase":  # of the branches, only those that the operation needs
        assert git("rev-parse", "HEAD").strip() in named
    forget_everything()
    fsck(history)
    assert objects_named(held) == objects
    stopped.conclude()
    ended = (state(history), git("log", "--format=%T %s", "HEAD"), git("rev-parse", "HEAD"))
    monkeypatch.chdir(tmp_path / "left alone")
    stopped.conclude()
    alone = Path.cwd()
    assert not is_stopped()
    assert ended[1:] == (git("log", "--format=%T %s", "HEAD"), git("rev-parse", "HEAD"))
    assert ended[0] == state(alone)


@each_operation
def test_an_operation_that_was_concluded_can_be_had_again_and_given_up(
    stopped: Stopped, history: Path
) -> None:
    heads = refs()
    stopped.begin()
    before, held, named = state(history), git_dir_files(history), refs()
    saved = save()

    stopped.conclude()
    after, left, moved = state(history), git_dir_files(history), refs()
    ckpt("rollback", "--yes", saved, "--head", code=0)

    assert (state(history), git_dir_files(history), refs()) == (before, held, named)
    ckpt("undo", "--yes", code=0)
    assert (state(history), refs()) == (after, moved)
    left.pop("ORIG_HEAD", None)
    found = git_dir_files(history)
    found.pop("ORIG_HEAD", None)
    assert found == left
    ckpt("undo", "--yes", code=0)
    assert (state(history), git_dir_files(history), refs()) == (before, held, named)
    stopped.give_up()
    assert not is_stopped()
    if stopped.name not in ("rebase of merges", "rebase that updates refs"):
        assert set(refs().splitlines()[:-2]) == set(heads.splitlines()[:-2])


@each_operation
def test_in_the_middle_of_an_operation_a_state_without_one_can_be_had(
    stopped: Stopped, history: Path
) -> None:
    before, named, saved = state(history), refs(), save()
    stopped.begin()
    middle, held, stopped_at = state(history), git_dir_files(history), refs()

    refused = ckpt("rollback", saved, code=4)
    assert (state(history), git_dir_files(history)) == (middle, held)
    assert f"git ckpt rollback {saved} --head" in refused.stderr
    assert f"git ckpt rollback {saved} -- PATH" in refused.stderr
    told = ckpt("rollback", "--yes", saved, "--head", code=0).stdout

    assert f"the {stopped.operation} is no longer in progress" in told
    assert not is_stopped()
    assert (state(history).files, state(history).index) == (before.files, before.index)
    assert refs().splitlines()[-2:] == named.splitlines()[-2:]
    ckpt("undo", "--yes", code=0)
    assert (state(history), git_dir_files(history)) == (middle, held)
    assert refs() == stopped_at


# -- where the operation stays, and where it must not be touched ----------------------------


def merging() -> None:
    git("switch", "-q", "main")
    attempt("merge", "topic")


def test_in_one_and_the_same_merge_the_files_come_back_and_it_can_be_concluded(
    history: Path,
) -> None:
    merging()
    before, held, saved = state(history), git_dir_files(history), save()
    write(history, "src/app.py", "resolved wrongly\n")
    git("add", "--all")

    told = ckpt("rollback", "--json", saved, code=0).json

    assert told["head"]["operation"] is None
    assert (state(history), git_dir_files(history)) == (before, held)
    write(history, "src/app.py", "resolved\n")
    git("add", "--all")
    git("-c", "core.editor=true", "merge", "--continue")
    assert len(git("rev-parse", "HEAD^@").split()) == 2


def test_a_rebase_that_has_gone_on_is_not_the_one_that_was_saved(history: Path) -> None:
    begin_rebase()()
    saved = save()
    git("add", "--all")
    attempt("rebase", "--continue")
    assert is_stopped()
    before, held = state(history), git_dir_files(history)

    refused = ckpt("rollback", saved, code=4)

    assert "has moved on since" in refused.stderr
    assert (state(history), git_dir_files(history)) == (before, held)


def test_a_dry_run_tells_of_the_operation_and_touches_nothing(history: Path) -> None:
    saved = save()
    merging()
    before, held = state(history), git_dir_files(history)

    told = ckpt("rollback", "--dry-run", saved, "--head", code=0).stdout

    assert "the merge would end" in told
    assert (state(history), git_dir_files(history)) == (before, held)


def test_a_merge_in_a_linked_worktree_is_that_worktrees_own(
    history: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    linked = tmp_path / "linked"
    git("worktree", "add", "-q", str(linked), "topic")
    monkeypatch.chdir(linked)
    attempt("merge", "main")
    own = Path(git("rev-parse", "--git-dir").strip())
    names, saved = {path.name for path in own.iterdir()}, save()
    assert "MERGE_HEAD" in names
    git("merge", "--abort")

    ckpt("rollback", "--yes", saved, "--head", code=0)

    assert {path.name for path in own.iterdir()} - {"ORIG_HEAD"} >= names - {"ORIG_HEAD"}
    assert not (history / ".git/MERGE_HEAD").exists()
    git("add", "--all")
    git("-c", "core.editor=true", "merge", "--continue")
    assert len(git("rev-parse", "HEAD^@").split()) == 2


def test_what_is_no_file_of_an_operation_never_gets_into_a_git_dir(history: Path) -> None:
    saved = save()
    commit = git("rev-parse", f"refs/checkpoints/{saved}").strip()
    parent = git("rev-parse", f"{commit}^1").strip()
    blob = git("hash-object", "-w", "--stdin", stdin="[core]\n\tfsmonitor = touch /tmp/x\n").strip()
    listing = git("ls-tree", f"{commit}^2")
    files = git("mktree", stdin=f"100644 blob {blob}\tconfig\n").strip()
    folder = git("mktree", stdin=f"040000 tree {files}\tfiles\n").strip()
    tree = git("mktree", stdin=listing + f"040000 tree {folder}\top\n").strip()
    state_commit = git("commit-tree", tree, "-m", "state").strip()
    message = git("log", "-1", "--format=%B", commit).strip()
    message = re.sub(r"Ckpt-State: \w+", f"Ckpt-State: {state_commit}", message)
    forged = git(
        "commit-tree", f"{commit}^{{tree}}", "-p", parent, "-p", state_commit, stdin=message
    )
    git("update-ref", f"refs/checkpoints/{saved}", forged.strip())
    write(history, "src/app.py", "edited\n")
    config = (history / ".git/config").read_bytes()

    ckpt("rollback", saved, "--head", code=0)

    assert (history / ".git/config").read_bytes() == config
    assert (history / "src/app.py").read_text() != "edited\n"


def test_an_operation_begun_after_an_interrupted_rollback_is_saved_before_it_goes(
    history: Path,
) -> None:
    merging()
    saved = save()
    git("merge", "--abort")
    half_way(history, saved)
    git("reset", "-q", "--hard")
    attempt("cherry-pick", "topic~1")
    assert (history / ".git/CHERRY_PICK_HEAD").exists()

    told = ckpt("rollback", "--continue", "--json", code=0).json

    assert (history / ".git/MERGE_HEAD").exists()
    assert not (history / ".git/CHERRY_PICK_HEAD").exists()
    assert told["safety"]["git_state"]["operation"] == "cherry-pick"


def half_way(top: Path, saved: str) -> None:
    """A rollback that stopped before it put the operation in its place."""
    script = (
        f"{SETUP}"
        "from ckpt.cli import main\n"
        "def stop(operation, path):\n"
        "    if operation == 'rename' and path.endswith('MERGE_MSG'):\n"
        "        raise OSError(28, 'No space left on device')\n"
        "seam.observe(stop)\n"
        f"sys.exit(main(['rollback', '--yes', '{saved}', '--head']))\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, cwd=top)
    assert ran.returncode == 1, ran
