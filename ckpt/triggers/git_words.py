# SPDX-License-Identifier: MIT
"""What the words of a git command tell: can it overwrite files, where, and in submodules too?

The same answer as the shell in `hooks/guard` gives, for words that this does not know: those
that turn out to be aliases. Whatever is in doubt can overwrite files. Pure functions; no
command is run.
"""

from __future__ import annotations

import os

from ckpt.values import value_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# Git's own options, before the command, that take the next word as well.
_WITH_VALUE = {
    *("-C", "-c", "--attr-source", "--config-env", "--git-dir", "--namespace"),
    *("--super-prefix", "--work-tree"),
}
# Why `add` and `commit` are among them stands in `hooks/guard`; a test compares the two.
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
# The other commands that come with git: what these start belongs to them.
_OVERWRITING = (
    "am apply archive backfill bisect bundle checkout checkout--worker checkout-index cherry-pick "
    "clean difftool fast-import filter-branch format-patch history hook merge merge-file "
    "merge-index merge-octopus merge-one-file merge-ours merge-recursive merge-resolve "
    "merge-subtree mergetool mv pull read-tree rebase rebase--interactive receive-pack replace "
    "replay request-pull rerere reset restore revert rm sparse-checkout stash submodule "
    "submodule--helper subtree svn switch update-index update-ref worktree"
)
OWN = HARMLESS | frozenset(_OVERWRITING.split())
# Git removes whole folders with these, and what lies in them.
_REMOVING = ("clean", "rm", "submodule", "submodule--helper")
_MOST_ALIASES = 10


@value_class
class Command:
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


def expanded(command: Command, alias_of: Callable[[str], str | None]) -> Command:
    """A command with its alias spelled out; one that is a line of shell stays as it is."""
    for _ in range(_MOST_ALIASES):
        text = None if command.name in HARMLESS else alias_of(command.name)
        if not text or text.startswith("!") or any(char in text for char in "\"'\\"):
            return command
        inner = parse(text.split())
        command = Command(command.options + inner.options, inner.name, inner.words + command.words)
    return command


def writes_a_file(command: Command) -> bool:
    """Whether a command that only tells is told to do so in a file."""
    return any(word == "-o" or word.startswith("--out") for word in command.words)


def enters_submodules(command: Command, always: bool) -> bool:
    """Whether a command can overwrite or remove what lies in a nested repository; `always` is
    what `submodule.recurse` says of all those that can be asked to."""
    asked = any(word.startswith("--rec") for word in command.words)  # git takes short forms
    return always or asked or command.name in _REMOVING
