# SPDX-License-Identifier: MIT
"""`git ckpt show`: show one checkpoint in full."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence

from ckpt import documents
from ckpt.cli import Context
from ckpt.models import Checkpoint, NestedState
from ckpt.render import Paint, age, listed, marks, quoted, skipped, stats_text


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", nargs="?", metavar="ID", help="which one (default: latest)")


def run(context: Context, id: str = "latest") -> None:
    context.output.tell(context.manager.get(id), None, details)


def details(checkpoint: Checkpoint, paint: Paint, width: int = 0) -> Iterator[str]:
    """List the fields of a checkpoint, then its contents."""
    yield paint("id", f"checkpoint {checkpoint.id}")
    when = checkpoint.timestamp
    own_marks = ", ".join(marks(checkpoint))
    facts = (
        ("Name", checkpoint.name),
        ("Kind", f"{checkpoint.kind}" + (f" ({own_marks})" if own_marks else "")),
        ("Origin", "foreign: not made in this repository" if checkpoint.foreign else None),
        ("Date", f"{when:%Y-%m-%d %H:%M:%S} UTC ({age(when.timestamp())})"),
        ("HEAD", _head(checkpoint.head_commit, checkpoint.branch) or "not known"),
        ("During", f"a {checkpoint.operation}" if checkpoint.operation else None),
        ("Changes", f"{stats_text(checkpoint.stats)}, against HEAD"),
        ("Worktree", checkpoint.worktree if checkpoint.worktree != "main" else None),
        ("Ref", checkpoint.ref),
    )
    for label, value in facts:
        if value:
            yield f"{label + ':':<10}{value}"
    if checkpoint.description:
        yield ""
        for line in checkpoint.description.split("\n"):
            yield "    " + line
    yield from _section("Changed files:", [quoted(p) for p in checkpoint.git_state.dirty_files])
    left = [f"{quoted(item.path)} ({item.reason})" for item in skipped(checkpoint)]
    yield from _section("Skipped:", left)
    yield from _section("State files:", [quoted(path) for path in checkpoint.state_files])
    yield from _section("Tracked objects:", [*checkpoint.tracked])
    yield from _section("Repositories inside:", [_nested(state) for state in checkpoint.nested])
    for title, state in (
        ("Data:", checkpoint.data),
        ("Metadata:", checkpoint.metadata),
        ("Context:", checkpoint.context),
    ):
        if state is not None:
            yield from _section(title, json.dumps(documents.as_json(state), indent=2).split("\n"))
    yield ""
    yield f"compare:   git ckpt diff {checkpoint.id}"
    yield f"go back:   git ckpt rollback {checkpoint.id}{' --head' if checkpoint.operation else ''}"


def _head(commit: str | None, branch: str | None) -> str:
    """Name the commit and branch of a HEAD; empty if neither is known."""
    place = f"on {branch}" if branch else "detached"
    return f"{commit[:12] if commit else 'unborn'}, {place}" if commit or branch else ""


def _section(title: str, items: Sequence[str]) -> Iterator[str]:
    if items:
        yield ""
        yield title
        yield from listed(items)


def _nested(state: NestedState) -> str:
    """Describe a repository inside the worktree in one line."""
    head = _head(state.commit_hash, state.branch)
    facts = [head] if head else []
    facts.append({True: "changed", False: "clean", None: "not compared"}[state.dirty])
    if state.checkpoint is not None:
        facts.append(f"saved as {state.checkpoint}")
    if state.problem is not None:
        facts.append(f"not saved whole: {state.problem}")
    return f"{quoted(state.path)}: {', '.join(facts)}"
