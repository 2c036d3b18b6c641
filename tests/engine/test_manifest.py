# SPDX-License-Identifier: MIT
"""A manifest comes back as it went in, is the same for the same state, and never crashes."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt.engine import recorded
from ckpt.engine.recorded import Manifest
from ckpt.git.operation import Operation
from ckpt.models import NestedState
from ckpt.paths import to_str
from ckpt.worktree.modes import Modes

FULL = Manifest(
    modes=Modes(0o664, 0o775, {b"private": 0o600, b"caf\xe9": 0o400}),
    empty_folders=(b"empty", b"\xff/x"),
    skipped={b".env": "denied", b"caf\xe9": "oversize"},
    excludes={"global": b"*.log\n", "info": b"caf\xe9\n\0", "build/.gitignore": b"*\n"},
    operation=Operation("merge", "0" * 64),
    branch="topic",
    unskipped=(b"sparse",),
    nested=(
        NestedState(
            *("lib", "1" * 40, "main", True, "20261115-233412-123-k7pq"),
            checkpoint_commit="2" * 40,
        ),
        NestedState(to_str(b"caf\xe9"), None, None, None, None, "damaged"),
    ),
)


def loaded(data: bytes) -> Manifest:
    return recorded.load(json.loads(data))


@pytest.mark.parametrize("before", [Manifest(), FULL])
def test_a_manifest_comes_back(before: Manifest) -> None:
    assert loaded(before.dump()) == before


paths = st.binary(max_size=6)
places = st.sampled_from([b"a", b"a/b", b"caf\xe9", b".gitignore"])  # not outside, nor in a git dir
bits = st.integers(0, 0o777)


@given(
    st.builds(
        Manifest,
        modes=st.builds(Modes, bits, bits, st.dictionaries(paths, bits)),
        empty_folders=st.lists(places).map(tuple),
        skipped=st.dictionaries(paths, st.sampled_from(["denied", "oversize"])),
        excludes=st.dictionaries(st.text(st.characters(codec="utf-8")), st.binary()),
    )
)
def test_any_bytes_come_back(before: Manifest) -> None:
    assert loaded(before.dump()) == before


def test_the_order_in_which_files_were_found_does_not_count() -> None:
    """Equal states must have equal manifests, or a trigger would save them twice."""
    turned = replace(
        FULL, modes=replace(FULL.modes, others=dict(reversed(FULL.modes.others.items())))
    )

    assert list(turned.modes.others) != list(FULL.modes.others)
    assert turned.dump() == FULL.dump()


def test_a_manifest_is_ascii_json_that_git_shows_line_by_line() -> None:
    data = FULL.dump()

    assert data.isascii()
    assert data.endswith(b"\n}\n")
    assert b'\n "branch": "topic",\n' in data


def test_what_the_first_manifests_did_not_have_may_be_missing() -> None:
    document = json.loads(FULL.dump())
    for key in ("include", "nested"):
        del document[key]
    for key in ("folder", "folders"):
        del document["modes"][key]

    assert recorded.load(document) == replace(FULL, nested=())


def test_a_nested_checkpoint_of_which_no_commit_was_noted_has_none() -> None:
    state = NestedState("lib", None, None, None, "20261115-233412-123-k7pq")
    data = Manifest(nested=(state,)).dump()

    assert b"checkpoint_commit" not in data
    assert loaded(data).nested == (state,)


@pytest.mark.parametrize("text", ["", "$(evil)", "1" * 39, "A" * 40, f"{'1' * 39}\n"])
def test_a_commit_that_people_may_be_told_to_type_is_an_id(text: str) -> None:
    document = json.loads(FULL.dump())
    document["nested"][0]["checkpoint_commit"] = text

    with pytest.raises(ValueError, match="is no id of a commit"):
        recorded.load(document)


def test_bits_beyond_the_nine_are_never_restored() -> None:
    document = json.loads(FULL.dump())
    document["modes"]["plain"] = "4755"
    document["modes"]["others"][0]["mode"] = "7777"

    assert recorded.load(document).modes.plain == 0o755
    assert recorded.load(document).modes.others[b"caf\xe9"] == 0o777


DOCUMENT = json.loads(FULL.dump())


def places(document: Any) -> Iterator[tuple[Any, ...]]:
    """The way to every value in a document."""
    if isinstance(document, dict):
        document = list(document.items())
    elif isinstance(document, list):
        document = list(enumerate(document))
    else:
        return
    for key, value in document:
        yield (key,)
        yield from ((key, *rest) for rest in places(value))


@pytest.mark.parametrize("value", [None, 7, "x\ud800", [], {}, [7], {"path": 7}, "\0"])
def test_damage_is_a_value_error_and_never_another(value: Any) -> None:
    for place in places(DOCUMENT):
        document = copy.deepcopy(DOCUMENT)
        parent = document
        for key in place[:-1]:
            parent = parent[key]
        parent[place[-1]] = value
        try:
            recorded.load(document)
        except ValueError:
            pass


@pytest.mark.parametrize("value", [7, True, [], {}, [["x"]]])
@pytest.mark.parametrize("place", ["branch", "operation/name", "operation/fingerprint"])
def test_what_is_no_text_is_not_taken_for_one(place: str, value: Any) -> None:
    document = copy.deepcopy(DOCUMENT)
    *way, key = place.split("/")
    (document[way[0]] if way else document)[key] = value

    with pytest.raises(ValueError, match="is no text"):
        recorded.load(document)


@pytest.mark.parametrize("key", sorted(set(DOCUMENT) - {"format", "include", "nested"}))
def test_a_manifest_that_lacks_a_part_is_damaged(key: str) -> None:
    with pytest.raises(ValueError, match="damaged manifest"):
        recorded.load({name: value for name, value in DOCUMENT.items() if name != key})


@pytest.mark.parametrize("document", [{}, {"modes": []}, {"modes": 7}])
def test_what_is_no_manifest_is_damaged(document: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="damaged manifest"):
        recorded.load(document)
