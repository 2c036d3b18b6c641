# SPDX-License-Identifier: MIT
"""The one shape that the events of all agents are brought into.

An agent's module says, as a table, what its events and tools are called; from that and the JSON
that the agent writes comes an `Event`, or None for what is no reason to do anything. Light to
import, since most calls end here. Whatever is not as it should be (other types, a name that nobody
knows) is no event: the agent goes on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ckpt.triggers.guard import HARMLESS, parse

READS, WRITES, DESTROYS = "reads", "writes", "destroys"

# Programs that write no file, whatever they are told, but for the options after them.
_ALWAYS_READ = (
    "[ basename cat cd cmp comm cut date df diff dirname du echo egrep expr false fgrep grep head "
    "id jq ls md5sum nl pgrep printf ps pwd readlink realpath rev seq sha1sum sha256sum sleep stat "
    "tac tail test tr true type uname wc which whoami"
)
_READERS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_ALWAYS_READ.split(), ()),
    "file": ("-C", "--compile"),
    "find": ("-delete", "-exec", "-execdir", "-fls", "-fprint", "-ok", "-okdir"),
    "rg": ("--pre", "--hostname-bin"),
    "tree": ("-o",),
}
# `add`, `commit` and the like leave files alone, but not what was staged.
_GIT_READS = (
    "blame cat-file check-ignore count-objects describe diff diff-files diff-index diff-tree "
    "for-each-ref grep log ls-files ls-remote ls-tree merge-base name-rev range-diff rev-list "
    "rev-parse shortlog show show-ref status var version whatchanged"
)
_GIT_READERS = frozenset(_GIT_READS.split())
_GIT_WRITING = ("--output", "-O", "--open-files-in-pager", "--ext-diff", "--textconv")
_MOST_OPTIONS = 100  # words: a line may hold a whole text in which git is spoken of all the time
_GIT_OPTIONS = ("-C", "-P", "--no-pager", "--no-optional-locks")
_DESTROYERS = frozenset(
    {"dd", "mv", "rm", "rmdir", "shred", "srm", "truncate", "unlink", "-delete", "--delete"}
)

# Where output goes that nobody keeps.
_TO_NOWHERE = ("2>&1", "2>/dev/null", "2> /dev/null", "&>/dev/null", ">/dev/null", "> /dev/null")
_ENDS = ("&&", "||", ";", "|", "&", "\n")
_UNCLEAR = frozenset("`$(){}<>\\#!")
_LONGEST = 1 << 16  # characters that are looked at; to say what more of them do may take seconds
_UNCLEAR_IN_QUOTES = frozenset("`$\\!")


def effect(line: str) -> str:
    """What running a line of shell can do."""
    if len(line) > _LONGEST:
        return DESTROYS
    commands = _split(_without_null(line))
    if commands is not None and all(map(_reads, commands)):
        return READS
    return DESTROYS if _destroys(line) else WRITES


def _without_null(line: str) -> str:
    line += " "
    for redirection in _TO_NOWHERE:
        for end in " ;|&\n":
            line = line.replace(f" {redirection}{end}", f" {end}")
    return line


def _split(line: str) -> list[list[str]] | None:
    """The simple commands of a line, in words; None if it holds anything that is not clear."""
    commands: list[list[str]] = [[]]
    word: str | None = None
    at = 0
    while at < len(line):
        char = line[at]
        end = next((end for end in _ENDS if line.startswith(end, at)), "")
        if char in "'\"":
            close = line.find(char, at + 1)
            inner = line[at + 1 : close]
            if close < 0 or (char == '"' and not _UNCLEAR_IN_QUOTES.isdisjoint(inner)):
                return None
            word, at = (word or "") + inner, close + 1
        elif end or char in " \t":
            if word is not None:
                commands[-1].append(word)
            word, at = None, at + len(end or char)
            commands += [[]] if end else []
        elif char in _UNCLEAR:
            return None
        else:
            word, at = (word or "") + char, at + 1
    if word is not None:
        commands[-1].append(word)
    return [command for command in commands if command] or None


def _reads(words: Sequence[str]) -> bool:
    name, rest = words[0], words[1:]
    if name == "git":
        return _git_reads(rest)
    if name == "sed":
        return _sed_prints(rest)
    if name == "sort":  # `-o` may stand among other letters
        return not any(word.startswith(("--o", "--c")) or _has_letter(word, "o") for word in rest)
    writing = _READERS.get(name)
    return writing is not None and not any(word.startswith(writing) for word in rest if writing)


def _has_letter(word: str, letter: str) -> bool:
    return word.startswith("-") and not word.startswith("--") and letter in word


def _git_reads(words: Sequence[str]) -> bool:
    command = parse(words)
    return (
        command.name in _GIT_READERS
        and all(option in _GIT_OPTIONS for option, _ in command.options)
        and not any(word.startswith(_GIT_WRITING) for word in command.words)
    )


def _sed_prints(words: Sequence[str]) -> bool:
    """`sed -n 10,20p FILE`, which agents read files with."""
    if len(words) < 2 or words[0] != "-n" or any(word.startswith("-") for word in words[1:]):
        return False
    return words[1].endswith("p") and all(
        char.isdecimal() or char in ",$" for char in words[1][:-1]
    )


def _destroys(line: str) -> bool:
    """Whether any word, wherever it stands, is that of a program that takes files away."""
    words = list(_loose_words(line))
    if any(os.path.basename(word) in _DESTROYERS for word in words):
        return True
    return any(
        os.path.basename(word) == "git" and _git_name(words, at + 1) not in HARMLESS
        for at, word in enumerate(words)
    )


def _git_name(words: Sequence[str], at: int) -> str:
    """The command that git is told; empty, and so in doubt, after more options than it has."""
    return parse(words[at : at + _MOST_OPTIONS]).name


def _loose_words(line: str) -> Iterator[str]:
    for char in "\"'`;|&(){}<>\\":
        line = line.replace(char, " ")
    yield from line.split()


# -- The one shape that the events of all agents are brought into

# What an event is the occasion for.
START, PROMPT, BEFORE, AFTER = "start", "prompt", "before", "after"

_LONGEST_ID = 200
_LONGEST_PATH = 4096  # bytes; the system opens none that is longer
_PATH_KEYS = ("file_path", "notebook_path", "path", "target_file", "absolute_path")


@dataclass(frozen=True, slots=True)
class Event:
    """`paths` are files that a tool writes to, as the agent names them. `destroys`: a command
    that takes files away, before which the state is worth keeping even in the middle of a turn."""

    occasion: str
    session: str
    folder: str
    paths: tuple[str, ...] = ()
    destroys: bool = False


@dataclass(frozen=True, slots=True)
class Agent:
    """How an agent speaks. `harmless` are tools that change no file; one that is in no list
    may do anything, and counts as one that does."""

    occasions: Mapping[str, str]
    edits: frozenset[str]
    shells: frozenset[str]
    harmless: frozenset[str] = frozenset()
    paths_of: Callable[[Mapping[str, Any]], tuple[str, ...]] | None = None
    answer: Callable[[str], str] = lambda _: ""


def read(agent: Agent, document: object) -> Event | None:
    """What an agent tells; None if it is nothing to act on."""
    if not isinstance(document, dict):
        return None
    occasion = agent.occasions.get(name_of(document))
    session, folder = _session(document), _folder(document)
    if occasion is None or session is None or folder is None:
        return None
    if occasion == START:
        # After the history was summarised the same session goes on.
        is_new = document.get("source") != "compact"
        return Event(START, session, folder) if is_new else None
    if occasion == PROMPT:
        return Event(PROMPT, session, folder)
    return _of_tool(agent, document, Event(occasion, session, folder))


def name_of(document: object) -> str:
    name = document.get("hook_event_name") if isinstance(document, dict) else None
    return name if isinstance(name, str) else ""


def _of_tool(agent: Agent, document: Mapping[str, Any], event: Event) -> Event | None:
    tool, given = document.get("tool_name"), document.get("tool_input")
    if tool is not None and not isinstance(tool, str):
        tool = ""  # of which nothing is known
    if not isinstance(given, dict):
        given = document  # Cursor's own events have no such level
    is_edit = tool in agent.edits or (tool is None and "command" not in document)
    is_shell = tool in agent.shells or (tool is None and "command" in document)
    if tool in agent.harmless or (event.occasion == AFTER and not is_edit):
        return None
    if is_shell:
        done = effect(_command(given))
        found = Event(event.occasion, event.session, event.folder, (), done == DESTROYS)
        return None if done == READS else found
    paths = (agent.paths_of or paths_named)(given) if is_edit else ()
    folder = next((root for path in paths for root in _roots(document, path)), event.folder)
    found = Event(event.occasion, event.session, folder, paths)
    return None if event.occasion == AFTER and not paths else found


def paths_named(given: Mapping[str, Any]) -> tuple[str, ...]:
    """The file that a tool is to write to, under any of the names that agents have for it."""
    return tuple(filter(None, (as_path(given.get(key)) for key in _PATH_KEYS)))


def as_path(path: object) -> str:
    """What can be the name of a file; empty for anything else."""
    if not isinstance(path, str) or "\0" in path:
        return ""
    try:
        encoded = os.fsencode(path)
    except UnicodeEncodeError:  # JSON can say half a character
        return ""
    return path if len(encoded) <= _LONGEST_PATH else ""


def _command(given: Mapping[str, Any]) -> str:
    line = given.get("command")
    if isinstance(line, list):
        return " ".join(map(str, line))
    return line if isinstance(line, str) else ""


def _session(document: Mapping[str, Any]) -> str | None:
    """The agent's name for the session, which becomes a line of the checkpoint."""
    for key in ("session_id", "conversation_id"):
        name = document.get(key)
        if isinstance(name, str) and name.strip() and name.isprintable():
            return name.strip()[:_LONGEST_ID]
    return None


def _folder(document: Mapping[str, Any]) -> str | None:
    """Where the agent works; Cursor names the folders that are open instead."""
    named = as_path(document.get("cwd"))
    return named if os.path.isabs(named) else next(iter(_roots(document)), None)


def _roots(document: Mapping[str, Any], around: str = "") -> list[str]:
    """The folders that are open in Cursor, or those of them that a path is in."""
    roots = document.get("workspace_roots")
    named = map(as_path, roots if isinstance(roots, list) else ())
    return [r for r in named if os.path.isabs(r) and (not around or around.startswith(r + "/"))]
