# SPDX-License-Identifier: MIT
"""Rollbacks to interrupt: a worktree, the words to type, and where that must lead.

Between them they do all that a rollback can: write, remove and re-type files, change
nothing but permission bits, make and empty folders, put the index back, move branches
and HEAD. Small ones, because each is copied and run some hundred times.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from helpers import ckpt, fsck, git, verified
from scenes import State, link, remove, state, write

# Private files that are always there; everything else in that folder is a leftover.
PRIVATE = {"lock", "last-rollback", "made-here", "saves", "scan", "triggers"}
PRIVATE |= {"prune-lock", "gc-lock", "space", "conversions"}
TEMPORARY = (".ckpt-tmp-", ".tmp-", "tmp_idx_", "tmp_ckpt_")
OF_OBJECTS = ("tmp_obj_", "tmp_pack_")  # after a kill they are left to git's gc


@dataclass(frozen=True)
class Look:
    """All that must be exact: files, index and status, HEAD and where each branch stands,
    what git remembers of an operation in progress, and the same of every submodule."""

    state: State
    head: bytes
    branches: str
    operation: dict[str, bytes]
    submodules: tuple[Look, ...] = ()


@dataclass(frozen=True)
class Scene:
    """`top` is the worktree before the rollback; runs are made in copies of it."""

    top: Path
    words: tuple[str, ...]
    before: Look
    after: Look
    checkpoints: dict[str, str]

    def copy(self, name: str = "run") -> Path:
        """A fresh copy; the one before it of that name goes."""
        top = self.top.with_name(name)
        if top.exists():
            shutil.rmtree(top)
        subprocess.run(["cp", "-a", str(self.top), str(top)], check=True)
        _renew_objects(top)
        return top

    def check(self, top: Path, expected: Look) -> None:
        """The state is exact, nothing lies around, and nothing that was saved is gone."""
        assert differences(look(top), expected) == []
        assert leftovers(top) == []
        assert [complaint for place in repositories(top) for complaint in fsck(place)] == []
        assert [problem for place in repositories(top) for problem in verified(place)] == []
        assert checkpoints(top).items() >= self.checkpoints.items()


def _renew_objects(top: Path) -> None:
    """What git wrote within two minutes a save flushes: so that it does the same in each run,
    however long a sweep takes, all is of this moment."""
    for folder, _, names in os.walk(top / ".git"):
        if "/objects/" in folder:
            for name in names:
                os.utime(os.path.join(folder, name))


def repositories(top: Path) -> list[Path]:
    """The worktree, then its submodules and theirs."""
    found = []
    for folder, folders, files in os.walk(top):
        if ".git" in folders or ".git" in files:
            found.append(Path(folder))
        folders[:] = [name for name in folders if name != ".git"]
    return [top, *sorted(path for path in found if path != top)]


def look(top: Path) -> Look:
    looks = [_look(place) for place in repositories(top)]
    return replace(looks[0], submodules=tuple(looks[1:]))


def _look(top: Path) -> Look:
    branches = git("for-each-ref", "refs/heads", "--format=%(refname) %(objectname)", cwd=top)
    git_dir = top / git("rev-parse", "--git-dir", cwd=top).strip()
    return Look(state(top), (git_dir / "HEAD").read_bytes(), branches, _operation(git_dir))


def _operation(git_dir: Path) -> dict[str, bytes]:
    files = [path for path in git_dir.glob("*_*") if path.name.isupper()]
    for folder in ("rebase-merge", "rebase-apply", "sequencer", "refs/bisect"):
        files += (git_dir / folder).glob("**/*")
    unrelated = ("ORIG_HEAD", "COMMIT_EDITMSG")
    return {
        str(path.relative_to(git_dir)): path.read_bytes()
        for path in files
        if path.is_file() and path.name not in unrelated
    }


def differences(found: Look, expected: Look) -> list[object]:
    """What is there, and what should be, where these are not the same."""
    paths = found.state.files.keys() | expected.state.files.keys()
    files = [(p, found.state.files.get(p), expected.state.files.get(p)) for p in sorted(paths)]
    others = [
        (found.state.status, expected.state.status),
        (found.state.index, expected.state.index),
        (found.head, expected.head),
        (found.branches, expected.branches),
        (found.operation, expected.operation),
    ]
    inside: list[object] = []
    if len(found.submodules) != len(expected.submodules):
        inside.append((found.submodules, expected.submodules))
    for pair in zip(found.submodules, expected.submodules, strict=False):
        inside += differences(*pair)
    own = [item for item in files if item[1] != item[2]] + [o for o in others if o[0] != o[1]]
    return own + inside


def checkpoints(top: Path) -> dict[str, str]:
    """Ref to commit, in submodules too."""
    words = ["for-each-ref", "refs/checkpoints", "--format=%(refname) %(objectname)"]
    lines = [line for place in repositories(top) for line in git(*words, cwd=place).splitlines()]
    return dict(line.split(" ") for line in lines)


def leftovers(top: Path) -> list[str]:
    """Temporary files, locks, journals and half packs, in worktree and git dir alike."""
    found = []
    for folder, _, names in os.walk(top):
        inside = os.path.relpath(folder, top)
        in_git_dir = inside.split("/")[0] == ".git"
        is_private = in_git_dir and os.path.basename(inside) == "ckpt"
        for name in names:
            if is_private:
                odd = name not in PRIVATE
            elif in_git_dir and inside.endswith("/objects/pack"):
                odd = not name.startswith(OF_OBJECTS) and not _whole_pack(name, names)
            else:
                odd = name.endswith(".lock") or name.startswith(TEMPORARY)
            if odd:
                found.append(os.path.join(inside, name))
    return found


def temporary_objects(top: Path) -> list[Path]:
    """Those that git's gc clears away, and that only a kill may leave."""
    return [path for name in OF_OBJECTS for path in (top / ".git/objects").rglob(name + "*")]


