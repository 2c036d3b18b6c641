# SPDX-License-Identifier: MIT
"""`git ckpt save`: take a checkpoint."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ckpt.errors import UsageError
from ckpt.models import Kind, SaveResult
from ckpt.render import Paint, quoted, skipped, skipped_summary, stats_text
from ckpt.settings.settings import session_of_env

if TYPE_CHECKING:
    import argparse

    from ckpt.cli import Context


def arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("name", nargs="?", metavar="NAME", help="a short name to find it by")
    add("-m", "--message", metavar="TEXT", dest="description", help="a longer description")
    kinds = [kind.value for kind in Kind if kind is not Kind.SAFETY]
    add("--kind", choices=kinds, help="why it is taken (default: manual)")
    add("--data", metavar="JSON", help="state to keep with it, or @FILE")
    add("--meta", metavar="K=V", action="append", help="a word of metadata; repeatable")
    add("--session", metavar="S", help="the session it belongs to (default: $CKPT_SESSION)")
    what = "a file to keep and bring back even if it is ignored; repeatable"
    add("--state-file", metavar="P", action="append", dest="state_files", help=what)
    add("--pin", action="store_true", help="protect it from being dropped by rule")
    add("--recurse", action="store_true", help="save submodules and other repositories inside too")


def run(
    context: Context,
    data: str | None = None,
    meta: Sequence[str] = (),
    session: str | None = None,
    **options: Any,
) -> None:
    """Take a checkpoint with the options of `CheckpointManager.create`."""
    manager = context.manager
    context.warn(manager.settings.notes)
    result = manager.create(
        data=_data(data, context.start),
        metadata=_metadata(meta),
        session=session if session is not None else session_of_env(context.env),
        trigger="command",
        **options,
    )
    context.output.tell(result, None, _rows)
    context.warn(_warnings(result))


def _rows(result: SaveResult, paint: Paint, width: int) -> Iterator[str]:
    """Report the checkpoint, those of nested repositories, and skipped files."""
    found = result.checkpoint
    if found is None:
        yield f"No checkpoint was taken: {result.reason}"
        return
    if result.made is None:
        yield f"Unchanged since checkpoint {paint('id', found.id)}"
        return
    name = f" '{found.name}'" if found.name else ""
    yield f"Saved checkpoint {paint('id', found.id)}{name}: {stats_text(found.stats)}"
    for state in found.nested:
        if state.checkpoint is not None:
            yield f"  with {quoted(state.path)}: {paint('id', state.checkpoint)}"
    others = [item for item in skipped(found) if item.reason != "unreadable"]
    if others:
        yield f"Skipped {skipped_summary(others)}"
        yield paint("dim", f"  (see them with: git ckpt show {found.id})")


def _warnings(result: SaveResult) -> Iterator[str]:
    found = result.made
    if found is None:
        return
    unreadable = [item for item in found.skipped if item.reason == "unreadable"]
    if unreadable:
        yield "this checkpoint is partial; these paths could not be read:"
        yield from (f"  {item.path or '.'}" for item in unreadable)
    for state in found.nested:
        if state.problem is not None:
            yield f"'{state.path}' was not saved whole: {state.problem}"
    yield from result.warnings


def _data(text: str | None, start: str) -> Any:
    if text is None:
        return None
    from ckpt.codec import load

    try:
        data = os.fsencode(text)
        if text.startswith("@"):
            with open(os.path.join(start, text[1:]), "rb") as file:
                data = file.read()
        return load(data)
    except (OSError, ValueError) as error:
        hint = """for example: --data '{"step": 3}', or --data @FILE"""
        raise UsageError(f"--data is not JSON: {error}", hint=hint) from None


def _metadata(pairs: Sequence[str]) -> dict[str, str] | None:
    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise UsageError(f"--meta '{pair}' has no '='", hint="for example: --meta ticket=42")
        found[key] = value
    return found or None
