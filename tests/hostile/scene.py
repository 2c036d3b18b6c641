# SPDX-License-Identifier: MIT
"""A repository with a good checkpoint and edits since, and a folder outside that is not ours.

Whatever a hostile checkpoint is, the same things are tried on it, and the same must hold
afterwards: nothing outside has changed, nor has anything in the git dir that git or a user goes
by, and the good checkpoint is listed and can be gone back to.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path

from figures import PROPERTY
from helpers import Ran, ckpt_here, git, tree_state
from hostile.forge import Forge

Make = Callable[[Forge], None]
State = dict[bytes, tuple[str, int, bytes]]

# What goes on in a git dir in any case.
OURS = (b"refs/checkpoints", b"packed-refs", b"index", b"COMMIT_EDITMSG")
OUR_FOLDERS = (b"ckpt", b"objects", b"logs")

# What is tried on each, with its id; and once, when all of it is over.
LOOKS = ("show ID", "show ID --json", "diff ID --json", "rollback ID --dry-run")
ROLLBACKS = (
    "rollback ID --yes",
    "rollback ID --yes --head --overwrite-ignored --json",
)
TRUSTING = ("rollback ID --yes --head --recurse",)
KEEPING = ("pin ID", "drop ID", "restore-dropped ID")
REST = ("prune", "status", "verify --all", "save --kind auto --json", "trash --json")
# Of what must not be waited for.
BOUNDED = ("show ID --json", "diff ID --json", "rollback ID --yes", "verify ID", "drop ID")


class Scene:
    def __init__(self, top: Path, record_property: Callable[[str, object], None]) -> None:
        self.top = top
        self.repo = top / "repo"
        self.outside = top / "outside"
        self._record = record_property

    @staticmethod
    def make(top: Path) -> None:
        repo = top / "repo"
        (repo / "src").mkdir(parents=True)
        (repo / "README.md").write_text("# first\n")
        (repo / "src/app.py").write_text("print('hello')\n")
        (top / "outside").mkdir()
        (top / "outside/x").write_text("mine\n")
        git("init", "-q", cwd=repo)
        git("add", ".", cwd=repo)
        git("commit", "-q", "-m", "first", cwd=repo)
        (repo / "README.md").write_text("# saved\n")
        ckpt_here("save", "good", "-m", "why", "--session", "s", cwd=repo, code=0)
        (repo / "README.md").write_text("# edited\n")

    @cached_property
    def good(self) -> str:
        (name,) = os.listdir(self.repo / ".git/refs/checkpoints")
        return name

    @cached_property
    def forge(self) -> Forge:
        return Forge(self.repo, self.good)

    def worktree(self) -> State:
        return tree_state(self.repo)

    def protected(self) -> dict[bytes, object]:
        """What no checkpoint may change: all outside, and in the git dir."""
        git_dir = tree_state(self.repo / ".git", without=OUR_FOLDERS)
        return {
            b"outside": tree_state(self.outside),
            b"git dir": {p: what for p, what in git_dir.items() if not p.startswith(OURS)},
        }

    # -- attacks -----------------------------------------------------------------------

    def refused(self, inputs: Mapping[str, Make]) -> None:
        """Nothing can be done with any of them, nor do they do anything."""
        names = self._made(inputs)
        before, protected = self.worktree(), self.protected()
        for checkpoint_id, name in names.items():
            self._try(LOOKS, checkpoint_id, name)
            for words in ROLLBACKS:
                ran = self.run(*words.replace("ID", checkpoint_id).split())
                assert ran.code in (1, 3, 4), (name, ran)
        assert self.worktree() == before
        assert self.protected() == protected
        self.others_are_well()
        for checkpoint_id, name in names.items():
            self._try((*TRUSTING, *KEEPING), checkpoint_id, name)
            assert self.protected() == protected, name
        self.others_are_well()
        self.count("hostile inputs refused", len(names))

    def harmless(self, inputs: Mapping[str, Make]) -> None:
        """They may be rolled back to, if they can, but nothing else changes."""
        protected = self.protected()
        for checkpoint_id, name in self._made(inputs).items():
            self._try((*LOOKS, *ROLLBACKS, *TRUSTING, *KEEPING), checkpoint_id, name)
            assert self.protected() == protected, name
        self.others_are_well()
        self.count("hostile inputs without effect", len(inputs))

    def bounded(self, make: Make) -> None:
        """It ends, and before it has taken much memory."""
        (checkpoint_id,) = self._made({"bomb": make})
        before = self.worktree()
        assert self.good in self.run("list", "-n", "0", "--json", code=0).stdout
        self._try(BOUNDED, checkpoint_id, "bomb")
        is_there = os.path.exists(self.repo / "d")
        # Should it get there, no Python can remove it again, pytest's own included.
        subprocess.run(["rm", "-rf", str(self.repo / "d")], check=True)
        assert not is_there
        assert self.worktree() == before
        self.count("hostile inputs refused")

    def _made(self, inputs: Mapping[str, Make]) -> dict[str, str]:
        """Make all of them; returns their names by id."""
        names = {}
        for number, (name, make) in enumerate(inputs.items()):
            self.forge.id = f"20991231-235959-{number:03}-zzzz"
            make(self.forge)
            names[self.forge.id] = name
        return names

    def others_are_well(self) -> None:
        for words in ("list -n 0", "list -n 0 --json", "prune --dry-run --json"):
            assert self.good in self.run(*words.split(), code=0).stdout
        self._try(REST, "", "")
        self.run("rollback", self.good, "--yes", "--overwrite-ignored", code=0)
        assert (self.repo / "README.md").read_text() == "# saved\n"
        subprocess.run(["git", "status"], check=True, capture_output=True)

    def _try(self, commands: Iterable[str], checkpoint_id: str, name: str) -> None:
        for words in commands:
            ran = self.run(*words.replace("ID", checkpoint_id).split())
            assert ran.code in (0, 1, 3, 4), (name, words)

    def run(self, *words: str, code: int | None = None) -> Ran:
        """One command; if it fails, it says so in one line like git's."""
        ran = ckpt_here(*words, cwd=self.repo, code=code)
        if ran.code and "--json" in words and "error" in ran.json:
            message = ran.json["error"]["message"]
        else:
            errors = [line for line in ran.stderr.split("\n") if line.startswith("error: ")]
            assert len(errors) <= 1, ran
            message = errors[0].removeprefix("error: ") if errors else ""
        assert "unexpected" not in message
        assert not message.endswith("."), message
        return ran

    def count(self, what: str, number: int = 1) -> None:
        self._record(PROPERTY, {what: number})