def _whole_pack(name: str, names: list[str]) -> bool:
    """Whether the file belongs to a pack that git can use and is free to take away."""
    stem, kind = os.path.splitext(name)
    return kind not in (".keep", ".lock") and {f"{stem}.pack", f"{stem}.idx"} <= set(names)


def has_journal(top: Path) -> bool:
    return (top / ".git/ckpt/journal").exists()


def commit(top: Path) -> None:
    """Git is not blocked: not by a lock, not by half an operation."""
    git("add", "--all", cwd=top)
    git("commit", "-q", "--allow-empty", "-m", "not blocked", cwd=top)


def save(top: Path, *words: str) -> str:
    checkpoint = ckpt("save", "--json", *words, cwd=top, code=0).json["checkpoint"]
    return str(checkpoint["id"])


# -- the scenes ---------------------------------------------------------------------


def _first_commit(top: Path) -> None:
    top.mkdir()
    git("init", "-q", cwd=top)
    for name in ("edited", "staged", "both", "deleted", "same"):
        write(top, f"src/{name}", f"{name} in the commit\n")
    write(top, "src/deep/down/file", "deep\n")
    write(top, "run", "#!/bin/sh\n", 0o755)
    write(top, "private", "secret\n", 0o600)
    write(top, "becomes-folder", "a file\n")
    write(top, "becomes-file/inside", "in a folder\n")
    write(top, "becomes-link", "a file\n")
    link(top, "was-link", "src/same")
    link(top, "link", "src/edited")
    write(top, ".gitignore", "*.log\n")
    write(top, "out.log", "ignored\n")
    git("add", "--all", cwd=top)
    git("commit", "-q", "-m", "first", cwd=top)


def _work(top: Path) -> None:
    """The state that the rollback goes to."""
    write(top, "src/staged", "staged\n")
    write(top, "src/both", "staged\n")
    write(top, "src/intended", "to be added\n")
    git("add", "src/staged", "src/both", cwd=top)
    git("add", "-N", "src/intended", cwd=top)
    write(top, "src/both", "staged and edited again\n")
    write(top, "src/edited", "edited\n")
    remove(top, "src/deleted")
    write(top, "untracked/deeper/file", "only here\n")
    write(top, "untracked/secret", "only for me\n", 0o600)
    write(top, b"untracked/caf\xe9", b"\x00\xff")
    link(top, "untracked/link", "nowhere")
    (top / "src/hollow/inner").mkdir(parents=True)


