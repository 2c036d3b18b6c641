# SPDX-License-Identifier: MIT
"""What people read: ages, tables, diffs and the report of a rollback."""

from __future__ import annotations

import os
from datetime import datetime, timezone

import pytest
from byhand import ID, draft

from ckpt import render
from ckpt.commands import diff
from ckpt.commands.diff import coloured
from ckpt.commands.show import details as shown_details
from ckpt.models import (
    Details,
    DiffResult,
    FileChange,
    GitState,
    HeadReport,
    Kind,
    RollbackResult,
    Skipped,
    Source,
    Stats,
)

OTHER = "20261115-233413-000-aaaa"


def plain(style: str, text: str) -> str:
    return text


def marked(style: str, text: str) -> str:
    return f"<{style}>{text}</>" if text else ""


def rows(*checkpoints, width: int = 200, paint=plain) -> list[str]:
    return list(render.table(checkpoints, paint, width))


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-3600, "in the future"),
        (-30, "just now"),
        (0, "just now"),
        (1.9, "just now"),
        (2, "2 seconds ago"),
        (59.9, "59 seconds ago"),
        (60, "1 minute ago"),
        (3599, "59 minutes ago"),
        (3600, "1 hour ago"),
        (86399, "23 hours ago"),
        (86400, "1 day ago"),
        (6 * 86400, "6 days ago"),
        (7 * 86400, "1 week ago"),
        (30 * 86400, "1 month ago"),
        (364 * 86400, "12 months ago"),
        (365 * 86400, "1 year ago"),
        (800 * 86400, "2 years ago"),
    ],
)
def test_an_age_is_told_in_its_largest_unit(seconds: float, expected: str) -> None:
    assert render.age(1_000_000_000, 1_000_000_000 + seconds) == expected


@pytest.mark.parametrize(
    ("stats", "expected"),
    [
        (Stats(0, 0, 0), "clean"),
        (Stats(1, 2, 3), "+2 -3 in 1 file"),
        (Stats(4, 0, 0), "+0 -0 in 4 files"),
    ],
)
def test_stats_are_told_in_a_few_words(stats: Stats, expected: str) -> None:
    assert render.stats_text(stats) == expected


def test_marks_name_what_is_unusual_about_a_checkpoint() -> None:
    everything = draft(pinned=True, partial=True, during_rollback=True, session="a_b")
    foreign = draft(pinned=True, foreign=True)

    assert render.marks(everything) == ["pinned", "partial", "during-rollback", "session a_b"]
    assert render.marks(foreign) == ["foreign", "pinned"]
    assert render.marks(draft()) == []


def test_the_columns_of_a_table_are_aligned() -> None:
    now = datetime.now(timezone.utc)
    first = draft(timestamp=now, name="a", pinned=True, kind=Kind.FEATURE)
    second = draft(timestamp=now, id=OTHER, name="longer name", stats=Stats(1, 2, 3))

    assert rows(first, second) == [
        "ID                        AGE       KIND     NAME         CHANGES          MARKS",
        f"{ID}  just now  feature  a            clean            pinned",
        f"{OTHER}  just now  manual   longer name  +2 -3 in 1 file",
    ]


def test_a_table_without_marks_has_no_column_for_them() -> None:
    assert rows(draft())[0].split() == ["ID", "AGE", "KIND", "NAME", "CHANGES"]


def test_only_the_name_gives_way_on_a_narrow_terminal() -> None:
    long = draft(timestamp=datetime.now(timezone.utc), name="a rather long name")
    heading, full = rows(long)
    cut = rows(long, width=len(heading) - 5)[1]

    assert cut == full.replace("a rather long name", "a rather lon…")


def test_ids_and_names_are_painted_after_they_are_aligned() -> None:
    heading, row = rows(draft(name="x"), paint=marked)

    assert heading.startswith("<dim>ID ")
    assert row.startswith(f"<id>{ID}</>  ")
    assert "<bold>x   </>" in row


def test_details_tell_all_that_is_known() -> None:
    details = Details(
        skipped=(Skipped(".env", "denied"),),
        data={"turn": 3},
        metadata={"by": "me"},
        context={"tokens": 4},
    )
    shown = draft(
        name="before",
        description="first\n\nlast",
        head_commit="a" * 40,
        branch="topic",
        worktree="worktrees/other",
        pinned=True,
        stats=Stats(2, 5, 1),
        source=Source(lambda _: details, lambda _: ("a.py", "with\nbreak")),
    )

    lines = list(shown_details(shown, plain))
    assert lines[0] == f"checkpoint {ID}"
    assert lines[1:9] == [
        "Name:     before",
        "Kind:     manual (pinned)",
        lines[3],
        "HEAD:     aaaaaaaaaaaa, on topic",
        "Changes:  +5 -1 in 2 files, against HEAD",
        "Worktree: worktrees/other",
        f"Ref:      refs/checkpoints/{ID}",
        "",
    ]
    assert lines[3].startswith("Date:     2026-11-15 23:34:12 UTC (")
    assert lines[9:12] == ["    first", "    ", "    last"]
    text = "\n".join(lines)
    assert 'Changed files:\n  a.py\n  "with\\nbreak"\n' in text
    assert "Skipped:\n  .env (denied)\n" in text
    assert 'Data:\n  {\n    "turn": 3\n  }\n' in text
    assert 'Metadata:\n  {\n    "by": "me"\n  }\n' in text
    assert 'Context:\n  {\n    "tokens": 4\n  }\n' in text
    assert text.endswith(f"compare:   git ckpt diff {ID}\ngo back:   git ckpt rollback {ID}")


def test_details_leave_out_what_is_not_there() -> None:
    labels = [line.split(":")[0] for line in shown_details(draft(branch=None), plain)]

    facts = ["Kind", "Date", "HEAD", "Changes", "Ref"]
    assert labels == [f"checkpoint {ID}", *facts, "", "compare", "go back"]


