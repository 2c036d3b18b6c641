# SPDX-License-Identifier: MIT
"""`git ckpt save`: take a checkpoint."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ckpt.errors import UsageError
from ckpt.models import Checkpoint, Kind, SaveResult
from ckpt.render import quoted, skipped, skipped_summary, stats
from ckpt.settings.settings import session_of_env

if TYPE_CHECKING:
    import argparse

    from ckpt.cli import Context
    from ckpt.output import Output


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="a short name to find it by")
    parser.add_argument("-m", "--message", metavar="TEXT", help="a longer description")
    parser.add_argument(
        "--kind",
        default="manual",
        choices=[kind.value for kind in Kind if kind is not Kind.SAFETY],
        help="why it is taken (default: manual)",
    )
    parser.add_argument("--data", metavar="JSON", help="state to keep with it, or @FILE")
    parser.add_argument(
        "--meta", metavar="K=V", action="append", default=[], help="a word of metadata; repeatable"
    )
    parser.add_argument(
        "--session", metavar="S", help="the session it belongs to (default: $CKPT_SESSION)"
    )
    parser.add_argument(
        "--state-file",
        metavar="P",
        action="append",
        default=[],
        help="a file to keep and bring back even if it is ignored; repeatable",
    )
    parser.add_argument("--pin", action="store_true", help="protect it from being dropped by rule")
    parser.add_argument(
        "--recurse", action="store_true", help="save submodules and other repositories inside too"
    )


def run(
    context: Context,
    name: str | None,
    message: str | None,
    kind: str,
    data: str | None,
    meta: list[str],
    session: str | None,
    state_file: list[str],
    pin: bool,
    recurse: bool,
) -> int:
    with context.manager() as manager:
        context.warn(manager.settings.notes)
        result = manager.create(
            name,
            description=message,
            kind=kind,
            data=_data(data, context.start),
            metadata=_metadata(meta),
            session=session if session is not None else session_of_env(context.env),
            state_files=state_file,
            pin=pin,
            recurse=recurse,
            trigger="command",
        )
        _tell(context.output, result)
    return 0


def _tell(output: Output, result: SaveResult) -> None:
    found = result.checkpoint
    if output.as_json:
        from ckpt import documents

        output.document(documents.save(result))
    elif found is None:
        output.line(f"No checkpoint was taken: {result.reason}")
    elif result.outcome == "unchanged":
        output.line(f"Unchanged since checkpoint {output.paint('id', found.id)}")
    else:
        name = f" '{found.name}'" if found.name else ""
        output.line(f"Saved checkpoint {output.paint('id', found.id)}{name}: {stats(found)}")
        _tell_rest(output, found)
        for text in result.warnings:
            output.warning(text)


def _tell_rest(output: Output, found: Checkpoint) -> None:
    """The repositories inside, and what is not in the checkpoint."""
    for state in found.nested:
        if state.checkpoint is not None:
            output.line(f"  with {quoted(state.path)}: {output.paint('id', state.checkpoint)}")
    unreadable = [item for item in found.skipped if item.reason == "unreadable"]
    if unreadable:
        output.warning("this checkpoint is partial; these paths could not be read:")
        for item in unreadable:
            output.warning(f"  {item.path or '.'}")
    for state in found.nested:
        if state.problem is not None:
            output.warning(f"'{state.path}' was not saved whole: {state.problem}")
    others = [item for item in skipped(found) if item.reason != "unreadable"]
    if others:
        output.line(f"Skipped {skipped_summary(others)}")
        output.line(output.paint("dim", f"  (see them with: git ckpt show {found.id})"))


def _data(text: str | None, start: str) -> Any:
    if text is None:
        return None
    import json

    from ckpt.git.trees import LARGEST_STATE

    source = "--data"
    try:
        if text.startswith("@"):
            source = text[1:]
            with open(os.path.join(start, source), "rb") as file:
                text = file.read(LARGEST_STATE + 1).decode("utf-8", "surrogateescape")
        if len(text) <= LARGEST_STATE:
            return json.loads(text)
    except OSError as error:
        raise UsageError(
            f"cannot read '{source}': {error.strerror}", hint="--data @FILE needs a file of JSON"
        ) from None
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{source}: not JSON: {error}", hint="""for example: --data '{"step": 3}'"""
        ) from None
    raise UsageError(
        f"'{source}' is over {LARGEST_STATE >> 20} MiB",
        hint="keep it as a file: git ckpt save --state-file PATH",
    )


def _metadata(pairs: list[str]) -> dict[str, str] | None:
    for pair in pairs:
        if "=" not in pair.lstrip("="):
            raise UsageError(f"--meta '{pair}' has no '='", hint="for example: --meta ticket=42")
    return {pair.partition("=")[0]: pair.partition("=")[2] for pair in pairs} or None
