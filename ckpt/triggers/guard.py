# SPDX-License-Identifier: MIT
"""The guard: a checkpoint before a git command that can overwrite or delete files.

`hooks/guard` has already let harmless commands pass. Here aliases are expanded, and what git starts
itself is told from what a person types: `stash` runs `clean` and `reset`, which find half of the
work gone already. A row of git and shell processes in one process group is one command, which is
saved for once. A worktree that is as committed has nothing to lose, and gets no checkpoint.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ckpt import disk
from ckpt.errors import CkptError, UsageError
from ckpt.git.repository import Repository, discover
from ckpt.paths import GUARD_NOTES, data_dir
from ckpt.triggers.fire import Fired, NothingToSave, Request, fire
from ckpt.triggers.processes import Process, upwards

if TYPE_CHECKING:
    from ckpt.engine.present import Present

AliasOf = Callable[[str], str | None]

# Git's own options, before the command, that take the next word as well.
_WITH_VALUE = {
    *("-C", "-c", "--attr-source", "--config-env", "--git-dir", "--namespace"),
    *("--super-prefix", "--work-tree"),
}
# The list of `hooks/guard`, which says why `add` and `commit` are in it; a test compares them.
_HARMLESS = (
    "add annotate blame branch cat-file check-attr check-ignore check-mailmap check-ref-format "
    "cherry ckpt clone column commit commit-graph commit-tree config count-objects credential "
    "describe diff diff-files diff-index diff-pairs diff-tree fast-export fetch fetch-pack "
    "for-each-ref fsck fsmonitor--daemon gc grep hash-object help init interpret-trailers log "
    "ls-files ls-remote ls-tree maintenance merge-base merge-tree multi-pack-index name-rev notes "
    "pack-objects pack-refs patch-id prune push range-diff reflog remote repack rev-list rev-parse "
    "send-pack shortlog show show-branch show-index show-ref status stripspace tag "
    "update-server-info var verify-commit verify-pack verify-tag version whatchanged "
    "write-tree"
)
HARMLESS = frozenset(_HARMLESS.split())
# The other commands that come with git.
_OVERWRITING = (
    "am apply archive backfill bisect bundle checkout checkout--worker checkout-index cherry-pick "
    "clean difftool fast-import filter-branch format-patch history hook merge merge-file "
    "merge-index merge-octopus merge-one-file merge-ours merge-recursive merge-resolve "
    "merge-subtree mergetool mv pull read-tree rebase rebase--interactive receive-pack replace "
    "replay request-pull rerere reset restore revert rm sparse-checkout stash submodule "
    "submodule--helper subtree svn switch update-index update-ref worktree"
)
OWN = HARMLESS | frozenset(_OVERWRITING.split())
# Git removes whole folders with these, and what is in them.
_REMOVING = ("clean", "rm", "submodule", "submodule--helper")
_MOST_ALIASES = 10
_LONGEST_NUMBER = 20
_SHELLS = {"sh", "ash", "bash", "busybox", "dash", "ksh", "mksh", "zsh"}


def run(start: str, env: Mapping[str, str], event: str, words: Sequence[str]) -> Fired | None:
    """A checkpoint for a call of git; None if there is no reason for one.

    For the wrapper, the words are those of the command that is about to be run; for the guard, the
    id of git's process, and the file in which it is noted which ones were saved for.
    """
    if event == "wrapper":
        return _before(start, env, parse(words))
    if len(words) != 2:
        raise UsageError(
            "'hook guard' is what the guard calls, with the number of a process and a file",
            hint="git ckpt install --guard",
        )
    pid, notes = words
    is_number = pid.isdecimal() and len(pid) < _LONGEST_NUMBER
    return _once(start, env, list(upwards(int(pid))) if is_number else [], Notes(notes))


def _once(start: str, env: Mapping[str, str], row: Sequence[Process], notes: Notes) -> Fired | None:
    """A checkpoint, unless one was tried for the same outermost process."""
    try:
        repo = discover(start, env)
    except (CkptError, OSError):  # which `fire` reports
        return fire(start, env, Request("guard"))
    alias_of = _aliases(repo)
    command = of_process(row[0].words if row else ())
    meant = expanded(command, alias_of)
    # What is harmless by its own name, the shell passed on because it was in doubt.
    if row and row[0].is_exact and meant != command and meant.name in HARMLESS:
        return None
    outer = outermost(row, alias_of)
    if outer is None:
        return fire(start, env, _request("guard", repo, meant))
    if notes.has(outer, repo.worktree):
        return None
    # In a line of shell, any command may follow.
    name = of_process(outer.words).name
    is_script = name not in OWN and (alias_of(name) or "").startswith("!")
    fired = fire(start, env, _request("guard", repo, meant, is_script))
    notes.add(outer, repo.worktree)
    return fired


def has_saved(start: str, env: Mapping[str, str], pid: int) -> bool:
    """Whether a process belongs to a command that the guard was asked about: what is on disk
    by now, that command has made, and the state before it must stay the newest."""
    try:
        repo = discover(start, env)
    except (CkptError, OSError):
        return False
    outer = outermost(list(upwards(pid)), _aliases(repo))
    folders = os.path.join(repo.common_dir, "ckpt"), data_dir(repo.env)
    return outer is not None and any(
        Notes(os.path.join(folder, GUARD_NOTES)).has(outer, repo.worktree) for folder in folders
    )


def outermost(row: Sequence[Process], alias_of: AliasOf) -> Process | None:
    """Of a process and those above it, the highest git that the first one belongs to.

    A program of the user's that is called like a command of git ends the row: it may run for
    hours, and wait for a person in between.
    """
    found = None
    for process in row:
        runs_git = is_git(process.words)
        if process.group != row[0].group or not (runs_git or process.name in _SHELLS):
            break
        name = of_process(process.words).name if runs_git else ""
        if name and name not in OWN and alias_of(name) is None:
            break
        found = process if runs_git else found
    return found


def _before(start: str, env: Mapping[str, str], command: Command) -> Fired | None:
    """A checkpoint of the worktree that a command which is not yet running will work on."""
    variables = {"--git-dir": "GIT_DIR", "--work-tree": "GIT_WORK_TREE"}
    env = dict(env)
    for option, value in command.options:
        if option in variables:
            env[variables[option]] = value
        elif option == "-C":
            start = os.path.join(start, value)
    try:
        repo = discover(start, env)
    except (CkptError, OSError):
        return fire(start, env, Request("wrapper"))
    command = expanded(command, _aliases(repo, command))
    is_written = any(word == "-o" or word.startswith("--out") for word in command.words)
    if command.name in HARMLESS and not is_written:
        return None
    removed = _removed_worktree(repo, start, command)
    if removed is None:
        return fire(start, env, _request("wrapper", repo, command))
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        env.pop(name, None)
    return fire(removed, env, Request("wrapper", complete=stop_if_clean))


def _removed_worktree(repo: Repository, start: str, command: Command) -> str | None:
    """The folder that a `git worktree remove` names; git accepts its last part too."""
    if command.name != "worktree" or command.words[:1] != ("remove",):
        return None
    named = next((word for word in command.words[1:] if not word.startswith("-")), "")
    if os.path.isfile(os.path.join(start, named, ".git")):
        return os.path.join(start, named)
    found = []
    place = os.path.join(repo.common_dir, "worktrees")
    for name in os.listdir(place) if os.path.isdir(place) else ():
        with suppress(OSError):
            dot_git = os.fsdecode(disk.read(os.path.join(place, name, "gitdir")).rstrip(b"\n"))
            folder = os.path.realpath(os.path.dirname(os.path.join(place, name, dot_git)))
            if os.path.isdir(folder) and folder.endswith("/" + named.rstrip("/")):
                found.append(folder)
    return found[0] if len(found) == 1 else None


def _aliases(repo: Repository, command: Command | None = None) -> AliasOf:
    """What git's configuration, or an option before the command, says that a word stands for."""
    given = {
        key.lower(): value
        for option, text in (command.options if command is not None else ())
        if option == "-c"
        for key, _, value in [text.partition("=")]
    }

    def alias_of(name: str) -> str | None:
        told = given.get(f"alias.{name.lower()}")
        if told is not None:
            return told
        return repo.config.get(f"alias.{name}") or repo.config.get(f"alias.{name}.command")

    return alias_of


