# SPDX-License-Identifier: MIT
"""What defends a user's work, and which tests fail when it is taken out.

A defence is a piece of code, as it stands in its module, and what is left there without it.
"""

from __future__ import annotations

from typing import NamedTuple


class Defence(NamedTuple):
    what: str
    module: str
    code: str
    without: str
    tests: tuple[str, ...]


def _of(what: str, place: str, *tests: str) -> Defence:
    """`place` is `module: code => without`."""
    module, _, change = place.partition(": ")
    code, _, without = change.partition(" => ")
    return Defence(what, module, code, without, tests)


HOSTILE = "tests/hostile/test_objects.py::test_they_are_refused_and_nothing_changes"
FOREIGN = "tests/hostile/test_foreign.py::"
LIMITS = "tests/hostile/test_limits.py::"
BESIDE_GC = "tests/with_git/test_gc_beside_cache.py::"
TEMPORARIES = "tests/store/test_temporaries.py::"
OWNERSHIP = "tests/with_git/test_ownership.py::"
CACHE = "tests/with_git/test_scan_cache.py::"
KEPT_CACHE = "tests/engine/test_scan_cache.py::"
WRITING = "tests/worktree/test_write.py::"
RULES = "tests/with_git/test_rollback_rules.py::"
RESCUE = "tests/with_git/test_rescue.py::"
FIXED = "tests/with_git/test_doctor_fix.py::"
MEANWHILE = "tests/faults/test_edits_meanwhile.py::"
GONE = "tests/faults/test_checkpoints_gone.py::"