def test_an_unborn_and_a_detached_head_are_told_apart() -> None:
    assert "HEAD:     unborn, on main" in shown_details(draft(), plain)
    detached = draft(branch=None, head_commit="b" * 40)
    assert "HEAD:     bbbbbbbbbbbb, detached" in shown_details(detached, plain)


def test_a_long_list_of_paths_is_cut_and_says_so() -> None:
    dirty = tuple(f"file{number}" for number in range(23))
    lines = list(shown_details(draft(source=Source(dirty_files=lambda _: dirty)), plain))

    assert "  file19" in lines
    assert "  file20" not in lines
    assert "  … and 3 more (all of them with --json)" in lines


def test_skipped_paths_are_counted_by_reason() -> None:
    items = [Skipped("a", "oversize"), Skipped("b", "denied"), Skipped("c", "oversize")]

    assert render.skipped_summary(items) == "1 file on the deny list, 2 over the size limit"


def diffstat(*files: FileChange, paint=plain) -> list[str]:
    return list(diff.diffstat(DiffResult(draft(), None, files, b""), paint))


def test_a_diffstat_has_a_line_for_each_file_and_a_sum() -> None:
    assert diffstat(
        FileChange("a.py", "M", 2, 1), FileChange("new.bin", "A", 0, 0, binary=True)
    ) == [
        " M a.py    |    3 ++-",
        " A new.bin |  Bin",
        " +2 -1 in 2 files",
    ]


def test_a_diffstat_of_nothing_is_nothing() -> None:
    assert diffstat() == []


def test_a_patch_is_coloured_line_by_line() -> None:
    patch = b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n same\n-old\n+new\n"

    assert coloured(patch).split(b"\n") == [
        b"\033[1mdiff --git a/x b/x\033[0m",
        b"\033[1m--- a/x\033[0m",
        b"\033[1m+++ b/x\033[0m",
        b"\033[36m@@ -1 +1 @@\033[0m",
        b" same",
        b"\033[31m-old\033[0m",
        b"\033[32m+new\033[0m",
        b"",
    ]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (b"plain.txt", "plain.txt"),
        (b"two words", "two words"),
        ("naïve 日本".encode(), "naïve 日本"),
        (b'dou"ble', '"dou\\"ble"'),
        (b"two\nlines", '"two\\nlines"'),
        (b"\x1b[31m", '"\\033[31m"'),
        (b"caf\xe9", '"caf\\351"'),
    ],
)
def test_a_path_is_quoted_only_where_it_must_be(path: bytes, expected: str) -> None:
    assert render.quoted(os.fsdecode(path)) == expected


RESULT = RollbackResult(draft(name="good"), draft(id=OTHER))


def report(result: RollbackResult) -> list[str]:
    return list(render.report(result, plain))


def test_a_rollback_reports_what_it_did_and_where_the_state_before_is() -> None:
    result = RESULT._replace(written=("a",), removed=("b", "c\n"), index_changed=True)

    assert report(result) == [
        f"Rolled back to checkpoint {ID} 'good'",
        "  wrote 1 file:",
        "    a",
        "  removed 2 files:",
        "    b",
        '    "c\\n"',
        "  restored the index",
        f"The state before is saved as {OTHER}",
    ]


def test_a_dry_run_reports_what_would_be_done() -> None:
    kept = (Skipped("sub", "submodule"),)
    result = RESULT._replace(
        safety=None,
        dry_run=True,
        written=("a",),
        removed=("b",),
        kept=kept,
        index_changed=True,
    )

    assert report(result) == [
        f"Would roll back to checkpoint {ID} 'good'",
        "  would write 1 file:",
        "    a",
        "  would remove 1 file:",
        "    b",
        "  would restore the index",
        "  would keep sub (submodule)",
    ]


def test_a_rollback_with_nothing_to_do_says_so() -> None:
    result = RollbackResult(draft(), None)

    assert report(result) == [f"Nothing to do: everything is as in checkpoint {ID}"]


def head(moved: bool, ahead: int | None = None, behind: int | None = None) -> HeadReport:
    before, after = GitState("a" * 40, "main"), GitState("b" * 40, "topic")
    return HeadReport(moved, before, after if moved else before, ahead, behind)


def test_a_moved_head_is_reported_with_commit_and_branch() -> None:
    assert "  HEAD is now at bbbbbbbbbbbb (topic)" in report(RESULT._replace(head=head(True)))
    dry = RESULT._replace(head=head(True), dry_run=True)
    assert "  HEAD would be at bbbbbbbbbbbb (topic)" in report(dry)


def test_a_head_that_stays_says_how_far_it_is_and_what_that_means() -> None:
    result = RESULT._replace(head=head(False, 2, 1), index_changed=True)

    assert report(result)[2:4] == [
        "  HEAD stays, 2 commits ahead of and 1 commit behind the checkpoint's commit:",
        "  git sees the difference as staged; --head moves HEAD too",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("caf\u00e9 \u65e5 \u200d\U0001f680", "caf\u00e9 \u65e5 \u200d\U0001f680"),
        ("a\tb", "a\tb"),
        ("a\nb\rc", "a\\nb\\rc"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\x07\x7f\x85\x9b", "\\x07\\x7f\\x85\\x9b"),
        ("\u2028\u2029\u202e\u2066", "\\u2028\\u2029\\u202e\\u2066"),
        (os.fsdecode(b"caf\xe9"), "caf\\xe9"),
        ("half \ud800", "half \\ud800"),
    ],
)
def test_what_is_not_shown_is_told_in_escapes(text: str, expected: str) -> None:
    assert render.printable(text) == expected