def _request(trigger: str, repo: Repository, command: Command, is_script: bool = False) -> Request:
    try:
        always = repo.config.get_bool("submodule.recurse", False)
    except CkptError:
        always = True
    if is_script or enters_submodules(command, always):
        return Request(trigger, recurse=True)
    return Request(trigger, complete=stop_if_clean)


def stop_if_clean(repo: Repository, present: Present) -> Present:
    """Give a save up if there is nothing that could be lost."""
    if _is_clean(repo, present):
        raise NothingToSave
    return present


def _is_clean(repo: Repository, present: Present) -> bool:
    """Whether everything is as in the commit at HEAD, in the worktree and in the index."""
    from ckpt.git import record
    from ckpt.git.objects import MissingObject

    if not os.path.lexists(repo.index_path) and not present.entries:
        return True  # a worktree or submodule that git is about to fill
    if present.head.commit is None or present.operation.files.operation is not None:
        return False
    if present.empty_folders or present.is_partial or present.modes.others:
        return False
    if any(not (found.in_lfs or found.is_plain) for found in present.converted.values()):
        return False
    try:
        head = record.read_commit(repo.objects, present.head.commit).tree
    except MissingObject:
        return False
    staged = present.index_entries
    is_unmerged = any(name.startswith(b"stages/") for name in staged)
    return present.tree == head == staged[record.INDEX].id and not is_unmerged


