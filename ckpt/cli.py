# SPDX-License-Identifier: MIT
"""The command line: parse the arguments, run a command, turn errors into exit codes.

Only the module of the command being run is imported. It defines `arguments(parser)` and
`run(context, …)`, which takes options as plain arguments and returns an exit code or None.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from ckpt import __version__, interrupts
from ckpt.errors import CkptError, Interrupted, UsageError, as_ckpt_error

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ckpt.manager import CheckpointManager
    from ckpt.output import Output

COMMANDS = {
    "save": "take a checkpoint of the whole working state",
    "list": "list the checkpoints of this worktree, newest first",
    "show": "show one checkpoint",
    "diff": "show what changed since a checkpoint, or between two",
    "rollback": "go back to a checkpoint, whole or by path",
    "undo": "take back the last rollback; again to redo it",
    "run": "take a checkpoint, run a command; roll back if it fails",
    "drop": "drop checkpoints; they stay in the trash",
    "prune": "drop what no rule keeps, and say why",
    "pin": "protect a checkpoint from being dropped by rule",
    "unpin": "stop protecting a checkpoint",
    "trash": "list dropped checkpoints",
    "restore-dropped": "bring a dropped checkpoint back",
    "gc": "give space back: pack what piles up, expire the trash",
    "install": "let git take checkpoints by itself: hooks, the guard",
    "uninstall": "take out what install has put in",
    "status": "show what there is, and what the triggers did last",
    "doctor": "say what is wrong, and the command that fixes it",
    "verify": "check the objects that checkpoints need",
    "rescue": "find what other tools dropped",
    "hook": "take a checkpoint for a hook; what hooks call",
    "help": "show the manual, or its section on one command",
}

# Commands defined in the module of another, by functions that begin with their names.
_HOMES = {
    "undo": "rollback",
    "drop": "trash",
    "restore-dropped": "trash",
    "pin": "trash",
    "unpin": "trash",
    "uninstall": "install",
}
_NEED_WORDS = {"drop", "hook", "pin", "restore-dropped", "unpin"}
_UNOPENED = {"help", "hook", "install", "uninstall"}  # do not need a repository
_TOLD_ITSELF = {"doctor", "rollback", "run", "status", "undo"}  # report interrupted rollbacks
_AFTER_DASHES = {"diff": "paths", "rollback": "paths", "run": "words"}

_USAGE = "git ckpt [-C DIR] [--json] [-q] COMMAND [ARGUMENTS]"
_COMMON = """\
options of every command:
  -C DIR           work in DIR
  --json           print one JSON document
  -q, --quiet      print nothing but errors
  --store user     for a folder that is no repository: keep checkpoints elsewhere
"""
_EPILOG = f"""\
{_COMMON}
ID is 'latest', 'latest~N', a full id, a name, or a unique prefix of an id or of
its last part.

exit codes: 0 done, 1 failed, 2 usage, 3 no such checkpoint, 4 refused, 130 interrupted