def _break(top: Path) -> None:
    """The state that the rollback leaves."""
    write(top, "src/staged", "other\n")
    git("add", "src/staged", cwd=top)
    git("reset", "-q", "src/both", cwd=top)
    git("rm", "-q", "--cached", "--ignore-unmatch", "src/intended", cwd=top)
    write(top, "src/edited", "broken\n")
    write(top, "src/deleted", "back again\n")
    remove(top, "src/deep")
    remove(top, "untracked/deeper")
    write(top, "untracked/secret", "only for me\n", 0o640)
    write(top, "untracked/link", "a file now\n")
    (top / "run").chmod(0o644)
    (top / "private").chmod(0o644)
    write(top, "becomes-folder/now", "a folder\n")
    write(top, "becomes-file", "a file\n")
    link(top, "becomes-link", "src/same")
    write(top, "was-link", "a file\n")
    link(top, "link", "elsewhere")
    write(top, "new/from/nowhere", "new\n")
    write(top, "new/staged", "new\n")
    git("add", "new/staged", cwd=top)
    remove(top, "src/hollow")
    (top / "new/void/of/all").mkdir(parents=True)


def whole(top: Path) -> Scene:
    """Everything, HEAD stays."""
    _first_commit(top)
    _work(top)
    target = save(top, "target")
    wanted = look(top)
    _break(top)
    return _scene(top, ("rollback", target, "--yes"), wanted)


def by_path(top: Path) -> Scene:
    """Some paths; the others stay in worktree and index alike."""
    _first_commit(top)
    _work(top)
    target = save(top, "target")
    _break(top)
    paths = ["src", "becomes-folder", "becomes-file", "new", "link", "private"]
    words = ("rollback", target, "--yes", "--", *paths)
    return _scene(top, words, None)


def other_branch(top: Path) -> Scene:
    """HEAD goes from main to a branch that has grown since."""
    _first_commit(top)
    git("switch", "-q", "-c", "topic/one", cwd=top)
    _work(top)
    target = save(top, "target")
    wanted = look(top)
    _clean(top)
    _grow(top)
    git("switch", "-q", "main", cwd=top)
    _break(top)
    return _scene(top, ("rollback", target, "--yes", "--head"), wanted)


def same_branch(top: Path) -> Scene:
    """HEAD stays on its branch, which goes back."""
    _first_commit(top)
    _work(top)
    target = save(top, "target")
    wanted = look(top)
    _clean(top)
    _grow(top)
    return _scene(top, ("rollback", target, "--yes", "--head"), wanted)


def detached(top: Path) -> Scene:
    """HEAD leaves its branch."""
    _first_commit(top)
    _grow(top)
    git("checkout", "-q", "--detach", "HEAD~1", cwd=top)
    write(top, "src/edited", "edited\n")
    target = save(top, "target")
    wanted = look(top)
    _clean(top)
    git("switch", "-q", "main", cwd=top)
    return _scene(top, ("rollback", target, "--yes", "--head"), wanted)


def off_branch(top: Path) -> Scene:
    """HEAD is on no branch, and nothing else will hold the commit that it leaves."""
    _first_commit(top)
    git("checkout", "-q", "--detach", cwd=top)
    _work(top)
    target = save(top, "target")
    wanted = look(top)
    _clean(top)
    _grow(top)
    git("branch", "other", "HEAD~1", cwd=top)
    wanted = replace(wanted, branches=look(top).branches)
    return _scene(top, ("rollback", target, "--yes", "--head"), wanted)


def unborn(top: Path) -> Scene:
    """The branch did not exist yet."""
    top.mkdir()
    git("init", "-q", cwd=top)
    write(top, "staged", "staged\n")
    git("add", "staged", cwd=top)
    write(top, "untracked", "untracked\n")
    target = save(top, "target")
    wanted = look(top)
    write(top, "staged", "edited\n")
    git("commit", "-q", "-a", "-m", "first", cwd=top)
    git("pack-refs", "--all", cwd=top)
    return _scene(top, ("rollback", target, "--yes", "--head"), wanted)


