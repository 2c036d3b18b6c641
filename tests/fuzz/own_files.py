# SPDX-License-Identifier: MIT
"""The files that ckpt writes for itself, its settings, and what agents write to its hooks.

Files with a checksum are read with the right one over the damaged bytes, too, or no damage
would get any further. Of the cache of scans that would be wrong: its checksum is all that keeps
damaged bytes from `marshal`.
"""

from __future__ import annotations

import json
from hashlib import sha256
from itertools import count
from pathlib import Path

from byhand import open_repository, worktree
from fuzz.parsers import Read, Samples, parser

from ckpt import jsontext, state
from ckpt.api import transfer
from ckpt.commands import hook
from ckpt.engine import journal, recorded, snapshot, space
from ckpt.engine.changes import Action, FileState, HeadMove
from ckpt.engine.conversions import ConversionCache
from ckpt.engine.journal import Journal, LastRollback
from ckpt.engine.sessions import Content, SessionState
from ckpt.errors import CkptError
from ckpt.git import record as made_here
from ckpt.git.formats import ObjectID
from ckpt.git.operation import Operation
from ckpt.git.refs import Head
from ckpt.git.trees import REGULAR, SYMLINK, TreeEntry
from ckpt.git.trigger_log import Success, TriggerLog
from ckpt.install import agents as agent_text
from ckpt.install import edit
from ckpt.install.agents import FORMATS
from ckpt.install.record import Record
from ckpt.models import NestedState
from ckpt.settings.settings import from_ckpt_toml, from_pyproject, settings
from ckpt.settings.sources import TRIGGERS, SettingsError, from_environ, from_git_config
from ckpt.triggers.agents import claude_code, codex, cursor, event, gemini
from ckpt.worktree.modes import Modes

ONE, TWO = ObjectID(b"1" * 40), ObjectID(b"2" * 40)
ID = "20261115-233412-123-k7pq"
MOVE = HeadMove(Head(b"refs/heads/main", ONE), Head(None, TWO), None)


# -- rollbacks -------------------------------------------------------------------------


@parser(CkptError)
def the_journal(folder: Path) -> tuple[Samples, Read]:
    there = FileState(TreeEntry(REGULAR, ONE), 0o640)
    actions = (Action(b"a", None, there), Action(b"b", FileState(TreeEntry(SYMLINK, TWO), 0), None))
    record = Journal(ID, ID, (b"a", b"\xff"), actions, (b"new",), (b"old",), head=MOVE)
    journal.write(str(folder), record)
    body = (folder / "journal").read_bytes().partition(b"\n")[2]

    def read(data: bytes) -> object:
        _write_summed(folder / "journal", data)
        return journal.read(str(folder))

    return [body], read


@parser()
def what_undo_remembers(folder: Path) -> tuple[Samples, Read]:
    journal.remember(str(folder), LastRollback(ID, ID, (b"a", b"\xff"), head=True, move=MOVE))
    body = (folder / "last-rollback").read_bytes().partition(b"\n")[2]

    def read(data: bytes) -> object:
        _write_summed(folder / "last-rollback", data)
        return journal.last_rollback(str(folder))

    return [body], read


def _write_summed(path: Path, data: bytes) -> None:
    path.write_bytes(sha256(data).hexdigest().encode() + b"\n" + data)


# -- what is remembered ----------------------------------------------------------------


@parser()
def conversion_cache(folder: Path) -> tuple[Samples, Read]:
    files = [["a", [1, 2, 3], 0, ONE.decode(), [TWO.decode(), False, True]]]
    document = {"worktree": "/top", "rules": ["text=auto"], "files": files}

    def read(data: bytes) -> object:
        path = folder / "conversions"
        path.touch(0o600)
        path.write_bytes(b"ckpt conversions 3 %s\n%s" % (sha256(data).hexdigest().encode(), data))
        return ConversionCache(str(folder), "/top")

    return [json.dumps(document).encode()], read


@parser()
def the_last_of_each_trigger(folder: Path) -> tuple[Samples, Read]:
    log = TriggerLog(str(folder), TRIGGERS)
    log.note_failure(TRIGGERS[0], 1.5, "no space left")
    log.note_success(TRIGGERS[0], Success(1.0, 0.5, "created", ID))

    def read(data: bytes) -> object:
        (folder / "triggers").write_bytes(data)
        log.note_failure(TRIGGERS[1], 2.0, "again")
        return log.read(TRIGGERS[0]), log.read(TRIGGERS[1])

    return [(folder / "triggers").read_bytes()[:200]], read


