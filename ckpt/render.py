# SPDX-License-Identifier: MIT
"""How checkpoints and diffs look as text: pure, values in and lines out.

Nothing here prints or knows a terminal; colour comes as a function, and the time
against which ages are told as an argument.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import accumulate, takewhile
from shlex import quote
from time import monotonic, time
from typing import TYPE_CHECKING, TextIO

from ckpt.diagnosis import DOUBTFUL, FIXED, WELL, WRONG, Diagnosis
from ckpt.engine.gc import Collected
from ckpt.engine.prune import PruneResult
from ckpt.engine.rescue import Lost, Rescued
from ckpt.engine.space import Space
from ckpt.engine.status import Status, TriggerStatus
from ckpt.engine.verify import (
    COMMIT,
    HEAD,
    HISTORY,
    INDEX,
    OPERATION,
    STATE,
    WORKTREE,
    Place,
    Problem,
    Verified,
    VerifyResult,
)
from ckpt.ids import is_id
from ckpt.install.target import Finding
from ckpt.models import (
    GONE_REPOSITORY,
    HEAD_FILE,
    BranchReport,
    Checkpoint,
    DiffResult,
    GitState,
    NestedState,
    OperationReport,
    RollbackResult,
    Skipped,
    Stats,
)
from ckpt.paths import to_str
from ckpt.triggers.run import Moved, RunResult

if TYPE_CHECKING:
    Paint = Callable[[str, str], str]
    Row = tuple[str, str, str]

# Of control characters a terminal shows none; some turn the direction of writing around, and
# some end a line for whoever reads it.
_OBEYED = frozenset(
    map(chr, (*range(0x20), *range(0x7F, 0xA0), *range(0x2028, 0x202F), *range(0x2066, 0x206A)))
) - {"\t"}

MOST_PATHS = 20
_STAT_WIDTH = 40
_WIDEST = 400  # of a cell: what ckpt calls a name has 200 characters of two columns at most
_LONGEST_FACT = 1000
_MARKS = ("pinned", "partial", "during_rollback")
_SIZES = ("bytes", "KiB", "MiB", "GiB")
_UNITS = (
    (365 * 86400, "year"),
    (30 * 86400, "month"),
    (7 * 86400, "week"),
    (86400, "day"),
    (3600, "hour"),
    (60, "minute"),
)


def age(moment: datetime, now: datetime | None = None) -> str:
    """`5 minutes ago`, as git log has it."""
    seconds = (now.timestamp() if now else time()) - moment.timestamp()
    if seconds < -60:
        return "in the future"
    for size, unit in _UNITS:
        count = int(seconds // size)
        if count >= 1:
            return f"{count} {unit}{'s' if count > 1 else ''} ago"
    return f"{max(0, int(seconds))} seconds ago" if seconds >= 2 else "just now"


def stats(checkpoint: Checkpoint) -> str:
    return stats_text(checkpoint.stats)


def stats_text(value: Stats) -> str:
    if not value.files_changed:
        return "clean"
    files = f"{value.files_changed} file{'' if value.files_changed == 1 else 's'}"
    return f"+{value.insertions} -{value.deletions} in {files}"


def marks(checkpoint: Checkpoint) -> str:
    """What is unusual about one, in a word each; first that others made it."""
    found = ["foreign"] if checkpoint.foreign else []
    return ", ".join([*found, *_own_marks(checkpoint)])


def _own_marks(checkpoint: Checkpoint) -> list[str]:
    found = [word.replace("_", "-") for word in _MARKS if getattr(checkpoint, word)]
    if checkpoint.session:
        found.append(f"session {checkpoint.session}")
    return found


def size(amount: int) -> str:
    """`1.5 MiB`."""
    number, unit = float(amount), _SIZES[0]
    for unit in _SIZES:
        if number < 1024 or unit == _SIZES[-1]:
            break
        number /= 1024
    return f"{number:.0f} {unit}" if unit == _SIZES[0] else f"{number:.1f} {unit}"


def table(
    shown: Sequence[Checkpoint],
    paint: Paint,
    width: int,
    sizes: Mapping[str, int] | None = None,
) -> Iterator[str]:
    """Checkpoints as aligned columns; only the name gives way on a narrow terminal."""
    rows: list[tuple[str, ...]] = [("ID", "AGE", "KIND", "NAME", "CHANGES", "SIZE", "MARKS")]
    rows += [
        (
            *(c.id, age(c.timestamp), c.kind.value, printable(c.name or ""), stats(c)),
            *("" if sizes is None or c.id not in sizes else size(sizes[c.id]), printable(marks(c))),
        )
        for c in shown
    ]
    for column in (-2, -1):
        if not any(row[column] for row in rows[1:]):
            rows = [row[:column] + row[len(row) + column + 1 :] for row in rows]
    widths = [min(max(map(columns, column)), _WIDEST) for column in zip(*rows, strict=True)]
    spare = width - sum(widths) - 2 * (len(widths) - 1)
    if spare < 0:
        widths[3] = max(len("NAME"), widths[3] + spare)
    for number, row in enumerate(rows):
        cells = [_fit(cell, size) for cell, size in zip(row, widths, strict=True)]
        if number == 0:
            yield paint("dim", "  ".join(cells).rstrip())
            continue
        cells[0] = paint("id", cells[0])
        cells[3] = paint("bold", cells[3])
        yield "  ".join(cells).rstrip()


def space(found: Space) -> str:
    """What all checkpoints hold together: more than the sum, as they share much."""
    trash = f", {size(found.trash)} wait in the trash" if found.trash else ""
    return f"all checkpoints together hold {size(found.total)}{trash}"


def details(checkpoint: Checkpoint, paint: Paint) -> Iterator[str]:
    """One checkpoint in full."""
    yield paint("id", f"checkpoint {checkpoint.id}")
    head = checkpoint.head_commit[:12] if checkpoint.head_commit else "unborn"
    place = f"on {checkpoint.branch}" if checkpoint.branch else "detached"
    is_head_known = checkpoint.head_commit is not None or checkpoint.branch is not None
    own_marks = ", ".join(_own_marks(checkpoint))
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
        from ckpt.ids import MAX_DESCRIPTION

        yield ""
        told = _short(checkpoint.description, MAX_DESCRIPTION)
        yield from ("    " + printable(line) for line in told.split("\n"))
    yield from _section("Changed files:", [quoted(p) for p in checkpoint.git_state.dirty_files])
    skipped = [f"{quoted(item.path)} ({printable(item.reason)})" for item in left_out(checkpoint)]
    yield from _section("Left out:", skipped)
    yield from _section("State files:", [quoted(path) for path in checkpoint.state_files])
    yield from _section("Tracked objects:", [*map(printable, checkpoint.tracked)])
    yield from _section("Repositories inside:", [nested(state) for state in checkpoint.nested])
    for title, state in (
        ("Data:", checkpoint.data),
        ("Metadata:", checkpoint.metadata),
        ("Context:", checkpoint.context),
    ):
        if state is not None:
            import json

            from ckpt.state import plain

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


def listed(items: Sequence[str]) -> Iterator[str]:
    yield from ("  " + item for item in items[:MOST_PATHS])
    if len(items) > MOST_PATHS:
        yield f"  … and {len(items) - MOST_PATHS} more (all of them with --json)"


def left_out(checkpoint: Checkpoint) -> list[Skipped]:
    """What is in no checkpoint; a repository inside may have one of its own."""
    saved = {state.path for state in checkpoint.nested if state.checkpoint is not None}
    return [item for item in checkpoint.skipped if item.path not in saved]


def skipped_summary(items: Sequence[Skipped]) -> str:
    """`2 denied, 1 oversize`."""
    reasons = [item.reason for item in items]
    counted = (f"{reasons.count(reason)} {reason}" for reason in sorted({*reasons}))
    return printable(", ".join(counted))


def diffstat(result: DiffResult, paint: Paint) -> Iterator[str]:
    """One line a file with a bar of plus and minus signs, then the sum."""
    if not result.files:
        return
    names = [quoted(file.path) for file in result.files]
    width = max(map(columns, names))
    most = max(file.insertions + file.deletions for file in result.files)
    scale = min(1.0, _STAT_WIDTH / most) if most else 1.0
    for name, file in zip(names, result.files, strict=True):
        total = "Bin" if file.binary else str(file.insertions + file.deletions)
        plus = paint("green", "+" * _scaled(file.insertions, scale))
        minus = paint("red", "-" * _scaled(file.deletions, scale))
        yield f" {file.status} {_fit(name, width)} | {total:>4} {plus}{minus}".rstrip()
    yield f" {stats_text(result.stats)}"


def _scaled(number: int, scale: float) -> int:
    return max(1, round(number * scale)) if number else 0


def coloured_patch(patch: bytes) -> bytes:
    codes = {b"+": b"32", b"-": b"31", b"@": b"36", b"d": b"1"}
    lines = []
    for line in patch.split(b"\n"):
        code = b"1" if line.startswith((b"+++ ", b"--- ")) else codes.get(line[:1])
        lines.append(b"\033[%sm%s\033[0m" % (code, line) if code else line)
    return b"\n".join(lines)


def nested(state: NestedState) -> str:
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


def commits(number: int) -> str:
    return f"{number} commit{'' if number == 1 else 's'}"


def quoted(path: str) -> str:
    """A path as git prints it: in C quotes if it holds anything odd, but UTF-8 as it is."""
    raw = os.fsencode(path)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    if text.isprintable() and '"' not in text:
        return text
    from ckpt.git.patch import quote_path

    return quote_path(raw).decode("ascii")


def printable(text: str) -> str:
    """A text in which a terminal finds nothing to obey, and a row no other: what it would not
    show, and bytes that are no text, are escapes. Whatever a checkpoint tells goes through this
    before it is painted, for a checkpoint may be anybody's."""
    return text if text.isprintable() else "".join(map(_shown, text))


