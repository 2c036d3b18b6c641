# SPDX-License-Identifier: MIT
"""Every line that ckpt prints: text, colour, JSON.

Results go to standard output, warnings, hints and errors to standard error. With
`--json` there is one document on standard output and nothing else; with `-q` nothing
but errors. Colour appears on a terminal only, and never under NO_COLOR; so does a line that
tells how far long work has come.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

from ckpt import render
from ckpt.diagnosis import Diagnosis
from ckpt.engine.gc import Collected
from ckpt.engine.prune import PruneResult
from ckpt.engine.rescue import Lost, Rescued
from ckpt.engine.space import Space
from ckpt.engine.status import Status
from ckpt.engine.verify import VerifyResult
from ckpt.errors import CkptError
from ckpt.models import Checkpoint, DiffResult, Dropped, RollbackResult, SaveResult
from ckpt.render import Progress
from ckpt.triggers.run import RunResult

_COLOURS = {"id": "33", "bold": "1", "dim": "2", "red": "31", "green": "32", "cyan": "36"}

_PAINT = tuple(f"[{code}m" for code in ("0", *_COLOURS.values()))

# The parts of documents that a person may type.
_COMMANDS = {"undo", "rollback_command"}


class Output:
    """Where the results of one command go."""

    def __init__(
        self, env: Mapping[str, str], *, as_json: bool, quiet: bool, store: str = "repo"
    ) -> None:
        self._store = store
        self.as_json = as_json
        self.quiet = quiet
        self._env = env
        self._progress: Progress | None = None
        self._here = ""

    # -- primitives ----------------------------------------------------------------

    def progress(self) -> Progress | None:
        """What to call in the course of long work, if somebody looks on."""
        if self.quiet or self.as_json or self._env.get("TERM") == "dumb" or not _sees(sys.stderr):
            return None
        from ckpt.render import Progress

        self._progress = Progress(sys.stderr)
        return self._progress

    def get_ready(self) -> None:
        """Import what results are told with, before files change that may be our own, and see
        where we are, before that may go."""
        from ckpt import render  # noqa: F401
        from ckpt.git import patch  # noqa: F401

        try:
            self._here = os.getcwd()
        except FileNotFoundError:  # long since, and '-C' names another
            pass

        if self.as_json:
            from ckpt import documents  # noqa: F401  # imported now, used when the work is done

    def clear(self) -> None:
        """Take away the line that tells of progress."""
        if self._progress is not None:
            self._progress.clear()

    def line(self, text: str = "") -> None:
        if not (self.quiet or self.as_json):
            self._print(self._typed(text), sys.stdout)

    def document(self, content: Mapping[str, Any]) -> None:
        import json

        commands = {key: self._typed(text) for key in _COMMANDS if (text := content.get(key))}
        print(json.dumps({**content, **commands}, ensure_ascii=True), file=sys.stdout)

    def _typed(self, command: str) -> str:
        """A command as it must be typed to reach the same checkpoints."""
        if self._store == "repo":
            return command
        first, *others = command.split("git ckpt ")
        store = f"--store {self._store} "
        return "git ckpt ".join([first, *(store * part[:1].isalpha() + part for part in others)])

    def _print(self, text: str, stream: TextIO) -> None:
        """One line, whatever is in it; `text` may be painted."""
        self.clear()
        print(_printable(text, self.colours(stream)), file=stream)

    def raw(self, data: bytes) -> None:
        if not (self.quiet or self.as_json):
            self.clear()
            sys.stdout.flush()
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()

    def warning(self, text: str) -> None:
        if not (self.quiet or self.as_json):
            self._print(f"warning: {render.printable(text)}", sys.stderr)

    def waiting(self, text: str) -> None:
        """Say why a command takes so long."""
        self.warning(f"{text}; waiting for it to end")

    def hint(self, text: str) -> None:
        if not (self.quiet or self.as_json):
            self._print(self._typed(f"hint: {render.printable(text)}"), sys.stderr)

    def paint(self, style: str, text: str) -> str:
        if text and self.colours(sys.stdout):
            return f"\033[{_COLOURS[style]}m{text}\033[0m"
        return text

    def colours(self, stream: TextIO) -> bool:
        if self._env.get("NO_COLOR") or self._env.get("TERM") == "dumb":
            return False
        return stream.isatty()

    def width(self) -> int:
        """Columns to fill; a pipe gets everything on one line."""
        try:
            return os.get_terminal_size(sys.stdout.fileno()).columns
        except (OSError, ValueError):
            return 10_000

    # -- results -------------------------------------------------------------------

    def saved(self, result: SaveResult) -> None:
        if self.as_json:
            from ckpt import documents

            return self.document(documents.save(result))
        found = result.checkpoint
        if found is None:
            return self.line(f"No checkpoint was taken: {result.reason}")
        if result.outcome == "unchanged":
            return self.line(f"Unchanged since checkpoint {self.paint('id', found.id)}")
        name = f" '{found.name}'" if found.name else ""
        self.line(f"Saved checkpoint {self.paint('id', found.id)}{name}: {render.stats(found)}")
        for state in found.nested:
            if state.checkpoint is not None:
                self.line(
                    f"  with {render.quoted(state.path)}: {self.paint('id', state.checkpoint)}"
                )
        self._left_out(found)
        for text in result.warnings:
            self.warning(text)
        return None

    def _left_out(self, found: Checkpoint) -> None:
        unreadable = [item for item in found.skipped if item.reason == "unreadable"]
        others = [item for item in render.left_out(found) if item.reason != "unreadable"]
        if unreadable:
            self.warning("this checkpoint is partial; these paths could not be read:")
            for item in unreadable:
                self.warning(f"  {item.path or '.'}")
        for state in found.nested:
            if state.problem is not None:
                self.warning(f"'{state.path}' was not saved whole: {state.problem}")
        if others:
            self.line(f"Left out: {render.skipped_summary(others)}")
            self.line(self.paint("dim", f"  (see them with: git ckpt show {found.id})"))

    def listed(
        self,
        found: Sequence[Checkpoint],
        shown: Sequence[Checkpoint],
        space: Space | None = None,
    ) -> None:
        if self.as_json:
            from ckpt import documents

            return self.document(documents.listing(shown, space))
        if not shown:
            self.line("No checkpoints to show.")
            return self.line("take one:   git ckpt save [NAME]")
        sizes = None if space is None else space.sizes
        for row in render.table(shown, self.paint, self.width(), sizes):
            self.line(row)
        self.line()
        if space is not None:
            self.line(render.space(space))
        if any(each.foreign for each in shown):
            self.line("foreign ones were not made here; a rollback looks them over before")
        if len(shown) < len(found):
            self.line(f"{len(found) - len(shown)} older ones are not shown; -n 0 shows all")
        self.line("look at one:   git ckpt show ID")
        self.line("compare:       git ckpt diff ID")
        return self.line("go back:       git ckpt rollback ID")

    def stands(self, found: Status, *, has_doctor: bool) -> None:
        if self.as_json:
            from ckpt import documents

            return self.document(documents.status(found))
        from ckpt import render

        return self._lines(render.status(found, self.paint, self.width(), has_doctor=has_doctor))

    def pruned(self, result: PruneResult) -> None:
        if self.as_json:
            from ckpt import documents

            return self.document(documents.prune(result))
        return self._lines(render.pruned(result, self.paint))

    def collected(self, done: Collected) -> None:
        if self.as_json:
            from ckpt import documents

            return self.document(documents.gc(done))
        from ckpt import render

        return self._lines(render.collected(done))

    def diagnosed(self, diagnoses: Sequence[Diagnosis]) -> None:
        if self.as_json:
            from ckpt import documents

            return self.document(documents.doctor(diagnoses))
        from ckpt import render

        return self._lines(render.doctor(diagnoses, self.paint, self.width()))

    def verified(self, result: VerifyResult) -> None:
        if self.as_json:
            from ckpt import documents

            return self.document(documents.verify(result))
        from ckpt import render

        return self._lines(render.verified(result, self.paint))

    def rescued(self, found: Sequence[Lost], total: int, made: Rescued | None = None) -> None:
        """What can be rescued, of how many; or the one that was, and what became of it."""
        if self.as_json:
            from ckpt import documents

            checkpoint = None if made is None else made.checkpoint
            return self.document(documents.rescue(found, total, checkpoint))
        from ckpt import render

        if made is None:
            return self._lines(render.lost(found, total, self.paint, self.width()))
        return self._lines(render.rescued(found[0], made, self.paint))

    def trash(self, found: Sequence[Dropped]) -> None:
        if self.as_json:
            from ckpt import documents

            return self.document(documents.trash(found))
        if not found:
            return self.line("The trash is empty.")
        for row in render.table([item.checkpoint for item in found], self.paint, self.width()):
            self.line(row)
        self.line()
        return self.line("bring back:   git ckpt restore-dropped ID")

    def shown(self, found: Checkpoint) -> None:
        if self.as_json:
            from ckpt import documents

            return self.document(documents.single(found))
        for row in render.details(found, self.paint):
            self.line(row)
        return None

    def diffed(self, result: DiffResult, form: str) -> None:
        if self.as_json:
            from ckpt import documents

            return self.document(documents.diff(result))
        if form == "stat":
            self._lines(render.diffstat(result, self.paint))
        elif form == "name-status":
            self._lines(f"{file.status}\t{render.quoted(file.path)}" for file in result.files)
        else:
            self.raw(self._coloured(result.patch))
        return None

    def _coloured(self, patch: bytes) -> bytes:
        return render.coloured_patch(patch) if self.colours(sys.stdout) else patch

    def rolled_back(self, result: RollbackResult, paths: Sequence[str] = ()) -> None:
        """`paths` are those that the rollback was limited to, as they were typed."""
        if self.as_json:
            from ckpt import documents

            return self.document(documents.rollback(result))
        from ckpt import render

        self._lines(render.report(result, self.paint))
        for text in render.warnings(result):
            self.warning(text)
        for text in render.hints(result, paths):
            self.hint(text)
        if result.undo_command is not None:
            self.line(f"undo with: {result.undo_command}")
        self._tell_way_out()
        return None

    def _tell_way_out(self) -> None:
        """In a folder that is gone nothing can be typed, not even an undo."""
        there = self._here
        while there and not os.path.isdir(there):
            there = os.path.dirname(there)
        if there != self._here:
            from shlex import quote  # for a hint that few see

            self.hint(f"the current folder is gone; leave it first: cd {quote(there)}")

    def ran(self, result: RunResult) -> None:
        """To standard error, because standard output was the command's."""
        if self.as_json:
            from ckpt import documents

            return self.document(documents.run(result))
        from ckpt import render

        for row in () if self.quiet else render.summary(result):
            self._print(self._typed(row), sys.stderr)
        for problem in result.problems:
            self.error(problem)
        return None

    def changed(self, found: Checkpoint, text: str) -> None:
        if self.as_json:
            from ckpt import documents

            return self.document(documents.single(found))
        return self.line(text)

    def error(self, problem: CkptError) -> None:
        if self.as_json:
            from ckpt import documents

            return self.document(documents.error(problem))
        painted = "error:"
        if self.colours(sys.stderr):
            painted = f"\033[{_COLOURS['red']}m{painted}\033[0m"
        self._print(f"{painted} {render.printable(problem.message)}", sys.stderr)
        if problem.hint:
            self._print(self._typed(f"hint: {render.printable(problem.hint)}"), sys.stderr)
        return None

    def interrupted(self) -> None:
        if self.as_json:
            from ckpt import documents

            return self.document(documents.interrupted())
        self.clear()
        return print("interrupted", file=sys.stderr)

    def _lines(self, rows: Iterable[str]) -> None:
        for row in rows:
            self.line(row)


def _sees(stream: TextIO | None) -> bool:
    """Whether a person looks at a stream; a daemon may have closed it."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:
        return False


def _printable(text: str, has_colours: bool) -> str:
    """A text in which a terminal finds nothing to obey but the colours that we paint with."""
    if text.isprintable():
        return text
    first, *rest = text.split("\033")
    parts = [render.printable(first)]
    for part in rest:
        parts.append("\033" if has_colours and part.startswith(_PAINT) else "\\x1b")
        parts.append(render.printable(part))
    return "".join(parts)
