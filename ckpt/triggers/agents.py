# SPDX-License-Identifier: MIT
"""Hooks of coding agents: take checkpoints, count turns and record writes.

An `Agent` describes the events and tools of one program; `read` turns its JSON into an `Event`, or
None if malformed. Like every trigger, this module never raises, so the agent is not interrupted.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ckpt.engine.sessions import SessionState, forget_old, look
from ckpt.errors import CkptError
from ckpt.git.repository import NotARepository, Repository, TooBroad
from ckpt.models import Kind
from ckpt.paths import relative_to_top
from ckpt.settings.settings import load_forgiving, session_of_env
from ckpt.triggers.fire import Fired, Request, find_repository, fire
from ckpt.triggers.guard import HARMLESS, parse

START, PROMPT, BEFORE, AFTER = "start", "prompt", "before", "after"
_LONGEST_ID = 200
_LONGEST_PATH = 4096  # bytes, as PATH_MAX
_PATH_KEYS = ("file_path", "notebook_path", "path", "target_file", "absolute_path")
_PATIENCE = 3.0  # seconds: slightly longer than the budget of another hook


class Event(NamedTuple):
    """`paths` are the files a tool writes, as the agent names them. `destroys` marks a command
    that removes files, which needs a checkpoint even in the middle of a turn."""

    occasion: str
    session: str
    folder: str
    paths: tuple[str, ...] = ()
    destroys: bool = False


def paths_named(given: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the files named in the input of an edit tool."""
    return tuple(filter(None, (_as_path(given.get(key)) for key in _PATH_KEYS)))


