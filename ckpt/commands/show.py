# SPDX-License-Identifier: MIT
"""`git ckpt show`: one checkpoint in full."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence

from ckpt import documents
from ckpt.cli import Context
from ckpt.ids import MAX_DESCRIPTION
from ckpt.models import Checkpoint, NestedState
from ckpt.render import Paint, age, listed, printable, quoted, skipped, stats, unusual
from ckpt.state import plain

_LONGEST_FACT = 1000


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "id", nargs="?", default="latest", metavar="ID", help="which one (default: latest)"
    )


def run(context: Context, id: str) -> int:
    with context.manager() as manager:
        context.output.tell(manager.get(id), documents.single, details)
    return 0


def details(checkpoint: Checkpoint, paint: Paint, width: int = 0) -> Iterator[str]:
    """One checkpoint in full."""
    yield paint("id", f"checkpoint {checkpoint.id}")
    head = checkpoint.head_commit[:12] if checkpoint.head_commit else "unborn"
    place = f"on {checkpoint.branch}" if checkpoint.branch else "detached"
    is_head_known = checkpoint.head_commit is not None or checkpoint.branch is not None
    own_marks = ", ".join(unusual(checkpoint))
    facts = (
        ("Name", checkpoint.name),
        ("Kind", f"{checkpoint.kind}" + (f" ({own_marks})" if own_marks else "")),
        ("Origin", "foreign: not made in this repository" if checkpoint.foreign else None),
        ("Date", f"{checkpoint.timestamp:%Y-%m-%d %H:%M:%S} UTC ({age(checkpoint.timestamp)})"),
        ("HEAD", f"{head}, {place}" if is_head_known else "not known"),
        ("During", f"a {checkpoint.operation}" if checkpoint.operation else None),
        ("Changes", f"{stats(checkpoint)}, against HEAD"),
        ("Worktree", checkpoint.worktree if checkpoint.worktree != "main" else None),
        ("Ref", checkpoint.ref),
    )
    for label, value in facts:
        if value:
            yield f"{label + ':':<10}{printable(_short(value, _LONGEST_FACT))}"
    if checkpoint.description:
        yield ""
        text = _short(checkpoint.description, MAX_DESCRIPTION)
        yield from ("    " + printable(line) for line in text.split("\n"))
    yield from _section("Changed files:", [quoted(p) for p in checkpoint.git_state.dirty_files])
    left = [f"{quoted(item.path)} ({printable(item.reason)})" for item in skipped(checkpoint)]
    yield from _section("Skipped:", left)
    yield from _section("State files:", [quoted(path) for path in checkpoint.state_files])
    yield from _section("Tracked objects:", [*map(printable, checkpoint.tracked)])
    yield from _section("Repositories inside:", [_nested(state) for state in checkpoint.nested])
    for title, state in (
        ("Data:", checkpoint.data),
        ("Metadata:", checkpoint.metadata),
        ("Context:", checkpoint.context),
    ):
        if state is not None:
            yield from _section(title, json.dumps(plain(state), indent=2).split("\n"))
    yield ""
    yield f"compare:   git ckpt diff {checkpoint.id}"
    yield f"go back:   git ckpt rollback {checkpoint.id}{' --head' if checkpoint.operation else ''}"


def _short(text: str, most: int) -> str:
    """No more than ckpt itself would have stored: a checkpoint may be anybody's."""
    return text if len(text) <= most else text[:most] + "…"


def _section(title: str, items: Sequence[str]) -> Iterator[str]:
    if items:
        yield ""
        yield title
        yield from listed(items)


def _nested(state: NestedState) -> str:
    """A repository inside the worktree, in one line."""
    head = state.commit_hash[:12] if state.commit_hash else "unborn"
    place = f"on {state.branch}" if state.branch else "detached"
    facts = [f"{head} {place}"] if state.commit_hash or state.branch else []
    facts.append({True: "changed", False: "clean", None: "not compared"}[state.dirty])
    if state.checkpoint is not None:
        facts.append(f"saved as {state.checkpoint}")
    if state.problem is not None:
        facts.append(f"not saved whole: {state.problem}")
    return f"{quoted(state.path)}: {printable(', '.join(facts))}"