def operation(top: Path) -> Scene:
    """A stopped rebase, in the middle of which a branch has ended in a stopped merge."""
    _first_commit(top)
    _grow(top)
    git("switch", "-q", "-c", "topic", "HEAD~1", cwd=top)
    write(top, "src/edited", "edited otherwise\n")
    git("commit", "-q", "-a", "-m", "otherwise", cwd=top)
    _conflict(top, "rebase", "main")
    write(top, "untracked", "only here\n")
    target = save(top, "target")
    wanted = look(top)
    git("rebase", "--abort", cwd=top)
    remove(top, "untracked")
    write(top, "src/same", "more\n")
    git("commit", "-q", "-a", "-m", "more", cwd=top)
    git("bisect", "start", "topic", "main~1", cwd=top)
    git("checkout", "-q", "main", cwd=top)
    _conflict(top, "merge", "topic")
    return _scene(top, ("rollback", target, "--yes", "--head"), wanted)


def submodules(top: Path) -> Scene:
    """A submodule on another branch, one in it in the middle of a merge, all go back at once."""
    _small(top.with_name("inner"))
    outer = _small(top.with_name("outer"))
    _add_submodule(outer, "inner")
    _small(top)
    _add_submodule(top, "outer")
    outer, inner = top / "outer", top / "outer/inner"
    git("switch", "-q", "-c", "topic", cwd=inner)
    write(inner, "edited", "topic\n")
    git("commit", "-q", "-a", "-m", "topic", cwd=inner)
    git("switch", "-q", "main", cwd=inner)
    write(inner, "edited", "main\n")
    git("commit", "-q", "-a", "-m", "main", cwd=inner)
    _conflict(inner, "merge", "topic")
    git("switch", "-q", "-c", "other", cwd=outer)
    write(outer, "untracked", "only here\n")
    write(top, "edited", "edited\n")
    target = save(top, "target", "--recurse")
    wanted = look(top)
    git("merge", "--abort", cwd=inner)
    git("add", "--all", cwd=outer)
    git("commit", "-q", "-m", "other", cwd=outer)
    git("switch", "-q", "main", cwd=outer)
    git("add", "outer", cwd=top)
    write(top, "edited", "broken\n")
    return _scene(top, ("rollback", target, "--yes", "--recurse"), wanted)


def _small(top: Path) -> Path:
    top.mkdir()
    git("init", "-q", cwd=top)
    write(top, "edited", f"file of {top.name}\n")
    git("add", "--all", cwd=top)
    git("commit", "-q", "-m", "first", cwd=top)
    return top


def _add_submodule(top: Path, name: str) -> None:
    local = ("-c", "protocol.file.allow=always", "submodule", "-q")
    git(*local, "add", str(top.with_name(name)), name, cwd=top)
    git(*local, "update", "--init", "--recursive", cwd=top)
    git("commit", "-q", "-m", name, cwd=top)
    for place in repositories(top)[1:]:
        git("checkout", "-q", "-B", "main", cwd=place)


def _conflict(top: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=top, capture_output=True)
    assert git("ls-files", "--unmerged", cwd=top)


def _clean(top: Path) -> None:
    git("reset", "-q", "--hard", cwd=top)
    git("clean", "-q", "-f", "-d", cwd=top)


def _grow(top: Path) -> None:
    write(top, "src/edited", "edited and committed\n")
    write(top, "grown", "committed\n")
    git("add", "--all", cwd=top)
    git("commit", "-q", "-m", "grown", cwd=top)


def _scene(top: Path, words: tuple[str, ...], wanted: Look | None) -> Scene:
    """`wanted` is None where only a rollback that nobody disturbs can show it."""
    before = look(top)
    scene = Scene(top, words, before, wanted or before, checkpoints(top))
    if wanted is None:
        undisturbed = scene.copy()
        ckpt(*words, cwd=undisturbed, code=0)
        scene = Scene(top, words, before, look(undisturbed), scene.checkpoints)
    assert scene.before != scene.after
    return scene


def undo(top: Path) -> Scene:
    """A rollback that moved HEAD is taken back; undone in turn, it is there again."""
    first = other_branch(top)
    ckpt(*first.words, cwd=top, code=0)
    return _scene(top, ("undo",), first.before)


SCENES: dict[str, Callable[[Path], Scene]] = {
    "whole": whole,
    "by path": by_path,
    "other branch": other_branch,
    "same branch": same_branch,
    "detached": detached,
    "unborn": unborn,
    "operation": operation,
    "undo": undo,
}