def patched(given: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the files named in a Codex patch, or in the input of another tool."""
    patch = given.get("command", given.get("input"))
    if not isinstance(patch, str):
        return paths_named(given)
    heading = r"(?m)^\s*\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.*)$"
    return tuple(filter(None, (_as_path(name.strip()) for name in re.findall(heading, patch))))


class Agent(NamedTuple):
    """The events, tools and settings files of an agent.

    `events` maps an event name to an occasion and a pattern of tools. Tools not listed in `edits`
    or `shells` may change files. `local` is the settings file in a worktree, `user` the one in the
    home directory or in the directory that the environment variable `variable` names. `note` is
    shown after an install.
    """

    events: Mapping[str, tuple[str, str | None]]
    edits: frozenset[str]
    shells: frozenset[str]
    local: str
    user: str
    variable: str = ""
    has_groups: bool = True
    timeout: int = 10
    required: Mapping[str, object] = {}
    note: str = ""
    paths_of: Callable[[Mapping[str, Any]], tuple[str, ...]] = paths_named
    answer: Callable[[str], str] = lambda _: ""


# Claude Code 2.1. Hook output can become context or grant permission, so print nothing. Subagents
# use the session of their parent. `settings.local.json` is not shared, unlike `settings.json`.
_CLAUDE_CODE = Agent(
    local=".claude/settings.local.json",
    user=".claude/settings.json",
    variable="CLAUDE_CONFIG_DIR",
    events={
        "SessionStart": (START, None),
        "UserPromptSubmit": (PROMPT, None),
        "PreToolUse": (BEFORE, "^(Edit|MultiEdit|Write|NotebookEdit|Bash|PowerShell|mcp__.*)$"),
        "PostToolUse": (AFTER, "Edit|MultiEdit|Write|NotebookEdit"),
    },
    edits=frozenset({"Edit", "MultiEdit", "Write", "NotebookEdit"}),
    shells=frozenset({"Bash"}),
)
# Codex publishes schemas with the names and fields of Claude Code; every shell tool is `Bash`.
# `apply_patch` has its patch in `tool_input.command`, with relative paths.
_CODEX = Agent(
    local=".codex/hooks.json",
    user=".codex/hooks.json",
    variable="CODEX_HOME",
    note="codex runs new hooks only when you have reviewed them: type /hooks in it",
    events={
        "SessionStart": (START, None),
        "UserPromptSubmit": (PROMPT, None),
        "PreToolUse": (BEFORE, "^(Bash|apply_patch|mcp__.*)$"),
        "PostToolUse": (AFTER, "apply_patch"),
    },
    edits=frozenset({"apply_patch", "Edit", "Write"}),
    shells=frozenset({"Bash", "shell", "local_shell", "exec_command"}),
    paths_of=patched,
)
# Gemini CLI 0.61. Standard output must be JSON; an empty object makes no decision.
_GEMINI = Agent(
    local=".gemini/settings.json",
    user=".gemini/settings.json",
    timeout=10_000,
    events={
        "SessionStart": (START, None),
        "BeforeAgent": (PROMPT, None),
        "BeforeTool": (BEFORE, "^(write_file|replace|run_shell_command|mcp_.*)$"),
        "AfterTool": (AFTER, "^(write_file|replace)$"),
    },
    edits=frozenset({"write_file", "replace"}),
    shells=frozenset({"run_shell_command"}),
    answer=lambda _: "{}\n",
)
# Cursor sends `workspace_roots` and a `conversation_id`, and always expects JSON. `permission` is
# omitted so that the user's own rules decide whether a command runs.
_CURSOR = Agent(
    local=".cursor/hooks.json",
    user=".cursor/hooks.json",
    has_groups=False,
    required={"version": 1},
    events={
        "sessionStart": (START, None),
        "beforeSubmitPrompt": (PROMPT, None),
        "preToolUse": (BEFORE, "Write|Edit|MultiEdit|StrReplace|EditNotebook|Delete"),
        "beforeShellExecution": (BEFORE, None),
        "beforeMCPExecution": (BEFORE, None),
        "afterFileEdit": (AFTER, None),
        "postToolUse": (AFTER, "Delete"),
    },
    edits=frozenset({"Write", "Edit", "MultiEdit", "StrReplace", "Delete", "EditNotebook"}),
    shells=frozenset({"Shell"}),
    answer=lambda event: '{"continue": true}\n' if event == "beforeSubmitPrompt" else "{}\n",
)
AGENTS = {"claude-code": _CLAUDE_CODE, "codex": _CODEX, "gemini": _GEMINI, "cursor": _CURSOR}


# -- Reading an event


def read(agent: Agent, document: object) -> Event | None:
    """Parse a hook's JSON; return None if there is nothing to do."""
    if not isinstance(document, dict):
        return None
    occasion, tools = agent.events.get(name_of(document), (None, None))
    session, folder = _session(document), _folder(document)
    if occasion is None or session is None or folder is None:
        return None
    if occasion == START and document.get("source") == "compact":
        return None  # compaction continues the same session
    event = Event(occasion, session, folder)
    if occasion in (START, PROMPT):
        return event
    tool, given = document.get("tool_name"), document.get("tool_input")
    if tool is not None and not isinstance(tool, str):
        tool = ""  # unknown
    elif tools and tool and not re.search(tools, tool):
        return None  # some agents ignore the pattern in their settings
    if not isinstance(given, dict):
        given = document  # Cursor's own events have no "tool_input"
    is_shell = tool in agent.shells or (tool is None and "command" in document)
    if is_shell and occasion == BEFORE:
        line = given.get("command")
        line = " ".join(map(str, line)) if isinstance(line, list) else line
        return event._replace(destroys=destroys(line))
    is_edit = tool in agent.edits or (tool is None and not is_shell)
    paths = agent.paths_of(given) if is_edit else ()
    return None if occasion == AFTER and not paths else event._replace(paths=paths)


def name_of(document: object) -> str:
    name = document.get("hook_event_name") if isinstance(document, dict) else None
    return name if isinstance(name, str) else ""


def _as_path(path: object) -> str:
    """Return a valid path unchanged, anything else as an empty string."""
    try:
        if isinstance(path, str) and "\0" not in path and len(os.fsencode(path)) <= _LONGEST_PATH:
            return path
    except UnicodeEncodeError:  # JSON can hold a lone surrogate
        pass
    return ""


def _session(document: Mapping[str, Any]) -> str | None:
    """Return the agent's session id, recorded as one line in the checkpoint."""
    for key in ("session_id", "conversation_id"):
        name = document.get(key)
        if isinstance(name, str) and name.strip() and name.isprintable():
            return name.strip()[:_LONGEST_ID]
    return None


def _folder(document: Mapping[str, Any]) -> str | None:
    """Return the agent's working directory, or the first workspace root of Cursor."""
    roots = document.get("workspace_roots")
    named = [document.get("cwd"), *(roots if isinstance(roots, list) else ())]
    return next((path for path in map(_as_path, named) if os.path.isabs(path)), None)


_DESTROYERS = frozenset(
    {"dd", "mv", "rm", "rmdir", "shred", "srm", "truncate", "unlink", "-delete", "--delete"}
)
_MOST_OPTIONS = 100  # words parsed after each "git", of which a long text may have many
_LONGEST = 1 << 16  # characters; longer lines are not parsed


def destroys(line: object) -> bool:
    """Return whether a shell command line may remove files."""
    if not isinstance(line, str):
        return False
    if len(line) > _LONGEST:
        return True
    words = re.sub(r"""["'`;|&(){}<>\\]""", " ", line).split()
    names = [os.path.basename(word) for word in words]
    return not _DESTROYERS.isdisjoint(names) or any(
        parse(words[at + 1 : at + 1 + _MOST_OPTIONS]).name not in HARMLESS
        for at, name in enumerate(names)
        if name == "git"
    )


# -- Acting on an event


def run(start: str, env: Mapping[str, str], name: str, document: object) -> Fired | None:
    """Act on an agent's JSON; return None if no checkpoint is needed."""
    if not isinstance(document, dict):
        return fire(start, env, Request(name), _refuse_input)
    event = read(AGENTS[name], document)
    return None if event is None else act(name, event, env)


def _refuse_input(*_: object) -> None:
    raise CkptError("what came on standard input is no JSON object")


def act(trigger: str, event: Event, env: Mapping[str, str]) -> Fired | None:
    """Act on an event; return None if no checkpoint is needed.

    A session starts with a `session` checkpoint. The first tool of a turn that may write takes an
    `auto` checkpoint, as does every command that removes files. A file in another repository is
    saved there, once per turn if the agent's repository counts turns. Failure to record a turn or
    a write is ignored: it costs an extra checkpoint, or a rollback leaves that write alone.
    """
    outer = session_of_env(env)
    # `git ckpt run` has already taken a `session` checkpoint.
    is_start = event.occasion in (START, PROMPT) and outer is None
    paths = [place for path in event.paths for place in _places_of(event.folder, path)]
    event = event._replace(paths=tuple(paths), session=outer or event.session)
    request = Request(trigger, Kind.SESSION if is_start else Kind.AUTO, event.session)
    first, counting = _act_in(event, env, request, None)
    every = [first]
    if not env.get("GIT_DIR"):  # which selects one repository for every path
        own, there = _top_of(os.path.realpath(event.folder)), request._replace(is_stranger=True)
        for top in dict.fromkeys(_top_of(os.path.dirname(path)) for path in paths):
            if top is not None and top != own:
                every.append(_act_in(event._replace(folder=top), env, there, counting)[0])
    done = [each for each in every if each is not None]
    # Report the result of the agent's own repository, if it was saved.
    warnings = tuple(text for each in done for text in each.warnings)
    return done[0]._replace(warnings=warnings) if done else None


def _act_in(
    event: Event, env: Mapping[str, str], request: Request, counting: SessionState | None
) -> tuple[Fired | None, SessionState | None]:
    """Act on an event in one repository, following the turns in `counting` if it is not the
    agent's own; without them, each event there starts a turn."""
    state = None
    try:
        with find_repository(event.folder, env, request) as repo:
            if not load_forgiving(repo).allows(request.trigger):
                return None, None
            state = SessionState(repo.private_dir, event.session)
            if request.is_stranger and event.occasion == BEFORE:
                state.unclaim() if counting is None else state.follow(counting)
            return _act(repo, state, event, env, request), state
    except (NotARepository, TooBroad):
        return None, None
    except Exception:  # of turns or the ledger: it must not prevent a save, which reports its own
        is_due = event.occasion in (START, BEFORE)
        return (fire(event.folder, env, request) if is_due else None), state


def _act(
    repo: Repository, state: SessionState, event: Event, env: Mapping[str, str], request: Request
) -> Fired | None:
    if event.occasion in (START, PROMPT):
        fired = None
        # Some agents, or older versions, do not report the start of a session.
        if event.occasion == START or not state.is_known:
            forget_old(repo.private_dir)
            fired = fire(repo.worktree, env, request)
            state.unclaim()
        if event.occasion == PROMPT:
            state.new_turn()
        return fired
    for name in event.paths:
        try:
            path = relative_to_top(name, repo.worktree, repo.worktree)
        except (CkptError, ValueError, OSError):  # elsewhere
            continue
        if event.occasion == BEFORE:
            state.foresee(path, is_there=os.path.lexists(name))
        else:
            state.record(path, look(name))
    if event.occasion != BEFORE:
        return None
    with state.saving(_PATIENCE):
        now = state.read()
        if now.is_claimed and not event.destroys:
            return None
        fired = fire(repo.worktree, env, request)
        if fired.result:
            state.claim(now.turn)
        return fired


def _places_of(folder: str, path: str) -> tuple[str, ...]:
    """Return the real path of a file and, for a symbolic link, of its target."""
    path = os.path.join(folder, os.path.expanduser(path))
    parent, name = os.path.split(os.path.normpath(path))
    itself = os.path.join(os.path.realpath(parent), name)
    return tuple(dict.fromkeys((itself, os.path.realpath(path))))


def _top_of(folder: str) -> str | None:
    """Return the nearest directory with a `.git`, without checking that it is a repository."""
    while not os.path.lexists(os.path.join(folder, ".git")):
        if folder == os.path.dirname(folder):
            return None
        folder = os.path.dirname(folder)
    return folder
