# SPDX-License-Identifier: MIT
"""Random edits, git commands, saves, rollbacks and undos, against real git.

A failing walk prints its steps; those that once went wrong are walked again at the end.
`make fuzz` goes thousands of steps on new ways.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import Phase, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from properties.walk import Step, Walk

NAMES = st.sampled_from(
    ["a", "b", "d/a", "d/b", "d/e/f", "e", "e/x", "f.log", "d/g.log", "ü é", "A", "d", "D/a"]
)
LINES = [b"", b"1\n", b"2\n", b"1\n2\n", b"\0\xff\n", b"long\n" * 50, b"1\r\n2\r\n", b"1\r\n2\n"]
CONTENTS = st.sampled_from(LINES)
MODES = st.sampled_from([0o644, 0o755, 0o600, 0o444])
FOLDER_MODES = st.sampled_from([0o755, 0o755, 0o700])
RULES = st.sampled_from(["", "*.log\n", "d/\n", "*\n!a\n", "b\n", "/e\n!*.log\n", "nested\n"])
ATTRIBUTES = st.sampled_from(["", "* text=auto\n", "*.log eol=crlf\n", "a text\n", "* -text\n"])
COMMANDS = st.sampled_from(
    [
        ("add", "-A"),
        ("add", "a", "d"),
        ("add", "-f", "f.log"),
        ("add", "-N", "b"),
        ("rm", "--cached", "-rq", "d"),
        ("rm", "-rfq", "d"),
        ("mv", "a", "b"),
        ("mv", "-k", "d", "e"),
        ("commit", "-qam", "more"),
        ("commit", "-qam", "more still"),
        ("commit", "-q", "--no-edit", "-a"),
        ("commit", "-q", "--allow-empty", "-m", "none"),
        ("commit", "-q", "--amend", "--no-edit"),
        ("reset", "-q", "--hard"),
        ("reset", "-q", "--hard", "HEAD~1"),
        ("reset", "-q"),
        ("clean", "-fdq"),
        ("checkout", "-qf", "other"),
        ("checkout", "-qf", "main"),
        ("checkout", "-qm", "other"),
        ("checkout", "-qf", "--detach"),
        ("stash", "-u", "-q"),
        ("stash", "pop", "-q"),
        ("update-index", "--assume-unchanged", "a"),
        ("update-index", "--no-assume-unchanged", "a"),
        ("update-index", "--skip-worktree", "d/a"),
        ("update-index", "--no-skip-worktree", "d/a"),
        ("update-index", "--chmod=+x", "a"),
        ("update-index", "--index-version", "4"),
        ("gc", "-q", "--prune=now"),
        ("pack-refs", "--all"),
        ("config", "core.autocrlf", "true"),
        ("config", "core.autocrlf", "false"),
    ]
)
OPERATIONS = st.sampled_from(
    [
        ("merge", "other"),
        ("merge", "main"),
        ("merge", "--no-commit", "--no-ff", "other"),
        ("merge", "--squash", "other"),
        ("merge", "--autostash", "other"),
        ("merge", "--abort"),
        ("rebase", "other"),
        ("rebase", "main"),
        ("rebase", "--apply", "other"),
        ("rebase", "--autostash", "main"),
        ("rebase", "--continue"),
        ("rebase", "--skip"),
        ("rebase", "--abort"),
        ("cherry-pick", "other"),
        ("cherry-pick", "other~1..other"),
        ("cherry-pick", "--continue"),
        ("cherry-pick", "--abort"),
        ("revert", "--no-edit", "HEAD"),
        ("revert", "--no-edit", "HEAD~1"),
        ("revert", "--abort"),
        ("bisect", "start", "HEAD", "HEAD~1"),
        ("bisect", "good"),
        ("bisect", "reset"),
    ]
)
EDITS = st.one_of(
    st.tuples(st.just("write"), NAMES, CONTENTS, MODES),
    st.tuples(st.just("write"), NAMES, CONTENTS),
    st.tuples(st.just("write"), st.just(".gitignore"), RULES.map(str.encode)),
    st.tuples(st.just("write"), st.just(".gitattributes"), ATTRIBUTES.map(str.encode)),
    st.tuples(st.just("remove"), NAMES),
    st.tuples(st.just("sneak"), NAMES),
    st.tuples(st.just("replace"), NAMES),
    st.tuples(st.just("link"), NAMES, st.sampled_from(["a", "d", "nowhere", "../x"])),
    st.tuples(st.just("folder"), NAMES, FOLDER_MODES),
    st.tuples(st.just("chmod"), NAMES, MODES),
    st.tuples(st.just("rename"), NAMES, NAMES),
    st.tuples(st.just("fifo"), NAMES),
    st.tuples(st.just("exclude"), RULES),
    st.tuples(st.just("nested")),
)


class WorkingState(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.walk = Walk()

    def teardown(self) -> None:
        if hasattr(self, "walk"):
            note(f"the steps: {self.walk.steps!r}")
            self.walk.end()

    @rule(step=EDITS)
    def edit(self, step: Step) -> None:
        self.walk.take(*step)

    @rule(step=EDITS)
    def edit_once_more(self, step: Step) -> None:
        self.walk.take(*step)

    @rule(words=COMMANDS)
    def git(self, words: tuple[str, ...]) -> None:
        self.walk.take("git", *words)

    @rule(words=OPERATIONS)
    def operate(self, words: tuple[str, ...]) -> None:
        self.walk.take("git", *words)

    @rule()
    def save(self) -> None:
        self.walk.take("save")

    @rule(number=st.integers(0, 7), head=st.booleans())
    def rollback(self, number: int, head: bool) -> None:
        self.walk.take("rollback", number, head)

    @rule()
    def undo(self) -> None:
        self.walk.take("undo")


TestAnyStateComesBack = WorkingState.TestCase
TestAnyStateComesBack.settings = settings(
    max_examples=int(os.environ.get("CKPT_FUZZ_EXAMPLES", "20")),
    stateful_step_count=30,
    # The same walks each time; `make fuzz` goes new ways.
    derandomize="CKPT_FUZZ_EXAMPLES" not in os.environ,
    # Each step starts git: shrinking would take minutes, and the steps are printed anyway.
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)


# Walks that once went wrong.
WALKS: list[list[Step]] = [
    # A tree that AUTO_MERGE names is written by the very save.
    [
        ("git", "rm", "--cached", "-rq", "d"),
        ("save",),
        ("git", "update-index", "--index-version", "4"),
        ("write", "a", b"2\n", 384),
        ("write", "d/g.log", b"2\n", 420),
        ("link", "b", "../x"),
        ("folder", "d/b", 493),
        ("git", "mv", "a", "b"),
        ("git", "merge", "other"),
        ("rollback", 0, True),
        ("exclude", "*.log\n"),
        ("git", "gc", "-q", "--prune=now"),
        ("git", "add", "-N", "b"),
        ("git", "bisect", "start", "HEAD", "HEAD~1"),
        ("git", "checkout", "-qf", "--detach"),
        ("git", "cherry-pick", "other"),
        ("git", "add", "a", "d"),
        ("write", "b", b"2\n", 292),
        ("save",),
    ],
    # The line endings differ, the blob does not.
    [
        ("git", "config", "core.autocrlf", "true"),
        ("save",),
        ("write", "a", b"2\n", 384),
        ("git", "reset", "-q", "--hard"),
        ("write", "d/e/f", b"1\n", 420),
        ("rollback", 0, True),
    ],
    # Other attributes apply to a file that nobody touches.
    [
        ("git", "config", "core.autocrlf", "true"),
        ("write", "a", b"1\n2\n", 493),
        ("git", "checkout", "-qf", "main"),
        ("save",),
        ("remove", "d/a"),
        ("rollback", 0, False),
        ("write", ".gitattributes", b"* -text\n"),
        ("save",),
        ("undo",),
        ("undo",),
    ],
]


@pytest.mark.parametrize("steps", WALKS)
def test_a_walk_that_once_went_wrong_goes_right(steps: list[Step]) -> None:
    walk = Walk()
    for step in steps:
        walk.take(*step)
    walk.end()