def _shown(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    if char in _OBEYED or 0xD800 <= code <= 0xDFFF:
        return char.encode("unicode_escape").decode("ascii")
    return char


def columns(text: str) -> int:
    """How many columns a terminal gives a text."""
    return len(text) if text.isascii() else sum(map(_width, text))


def _width(char: str) -> int:
    import unicodedata

    is_wide = unicodedata.east_asian_width(char) in "WF"
    return 1 + is_wide - (unicodedata.combining(char) > 0)


def _fit(text: str, width: int) -> str:
    """The text in exactly that many columns, cut if it is longer."""
    if len(text) <= width and text.isascii():
        return text.ljust(width)
    taken = columns(text)
    if taken <= width:
        return text + " " * (width - taken)
    ends = accumulate(map(_width, text))
    text = "".join(char for char, _ in zip(text, takewhile(width.__gt__, ends), strict=False))
    return text + "…" + " " * (width - 1 - columns(text))


def pruned(result: PruneResult, paint: Paint) -> Iterator[str]:
    """A line for each checkpoint, with what becomes of it and why; then what to type."""
    for one in result.decisions:
        word = paint("green", "keep") if one.keep else paint("red", "drop")
        reasons = ", ".join(one.reasons)
        found = one.checkpoint
        yield f"{word}  {paint('id', found.id)}  {found.kind:<7}  {quoted(reasons)}"
    drop, remove = ("Would drop", "Would remove") if result.dry_run else ("Dropped", "Removed")
    yield f"{drop} {len(result.dropped)} of {len(result.decisions)}"
    if result.emptied:
        yield f"{remove} {len(result.emptied)} from the trash, for good"
    in_trash = {one.checkpoint.id for one in result.dropped} - {*result.emptied}
    if in_trash and not result.dry_run:
        yield "bring one back with: git ckpt restore-dropped ID"


# -- How a rollback is told of, real or dry: what it did, what it left alone, what to type next


def report(result: RollbackResult, paint: Paint) -> Iterator[str]:
    """The report of a rollback, real or dry."""
    dry = result.dry_run
    yield _headline(result, paint)
    yield from _paths("would write" if dry else "wrote", result.written)
    yield from _paths("would remove" if dry else "removed", result.removed)
    if result.folders_changed:
        yield f"  {'would restore' if dry else 'restored'} folders or their permission bits"
    if result.index_changed:
        yield f"  {'would restore' if dry else 'restored'} the index"
    for item in result.kept[:MOST_PATHS]:
        yield f"  {'would keep' if dry else 'kept'} {quoted(item.path)} ({printable(item.reason)})"
    if len(result.kept) > MOST_PATHS:
        yield f"  … and {len(result.kept) - MOST_PATHS} more"
    yield from _head(result)
    # Aborted, a rollback ends where its safety checkpoint was taken.
    if result.safety is not None and result.safety.id != result.target.id:
        yield f"The state before is saved as {paint('id', result.safety.id)}"
    if result.began_from is not None:
        yield f"The rollback had begun from {paint('id', result.began_from.id)}"
    for inside in result.nested:
        yield f"In {quoted(inside.path)}:"
        yield from ("  " + line for line in report(inside.result, paint))
        if inside.result.undo_command is not None:
            yield f"  undo with: {inside.result.undo_command}"


def _headline(result: RollbackResult, paint: Paint) -> str:
    name = f" '{printable(result.target.name)}'" if result.target.name else ""
    target = f"checkpoint {paint('id', result.target.id)}{name}"
    if result.changed or result.skipped:
        return f"{'Would roll' if result.dry_run else 'Rolled'} back to {target}"
    if result.target.scope == "state":
        return f"No file was touched: {target} holds agent state only"
    return f"Nothing to do: {'all else' if result.kept else 'everything'} is as in {target}"


def _paths(verb: str, paths: Sequence[str]) -> Iterator[str]:
    if paths:
        yield f"  {verb} {len(paths)} file{'' if len(paths) == 1 else 's'}:"
        yield from ("  " + line for line in listed([quoted(path) for path in paths]))


def _head(result: RollbackResult) -> Iterator[str]:
    head = result.head
    if head is None:
        return
    if head.moved:
        place = printable(head.after.branch or "detached HEAD")
        commit = (head.after.commit_hash or "unborn")[:12]
        yield f"  HEAD {'would be' if result.dry_run else 'is now'} at {commit} ({place})"
    elif head.ahead or head.behind:
        parts = []
        if head.ahead:
            parts.append(f"{commits(head.ahead)} ahead of")
        if head.behind:
            parts.append(f"{commits(head.behind)} behind")
        yield f"  HEAD stays, {' and '.join(parts)} the checkpoint's commit:"
        seen = "git sees the difference as staged; " if result.index_changed else ""
        yield f"  {seen}--head moves HEAD too"
    yield from listed([_branch(branch, result.dry_run) for branch in head.branches])
    if head.operation is not None:
        yield from map(printable, _operation(head.operation, result.dry_run))


def _branch(branch: BranchReport, dry: bool) -> str:
    """Where a branch went that HEAD was not on."""
    place = "gone" if branch.after is None else f"at {branch.after[:12]}"
    return f"branch '{printable(branch.name)}' {'would be' if dry else 'is now'} {place}"


def _operation(operation: OperationReport, dry: bool) -> Iterator[str]:
    """Which operation the rollback ended, or which it brought back."""
    if operation.after is not None:
        yield f"  the {operation.after} {'would be' if dry else 'is'} in progress again"
    elif operation.before is not None:
        yield f"  the {operation.before} {'would end' if dry else 'is no longer in progress'}"


def warnings(result: RollbackResult) -> Iterator[str]:
    if result.foreign:
        yield f"checkpoint '{result.target.id}' was not made in this repository"
    for path, reason in _left(result):
        yield f"left '{path}' alone: {reason}"


def _left(result: RollbackResult, place: str = "") -> Iterator[tuple[str, str]]:
    """All paths that were left, from the top of the outermost worktree, with the reasons."""
    for item in result.skipped:
        yield os.path.join(place, item.path), item.reason
    for inside in result.nested:
        yield from _left(inside.result, os.path.join(place, inside.path))


def hints(result: RollbackResult, paths: Sequence[str]) -> Iterator[str]:
    """Which option would have done more; `paths` are those that it was limited to, as typed."""
    again = f"git ckpt rollback {result.target.id}"
    if any(item.reason in ("ignored", "denied") for item in result.skipped):
        command = f"{again} --overwrite-ignored{_limits(paths)}"
        yield f"'{command}' saves what is in the way, then replaces it"
    for command in _moving_head(result):
        yield f"'{command}' moves it all the same, and the safety checkpoint keeps its commits"
    kept = {item.path for item in result.kept if item.reason != GONE_REPOSITORY}
    if any(s.checkpoint is not None and s.path in kept for s in result.target.nested):
        yield f"'{again} --recurse{_limits(paths)}' takes the repositories inside along"


def _moving_head(result: RollbackResult, place: str = "") -> Iterator[str]:
    """What to type for each HEAD that was left where it is."""
    if any(item.path == HEAD_FILE for item in result.skipped):
        from shlex import quote  # for a hint that few see

        there = f"git -C {quote(place)} ckpt" if place else "git ckpt"
        yield f"{there} rollback {result.target.id} --head"
    for inside in result.nested:
        yield from _moving_head(inside.result, os.path.join(place, inside.path))


def _limits(paths: Sequence[str]) -> str:
    from shlex import join  # for a hint that few see

    return f" -- {join(paths)}" if paths else ""


# -- How the answer of `git ckpt status` looks as text: one screen, what is wrong in red

# label, style, text

_LABEL = 13
_NARROWEST = 24
_STATES = {
    "installed": "installed",
    "missing": "not installed",
    "foreign": "not installed",
}


def status(
    found: Status, paint: Paint, width: int, *, has_doctor: bool, now: datetime | None = None
) -> Iterator[str]:
    """The whole answer; ages are told against `now`."""

    def painted(style: str, line: str) -> str:
        if style:
            return paint(style, line)
        return " ".join(paint("id", word) if is_id(word) else word for word in line.split(" "))

    for rows in ([*_state(found, now)], [*_triggers(found, now)]):
        indent = max(_LABEL, *(columns(label) + 2 for label, _, _ in rows))
        for label, style, text in rows:
            for number, line in enumerate(wrapped(printable(text), width - indent)):
                yield ((label if number == 0 else "").ljust(indent) + painted(style, line)).rstrip()
    yield ""
    advice = [*_advice(found, has_doctor)]
    most = max(len(what) for what, _ in advice)
    yield from (f"{what + ':':<{most + 1}}   {command}" for what, command in advice)


def _state(found: Status, now: datetime | None) -> Iterator[Row]:
    linked = "" if found.worktree_id == "main" else f" ({found.worktree_id})"
    yield "Worktree", "", quoted(found.worktree) + linked
    commit = (found.head.commit_hash or "unborn")[:12]
    yield "HEAD", "", f"{commit}, {'on ' + found.head.branch if found.head.branch else 'detached'}"
    if found.operation is not None:
        yield "", "", f"a {found.operation} is in progress"
    if found.rollback_interrupted:
        yield "Rollback", "red", "one was interrupted here, and is neither finished nor taken back"
    if found.rollback_running is not None:
        yield "Rollback", "", f"one is at work here ({found.rollback_running})"
    yield "Checkpoints", "", _counts(found)
    if found.newest is not None and found.oldest is not None:
        yield "", "", f"newest {age(found.newest.timestamp, now)}: {found.newest.id}"
        if found.oldest.id != found.newest.id:
            yield "", "", f"oldest {age(found.oldest.timestamp, now)}: {found.oldest.id}"
    more = [(found.elsewhere, "in other worktrees"), (found.trash, "in the trash")]
    if any(count for count, _ in more):
        yield "", "", ", ".join(f"{count} {where}" for count, where in more if count)
    if found.unreadable:
        yield "", "red", f"{found.unreadable} cannot be read"
    if found.foreign_refs:
        plural = "" if found.foreign_refs == 1 else "s"
        yield "", "", f"{found.foreign_refs} ref{plural} of other tools below refs/checkpoints/"
    if found.refs:
        yield "Space", "", _space(found, now)
    refs = f"{found.refs} ref{'' if found.refs == 1 else 's'}"
    private = size(found.footprint.size)
    yield "On disk", "", f"{refs} and {private} of private files, besides git's objects"
    for note in found.notes:
        yield "Settings", "red", note


def _counts(found: Status) -> str:
    if not found.here:
        return "none here"
    kinds = [f"{count} {kind}" for kind, count in found.kinds.items() if count]
    return f"{found.here} here ({', '.join(kinds)})"


def _space(found: Status, now: datetime | None) -> str:
    held = found.held
    if held is None:
        return "not measured here; 'git ckpt list --size' does, and takes a while"
    trash = f", and {size(held.trash)} wait in the trash" if held.trash else ""
    when = "" if held.at is None else f" (as of {_ago(held.at, now)})"
    return f"{size(held.total)} that only checkpoints hold{trash}{when}"


def _triggers(found: Status, now: datetime | None) -> Iterator[Row]:
    known = [trigger for trigger in found.triggers if trigger.is_known]
    off = {trigger.off for trigger in found.triggers}
    all_off = off.pop() if len(off) == 1 else None
    if all_off is not None:
        yield "Triggers", "red", f"all are off ({all_off})"
    else:
        yield "Triggers", "", "" if known else "none is installed"
    for trigger in known:
        yield from _trigger(trigger, now, says_off=all_off is None)
    missing = [t.name for t in found.triggers if t.finding is not None and not t.is_known]
    if known and missing:
        yield "  others", "dim", "not installed: " + ", ".join(missing)
    for finding in found.others:
        if finding.state != "installed":
            yield f"  {finding.trigger}", "red", finding.detail


def _trigger(trigger: TriggerStatus, now: datetime | None, *, says_off: bool) -> Iterator[Row]:
    finding = trigger.finding
    # One that ran although `install` knows nothing of it is somebody's own doing.
    facts = [] if finding is None or finding.state == "missing" else [_stands(finding)]
    if trigger.off is not None and says_off:
        facts.append(f"off ({trigger.off})")
    success, failure = trigger.notes.success, trigger.notes.failure
    if success is not None:
        what = f"{success.outcome} {success.id}".strip()
        facts.append(f"last ran {_ago(success.at, now)}, {success.seconds:.2f} s: {what}")
    label = f"  {trigger.name}"
    if facts:
        is_gone = finding is not None and finding.state == "replaced"
        yield label, "red" if is_gone else "", "; ".join(facts)
        label = ""
    if failure is not None:
        times = "" if failure.count == 1 else f" {failure.count} times in a row"
        failed = f"failed{times}, last {_ago(failure.at, now)}: {failure.message}"
        style = "red" if trigger.notes.is_failing else "dim"
        yield label, style, failed if trigger.notes.is_failing else f"before that, {failed}"


def _stands(finding: Finding) -> str:
    if finding.state == "replaced":
        return finding.detail
    word = _STATES.get(finding.state, finding.state)
    return word if finding.state == "installed" else f"{word}: {finding.detail}"


def _ago(moment: float, now: datetime | None) -> str:
    from datetime import datetime, timezone

    return age(datetime.fromtimestamp(moment, timezone.utc), now)


def _advice(found: Status, has_doctor: bool) -> Iterator[tuple[str, str]]:
    if found.rollback_interrupted:
        ways = ", or ".join(found.ways_out) or "git ckpt doctor"
        yield "end the rollback", ways.replace(", or git ckpt rollback", ", or")
    if found.here:
        yield "look at them", "git ckpt list"
    yield "take one", "git ckpt save [NAME]"
    if found.piled_up and found.refs:
        yield "take less room", "git ckpt gc"
    states = {t.name: t.finding.state for t in found.triggers if t.finding is not None}
    # Where `git ckpt` cannot be typed, installing is what makes that possible.
    mends = [other.mend for other in found.others if other.mend]
    if mends:
        yield "install triggers", mends[0]
    elif "replaced" in states.values() or "installed" not in states.values():
        is_foreign = "foreign" in states.values()
        yield "install triggers", "git ckpt install" + " --edit-tracked" * is_foreign
    elif "installed" not in (states.get("guard", "installed"), states.get("wrapper")):
        yield "before checkouts too", "git ckpt install --guard"
    if has_doctor and (found.failing or "replaced" in states.values()):
        yield "what is wrong", "git ckpt doctor"


def wrapped(text: str, width: int) -> Iterator[str]:
    """A text in lines of so many columns, broken between words; a longer word stays whole."""
    width = max(width, _NARROWEST)
    line = ""
    for word in text.split(" "):
        if line and columns(line) + 1 + columns(word) > width:
            yield line
            line = word
        else:
            line = f"{line} {word}" if line else word
    yield line


# -- How the answer of `git ckpt rescue` looks as text: what is lost, or what became of it

_HEADS = ("", "AGE", "KIND", "ID", "WHAT", "SUBJECT")
_SHORT = 12
# What has all files of another time in it, and none of those that nobody tracks.
_WHOLE = ("stash", "commit", "tree")


def lost(found: Sequence[Lost], total: int, paint: Paint, width: int) -> Iterator[str]:
    """A numbered line each, newest first, and what to type next."""
    if not found:
        yield "Nothing was found that is lost."
        return
    rows = [_HEADS, *(_row(number, each) for number, each in enumerate(found, 1))]
    widths = [max(map(columns, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        line = "  ".join(
            cell + " " * (size - columns(cell)) for cell, size in zip(row, widths, strict=True)
        )
        text = _cut(line.rstrip(), width)
        yield paint("dim", text) if row is _HEADS else text
    yield ""
    if total > len(found):
        yield f"{total - len(found)} older ones are not shown; -n 0 shows all"
    yield "make a checkpoint of one:   git ckpt rescue NUMBER [NAME]"


def rescued(found: Lost, made: Rescued, paint: Paint) -> Iterator[str]:
    checkpoint = made.checkpoint
    name = f" '{checkpoint.name}'" if checkpoint.name else ""
    amount = f" ({_amount(found)})" if _amount(found) else ""
    yield f"Rescued {found.kind} {_shown_id(found)}{amount}: {paint('id', checkpoint.id)}{name}"
    yield f"look at it:   git ckpt diff {checkpoint.id}"
    if found.kind in _WHOLE:
        yield f"some of it:   git ckpt rollback {checkpoint.id} -- PATH"
        yield f"all of it:    git ckpt rollback {checkpoint.id}"
        return
    path = "" if made.path is None else f" -- {to_str(made.path)}"
    yield f"get it back:  git ckpt rollback {checkpoint.id}{path}"


def _row(number: int, each: Lost) -> tuple[str, ...]:
    from datetime import datetime, timezone

    when = age(datetime.fromtimestamp(each.time, timezone.utc)) if each.time else "unknown"
    return str(number), when, each.kind, _shown_id(each), _amount(each), _subject(each)


def _shown_id(each: Lost) -> str:
    return printable(each.id if each.path is not None else each.id[:_SHORT])


def _subject(each: Lost) -> str:
    return ", ".join(map(quoted, each.paths)) if each.paths else printable(each.subject)


def _amount(each: Lost) -> str:
    if each.size is not None:
        return f"{each.size:,} bytes"
    if each.files is None:
        return ""
    return f"{each.files:,} file{'' if each.files == 1 else 's'}"


def _cut(line: str, width: int) -> str:
    if columns(line) <= width:
        return line
    while columns(line) >= width:
        line = line[:-1]
    return line + "…"


# -- How the answer of `git ckpt verify` looks as text: what is broken, and what can be done

_MOST_PLACES = 3
_MOST_PROBLEMS = 20
_WITHIN = {
    COMMIT: "the checkpoint itself",
    WORKTREE: "all its files",
    INDEX: "all that was staged",
    STATE: "its state",
    HEAD: "HEAD's commit",
    HISTORY: "the history behind HEAD's commit",
    OPERATION: "a commit that the operation in progress needs",
}
_AT = {INDEX: "staged ", STATE: "state ", HEAD: "HEAD's ", OPERATION: "the operation's "}


def verified(result: VerifyResult, paint: Callable[[str, str], str]) -> Iterator[str]:
    """What is broken, each problem in a line, then how many were looked at."""
    for found in result.checkpoints:
        if not found.is_whole:
            yield from _broken(found, paint)
    if result.promised:
        yield f"{_count(result.promised, 'object')} left at the remote of this partial clone"
    yield _sum(result)


def _broken(found: Verified, paint: Callable[[str, str], str]) -> Iterator[str]:
    name = f" '{found.checkpoint.name}'" if found.checkpoint and found.checkpoint.name else ""
    shown = found.target.id
    dropped = " (dropped)" if found.target.is_dropped else ""
    yield f"{paint('red', 'broken')} {paint('id', shown)}{printable(name)}{dropped}"
    for problem in found.problems[:_MOST_PROBLEMS]:
        yield f"  {printable(problem.detail)}{_places(problem)}"
    if len(found.problems) > _MOST_PROBLEMS:
        yield f"  and {len(found.problems) - _MOST_PROBLEMS} more (--json lists all)"
    yield f"  {paint('dim', printable(_way_out(found)))}"


def _places(problem: Problem) -> str:
    shown = [_place(place) for place in problem.places[:_MOST_PLACES]]
    more = len(problem.places) - len(shown)
    if more:
        shown.append(f"{more} more")
    return ": " + _joined(shown) if shown else ""


def _place(place: Place) -> str:
    if not place.path:
        return _WITHIN[place.within]
    return _AT.get(place.within, "") + quoted(to_str(place.path))


def _joined(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _way_out(found: Verified) -> str:
    """The next thing to type."""
    lost = [p for p in found.problems if p.object is not None and p.kind is not None]
    if found.target.commit is None:
        return "git ckpt doctor --fix"
    if found.target.is_dropped:
        return f"look at it with: git show {quote(found.target.ref)}"
    is_behind = {at.within for each in found.problems for at in each.places} == {HISTORY}
    if lost and (is_behind or not found.has_files):
        return (
            "another clone may have it: git -C CLONE cat-file "
            f"{lost[0].kind} {lost[0].object} | git hash-object -t {lost[0].kind} -w --stdin"
        )
    if not found.has_files or not lost:
        return f"look at it with: git show --first-parent {found.target.ref}"
    return f"other files come back with: git ckpt rollback {found.target.id} -- PATH"


def _sum(result: VerifyResult) -> str:
    looked = len(result.checkpoints)
    if not looked:
        return "No checkpoints to verify."
    counted = f"{_count(looked, 'checkpoint')}, {_count(result.objects, 'object')}"
    broken = sum(not found.is_whole for found in result.checkpoints)
    if not broken:
        return f"Verified {counted}: all objects present and valid."
    return f"Verified {counted}: {broken} broken."


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


# -- What `git ckpt run` says when the command has ended: a few lines, after the command's own


def summary(result: RunResult) -> Iterator[str]:
    """What changed, how it ended if it failed, and the command to type next."""
    if not result.ended.is_success:
        yield f"ckpt: {_ending(result)}"
    if result.changed is not None:
        yield f"ckpt: {_changes(result)} since checkpoint {result.checkpoint.id}"
    if result.head is not None:
        yield f"  {_head_render_run(result.head)}"
    if result.after is not None and result.after.id is not None:
        yield f"  saved as {result.after.id}"
    yield from _rolled_back(result) if result.rollback is not None else _way_back(result)


def _ending(result: RunResult) -> str:
    ended, word = result.ended, quoted(result.command[0])
    if ended.timed_out:
        return f"'{word}' was ended: its time was up"
    if ended.signal is not None:
        return f"'{word}' died of signal {ended.signal}"
    return f"'{word}' failed with exit code {ended.exit_code}"


def _changes(result: RunResult) -> str:
    if result.changed is None or not result.changed.files:
        return "no files changed"
    return stats_text(result.changed.stats)


def _head_render_run(moved: Moved) -> str:
    gained = "" if not moved.commits else f", with {commits(moved.commits)} more"
    before, after = _place_render_run(moved.before), _place_render_run(moved.after)
    return f"HEAD went from {before} to {after}{gained}"


def _place_render_run(state: GitState) -> str:
    commit = (state.commit_hash or "unborn")[:12]
    return commit if state.branch is None else f"{printable(state.branch)} ({commit})"


def _rolled_back(result: RunResult) -> Iterator[str]:
    done = result.rollback
    if done is None:
        return
    if done.changed or done.skipped:
        yield f"ckpt: {'' if done.changed else 'not '}rolled back to checkpoint {done.target.id}"
    for item in done.skipped:
        yield f"  left {quoted(item.path)} alone: {printable(item.reason)}"
    for item in done.kept[:MOST_PATHS]:
        yield f"  kept {quoted(item.path)} ({printable(item.reason)})"
    if len(done.kept) > MOST_PATHS:
        yield f"  … and {len(done.kept) - MOST_PATHS} more"
    if done.undo_command is not None:
        yield f"  bring its work back with: {done.undo_command}"


def _way_back(result: RunResult) -> Iterator[str]:
    changed = result.changed is None or result.changed.files
    if changed or result.head is not None:
        yield f"  go back with: {result.rollback_command}"


# -- How the answer of `git ckpt gc` looks as text: what was done, and nothing that was not


def collected(done: Collected) -> Iterator[str]:
    packed = done.repacked
    if done.emptied:
        yield f"Removed {_count_render_gc(len(done.emptied), 'checkpoint')} from the trash"
    if done.cleared:
        yield f"Removed {_count_render_gc(len(done.cleared), 'file')} that killed processes left"
    if packed.objects:
        saved = f"{size(packed.loose_bytes)} to {size(packed.pack_bytes)}"
        yield f"Packed {_count_render_gc(packed.objects, 'object')}, from {saved}"
    if done.packed_refs:
        yield f"Packed {_count_render_gc(done.packed_refs, 'ref')}"
    if not (done.emptied or done.cleared or packed.objects or packed.removed or done.packed_refs):
        yield "Nothing to do."
    yield space(done.space)
    if done.emptied:
        yield "what nothing holds any more goes with: git gc"


def _count_render_gc(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


# -- How the answer of `git ckpt doctor` looks as text: what is wrong first, then what is well

_STYLES = {WRONG: "red", DOUBTFUL: "id", FIXED: "green", WELL: "green"}
_MARK = 9
_LABEL_render_doctor, _LEFT = "mend: ", 2


def doctor(
    diagnoses: Sequence[Diagnosis], paint: Callable[[str, str], str], width: int
) -> Iterator[str]:
    """A line each, and below it the command that mends it; at last how many there are."""
    indent = _MARK + max((columns(one.subject) for one in diagnoses), default=0) + 2
    for state in (WRONG, DOUBTFUL, FIXED, WELL):
        for one in diagnoses:
            if one.state != state:
                continue
            mark = paint(_STYLES[state], state) + " " * (_MARK - len(state))
            first = mark + one.subject.ljust(indent - _MARK)
            for line in wrapped(printable(one.detail), width - indent):
                yield (first + line).rstrip()
                first = " " * indent
            if one.done is not None:
                for line in wrapped(printable(one.done), width - indent):
                    yield " " * indent + line
            if one.mend is not None:
                yield from _mend(printable(one.mend).split("; "), indent, width)
    yield ""
    yield _sum_render_doctor(diagnoses)


def _mend(steps: Sequence[str], indent: int, width: int) -> Iterator[str]:
    """A line each, not broken, so that it can be copied; further left if it would not fit."""
    longest = len(_LABEL_render_doctor) + max(map(columns, steps))
    indent = indent if indent + longest <= width else _LEFT
    for number, step in enumerate(steps):
        yield (
            " " * indent
            + (_LABEL_render_doctor if number == 0 else " " * len(_LABEL_render_doctor))
            + step
        )


def _sum_render_doctor(diagnoses: Sequence[Diagnosis]) -> str:
    wrong, doubtful, fixed = (
        sum(one.state == state for one in diagnoses) for state in (WRONG, DOUBTFUL, FIXED)
    )
    mended = f", {fixed} fixed" if fixed else ""
    if not wrong and not doubtful:
        return "Nothing is wrong" + (f" any more{mended}." if fixed else ".")
    counted = [(wrong, "problem"), (doubtful, "warning")]
    words = [f"{count} {word}{'' if count == 1 else 's'}" for count, word in counted if count]
    return " and ".join(words) + mended


# -- One line on a terminal that tells how far long work has come

_PATIENCE = 0.5
_INTERVAL = 0.1
_CLEAR = "\r\033[K"
_UNITS_progress = ("KiB", "MiB", "GiB", "TiB")


class Progress:
    """Called with the number of files and bytes that are done."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._next = clock() + _PATIENCE
        self._is_shown = False

    def __call__(self, files: int, bytes: int = 0) -> None:
        now = self._clock()
        if now < self._next:
            return
        self._next = now + _INTERVAL
        self._is_shown = True
        self._write(_CLEAR + text(files, bytes)[: self._columns() - 1])

    def clear(self) -> None:
        if self._is_shown:
            self._is_shown = False
            self._write(_CLEAR)

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or 80
        except (OSError, ValueError):
            return 80

    def _write(self, drawn: str) -> None:
        try:
            self._stream.write(drawn)
            self._stream.flush()
        except (OSError, ValueError):
            self._next = float("inf")
            self._is_shown = False


def text(files: int, bytes: int) -> str:
    """`ckpt: reading files: 12,345 (1.2 GiB)`."""
    return f"ckpt: reading files: {files:,}" + (f" ({_size(bytes)})" if bytes else "")


def _size(bytes: int) -> str:
    size, unit = float(bytes), "bytes"
    for larger in _UNITS_progress:
        if size < 1000:
            break
        size, unit = size / 1024, larger
    return f"{size:.0f} {unit}" if unit == "bytes" or size >= 100 else f"{size:.1f} {unit}"
