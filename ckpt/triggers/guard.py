# SPDX-License-Identifier: MIT
"""The guard: take a checkpoint before a git command that can overwrite or delete files.

`hooks/guard` filters out most harmless commands. A chain of git and shell processes in one process
group counts as one command and is saved once: when `stash` runs `clean` and `reset`, half of its
work is done. A clean worktree gets no checkpoint.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ckpt import disk
from ckpt.errors import CkptError, UsageError
from ckpt.git.config import parse_bool
from ckpt.git.repository import Repository, discover
from ckpt.paths import GUARD_NOTES, data_dir
from ckpt.triggers.fire import Fired, NothingToSave, Request, fire

if TYPE_CHECKING:
    from ckpt.engine.working_state import Present

# Options of git itself that take the next word as their value.
_WITH_VALUE = {
    *("-C", "-c", "--attr-source", "--config-env", "--git-dir", "--namespace"),
    *("--super-prefix", "--work-tree"),
}
# The same list as in `hooks/guard`, which explains `add` and `commit`.
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
# Commands that remove whole directories.
_REMOVING = ("clean", "rm", "submodule", "submodule--helper")
_MOST_ALIASES = 10
_SHELLS = {"sh", "ash", "bash", "busybox", "dash", "ksh", "mksh", "zsh"}


def run(start: str, env: Mapping[str, str], event: str, words: Sequence[str]) -> Fired | None:
    """Take a checkpoint before a git command, or return None if it is not needed. The words are
    the command line or, for the guard, git's process id and the notes file."""
    if event == "wrapper":
        return _before(start, env, parse(words))
    if len(words) != 2:
        raise UsageError(
            "'hook guard' is what the guard calls, with the number of a process and a file",
            hint="git ckpt install --guard",
        )
    pid, notes = words
    row = list(upwards(int(pid))) if pid.isdecimal() else []
    return _once(start, env, row, Notes(notes))


def _once(start: str, env: Mapping[str, str], row: Sequence[Process], notes: Notes) -> Fired | None:
    """Take a checkpoint unless one was tried for the same outermost process."""
    repo, outer = _opened(start, env), outermost(row)
    if repo is None:
        return fire(start, env, Request("guard"))
    command = of_process(row[0].words if row else ())
    meant = expanded(command, repo)
    # Skip aliases only: `hooks/guard` passes a harmless command on if it cannot decide.
    if row and row[0].is_exact and meant != command and meant.name in HARMLESS:
        return None
    if outer is None:
        return fire(start, env, _request("guard", repo, meant))
    if notes.has(outer, repo.worktree):
        return None
    # A shell alias may run any command.
    is_script = (_alias(repo, of_process(outer.words).name) or "").startswith("!")
    fired = fire(start, env, _request("guard", repo, meant, is_script))
    notes.add(outer, repo.worktree)
    return fired


def has_saved(start: str, env: Mapping[str, str], pid: int) -> bool:
    """Return whether the guard has saved the state before the command of a process."""
    repo, outer = _opened(start, env), outermost(list(upwards(pid)))
    if repo is None or outer is None:
        return False
    files = (os.path.join(d, GUARD_NOTES) for d in (repo.common_dir + "/ckpt", data_dir(env)))
    return any(Notes(file).has(outer, repo.worktree) for file in files)


def _opened(start: str, env: Mapping[str, str]) -> Repository | None:
    try:
        return discover(start, env)
    except (CkptError, OSError):  # reported by `fire`
        return None


def outermost(row: Sequence[Process]) -> Process | None:
    """Return the outermost git process among a process and its parents. A user's own `git-*`
    program ends the search, as it may run for hours."""
    found = None
    for process in row:
        runs_git = is_git(process.words)
        if process.group != row[0].group or not (runs_git or process.name in _SHELLS):
            break
        program = process.words[0] if runs_git else "".join(process.words[1:2])
        if os.path.basename(program).startswith("git-") and "git-core" not in program:
            break
        found = process if runs_git else found
    return found


def _before(start: str, env: Mapping[str, str], command: Command) -> Fired | None:
    """Take a checkpoint of the worktree that a command is about to change."""
    for option, value in command.options:
        if option == "-C":
            start = os.path.join(start, value)
    repo = _opened(start, env)
    if repo is None:
        return fire(start, env, Request("wrapper"))
    command = expanded(command, repo)
    if command.name in HARMLESS:
        return None
    return fire(start, env, _request("wrapper", repo, command))


def _request(trigger: str, repo: Repository, command: Command, is_script: bool = False) -> Request:
    """Return a request that includes submodules if the command can change files in them."""
    recurses = parse_bool(repo.config.get("submodule.recurse") or "false") is not False
    recurses |= any(word.startswith("--rec") for word in command.words)  # git accepts abbreviations
    if is_script or recurses or command.name in _REMOVING:
        return Request(trigger, recurse=True)
    return Request(trigger, complete=stop_if_clean)


def stop_if_clean(repo: Repository, present: Present) -> Present:
    """Raise NothingToSave if no work can be lost."""
    if _is_clean(repo, present):
        raise NothingToSave
    return present