@parser()
def turns_and_writes_of_a_session(folder: Path) -> tuple[Samples, Read]:
    session = SessionState(str(folder), "s")
    session.new_turn()
    session.foresee(b"a", is_there=False)
    session.record(b"a", Content("1" * 64, 0o100644))
    turn, writes = (Path(session.folder, name) for name in ("turn", "writes"))
    right = turn.read_bytes()

    def read(data: bytes) -> object:
        turn.write_bytes(data)
        writes.write_bytes(data)
        session.new_turn()
        session.record(b"b", Content("2" * 64, 0o100755))
        return session.turn, session.is_claimed, session.writes()

    return [right, writes.read_bytes()], read


@parser()
def the_tally_of_saves(folder: Path) -> tuple[Samples, Read]:
    snapshot.start_again(str(folder))

    def read(data: bytes) -> object:
        (folder / "saves").write_bytes(data)
        return snapshot.count_save(str(folder))

    return [(folder / "saves").read_bytes() + b"..."], read


@parser()
def the_space_that_is_held(folder: Path) -> tuple[Samples, Read]:
    repo = open_repository(worktree(folder / "repo"))
    path = folder / "repo/.git/ckpt/space"
    path.parent.mkdir(exist_ok=True)

    def read(data: bytes) -> object:
        path.write_bytes(data)
        return space.held(repo)

    record = {"refs": "0" * 64, "total": 5000, "trash": 10, "at": 1.5}
    return [jsontext.dump(record)], read


@parser()
def what_was_made_here(folder: Path) -> tuple[Samples, Read]:
    made_here.note(str(folder), ID, "1" * 40)

    def read(data: bytes) -> object:
        (folder / "ckpt/made-here").write_bytes(data)
        made_here.tidy(str(folder), lambda: {ID})
        return made_here.holds(str(folder), ID, "1" * 40), made_here.Record(str(folder)).lacks(
            ID, ""
        )

    return [(folder / "ckpt/made-here").read_bytes()], read


@parser()
def the_record_of_what_was_installed(folder: Path) -> tuple[Samples, Read]:
    record = Record(str(folder / "installed.json"))
    record.put("hooks", {"pre-commit": {"made": ["/nowhere"], "newline": False}})
    right = (folder / "installed.json").read_bytes()

    def read(data: bytes) -> object:
        (folder / "installed.json").write_bytes(data)
        notes = record.get("hooks")
        record.put("alias", {"sha256": ""})
        record.drop("hooks")
        record.drop("alias")
        return notes

    return [right], read


# -- what a checkpoint holds -----------------------------------------------------------


@parser(ValueError)
def the_manifest(folder: Path) -> tuple[Samples, Read]:
    nested = (NestedState("inner", "1" * 40, "main", True, ID, None),)
    made = recorded.Manifest(
        modes=Modes(others={b"a": 0o600}, folders={b"b": 0o700}),
        empty_folders=(b"empty",),
        skipped={b"big": "too-large"},
        excludes={".gitignore": b"*.log\n"},
        operation=Operation("merge", "1" * 40),
        unskipped=(b"c",),
        nested=nested,
    )
    return [made.dump()], lambda data: recorded.load(jsontext.load(data))


@parser(ValueError)
def a_value_of_the_agents(folder: Path) -> tuple[Samples, Read]:
    from datetime import datetime, timedelta, timezone
    from decimal import Decimal
    from uuid import UUID

    value = {
        "when": datetime(2026, 1, 2, tzinfo=timezone.utc),
        "long": timedelta(3),
        "much": Decimal("1.50"),
        "who": UUID(int=5),
        "raw": b"\xff",
        "some": {1, 2},
        ("a", 1): [1.5, None, True],
    }
    return [state.dump(value, "state")], state.load


@parser(CkptError)
def checkpoints_of_state_in_one_file(folder: Path) -> tuple[Samples, Read]:
    item = {
        "id": ID,
        "timestamp": "2026-11-15T23:34:12.123456+00:00",
        "name": "x",
        "description": None,
        "kind": "manual",
        "trigger": None,
        "session": None,
        "pinned": False,
        "state": {"data.json": {"a": 1}},
    }
    document = json.dumps({"schema": 1, "format": transfer.FORMAT, "checkpoints": [item]}).encode()

    def read(data: bytes) -> object:
        return [transfer._draft(item, None) for item in transfer._items(data)]

    return [document], read


