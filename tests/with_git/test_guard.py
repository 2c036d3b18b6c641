# SPDX-License-Identifier: MIT
"""The guard: whatever git destroys, the newest checkpoint has it.

Each command runs in a worktree with staged, unstaged and untracked changes, once with the
guard and once without: git must do the same both times. With CKPT_TEST_GIT, the path of
another git, everything is done with that one too.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from guards import OFF, Seen, build, copy, install_all, run, spoil, write
from helpers import ckpt_here, git

OTHER_GIT = os.environ.get("CKPT_TEST_GIT")

# Name, what the worktree is like before, the commands that lead there, the commands to survive.
# A line may begin with `?`: git may refuse it.
COMMANDS = [
    ("checkout-f", "all", [], ["git checkout -f"]),
    ("checkout-f-branch", "all", [], ["git checkout -f other"]),
    ("checkout-paths", "all", [], ["git checkout -- ."]),
    ("checkout-head-paths", "all", [], ["git checkout HEAD -- ."]),
    ("checkout-older-paths", "all", [], ["git checkout HEAD~3 -- ."]),
    ("checkout-branch", "all", [], ["git checkout other"]),
    ("checkout-m", "none", [], ["?git checkout -m clash"]),
    ("checkout-detached", "none", [], ["git checkout -q --detach HEAD~1"]),
    ("switch", "none", [], ["git switch -q other"]),
    ("switch-discard", "all", [], ["git switch --discard-changes other"]),
    ("restore", "all", [], ["git restore ."]),
    ("restore-staged", "all", [], ["git restore --staged --worktree ."]),
    ("restore-source", "all", [], ["git restore --source=HEAD~3 a.txt c.txt"]),
    ("reset-hard", "all", [], ["git reset --hard"]),
    ("reset-hard-back", "all", [], ["git reset --hard HEAD~2"]),
    ("reset-mixed", "all", [], ["git reset -q"]),
    ("reset-merge", "light", [], ["git reset --merge"]),
    ("reset-keep", "none", [], ["git reset --keep HEAD~1"]),
    ("clean-fd", "all", [], ["git clean -fdq"]),
    ("clean-fdx", "all", [], ["git clean -fdxq"]),
    ("stash", "all", [], ["git stash -q"]),
    ("stash-u-drop", "all", [], ["git stash push -u -q", "git stash drop -q"]),
    ("stash-all", "all", [], ["git stash push --all -q"]),
    ("stash-keep-index", "all", [], ["git stash push -k -u -q"]),
    ("stash-apply", "none", ["git stash -q"], ["git stash apply -q"]),
    ("rm-f", "all", [], ["git rm -qf a.txt b.txt c.txt"]),
    ("rm-cached", "all", [], ["git rm -q -r -f --cached ."]),
    ("mv-f", "all", [], ["git mv -f c.txt a.txt"]),
    ("merge", "none", [], ["git merge -q other"]),
    ("merge-ff", "all", [], ["git merge -q --ff-only origin/main"]),
    ("merge-autostash", "all", [], ["?git merge -q --autostash other"]),
    ("pull", "none", [], ["git pull -q --no-rebase"]),
    ("pull-rebase-autostash", "all", [], ["git pull -q --rebase --autostash"]),
    ("rebase-autostash", "all", [], ["git rebase -q --autostash other"]),
    ("cherry-pick", "none", [], ["git cherry-pick other"]),
    ("revert", "none", [], ["git revert --no-edit HEAD"]),
    ("am", "none", [], ["git am -q $PATCHES/0001-of-another-branch.patch"]),
    ("apply-index", "all", [], ["git apply --index $PATCHES/0001-of-another-branch.patch"]),
    ("read-tree", "all", [], ["git read-tree -u --reset other"]),
    ("checkout-index", "all", [], ["git checkout-index -f -a"]),
    ("sparse-checkout", "none", [], ["git sparse-checkout set sub"]),
    ("bisect", "none", [], ["git bisect start HEAD HEAD~2"]),
    ("alias", "all", ["git config alias.co checkout"], ["git co -f other"]),
    ("shell-alias", "all", ["git config alias.x '!git reset --hard && git clean -fd'"], ["git x"]),
    ("option-C", "all", [], ["git -C sub restore .."]),
    ("option-c", "all", [], ["git -c core.quotepath=false -c log.x=status checkout HEAD -- a.txt"]),
    ("git-dir", "all", [], ["git --git-dir=.git --work-tree=. checkout -f"]),
    (
        "no-options",
        "all",
        [],
        ["git --no-pager --no-optional-locks --literal-pathspecs reset --hard"],
    ),
    ("full-path", "all", [], ["$GIT_BIN/git checkout -f"]),
    ("dashed", "all", [], ["$(git --exec-path)/git-checkout -f"]),
    ("through-a-shell", "all", [], ["sh -c 'git reset --hard && :'"]),
    ("editor-discards", "all", [], ["git checkout -q -- a.txt"]),
    ("editor-deletes", "all", [], ["git clean -f -q -- new.txt"]),
]
IN_CONFLICT = [
    ("merge", "git merge -q clash", "git merge --abort"),
    ("merge-reset", "git merge -q clash", "git reset --merge"),
    ("rebase", "git rebase -q clash", "git rebase --abort"),
    ("rebase-skip", "git rebase -q clash", "git rebase --skip"),
    ("cherry-pick", "git cherry-pick clash", "git cherry-pick --abort"),
    ("revert", "git revert --no-edit HEAD~1", "git revert --abort"),
    ("am", "git am -q -3 $PATCHES/0001-clash.patch", "git am --abort"),
    ("ours", "git merge -q clash", "git checkout --ours c.txt"),
    ("resolved", "git merge -q clash", "git checkout -m c.txt"),
]


_built: dict[str, Path] = {}


@pytest.fixture(
    params=[
        "git",
        pytest.param(
            "other git",
            marks=pytest.mark.skipif(OTHER_GIT is None, reason="CKPT_TEST_GIT names no other git"),
        ),
    ]
)
def pattern(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """The repository that each test copies, and the git that it uses."""
    if request.param == "other git":
        monkeypatch.setenv("PATH", f"{Path(OTHER_GIT or '').parent}:{os.environ['PATH']}")
    if request.param not in _built:
        _built[request.param] = build(tmp_path_factory.mktemp("guard") / "repo")
    top = _built[request.param]
    monkeypatch.setenv("PATCHES", str(top.parent / "patches"))
    monkeypatch.setenv("GIT_BIN", str(Path(shutil.which("git") or "").parent))
    return top


def type_in(top: Path, line: str, **env: str) -> None:
    ran = run("sh", "-c", line.removeprefix("?"), cwd=top, **env)
    assert ran.returncode == 0 or line.startswith("?"), f"{line}: {ran.stderr}"


def checkpoints(top: Path) -> list[Any]:
    found: list[Any] = ckpt_here("list", "--json", cwd=top).json["checkpoints"]
    return found


def destroyed(pattern: Path, top: Path, how: str, before: list[str], lines: list[str]) -> Seen:
    """What is left when nobody guards."""
    copy(pattern, top)
    prepare(top, how, before)
    for line in lines:
        type_in(top, line)
    return Seen.at(top)


def prepare(top: Path, how: str, before: list[str]) -> None:
    if before:
        write(top / "d.txt", "edited before\n")
    for line in before:
        type_in(top, line, **OFF)
    spoil(top, how)


@pytest.mark.parametrize(
    ("how", "before", "lines"), [row[1:] for row in COMMANDS], ids=[row[0] for row in COMMANDS]
)
def test_what_a_command_destroys_is_in_the_newest_checkpoint(
    pattern: Path, tmp_path: Path, how: str, before: list[str], lines: list[str]
) -> None:
    top = copy(pattern, tmp_path / "guarded")
    install_all(top)
    prepare(top, how, before)
    seen = Seen.at(top)

    for line in lines:
        type_in(top, line)

    left = Seen.at(top)
    assert left != seen
    assert left == destroyed(pattern, tmp_path / "plain", how, before, lines)
    assert [checkpoint["trigger"] for checkpoint in checkpoints(top)] == ["guard"]
    ckpt_here("rollback", "--head", "--yes", cwd=top, code=0)
    assert seen == Seen.at(top)


@pytest.mark.parametrize(
    ("start", "end"), [row[1:] for row in IN_CONFLICT], ids=[row[0] for row in IN_CONFLICT]
)
def test_a_conflict_half_resolved_comes_back_with_its_operation(
    pattern: Path, tmp_path: Path, start: str, end: str
) -> None:
    top = copy(pattern, tmp_path / "guarded")
    install_all(top)
    type_in(top, "?" + start, **OFF)
    spoil(top, "light")
    type_in(top, "git checkout -q -- a.txt", **OFF)  # git refuses to end what was edited later
    write(top / "c.txt", "half resolved\n<<<<<<< HEAD\n")
    seen, told = Seen.at(top), git("status", cwd=top)

    type_in(top, end)

    assert Seen.at(top) != seen
    assert [checkpoint["trigger"] for checkpoint in checkpoints(top)] == ["guard"]
    ckpt_here("rollback", "--head", "--yes", cwd=top, code=0)
    assert seen == Seen.at(top)
    assert told == git("status", cwd=top)
