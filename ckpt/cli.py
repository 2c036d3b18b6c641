# SPDX-License-Identifier: MIT
"""The command line: words to a command, errors to an exit code.

One table of commands; the module of a command, and all that it needs, is imported only
when that command is typed. A command module has `arguments(parser)` and `run(context,
…)`, which gets what was parsed as plain arguments and returns an exit code.
"""

from __future__ import annotations

import gc
import os
import sys

from ckpt import __version__, interrupts
from ckpt.errors import CkptError, DiskError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, NoReturn

    from ckpt.manager import CheckpointManager
    from ckpt.models import Checkpoint
    from ckpt.output import Output

COMMANDS = {
    "save": "take a checkpoint of the whole working state",
    "list": "list the checkpoints of this worktree, newest first",
    "show": "show one checkpoint",
    "diff": "show what changed since a checkpoint, or between two",
    "rollback": "go back to a checkpoint, whole or by path",
    "undo": "take back the last rollback; again to redo it",
    "run": "run a command between checkpoints; roll back if it fails",
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
    "doctor": "try the triggers out and say what is wrong",
    "verify": "check the objects that checkpoints need",
    "rescue": "find what other tools dropped, and make a checkpoint of it",
    "hook": "take a checkpoint for a hook; what hooks call",
    "help": "show the manual, or its section on one command",
}

# Commands that share the module of another: their functions there begin with their names.
_HOMES = {
    "undo": "rollback",
    "drop": "trash",
    "restore-dropped": "trash",
    "unpin": "pin",
    "uninstall": "install",
}
_TAKE_PATHS = ("diff", "rollback")

_USAGE = "git ckpt [-C DIR] [--json] [-q] COMMAND [ARGUMENTS]"
_EPILOG = """\
options of every command:
  -C DIR           work in DIR
  --json           print one JSON document
  -q, --quiet      print nothing but errors
  --store user     for a folder that is no repository: keep checkpoints elsewhere

ID is 'latest', 'latest~N', a full id, a name, or a unique prefix of an id or of
its last part.

exit codes: 0 done, 1 failed, 2 usage, 3 no such checkpoint, 4 refused, 130 interrupted

'git ckpt COMMAND -h' lists the options of a command, 'git ckpt help' is the manual.
"""


class Context:
    """What every command gets: the folder it works in, the environment, where to print."""

    def __init__(
        self, start: str, env: Mapping[str, str], output: Output, store: str = "repo"
    ) -> None:
        self.start = start
        self.env = env
        self.output = output
        self.store = store

    def manager(self) -> CheckpointManager:
        """The API on this folder; says so if a rollback was interrupted there, or is at work."""
        manager = self.quiet_manager()
        running = manager.rollback_running
        if running is not None:
            self.output.warning(f"a rollback is at work in this worktree ({running})")
        elif manager.rollback_interrupted:
            self.output.warning("a rollback was interrupted in this worktree")
            self.output.hint("git ckpt rollback --continue, or git ckpt rollback --abort")
        return manager

    def quiet_manager(self) -> CheckpointManager:
        """The same, for commands that end or refuse because of an interrupted rollback."""
        from ckpt.manager import CheckpointManager

        if not os.path.isabs(self.start):
            _check_current_folder()
        manager = CheckpointManager(self.start, store=self.store, environ=self.env)
        manager.progress = self.output.progress()
        manager.waiting = self.output.waiting
        return manager

    def changed(self, found: Checkpoint, verb: str) -> None:
        """Tell of one checkpoint that a command has changed."""
        if self.output.as_json:
            from ckpt import documents

            self.output.document(documents.single(found))
        else:
            self.output.line(f"{verb} checkpoint {found.id}")

    def warn(self, notes: Sequence[str]) -> None:
        for note in notes:
            self.output.warning(note)


def _check_current_folder() -> None:
    try:
        os.getcwd()
    except FileNotFoundError:
        raise CkptError(
            "the current folder is gone", hint="change into a folder that is there"
        ) from None


