# SPDX-License-Identifier: MIT
"""Create checkpoint ids, and validate names and descriptions.

An id is a UTC time in milliseconds and four random characters, `20261115-233412-123-k7pq`:
ids sort by age and do not collide. The alphabet omits letters that are easily confused.
"""

from __future__ import annotations

import os
import re
from datetime import datetime, timedelta, timezone

from ckpt.errors import UsageError

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
PATTERN = re.compile(rf"(?a)\d{{8}}-\d{{6}}-\d{{3}}-[{ALPHABET}]{{4}}")
_NOT_UTF8 = re.compile("[\ud800-\udfff]").search
_CONTROL = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029]").search
MAX_NAME = 200
MAX_DESCRIPTION = 64 * 1024


def is_id(text: str) -> bool:
    return PATTERN.fullmatch(text) is not None


def new_id(now: datetime, newest: str | None) -> str:
    """Return an id for `now`, or for a millisecond after `newest` if the clock is behind it.

    `newest` was made here: a foreign id may name no valid time."""
    start = stamp(now)
    if newest is not None and start <= newest[: len(start)]:
        before = datetime.strptime(newest[: len(start)], "%Y%m%d-%H%M%S-%f")
        start = stamp(before.replace(tzinfo=timezone.utc) + timedelta(milliseconds=1))
    # The alphabet has 32 letters, so that a random byte selects each with equal probability.
    return start + "-" + "".join(ALPHABET[byte % len(ALPHABET)] for byte in os.urandom(4))


def stamp(moment: datetime) -> str:
    """Return the time part of an id."""
    return moment.astimezone(timezone.utc).strftime("%Y%m%d-%H%M%S-") + (
        f"{moment.microsecond // 1000:03d}"
    )


def matches(checkpoint_id: str, word: str) -> bool:
    """Return whether an id, or its last part, begins with a word."""
    return checkpoint_id.startswith(word) or checkpoint_id.rpartition("-")[2].startswith(word)


def check_name(name: str) -> str:
    """Return a name as it is stored; raise `UsageError` if it is invalid."""
    name = name.strip()
    for is_wrong, problem in (
        (not name, "it is empty"),
        (len(name) > MAX_NAME, f"it has {len(name):,} characters, more than {MAX_NAME}"),
        (has_controls(name), "it holds a line break or another control character"),
        (_NOT_UTF8(name), "it is not valid UTF-8"),
        (name.startswith("-"), f"'{name}' begins with '-', like an option"),
        (name.startswith("latest"), f"'{name}' begins with 'latest', which names the newest"),
        (is_id(name), f"'{name}' has the form of an id"),
    ):
        if is_wrong:
            raise UsageError(
                f"invalid checkpoint name: {problem}",
                hint="choose a short line of text, such as: git ckpt save before-refactor",
            )
    return name


def has_controls(text: str) -> bool:
    """Return whether a text contains line breaks or other control characters."""
    return _CONTROL(text) is not None


def check_description(description: str) -> str | None:
    """Return a description as it is stored, or None if it is empty."""
    description = description.replace("\r\n", "\n").strip()
    if "\0" in description or _NOT_UTF8(description):
        raise UsageError("the description is not text", hint="pass valid UTF-8 without NUL bytes")
    if len(description.encode()) > MAX_DESCRIPTION:
        raise UsageError(
            f"the description is longer than {MAX_DESCRIPTION // 1024} KiB",
            hint="put long texts into --data, which is kept apart from the message",
        )
    return description or None