DEFENCES = (
    # Hostile objects
    _of(
        "no name in a tree leads out of its folder",
        'ckpt/store/trees.py: if name in (b"", b".", b"..") or b"/" in name => if False',
        "tests/store/test_trees.py::test_a_name_that_could_leave_its_folder_stops_every_reader",
    ),
    _of(
        "no two entries have one name",
        "ckpt/engine/tree_check.py: if len({*names}) < len(names): => if False:",
        LIMITS + "test_what_others_made_has_each_name_once",
    ),
    _of(
        "entries are in git's order",
        "ckpt/engine/tree_check.py: if keys != sorted(keys): => if False:",
        HOSTILE,
    ),
    _of(
        "no mode that git does not write",
        "ckpt/engine/tree_check.py: if mode not in _MODES: => if False:",
        HOSTILE,
    ),
    _of(
        "no name that HFS+ takes for .git",
        "ckpt/engine/tree_check.py: .translate(_IGNORED_BY_HFS) => ",
        HOSTILE,
    ),
    _of(
        "no name that NTFS takes for .git",
        "ckpt/engine/tree_check.py:  or any(map(_OF_NTFS.fullmatch, parts)) => ",
        HOSTILE,
    ),
    _of(
        "no tree of millions of files",
        "ckpt/engine/tree_check.py: if files > _MOST_FILES: => if False:",
        LIMITS + "test_what_others_made_is_measured_before_it_unfolds",
    ),
    _of(
        "no tree of thousands of levels",
        "ckpt/engine/tree_check.py: if levels > _MOST_LEVELS: => if False:",
        LIMITS + "test_what_others_made_is_measured_before_it_unfolds",
    ),
    _of(
        "no object that inflates without end",
        'ckpt/store/loose.py: if size > LARGEST_WHOLE and kind != b"blob": => if False:',
        LIMITS + "test_what_is_never_read_in_pieces_is_not_read_if_it_is_large",
    ),
    _of(
        "nor one in a pack",
        'ckpt/store/packs.py: if size > LARGEST_WHOLE and KINDS.get(kind) != b"blob": => if False:',
        LIMITS + "test_neither_is_it_from_a_pack",
    ),
    _of(
        "no delta in a bundle that is longer than what it makes",
        "ckpt/store/bundle.py: if size > made + BOTH_SIZES: => if False:",
        "tests/store/test_bundle.py::test_a_delta_that_is_larger_than_what_it_makes_is_none",
    ),
    _of(
        "no bundle that becomes a thousand times as large",
        "ckpt/store/bundle.py: if self._left < 0: => if False:",
        "tests/store/test_bundle.py::test_what_would_become_a_thousand_times_as_large_is_refused",
    ),
    _of(
        "an object is what its id says",
        "ckpt/store/objects.py: elif self.hash(kind, data) == object_id: => else:",
        RULES + "test_a_damaged_object_stops_a_rollback_before_anything_happens",
    ),
    _of(
        "an index is one that git could have written",
        'ckpt/store/index_check.py: raise ValueError("a path is there twice") => pass',
        HOSTILE,
    ),
    _of(
        "nothing is staged below a file",
        'ckpt/store/index_check.py: raise ValueError("a path is both a file and a folder") => pass',
        "tests/store/test_staging.py::test_nothing_is_staged_below_a_file",
    ),
    _of(
        "a path in no tree has names like those in trees",
        "ckpt/engine/foreign.py: check_path(path) => pass",
        HOSTILE,
    ),
    _of(
        "what is to be text is no other thing",
        "ckpt/jsontext.py: if value is not None and not isinstance(value, str): => if False:",
        "tests/store/test_details.py::test_what_is_told_of_a_nested_repository_is_of_its_kind",
        HOSTILE,
    ),
    _of(
        "nothing is told to a terminal that it would obey",
        'ckpt/render.py: return text if text.isprintable() else "".join(map(_shown, text))'
        " => return text",
        FOREIGN + "test_a_terminal_is_never_told_what_to_do",
        FOREIGN + "test_what_a_checkpoint_tells_makes_no_line_and_no_colour_of_its_own",
    ),
    _of(
        "what is told has no colours of its own",
        "ckpt/render.py: printable(marks(c)) => marks(c)",
        FOREIGN + "test_what_a_checkpoint_tells_makes_no_line_and_no_colour_of_its_own",
    ),
    _of(
        "no sequence is printed that is not ours",
        "ckpt/output.py: part.startswith(_PAINT) => True",
        "tests/test_output.py::test_each_call_prints_one_line_without_anything_to_obey",
    ),
    # Checkpoints that others made
    _of(
        "what a checkpoint says of itself makes it nobody's own",
        "ckpt/store/made_here.py: return _line(checkpoint_id, commit) in _read(common_dir)"
        " => return True",
        FOREIGN + "test_what_was_fetched_is_foreign_and_what_was_saved_is_not",
    ),
    _of(
        "a record that others could write counts for nothing",
        "ckpt/disk.py: if not is_own or not stat.S_ISREG(status.st_mode): => if False:",
        FOREIGN + "test_a_record_that_others_could_write_is_not_believed",
    ),
    _of(
        "commands of another's operation need consent",
        "ckpt/engine/foreign.py: if commands: => if False:",
        FOREIGN + "test_commands_of_a_rebase_are_shown_and_refused_without_trust",
    ),
    _of(
        "another's operation has only files that git writes",
        "ckpt/engine/foreign.py: check_files(operation) => pass",
        FOREIGN + "test_what_git_would_not_have_written_is_refused",
    ),
    _of(
        "an operation comes along only with its commits",
        "ckpt/engine/operation_objects.py: if not _is_commit( => if False and not _is_commit(",
        FOREIGN + "test_an_operation_comes_along_only_with_its_commits",
        "tests/with_git/test_operations.py"
        "::test_a_merge_with_a_commit_that_is_lost_is_not_begun_again",
    ),
    _of(
        "a ref of an operation names a commit",
        "ckpt/engine/operation_objects.py: if not _is_id(objects, text): => if False:",
        FOREIGN + "test_not_even_with_trust_is_there_a_ref_that_names_no_commit",
    ),
    _of(
        "a rollback is not finished with commits that are missing by then",
        "ckpt/engine/recovery.py: check_objects(goal.objects, goal.operation) => pass",
        FOREIGN + "test_nor_with_a_commit_that_is_missing_by_then",
    ),
    _of(
        "an undo gives back what was there, broken or not",
        "ckpt/engine/prepare.py: if target.is_foreign or not self._options.undoing: => if True:",
        "tests/with_git/test_operations.py"
        "::test_an_undo_gives_back_even_an_operation_that_was_broken",
    ),
    _of(
        "HEAD goes to branches only",
        "ckpt/engine/foreign.py: if branch is not None and not => if False and not",
        FOREIGN + "test_head_goes_to_no_other_ref_than_a_branch",
    ),
    _of(
        "another's permission bits are no wider than usual",
        "ckpt/engine/recorded.py: 0o777 if trust else 0o777 & ~_umask() => 0o777",
        FOREIGN + "test_bits_are_no_wider_than_those_that_files_get_here",
    ),
    _of(
        "what is left alone here is left alone whoever calls it a state file",
        "ckpt/engine/prepare.py: if self._target.state_files and self._is_trusted:"
        " => if self._target.state_files:",
        FOREIGN + "test_what_is_left_alone_here_is_left_alone_whoever_calls_it_a_state_file",
    ),
    _of(
        "and it is said that it is still there",
        "ckpt/engine/state_files.py: elif there is None and _is_file(worktree, path):"
        " => elif False:",
        FOREIGN + "test_what_is_left_alone_here_is_left_alone_whoever_calls_it_a_state_file",
    ),
    _of(
        "a content is not read through a folder that became a link",
        "ckpt/worktree/reach.py: if _place_of(fd) == path: => if True:",
        "tests/hostile/test_swapped_reads.py::test_nothing_that_a_link_leads_to_is_saved",
    ),
    _of(
        "where a link leads is not read through another",
        "ckpt/worktree/reach.py: if _place_of(handle) == folder: => if True:",
        "tests/hostile/test_swapped_reads.py::test_nothing_that_a_link_leads_to_is_saved",
    ),
    # Writing into the worktree
    _of(
        "no folder is entered through a link",
        "ckpt/worktree/write.py: _FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW"
        " => _FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY",
        "tests/hostile/test_swapped.py::test_nothing_outside_changes",
    ),
    _of(
        "nothing is written into a git dir of another name",
        "ckpt/worktree/write.py: if self._closed_to_us and => if False and",
        FOREIGN + "test_nothing_gets_into_a_git_dir_of_another_name",
    ),
    _of(
        "no path that leads out is touched",
        'ckpt/worktree/write.py: if name in (b"", b".", b"..") or name.lower() == b".git"'
        " => if False",
        WRITING + "test_a_hostile_path_changes_nothing",
    ),
    _of(
        "what changed at the last moment is left",
        "ckpt/worktree/write.py: disk.chmod(fd, permissions, path)\n            if not unchanged():"
        " => disk.chmod(fd, permissions, path)\n            if False:",
        WRITING + "test_a_path_that_changed_at_the_last_moment_is_left",
    ),
    _of(
        "what was edited since is saved before it is replaced",
        "ckpt/engine/apply.py: if status is None or found is None or found == action.before:"
        " => if True:",
        MEANWHILE
        + "test_a_file_edited_just_before_its_turn_is_saved_and_undo_brings_the_edit_back",
    ),
    _of(
        "after a crash, what was edited since is saved first",
        "ckpt/engine/strangers.py: return found is not None and found not in"
        " self._held(action.before, action.after) => return False",
        MEANWHILE + "test_all_edits_after_the_crash_are_in_one_checkpoint",
    ),
    _of(
        "after a crash, undo brings back whatever the recovery replaced",
        "ckpt/engine/strangers.py: changing = tuple({*paths, *filter(self._is_file, self._paths)})"
        " => changing = tuple(paths)",
        MEANWHILE + "test_undo_after_continue_brings_back_an_ignored_file_that_nobody_had_edited",
    ),
    _of(
        "after a crash, a commit made since stays on its branch",
        "ckpt/engine/head.py: if now in ends: => if True:",
        MEANWHILE + "test_a_commit_made_after_the_crash_is_not_taken_off_its_branch",
    ),
    _of(
        "after a crash, no operation goes on from a commit made since",
        "ckpt/engine/recovery.py: if record.operation and left is None: => if record.operation:",
        MEANWHILE + "test_no_operation_goes_on_from_a_commit_made_after_the_crash",
    ),
    _of(
        "after a crash, what only a removed target held is saved first",
        "ckpt/engine/strangers.py: return held if self._target is None else [*held, after]"
        " => return [*held, after]",
        GONE + "test_without_the_target_the_way_back_is_open",
    ),
    _of(
        "after a crash, what only a removed safety checkpoint held is saved first",
        "ckpt/engine/strangers.py: or self._safety is None => or False",
        GONE + "test_without_the_safety_checkpoint_the_way_on_is_open",
    ),
    _of(
        "what is replaced is read first, whatever its stat data say",
        "ckpt/engine/rollback.py:             prove_changing( =>             (lambda *_: None)(",
        "tests/with_git/test_proof.py::"
        "test_bytes_that_came_without_a_trace_are_saved_before_they_go",
    ),
    _of(
        "what is replaced is held by an object that can be read",
        "ckpt/store/reuse.py: self.is_wary and not self._is_sound(object_id) => False",
        "tests/with_git/test_proof.py::"
        "test_an_object_that_a_disk_has_damaged_is_written_again_before_its_file_goes",
    ),
    _of(
        "every object is read before the first file changes",
        "ckpt/engine/prepare.py: self._smudger.check(action.path, action.after) => pass",
        RULES + "test_a_missing_object_stops_a_rollback_before_anything_happens",
    ),
    _of(
        "a rollback does not begin beside another's index.lock",
        "ckpt/engine/refusals.py: check_free(files, repo.private_dir, patience=_PATIENCE) => pass",
        RULES + "test_a_held_index_lock_stops_a_rollback_before_anything_happens",
    ),
    _of(
        "after a crash, no way leads to another's checkpoint under the id of ours",
        "ckpt/engine/way_out.py: return known in (None, now) or => return True or",
        FOREIGN + "test_a_rollback_does_not_end_at_another_checkpoint_than_its_own",
    ),
    _of(
        "after a crash, commands that came meanwhile are not taken up",
        "ckpt/engine/recovery.py: if goal.is_foreign and not trust: => if False:",
        FOREIGN + "test_a_rollback_is_not_taken_back_to_commands_that_came_meanwhile",
    ),
    _of(
        "half a journal is noticed",
        "ckpt/engine/journal.py: if checksum != _checksum(body): => if False:",
        "tests/engine/test_journal.py::test_every_damaged_byte_is_noticed",
    ),
    # The object store, and git's garbage collection
    _of(
        "contents are on the disk before they have names",
        "ckpt/store/pending.py: disk.fsync_files([*self._files.values(), *others]) => pass",
        "tests/store/test_objects.py::test_every_content_is_on_the_disk_before_any_gets_its_name",
    ),
    _of(
        "names are on the disk before a ref is made",
        "ckpt/store/pending.py: disk.fsync_dirs([self._path, => list([self._path,",
        "tests/store/test_objects.py::test_the_names_are_durable_when_a_flush_returns",
    ),
    _of(
        "so is what git has just written",
        "ckpt/engine/snapshot.py: flush_what_git_wrote(objects, present, compared) => pass",
        "tests/store/test_unflushed.py::test_what_git_has_just_written_is_flushed",
    ),
    _of(
        "a pack is kept from git until its ref is made",
        "ckpt/store/pack_writer.py: self._keep() => pass",
        "tests/store/test_pending.py::test_a_pack_is_kept_from_git_until_its_ref_is_made",
    ),
    _of(
        "what a prune took meanwhile is noticed after the ref is made",
        "ckpt/engine/publishing.py: if not is_whole(commit, relied_on): => if False:",
        BESIDE_GC + "test_the_checkpoint_that_was_relied_on_goes_while_the_next_is_made",
        BESIDE_GC + "test_objects_that_nobody_held_any_more_go_while_they_are_used_again",
    ),
    _of(
        "what damage took is written again while the file is there",
        "ckpt/engine/snapshot.py: if not has_what_it_relies_on(objects, present, compared):"
        " => if False:",
        BESIDE_GC + "test_what_a_broken_disk_took_is_written_again_from_the_files",
    ),
    _of(
        "a cache counts only while its checkpoint is there",
        "ckpt/engine/scan_cache.py: if cache is None or not is_held(repo, cache): "
        "=> if cache is None:",
        KEPT_CACHE + "test_the_cache_goes_with_its_checkpoint",
    ),
    _of(
        "a new pack is read back before anybody sees it",
        "ckpt/store/repack.py: if offset is None or not => if offset is None and not",
        "tests/with_git/test_gc.py::test_a_pack_that_does_not_give_back_what_went_in_is_never_seen",
    ),
    _of(
        "what was used lately stays loose",
        "ckpt/store/repack.py: if _is_old(path, grace):\n            disk.unlink(path)"
        " => if True:\n            disk.unlink(path)",
        "tests/store/test_repack.py::"
        "test_an_object_that_is_used_while_it_is_packed_stays_loose_too",
    ),
    # What a kill leaves
    _of(
        "the next save clears up after a killed one",
        "ckpt/store/temporaries.py:             clear_dead(self._folder)\n => ",
        TEMPORARIES + "test_the_next_save_takes_away_what_a_killed_one_left",
    ),
    _of(
        "and never after a living one",
        "ckpt/store/temporaries.py:  and try_lock(fd, fcntl.LOCK_EX): => :",
        TEMPORARIES + "test_of_a_living_process_nothing_goes",
    ),
    _of(
        "a mark cannot name what is no pack",
        "ckpt/store/temporaries.py: for name in packs if _STEM.fullmatch(name)"
        " => for name in packs",
        TEMPORARIES + "test_a_mark_cannot_name_anything_but_a_pack",
    ),
    _of(
        "a pack that lost its index is not taken for unfinished",
        "ckpt/store/temporaries.py: if is_half and not _never_had_index(stem): => if False:",
        TEMPORARIES + "test_a_pack_that_had_an_index_stays_and_stays_kept_though_that_is_gone",
        FIXED + "test_neither_doctor_nor_a_save_takes_the_pack_of_a_checkpoint_for_unfinished",
    ),
    # The scan cache
    _of(
        "no damaged cache is believed",
        "ckpt/engine/scan_cache.py: return body if data[:start] == _header(body) else None"
        " => return body",
        KEPT_CACHE + "test_no_damaged_byte_gets_through",
    ),
    _of(
        "no cache of a copy is believed",
        "ckpt/engine/scan_cache.py: if found[0] != identity: => if False:",
        KEPT_CACHE + "test_a_copy_that_was_put_in_the_place_of_the_original_is_noticed",
    ),
    _of(
        "a time within the clock's tick proves nothing",
        "ckpt/engine/gather.py: return _EARLIEST < mtime < self.began - tick"
        " and ctime < self.began - tick => return True",
        CACHE + "test_an_edit_in_the_tick_in_which_a_file_was_saved_is_found",
    ),
    # Whose repository, and what is private
    _of(
        "safe.directory",
        "ckpt/store/repository.py: if all(os.lstat(path).st_uid in _trusted_uids(env)"
        " for path in paths): => if True:",
        "tests/with_git/test_bad_input.py::"
        "test_a_repository_of_another_user_is_refused_until_declared_safe",
    ),
    _of(
        "an empty safe.directory takes back what came before",
        "ckpt/store/ownership.py: bool(value) and ( => (",
        OWNERSHIP + "test_git_and_ckpt_agree_on_what_is_declared_safe",
    ),
    _of(
        "a relative safe.directory is not heard",
        "ckpt/store/ownership.py: if path is None or not os.path.isabs(path): => if path is None:",
        OWNERSHIP + "test_git_and_ckpt_agree_on_what_is_declared_safe",
    ),
    _of(
        "a .git file of another user's leads nowhere",
        'ckpt/store/repository.py: paths.append(os.path.join(top, ".git")) => pass',
        OWNERSHIP + "test_a_git_file_leads_to_nobody_elses_repository",
    ),
    _of(
        "only root can have been called by sudo",
        "ckpt/store/repository.py: if me == 0 and is_number => if is_number",
        OWNERSHIP + "test_only_root_can_have_been_called_by_sudo",
    ),
    _of(
        "safe.bareRepository",
        'ckpt/store/ownership.py: if wanted == "explicit" => if False',
        OWNERSHIP + "test_a_bare_repository_that_one_comes_upon_is_used_as_git_uses_it",
    ),
    _of(
        "doctor warns where a push sends checkpoints",
        "ckpt/engine/remotes.py: if not guilty: => if True:",
        "tests/with_git/test_unasked.py::"
        "test_a_push_that_sends_checkpoints_is_told_with_what_stops_it",
    ),
    _of(
        "doctor warns where a fetch takes checkpoints away",
        "ckpt/engine/remotes.py: if not remote.prunes and beyond is None: => if True:",
        "tests/with_git/test_unasked.py::"
        "test_a_fetch_that_takes_checkpoints_away_is_told_with_what_stops_it",
    ),
    _of(
        "doctor warns of a served git dir",
        "ckpt/engine/served.py: if root is None or not => if True or not",
        "tests/with_git/test_served.py::test_a_git_dir_that_a_web_server_may_hand_out_is_told",
    ),
    _of(
        "doctor warns of private files whose copies others can read",
        "ckpt/engine/served.py: if private: => if False:",
        "tests/with_git/test_served.py::test_a_private_file_whose_copy_every_user_can_read_is_told",
    ),
    _of(
        "no foreign checkpoint of a time to come is what latest() finds",
        "ckpt/api/reader.py: if catalog.is_timely(c) => if True",
        FOREIGN + "test_one_of_a_time_to_come_is_neither_the_latest_nor_followed",
    ),
    _of(
        "no foreign checkpoint of a time to come takes a name",
        "ckpt/engine/catalog.py: scope is scope and is_timely(checkpoint): => scope is scope:",
        FOREIGN + "test_one_of_a_time_to_come_takes_no_name_of_ours",
    ),
    _of(
        "no id follows that of a foreign checkpoint",
        "ckpt/engine/catalog.py: if not found.foreign: => if True:",
        FOREIGN + "test_one_of_a_time_to_come_is_neither_the_latest_nor_followed",
    ),
    _of(
        "no trigger relies on a foreign checkpoint",
        "ckpt/engine/snapshot.py: if found.foreign: => if False:",
        FOREIGN + "test_a_trigger_is_not_content_with_what_another_has_saved",
    ),
    _of(
        "lists tell which checkpoints are foreign",
        'ckpt/render.py: found = ["foreign"] if checkpoint.foreign else [] => found = []',
        FOREIGN + "test_list_and_show_tell_whose_a_checkpoint_is",
    ),
    _of(
        "no checkpoints of the home folder",
        'ckpt/store/repository.py: if worktree == "/" or => if worktree == "//" or False and',
        "tests/with_git/test_bad_input.py::test_the_home_folder_is_refused",
    ),
    _of(
        "secrets are left out",
        "ckpt/worktree/scan.py: if self._is_denied(path, False): => if False:",
        "tests/with_git/test_ignore_in_checkpoints.py::"
        "test_a_secret_is_left_out_listed_and_never_in_the_repository",
    ),
    _of(
        "private files are 0600",
        "ckpt/disk.py: def replacing(path: str, temporary: str, mode: int = 0o600)"
        " => def replacing(path: str, temporary: str, mode: int = 0o644)",
        "tests/test_disk.py::test_private_files_are_their_owners",
    ),
    _of(
        "a link in place of a private folder is not written to",
        "ckpt/disk.py: if not _is_folder(path):  # else another process was quicker => if False:",
        "tests/hostile/test_planted.py::test_a_private_folder_that_is_a_link_is_not_written_to",
    ),
    _of(
        "what a link leads to is not cleared away with it",
        "ckpt/disk.py: if not is_folder:  # a link is taken away, never what it leads to"
        " => if not os.path.isdir(path):",
        "tests/hostile/test_planted.py::"
        "test_an_operation_that_is_a_link_is_taken_away_and_not_what_it_leads_to",
    ),
    _of(
        "a link among the sessions is not one of them",
        "ckpt/engine/session_state.py: disk.private_names(folder)) => os.listdir(folder))",
        "tests/hostile/test_planted.py::"
        "test_a_session_that_is_a_link_is_never_cleared_away_with_what_it_leads_to",
    ),
    _of(
        "a pipe is not waited for, and a device not read to its end",
        "ckpt/regular.py: if not stat.S_ISREG(status.st_mode) and not _is_null_device(status):"
        " => if False:",
        "tests/hostile/test_special_files.py::"
        "test_a_nested_repository_with_one_is_noted_and_all_else_is_saved",
    ),
    # Errors and signals
    _of(
        "a bug is one line and a log",
        "ckpt/cli.py: except Exception as error:  # a bug"
        " => except AssertionError as error:  # a bug",
        "tests/test_cli.py::test_a_bug_is_one_line_and_a_log",
    ),
    _of(
        "SIGTERM ends a command in order",
        "ckpt/interrupts.py: for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):"
        " => for number in (signal.SIGINT,):",
        "tests/faults/test_interrupts.py::"
        "test_a_save_that_waits_for_a_filter_ends_in_order_of_what_was_sent",
    ),
    _of(
        "a second signal does not break into the clearing up",
        "ckpt/interrupts.py: if not _came: => if True:",
        "tests/faults/test_interrupts.py::"
        "test_a_second_signal_disturbs_the_clearing_up_only_where_that_hangs",
    ),
    # Refs
    _of(
        "a pin moves a ref only from where it was read",
        "ckpt/store/refs.py: return self._write(ref, new, lambda: self._object_id("
        "self._contents(ref)) == old) => return self._write(ref, new, lambda: True)",
        "tests/engine/test_catalog.py::test_a_checkpoint_that_changed_meanwhile_is_not_pinned",
    ),
    _of(
        "HEAD's branch moves only from where it stood",
        "ckpt/store/refs.py: lambda: self.read(branch) == old, _MOVE_PATIENCE)\n        if"
        " => lambda: True, _MOVE_PATIENCE)\n        if",
        MEANWHILE + "test_a_commit_made_while_head_is_moved_back_is_not_overwritten",
    ),
    _of(
        "a ref of a hostile name is not touched",
        'ckpt/store/refs.py: if not branch.startswith(b"refs/") or not is_ref_name(branch):'
        " => if False:",
        "tests/store/test_refs.py::test_a_branch_with_a_hostile_name_is_never_written",
    ),
    _of(
        "the lock of a living process stays",
        "ckpt/store/kernel_lock.py: except BlockingIOError:\n        return False"
        " => except BlockingIOError:\n        return True",
        "tests/store/test_lock.py::test_a_lock_of_a_living_process_is_never_cleared",
    ),
    _of(
        "of a packed ref whose file is broken only the file goes",
        "ckpt/engine/broken_refs.py: _holds_nothing(repo, packed) is None: => False:",
        FIXED + "test_where_only_the_file_of_a_packed_ref_is_broken_only_the_file_goes",
    ),
    _of(
        "no ref is moved aside while a pack has no index",
        "ckpt/engine/broken_refs.py: if unindexed is not None: => if False:",
        FIXED + "test_nothing_is_moved_aside_while_a_pack_has_no_index_that_can_be_read",
    ),
    # What stays, whatever the rules
    _of(
        "what is pinned stays",
        'ckpt/engine/retention.py: yield checkpoint, "pinned" => pass',
        "tests/engine/test_retention.py::test_no_rule_crosses_what_is_fixed",
    ),
    _of(
        "what an interrupted rollback needs stays",
        "ckpt/engine/trash.py: needed |= {record.target, record.safety} => pass",
        "tests/engine/test_trash.py::test_what_an_interrupted_rollback_needs_is_not_dropped",
    ),
    # Triggers
    _of(
        "a trigger does not import what lies in the worktree",
        'ckpt/install/hook_text.py: run = f"{start} -I -m ckpt hook {event}"'
        ' => run = f"{start} -m ckpt hook {event}"',
        "tests/with_git/test_install.py::test_code_of_the_repository_is_never_run",
    ),
    # Others at work
    _of(
        "what a rollback is about to need is not dropped",
        "ckpt/engine/rollback.py: self._check_held() => pass",
        "tests/faults/test_standing_still.py::"
        "test_a_rollback_whose_checkpoint_is_dropped_meanwhile_does_not_begin_or_keeps_it",
    ),
    _of(
        "a lock that cannot be taken away stays known for ours",
        "ckpt/store/lock.py: except _LockStays: => except ZeroDivisionError:",
        "tests/store/test_lock.py::test_a_lock_that_cannot_be_taken_away_is_later_known_for_ours",
    ),
    _of(
        "a rollback that waits goes before new saves",
        "ckpt/store/kernel_lock.py: acquire(fd, fcntl.LOCK_SH, until, tell=tell) => float(until)",
        "tests/store/test_kernel_lock.py::test_a_save_lets_a_rollback_go_first_that_waits",
    ),
    _of(
        "a rollback does not begin beside another's lock on a branch",
        "ckpt/engine/rollback.py: check_locks(self._repo, move) => pass",
        "tests/with_git/test_head.py::test_a_lock_of_gits_stops_a_rollback_before_anything_happens",
    ),
    _of(
        "without locks of the kernel's nothing counts as dead",
        "ckpt/store/lock.py: if not try_lock(fd, fcntl.LOCK_EX):"
        " => if try_lock(fd, fcntl.LOCK_EX) is False:",
        "tests/store/test_lock.py::"
        "test_without_locks_of_the_kernels_files_are_replaced_and_nothing_counts_as_dead",
    ),
    _of(
        "a file that changed just now is read twice",
        "ckpt/engine/contents.py: if is_fresh(before, began): => if False:",
        "tests/engine/test_contents.py::"
        "test_a_file_overwritten_in_the_tick_in_which_it_is_read_is_read_again",
    ),
    _of(
        "closing waits for other threads",
        "ckpt/api/opened.py: if self._mutex.acquire(timeout=0 if sys.is_finalizing() else _LONG):"
        " => if not self._repo.close():",
        "tests/test_at_work.py::test_closing_waits_for_what_another_thread_is_at",
    ),
    _of(
        "closing waits for what it is called from",
        "ckpt/api/opened.py: if self._is_closing and not self._mutex.is_entered_again:"
        " => if self._is_closing:",
        "tests/test_at_work.py::"
        "test_a_manager_that_was_to_be_closed_is_closed_when_the_deed_is_done",
    ),
    _of(
        "a fork leaves what its parent added",
        "ckpt/store/pending.py: if self._temporaries.are_foreign: => if False:",
        "tests/store/test_pending.py::test_a_fork_that_gives_up_leaves_what_its_parent_added",
    ),
    _of(
        "a process that is just being started is not lost",
        "ckpt/interrupts.py: if not _holds: => if True:",
        "tests/faults/test_interrupts.py::"
        "test_a_filter_that_is_just_being_started_does_not_outlive_us",
    ),
    _of(
        "a command that nobody waits for any more is ended",
        "ckpt/process/child.py: in (signal.SIGTERM, signal.SIGKILL): => in ():",
        "tests/with_git/test_run.py::test_if_waiting_fails_the_command_is_not_left_to_itself",
    ),
    _of(
        "Ctrl-C while ckpt is imported gives no traceback",
        "ckpt/__main__.py: is signal.default_int_handler => is None",
        "tests/faults/test_interrupts.py::"
        "test_ctrl_c_while_the_rest_of_ckpt_is_imported_gives_no_traceback",
    ),
    _of(
        "what a killed install left unfinished goes",
        "ckpt/install/unfinished.py: remove_dead(path + NEW) => pass",
        "tests/faults/test_kill_install.py::"
        "test_what_a_killed_install_has_not_finished_goes_with_the_next_or_with_uninstall",
    ),
    # Secrets
    _of(
        "a secret is one in upper case, too",
        "ckpt/worktree/denials.py: lowered = path.lower() => lowered = path",
        "tests/test_settings.py::test_secrets_and_dependencies_are_denied",
    ),
    _of(
        "an editor's copy of a secret is one",
        "ckpt/worktree/denials.py:  and path.endswith(_COPIES): =>  and False:",
        "tests/test_settings.py::test_secrets_and_dependencies_are_denied",
    ),
    # What was lost
    _of(
        "no ref to a history with a gap in it",
        "ckpt/engine/rescue.py: else fault_behind(repo, newest) => else None",
        RESCUE + "test_a_commit_whose_history_is_gone_comes_back_without_it",
        RESCUE + "test_a_stash_on_a_history_that_is_gone_comes_back_without_it",
    ),
    _of(
        "what is half gone is found out before anything is written",
        "ckpt/engine/rescue.py: fault_in(repo, (held.tree, held.index)) => None",
        RESCUE + "test_what_is_half_gone_stays_listed_and_does_not_become_a_checkpoint",
        RESCUE + "test_what_is_unsafe_stays_listed_and_does_not_become_a_checkpoint",
    ),
    _of(
        "no pipe is waited for where a patch had a file",
        "ckpt/engine/lost_patches.py: os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)"
        " => os.O_NOFOLLOW | os.O_CLOEXEC)",
        RESCUE + "test_a_pipe_where_a_patch_had_a_file_is_not_waited_for",
    ),
    _of(
        "a history counts with all that is in its commits",
        "ckpt/engine/lost_history.py: trees.gather(tree) => pass",
        RESCUE + "test_a_commit_of_whose_history_a_content_is_gone_comes_back_without_it",
    ),
)