def _is_clean(repo: Repository, present: Present) -> bool:
    """Return whether the worktree and the index match HEAD."""
    from ckpt.git import record
    from ckpt.git.objects import MissingObject

    if not os.path.lexists(repo.index_path) and not present.entries:
        return True  # a worktree or submodule before its first checkout
    if present.head.commit is None or present.operation.identity is not None:
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


# -- Parsing a git command line


class Command(NamedTuple):
    """A git command: options of git itself, name (possibly empty), and arguments."""

    options: tuple[tuple[str, str], ...]
    name: str
    words: tuple[str, ...]


def parse(words: Sequence[str]) -> Command:
    """Parse the words after `git`."""
    options: list[tuple[str, str]] = []
    rest = list(words)
    while rest and rest[0].startswith("-"):
        option, glued, value = rest.pop(0).partition("=")
        if option in _WITH_VALUE and not glued:
            value = rest.pop(0) if rest else ""
        options.append((option, value))
    return Command(tuple(options), rest[0] if rest else "", tuple(rest[1:]))


def is_git(words: Sequence[str]) -> bool:
    """Return whether a command line starts `git` or a `git-*` program."""
    name = os.path.basename(words[0]) if words else ""
    return name == "git" or name.startswith("git-")


def of_process(words: Sequence[str]) -> Command:
    """Parse the command line of a `git` or `git-*` process."""
    name = os.path.basename(words[0]) if words else ""
    dashed = [name.removeprefix("git-")] if name.startswith("git-") else []
    return parse([*dashed, *words[1:]])


def expanded(command: Command, repo: Repository) -> Command:
    """Expand the alias of a command, unless it is a shell command."""
    for _ in range(_MOST_ALIASES):
        text = None if command.name in HARMLESS else _alias(repo, command.name)
        if not text or text.startswith("!") or any(char in text for char in "\"'\\"):
            return command
        inner = parse(text.split())
        options = command.options + inner.options
        command = Command(options, inner.name, inner.words + command.words)
    return command


def _alias(repo: Repository, name: str) -> str | None:
    return repo.config.get(f"alias.{name}") or repo.config.get(f"alias.{name}.command")


# -- Commands the guard has taken a checkpoint for

_SIZE = 4096  # fixed, so that the file can be rewritten when the disk is full


class Notes:
    """The processes noted in one file, which `hooks/guard` reads too."""

    def __init__(self, path: str) -> None:
        self._path = path

    def has(self, process: Process, worktree: str) -> bool:
        return [str(process.pid), process.started, worktree] in self._read()

    def add(self, process: Process, worktree: str) -> None:
        """Note a process; on failure, the next call saves again."""
        newest_first = [[str(process.pid), process.started, worktree], *self._read()]
        text = os.fsencode("".join(" ".join(line) + "\n" for line in newest_first))
        whole_lines = text[: text.rfind(b"\n", 0, _SIZE) + 1]
        with suppress(OSError):
            disk.overwrite_private(self._path, whole_lines.ljust(_SIZE, b"\n"))

    def _read(self) -> list[list[str]]:
        try:
            lines = os.fsdecode(disk.read_private(self._path)).split("\n")
        except OSError:
            return []
        notes = [line.split(" ", 2) for line in lines]
        return [note for note in notes if len(note) == 3]


# -- Processes, from `/proc` or `ps`

_MOST_LEVELS = 64
_PS = "/bin/ps"
_PS_TIMEOUT = 5.0


class Process(NamedTuple):
    """A process, identified by `pid` and `started`, because ids are reused. An interactive shell
    runs each command in its own `group`. Unless `is_exact`, words with blanks are split."""

    pid: int
    parent: int
    group: int
    started: str
    words: tuple[str, ...]
    is_exact: bool = True

    @property
    def name(self) -> str:
        """Return the program name without directory or the dash of a login shell."""
        first = self.words[0] if self.words else ""
        return first.rpartition("/")[2].removeprefix("-")


def find(pid: int) -> Process | None:
    """Return a process; None if it has ended or is not readable."""
    return _from_proc(pid) if os.path.isdir("/proc/self") else from_ps(pid)


def upwards(pid: int) -> Iterator[Process]:
    """Yield a process and its parents."""
    for _ in range(_MOST_LEVELS):
        process = find(pid) if pid > 0 else None
        if process is None:
            return
        yield process
        pid = process.parent


def _from_proc(pid: int) -> Process | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name is in parentheses, and may contain some.
            fields = file.read().rpartition(b")")[2].split()
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().split(b"\0")[:-1]
        started = fields[19].decode()
        return Process(pid, int(fields[1]), int(fields[2]), started, tuple(map(os.fsdecode, words)))
    except (OSError, ValueError, IndexError):
        return None


def from_ps(pid: int) -> Process | None:
    """Return a process as `ps` lists it; words with blanks are split."""
    import subprocess

    asked = ["-oppid=", "-opgid=", "-olstart=", "-ocommand="]
    try:
        ran = subprocess.run(
            [_PS, *asked, "-p", str(pid)],
            env={"LC_ALL": "C", "TZ": "UTC0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PS_TIMEOUT,
        )
        parent, group, *rest = os.fsdecode(ran.stdout).split()
        return Process(pid, int(parent), int(group), "-".join(rest[:5]), tuple(rest[5:]), False)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
