# SPDX-License-Identifier: MIT
"""The one shape that the events of all agents are brought into.

An agent's module says, as a table, what its events and tools are called; from that and the JSON
that the agent writes comes an `Event`, or None for what is no reason to do anything. Light to
import, since most calls end here. Whatever is not as it should be (other types, a name that nobody
knows) is no event: the agent goes on.
"""

from __future__ import annotations

import os

from ckpt.triggers.agents import commands
from ckpt.values import value_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

# What an event is the occasion for.
START, PROMPT, BEFORE, AFTER = "start", "prompt", "before", "after"

_LONGEST_ID = 200
_LONGEST_PATH = 4096  # bytes; the system opens none that is longer
_PATH_KEYS = ("file_path", "notebook_path", "path", "target_file", "absolute_path")


@value_class
class Event:
    """`paths` are files that a tool writes to, as the agent names them. `destroys`: a command
    that takes files away, before which the state is worth keeping even in the middle of a turn."""

    occasion: str
    session: str
    folder: str
    paths: tuple[str, ...] = ()
    destroys: bool = False


@value_class
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
        done = commands.effect(_command(given))
        found = Event(event.occasion, event.session, event.folder, (), done == commands.DESTROYS)
        return None if done == commands.READS else found
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