# -- The words of a git command


class Command(NamedTuple):
    """A git command: the options before it, its name (empty if there is none), its words."""

    options: tuple[tuple[str, str], ...]
    name: str
    words: tuple[str, ...]


def parse(words: Sequence[str]) -> Command:
    """The words after `git`."""
    options: list[tuple[str, str]] = []
    rest = list(words)
    while rest and rest[0].startswith("-"):
        option, glued, value = rest.pop(0).partition("=")
        if option in _WITH_VALUE and not glued:
            value = rest.pop(0) if rest else ""
        options.append((option, value))
    return Command(tuple(options), rest[0] if rest else "", tuple(rest[1:]))


def is_git(words: Sequence[str]) -> bool:
    """Whether this is how a git was started, under its own name or that of a command."""
    name = os.path.basename(words[0]) if words else ""
    return name == "git" or name.startswith("git-")


def of_process(words: Sequence[str]) -> Command:
    """The same from the name of the program on."""
    name = os.path.basename(words[0]) if words else ""
    dashed = [name.removeprefix("git-")] if name.startswith("git-") else []
    return parse([*dashed, *words[1:]])


def expanded(command: Command, alias_of: AliasOf) -> Command:
    """A command with its alias expanded; one that is a line of shell stays as it is."""
    for _ in range(_MOST_ALIASES):
        text = None if command.name in HARMLESS else alias_of(command.name)
        if not text or text.startswith("!") or any(char in text for char in "\"'\\"):
            return command
        inner = parse(text.split())
        command = Command(command.options + inner.options, inner.name, inner.words + command.words)
    return command


def enters_submodules(command: Command, always: bool) -> bool:
    """Whether a command can overwrite or remove files in a nested repository; `always` is the
    value of `submodule.recurse`."""
    asked = any(word.startswith("--rec") for word in command.words)  # git takes short forms
    return always or asked or command.name in _REMOVING


# -- Which git commands the guard has taken a checkpoint for

_SECONDS = 300
_SIZE = 4096  # of the file, always: so that it can be written when the disk is full


class Notes:
    """The notes in one file, which `hooks/guard` reads too."""

    def __init__(self, path: str) -> None:
        self._path = path

    def has(self, process: Process, worktree: str) -> bool:
        wanted = [str(process.pid), process.started]
        return any(line[:2] == wanted and line[3] == _line(worktree) for line in self._read())

    def add(self, process: Process, worktree: str) -> None:
        """Note a process; if that fails, the next call saves once more."""
        until = str(_now() + _SECONDS)
        newest_first = [[str(process.pid), process.started, until, _line(worktree)], *self._read()]
        text = os.fsencode("".join(" ".join(line) + "\n" for line in newest_first))
        whole_lines = text[: text.rfind(b"\n", 0, _SIZE) + 1]
        with suppress(OSError):
            disk.ensure_dir(os.path.dirname(self._path))
            disk.overwrite_private(self._path, whole_lines.ljust(_SIZE, b"\n"), 0, _SIZE)

    def _read(self) -> list[list[str]]:
        """Those that are still valid; none after a reboot."""
        now = _now()
        try:
            lines = os.fsdecode(disk.read_private(self._path)).split("\n")
        except OSError:
            return []
        notes = [line.split(" ", 3) for line in lines]
        return [note for note in notes if len(note) == 4 and _is_valid(note[2], now)]


def _line(worktree: str) -> str:
    """On one line; a path that is not, the shell does not find, and calls us."""
    return worktree.replace("\n", "\\n")


def _is_valid(until: str, now: int) -> bool:
    is_number = until.isdecimal() and len(until) <= _LONGEST_NUMBER
    return is_number and now < int(until) <= now + _SECONDS


def _now() -> int:
    """Seconds since the machine was started, as the shell reads them too."""
    try:
        with open("/proc/uptime", "rb") as file:
            return int(file.read().partition(b".")[0])
    except (OSError, ValueError):
        return int(time.monotonic())
