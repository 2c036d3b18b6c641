# SPDX-License-Identifier: MIT
"""The one form that the events of all agents are brought into.

An agent's module lists what its events and tools are called; from that and the JSON that the agent
writes comes an `Event`, or None if there is nothing to do. Light to import, since most calls end
here. Malformed input (other types, an unknown name) is no event: the agent goes on.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ckpt.triggers.guard import HARMLESS, parse

# What an event is the occasion for.
START, PROMPT, BEFORE, AFTER = "start", "prompt", "before", "after"
_LONGEST_ID = 200
_LONGEST_PATH = 4096  # bytes; the system opens none that is longer
_PATH_KEYS = ("file_path", "notebook_path", "path", "target_file", "absolute_path")


class Event(NamedTuple):
    """`paths` are files that a tool writes to, as the agent names them. `destroys`: a command
    that removes files, before which the state is worth saving even in the middle of a turn."""

    occasion: str
    session: str
    folder: str
    paths: tuple[str, ...] = ()
    destroys: bool = False


class Agent(NamedTuple):
    """How an agent speaks. `harmless` are tools that change no file; one that is in no list
    counts as one that may."""

    occasions: Mapping[str, str]
    edits: frozenset[str]
    shells: frozenset[str]
    harmless: frozenset[str] = frozenset()
    paths_of: Callable[[Mapping[str, Any]], tuple[str, ...]] | None = None
    answer: Callable[[str], str] = lambda _: ""


def read(agent: Agent, document: object) -> Event | None:
    """The event that an agent reports; None if there is nothing to do."""
    if not isinstance(document, dict):
        return None
    occasion = agent.occasions.get(name_of(document))
    session, folder = _session(document), _folder(document)
    if occasion is None or session is None or folder is None:
        return None
    if occasion == START and document.get("source") == "compact":
        return None  # after the history was summarised the same session goes on
    if occasion in (START, PROMPT):
        return Event(occasion, session, folder)
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
    is_after = event.occasion == AFTER
    if tool in agent.harmless or (is_after and not is_edit):
        return None
    if tool in agent.shells or (tool is None and "command" in document):
        line = given.get("command")
        done = effect(" ".join(map(str, line)) if isinstance(line, list) else line)
        if done == READS:
            return None
        return Event(event.occasion, event.session, event.folder, (), done == DESTROYS)
    paths = (agent.paths_of or paths_named)(given) if is_edit else ()
    folder = next((root for path in paths for root in _roots(document, path)), event.folder)
    return None if is_after and not paths else Event(event.occasion, event.session, folder, paths)


def paths_named(given: Mapping[str, Any]) -> tuple[str, ...]:
    """The file that a tool is to write to, under any of the names that agents have for it."""
    return tuple(filter(None, (as_path(given.get(key)) for key in _PATH_KEYS)))


def as_path(path: object) -> str:
    """The name of a file; empty for what cannot be one."""
    if not isinstance(path, str) or "\0" in path:
        return ""
    try:
        encoded = os.fsencode(path)
    except UnicodeEncodeError:  # JSON can hold half a character
        return ""
    return path if len(encoded) <= _LONGEST_PATH else ""


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


# -- What a line of shell can do: in doubt it writes

READS, WRITES, DESTROYS = "reads", "writes", "destroys"

# Programs that write no file, except with the options after them.
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
_GIT_WRITING = ("--output", "-O", "--open-files-in-pager", "--ext-diff", "--textconv")
_GIT_OPTIONS = ("-C", "-P", "--no-pager", "--no-optional-locks")
_MOST_OPTIONS = 100  # words: a long text may speak of git all the time
_DESTROYERS = frozenset(
    {"dd", "mv", "rm", "rmdir", "shred", "srm", "truncate", "unlink", "-delete", "--delete"}
)
_LONGEST = 1 << 16  # characters; a longer line is not parsed
_TO_NOWHERE = re.compile(r" (?:2>&1|(?:2|&)?> ?/dev/null)(?=[ ;|&\n])")
_QUOTED = re.compile(r"""'[^']*'|"[^"`$\\!]*\"""")
_UNCLEAR = re.compile(r"[`$(){}<>\\#!]")
_SED_RANGE = re.compile(r"[0-9,$]*p")


def effect(line: object) -> str:
    """What running a line of shell can do."""
    if not isinstance(line, str):
        return WRITES
    if len(line) > _LONGEST:
        return DESTROYS
    commands = _split(_TO_NOWHERE.sub(" ", line + " "))
    if commands and all(map(_reads, commands)):
        return READS
    return DESTROYS if _destroys(line) else WRITES


def _split(line: str) -> list[list[str]]:
    """The simple commands of a line, in words; none if it holds anything that is not clear."""
    if _UNCLEAR.search(_QUOTED.sub("", line)):
        return []
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t", True, ""
    commands: list[list[str]] = [[]]
    try:
        for word in lexer:
            if word and not word.strip(";&|\n"):
                commands.append([])
            else:
                commands[-1].append(word)
    except ValueError:  # unbalanced quotes
        return []
    return [command for command in commands if command]


def _reads(words: Sequence[str]) -> bool:
    name, rest = words[0], words[1:]
    if name == "git":
        command = parse(rest)
        return (
            command.name in _GIT_READS.split()
            and all(option in _GIT_OPTIONS for option, _ in command.options)
            and not any(word.startswith(_GIT_WRITING) for word in command.words)
        )
    if name == "sed":  # `sed -n 10,20p FILE`, which agents read files with
        is_print = rest[:1] == ["-n"] and len(rest) > 1 and _SED_RANGE.fullmatch(rest[1])
        return bool(is_print) and not any(word.startswith("-") for word in rest[1:])
    if name == "sort":  # `-o` may be among other letters
        return not any(re.match("--o|--c|-[^-]*o", word) for word in rest)
    writing = _READERS.get(name)
    return writing is not None and not any(word.startswith(writing) for word in rest if writing)


def _destroys(line: str) -> bool:
    """Whether any word, wherever it is, names a program that removes files."""
    words = re.sub(r"""["'`;|&(){}<>\\]""", " ", line).split()
    names = [os.path.basename(word) for word in words]
    return not _DESTROYERS.isdisjoint(names) or any(
        parse(words[at + 1 : at + 1 + _MOST_OPTIONS]).name not in HARMLESS
        for at, name in enumerate(names)
        if name == "git"
    )
