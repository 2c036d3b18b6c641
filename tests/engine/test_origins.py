# SPDX-License-Identifier: MIT
"""What a state tree says of files whose bytes are not those of git's blob."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from helpers import git

from ckpt.engine.origins import CONVERT, RAW, Converted, DriverRecipe, Origins, write_state
from ckpt.store.objects import MissingObject, ObjectID, ObjectStore
from ckpt.store.repository import discover
from ckpt.store.trees import FOLDER, TreeEntry, write_tree

ID = ObjectID(b"8baef1b4abc478178b004d62031cf7fe6db6f903")


@pytest.fixture
def objects(tmp_path: Path) -> ObjectStore:
    git("init", "-q", str(tmp_path))
    return discover(str(tmp_path), os.environ).objects


@pytest.mark.parametrize("name", ["lfs", "a b", "a=b raw=c", "50%", "caf\u00e9", "\udcff"])
@pytest.mark.parametrize("built_in", ["", "ident eol=crlf"])
def test_a_recipe_with_a_driver_is_read_as_it_was_written(name: str, built_in: str) -> None:
    recipe = DriverRecipe(built_in, name, ID)

    assert str(recipe).isascii()
    assert DriverRecipe.parse(str(recipe)) == recipe


@pytest.mark.parametrize("recipe", ["", "eol=crlf", "ident", "encoding=latin1"])
def test_other_recipes_need_no_driver(recipe: str) -> None:
    assert DriverRecipe.parse(recipe) is None


def read_again(objects: ObjectStore, converted: dict[bytes, Converted]) -> Origins:
    folders = write_state(objects, converted).items()
    entries = {name: TreeEntry(FOLDER, tree) for name, tree in folders if tree is not None}
    return Origins(objects, write_tree(objects, entries))


def test_what_is_written_is_read_again(objects: ObjectStore) -> None:
    blob = objects.add(b"blob", b"a\n")
    crlf = Converted(objects.hash(b"blob", b"a\r\n"), "eol=crlf")
    raw = Converted(objects.add(b"blob", b"as it was"), "")
    driver = Converted(ID, str(DriverRecipe("", "lfs", ID)))
    found = read_again(objects, {b"sub/crlf": crlf, b"crlf": crlf, b"raw": raw, b"lfs": driver})

    assert found.of(b"sub/crlf", blob) == found.of(b"crlf", blob) == crlf
    assert found.of(b"raw", blob) == raw
    assert found.of(b"lfs", blob) == driver
    assert found.of(b"plain", blob) is None


def test_without_conversions_the_state_tree_has_no_folder_for_them(objects: ObjectStore) -> None:
    assert write_state(objects, {}) == {RAW: None, CONVERT: None}
    assert read_again(objects, {}).tree(RAW) is None
    assert read_again(objects, {}).of(b"a", ID) is None


def test_a_recipe_that_nobody_knows_is_damage(objects: ObjectStore) -> None:
    blob = objects.add(b"blob", b"a\n")
    found = read_again(objects, {b"a": Converted(ID, "eol=cr")})

    with pytest.raises(MissingObject, match="eol=cr"):
        found.of(b"a", blob)