'git ckpt COMMAND -h' lists the options of a command, 'git ckpt help' is the manual.
"""


class Context:
    """The directory, environment and output of a command, and for most an open manager."""

    manager: CheckpointManager

    def __init__(self, env: Mapping[str, str], output: Output) -> None:
        self.start, self.env, self.output = ".", env, output

    def open(self, *, warns: bool) -> CheckpointManager:
        """Open the manager, and warn of an interrupted or running rollback."""
        from ckpt.manager import CheckpointManager

        manager = CheckpointManager(self.start, store=self.output.store, environ=self.env)
        manager.progress = self.output.progress()
        self.manager = manager
        if warns and manager.rollback_running:
            self.output.warning("a rollback is at work in this worktree")
        elif warns and manager.rollback_interrupted:
            self.output.warning("a rollback was interrupted in this worktree")
            self.output.hint("git ckpt rollback --continue, or git ckpt rollback --abort")
        return manager

    def warn(self, notes: Iterable[str]) -> None:
        for note in notes:
            self.output.warning(note)


def program() -> NoReturn:
    """Run one command and exit, without Python's shutdown (18 ms) and collector (7 ms)."""
    gc.disable()
    code = 1
    try:
        interrupts.install()
        code = main()
        sys.stderr.flush()
    except KeyboardInterrupt:
        code = 130 if code else 0
    except (OSError, ValueError):
        pass
    if code != 0:
        interrupts.end()
    os._exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    _make_streams_safe()
    try:
        code = _dispatch(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
        return code
    except OSError as error:
        close_stdout()
        if not isinstance(error, BrokenPipeError):
            sys.stderr.write(f"error: unable to write the output: {error.strerror}\n")
        return 1


def _dispatch(arguments: list[str]) -> int:
    if arguments[:1] in (["--version"], ["-h"], ["--help"]):
        return _general_help(arguments[0])
    from ckpt.output import Output

    env = dict(os.environ)
    # Look for --json before parsing, so that usage errors are JSON too.
    context = Context(env, Output(env, as_json="--json" in _split(arguments)[0]))
    problem: CkptError
    try:
        if sys.platform == "win32":
            raise CkptError("ckpt does not run on Windows yet", hint="use it inside WSL")
        command, rest = _parse_common(context, arguments)
        if command not in COMMANDS:
            return _general_help(command)
        return _run(context, command, rest)
    except KeyboardInterrupt:
        problem = Interrupted("interrupted")
    except BrokenPipeError:
        raise
    except (CkptError, OSError) as error:
        problem = as_ckpt_error(error)
    except Exception as error:  # a bug in ckpt
        if interrupts.has_come():  # Python wraps what is raised while a class is created
            problem = Interrupted("interrupted")
        else:
            from ckpt.triggers.fire import unexpected

            problem = unexpected(error, arguments, context.start, env)
    finally:
        context.output.clear()
    context.output.error(problem)
    return problem.exit_code


def _split(words: list[str]) -> tuple[list[str], list[str] | None]:
    """Split arguments at `--`."""
    if "--" not in words:
        return words, None
    cut = words.index("--")
    return words[:cut], words[cut + 1 :]


def _parse_common(context: Context, arguments: list[str]) -> tuple[str, list[str]]:
    """Apply the common options; return the command and its arguments."""
    output, command = context.output, ""
    rest: list[str] = []
    words = iter(arguments)
    for word in words:
        if word == "--":
            rest += ["--", *words]
        elif word in ("-q", "--quiet"):
            output.quiet = True
        elif word == "-C":
            folder = next(words, None)
            if folder is None:
                raise UsageError("option -C needs a directory", hint=_USAGE)
            context.start = os.path.join(context.start, folder)
        elif word == "--store" or word.startswith("--store="):
            output.store = next(words, "") if word == "--store" else word[8:]
        elif word == "--json":
            continue
        elif command:
            rest.append(word)
        elif word in ("-h", "--help", "--version"):
            return word, []
        elif word in COMMANDS:
            command = word
        else:
            raise _unknown(word)
    if not command and output.as_json:
        raise UsageError("no command was named", hint="git ckpt -h")
    return command, rest


def _unknown(word: str) -> UsageError:
    from difflib import get_close_matches

    what = "option" if word.startswith("-") else "command"
    near = get_close_matches(word, COMMANDS, 1)
    hint = f"did you mean 'git ckpt {near[0]}'?" if near else "git ckpt -h"
    return UsageError(f"'{word}' is not a ckpt {what}", hint=hint)


def _run(context: Context, command: str, words: list[str]) -> int:
    """Import and call a command, without argparse (7 ms) if it has no arguments."""
    from importlib import import_module

    module = import_module("ckpt.commands." + _HOMES.get(command, command))
    own = command.replace("-", "_") if command in _HOMES else ""
    call: Callable[..., int | None] = getattr(module, own or "run")
    values: dict[str, Any] = {}
    if command in _AFTER_DASHES:
        words, after = _split(words)
        if after == [] and command != "run":  # most likely an empty variable
            raise UsageError("no path after '--'", hint="name paths, or leave '--' out for all")
        values[_AFTER_DASHES[command]] = after or []
    elif command == "hook" and words and words[0] in module.EVENTS:
        return call(context, words[0], words[2:] if words[1:2] == ["--"] else words[1:]) or 0
    if words or command in _NEED_WORDS:
        arguments = f"{own}_arguments" if own else "arguments"
        typed = _parse(getattr(module, arguments, None), command, words)
        if typed is None:
            return 0
        values |= typed
    if command in _UNOPENED:
        return call(context, **values) or 0
    with context.open(warns=command not in _TOLD_ITSELF):
        return call(context, **values) or 0


def _parse(
    arguments: Callable[[ArgumentParser], None] | None, command: str, words: list[str]
) -> dict[str, Any] | None:
    """Parse arguments into values by name; return None after printing the help."""
    from argparse import SUPPRESS, ArgumentParser, RawDescriptionHelpFormatter

    class Parser(ArgumentParser):
        def error(self, message: str) -> NoReturn:
            raise UsageError(message, hint=f"{self.prog} -h")

    asks_for_help = "-h" in words or "--help" in words
    width = None if asks_for_help else 80  # the width of the terminal needs shutil
    summary = COMMANDS[command]
    parser = Parser(
        prog=f"git ckpt {command}",
        description=summary[0].upper() + summary[1:] + ".",
        epilog=_COMMON,
        formatter_class=lambda prog: RawDescriptionHelpFormatter(prog, width=width),
        argument_default=SUPPRESS,
        allow_abbrev=False,
    )
    if arguments is not None:
        arguments(parser)
    if not asks_for_help:
        return vars(parser.parse_args(words))
    sys.stdout.write(parser.format_help())
    return None


def _general_help(option: str) -> int:
    if option == "--version":
        sys.stdout.write(f"git-ckpt {__version__}\n")
    else:
        commands = "".join(f"  {name:<16} {summary}\n" for name, summary in COMMANDS.items())
        sys.stdout.write(f"usage: {_USAGE}\n\ncommands:\n{commands}\n{_EPILOG}")
    return 0


def _make_streams_safe() -> None:
    """Escape characters that the locale cannot encode, and replace closed streams."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115  # open until exit
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def close_stdout() -> None:
    """Redirect standard output to /dev/null, so that flushing it at exit cannot fail."""
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, sys.stdout.fileno())
    os.close(sink)