# -- settings --------------------------------------------------------------------------

TOML = b"""\
max_file_size = "50MiB"
max_new_files = 20000
include = ["*.log", "b/"]
on_error = "warn"
disable = ["guard"]

[retention]
max_checkpoints = 100
[retention.auto]
last = 5
within = "7d"
"""


@parser(SettingsError)
def ckpt_toml(folder: Path) -> tuple[Samples, Read]:
    return [TOML], lambda data: settings.load([from_ckpt_toml(data)]).policy


@parser(SettingsError)
def pyproject_toml(folder: Path) -> tuple[Samples, Read]:
    text = TOML.replace(b"[retention", b"[tool.ckpt.retention")
    return [b"[tool.ckpt]\n" + text], lambda data: settings.load([from_pyproject(data)])


@parser(SettingsError)
def settings_from_git_config(folder: Path) -> tuple[Samples, Read]:
    def read(data: bytes) -> object:
        lines = (
            line.partition("=") for line in data.decode("utf-8", "surrogateescape").split("\n")
        )
        return settings.load([from_git_config((name, value, "f") for name, _, value in lines)])

    return [b"maxfilesize=50MiB\ninclude=*.log\nretention.auto.last=5\nonerror=warn"], read


@parser(SettingsError)
def settings_from_the_environment(folder: Path) -> tuple[Samples, Read]:
    names = ("CKPT_MAX_FILE_SIZE", "CKPT_INCLUDE", "CKPT_ON_ERROR", "CKPT_RETENTION_AUTO_LAST")

    def read(data: bytes) -> object:
        values = data.decode("utf-8", "surrogateescape").replace("\0", "").split("\n")
        env = dict(
            zip([*names, "CKPT_DISABLE", "CKPT_RETENTION_AUTO_WITHIN"], values, strict=False)
        )
        settings.disabled_by_env(env, "guard")
        return settings.load([from_environ(env)])

    return [b"50MiB\n*.log:b/\nwarn\n5\nguard:pre-commit\n7d"], read


# -- agents ----------------------------------------------------------------------------


@parser()
def what_an_agent_writes_to_its_hook(folder: Path) -> tuple[Samples, Read]:
    base = {"session_id": "s", "cwd": "/top", "hook_event_name": "PreToolUse"}
    tools = (
        {"tool_name": "Write", "tool_input": {"file_path": "/top/a"}},
        {"tool_name": "Bash", "tool_input": {"command": "git status && rm -rf 'a b' 2>&1"}},
        {"tool_name": "apply_patch", "tool_input": {"input": "*** Update File: a\n"}},
        {"workspace_roots": ["/top"], "command": "ls", "conversation_id": "c"},
    )
    agents = [module.AGENT for module in (claude_code, codex, cursor, gemini)]

    def read(data: bytes) -> object:
        document = hook._parsed(data)
        return [(event.read(agent, document), event.name_of(document)) for agent in agents]

    return [json.dumps(base | tool).encode() for tool in tools], read


@parser(edit.NotJson)
def a_file_of_settings_as_json(folder: Path) -> tuple[Samples, Read]:
    def read(data: bytes) -> object:
        text = data.decode("utf-8", "replace")
        node = edit.parse(text, comments=True)
        for number in range(len(node.items)):
            edit.without(text, node, number)
        if node.kind == "object":
            edit.added_member(text, node, "a", {"b": 1})
        return edit.load(text, node)

    return [b'{\n  "a": [1, {"b": null}], // why\n  "c": {"d": "e\\u00e9"},\n}\n'], read


@parser(agent_text.Unfit)
def the_settings_of_an_agent(folder: Path) -> tuple[Samples, Read]:
    names = count()

    def read(data: bytes) -> object:
        text, agent = data.decode("utf-8", "replace"), [*FORMATS][next(names) % len(FORMATS)]
        draft = edit.Draft(text)
        agent_text.found(text, agent)
        agent_text.is_current(text, agent, "/usr/bin/python3")
        agent_text.add(draft, agent, agent_text.wanted(agent, "/usr/bin/python3"))
        return agent_text.without_ours(draft.text, agent)

    return [agent_text.whole(agent, "/usr/bin/python3").encode() for agent in FORMATS], read