def program() -> NoReturn:
    """Run one command, and leave at once.

    Collecting garbage takes 7 ms in so short a life, and Python's own end another 18. Nothing
    waits for that end: what is to be kept is on the disk by then.
    """
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
    """Run one command; returns its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    _make_streams_safe()
    try:
        code = _dispatch(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        close_stdout()
        return 1
    except OSError as error:
        close_stdout()
        sys.stderr.write(f"error: unable to write the output: {error.strerror}\n")
        return 1
    return code


def _dispatch(arguments: list[str]) -> int:
    if arguments[:1] in (["--version"], ["-h"], ["--help"]):
        return _general_help(arguments[0] == "--version")
    from ckpt.output import Output

    env = dict(os.environ)
    # Known before anything is parsed: an error about a word must be JSON too.
    output = Output(env, as_json=_asks_for(arguments, "--json"), quiet=False)
    start = "."
    try:
        if sys.platform == "win32":
            raise CkptError("ckpt does not run on Windows yet", hint="use it inside WSL")
        options, rest = _parse_common(arguments)
        if options["command"] is None:
            return _general_help(options["version"])
        store: str = options["store"]
        output = Output(env, as_json=options["json"], quiet=options["quiet"], store=store)
        start = options["directory"]
        return _run(Context(start, env, output, store), options["command"], rest)
    except CkptError as error:
        output.error(error)
        return error.exit_code
    except KeyboardInterrupt:
        output.interrupted()
        return 130
    except BrokenPipeError:
        raise
    except OSError as error:
        output.error(DiskError(error))
        return 1
    except Exception as error:  # a bug of ours
        output.error(_reported(error, arguments, start, env))
        return 1
    finally:
        output.clear()


def _reported(
    error: Exception, words: Sequence[str], start: str, env: Mapping[str, str]
) -> CkptError:
    if isinstance(error, MemoryError):
        return CkptError("out of memory", hint="end other programs, or see 'ulimit -v'")
    from ckpt.triggers.fire import unexpected

    return unexpected(error, words, start, env)


def _run(context: Context, command: str, rest: list[str]) -> int:
    from importlib import import_module

    module = import_module("ckpt.commands." + _HOMES.get(command, command))
    if command in _HOMES:
        word = command.replace("-", "_")
        arguments, run = getattr(module, f"{word}_arguments"), getattr(module, word)
    else:
        arguments, run = module.arguments, module.run
    after: dict[str, list[str]] = {}
    if command in _TAKE_PATHS:
        rest, after["paths"] = _split_paths(rest)
    elif command == "run":  # for another program to read
        cut = rest.index("--") if "--" in rest else len(rest)
        rest, after["words"] = rest[:cut], rest[cut + 1 :]
    elif command == "hook" and rest and rest[0] in module.EVENTS:  # without the 7 ms of argparse
        given = rest[2:] if rest[1:2] == ["--"] else rest[1:]
        return int(run(context, event=rest[0], words=given))
    values = _parse(arguments, command, rest)
    return 0 if values is None else int(run(context, **values, **after))


def _parse(
    arguments: Callable[[ArgumentParser], None], command: str, words: list[str]
) -> dict[str, Any] | None:
    """The values of a command's arguments by name; None after its help was asked for."""
    from argparse import ArgumentParser, RawDescriptionHelpFormatter

    class Parser(ArgumentParser):
        def error(self, message: str) -> NoReturn:
            raise UsageError(message, hint=f"{self.prog} -h")

    asks_for_help = "-h" in words or "--help" in words
    width = None if asks_for_help else 80  # as wide as the terminal, which takes shutil to know
    summary = COMMANDS[command]
    parser = Parser(
        prog=f"git ckpt {command}",
        description=summary[0].upper() + summary[1:] + ".",
        formatter_class=lambda prog: RawDescriptionHelpFormatter(prog, width=width),
        allow_abbrev=False,
    )
    arguments(parser)
    if not asks_for_help:
        return vars(parser.parse_args(words))
    # `_parse_common` has taken these already.
    common = parser.add_argument_group("options of every command")
    common.add_argument("--json", action="store_true", help="print one JSON document")
    common.add_argument("-q", "--quiet", action="store_true", help="print nothing but errors")
    common.add_argument("-C", metavar="DIR", help="work in DIR")
    common.add_argument(
        "--store",
        choices=["repo", "user"],
        help="where checkpoints are; user: for a folder that is no repository (default: repo)",
    )
    sys.stdout.write(parser.format_help())
    return None


def _split_paths(words: list[str]) -> tuple[list[str], list[str]]:
    """What stands after `--` is a path, whatever it looks like."""
    if "--" not in words:
        return words, []
    cut = words.index("--")
    if not words[cut + 1 :]:  # most likely a variable that turned out empty
        raise UsageError("no path after '--'", hint="name paths, or leave '--' out for all")
    return words[:cut], words[cut + 1 :]


def _parse_common(arguments: list[str]) -> tuple[dict[str, Any], list[str]]:
    """Take the options that every command has from before and after its name."""
    options: dict[str, Any] = {
        "command": None,
        "directory": ".",
        "json": False,
        "quiet": False,
        "store": "repo",
        "version": False,
    }
    rest: list[str] = []
    words = iter(arguments)
    for word in words:
        if word == "--":
            rest += ["--", *words]
        elif word in ("--json", "-q", "--quiet"):
            options["json" if word == "--json" else "quiet"] = True
        elif word == "-C":
            folder = next(words, None)
            if folder is None:
                raise UsageError("option -C needs a directory", hint=_USAGE)
            options["directory"] = os.path.join(options["directory"], folder)
        elif word == "--store" or word.startswith("--store="):
            options["store"] = _known_store(next(words, "") if word == "--store" else word[8:])
        elif options["command"] is not None:
            rest.append(word)
        elif word in ("-h", "--help", "--version"):
            options["version"] = word == "--version"
            return options, []
        else:
            options["command"] = _known_command(word)
    if options["command"] is None and options["json"]:
        raise UsageError("no command was named", hint="git ckpt -h")
    return options, rest


def _known_store(word: str) -> str:
    if word not in ("repo", "user"):
        raise UsageError(f"unknown store '{word}'", hint="--store repo, or --store user")
    return word


def _known_command(word: str) -> str:
    if word in COMMANDS:
        return word
    from difflib import get_close_matches

    what = "option" if word.startswith("-") else "command"
    near = get_close_matches(word, COMMANDS, 1)
    hint = f"did you mean 'git ckpt {near[0]}'?" if near else "git ckpt -h"
    raise UsageError(f"'{word}' is not a ckpt {what}", hint=hint)


def _general_help(version: bool) -> int:
    if version:
        lines = [f"git-ckpt {__version__}"]
    else:
        lines = [f"usage: {_USAGE}", "", "commands:"]
        lines += [f"  {name:<16} {summary}" for name, summary in COMMANDS.items()]
        lines += ["", _EPILOG.rstrip()]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def _asks_for(arguments: list[str], option: str) -> bool:
    until = arguments.index("--") if "--" in arguments else len(arguments)
    return option in arguments[:until]


def _make_streams_safe() -> None:
    """Escape what the locale cannot show; replace streams that were closed before we started."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115  # for as long as we run
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def close_stdout() -> None:
    """Our reader is gone; keep the interpreter from complaining about it."""
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, sys.stdout.fileno())
    os.close(sink)
