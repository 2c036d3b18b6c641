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
FOREIGN_INDEX = "tests/hostile/test_foreign_index.py::"
LIMITS = "tests/hostile/test_limits.py::"
SPECIAL = "tests/hostile/test_special_files.py::"
BESIDE_GC = "tests/with_git/test_gc_beside_cache.py::"
TEMPORARIES = "tests/store/test_temporaries.py::"
OWNERSHIP = "tests/with_git/test_ownership.py::"
CACHE = "tests/with_git/test_scan_cache.py::"
KEPT_CACHE = "tests/engine/test_scan_cache.py::"
WRITING = "tests/worktree/test_write.py::"
RULES = "tests/with_git/test_rollback_rules.py::"
RESCUE = "tests/with_git/test_rescue.py::"
BUNDLES = "tests/with_git/test_bundles.py::"
FIXED = "tests/with_git/test_doctor_fix.py::"
MEANWHILE = "tests/faults/test_edits_meanwhile.py::"
GONE = "tests/faults/test_checkpoints_gone.py::"
ANOTHER = "tests/hostile/test_another_by_now.py::"
TWO_WORKTREES = "tests/faults/test_two_worktrees.py::"
OPERATIONS = "tests/faults/test_operations_meanwhile.py::"
AGAIN = "tests/faults/test_interrupted_again.py::"
HEAD_MEANWHILE = "tests/faults/test_head_meanwhile.py::"
UNFINISHED = "tests/faults/test_unfinished_files.py::"
MOVED = "tests/faults/test_moved_away.py::"
MOVING = "tests/faults/test_moving_folders.py::"
COUNTED = "tests/faults/test_gc_has_counted.py::"
FIRST = "tests/with_git/test_first_save.py::"
PRUNING = "tests/store/test_pruning.py::"
STRUCK_TURNS = "tests/faults/test_struck_turns.py::"
INDEX_KINDS = "tests/with_git/test_index_kinds.py::"
PLAN = "tests/engine/test_plan.py::"
QUICK = "tests/with_git/test_quick_rollback.py::"
FAILING = "tests/faults/test_failing_disk.py::"
HOLLOW = "tests/with_git/test_uninitialised.py::"
HANDOVER = "tests/worktree/test_handover.py::"
LAST_MOMENT = "tests/faults/test_last_moment.py::"
LOST = "tests/with_git/test_gone.py::"
UNNAMED = "tests/engine/test_unnamed.py::"
HARD = "tests/with_git/test_hard_cases.py::"
USER_STORE = "tests/with_git/test_user_store.py::"
OF_OTHERS = (
    "tests/with_git/test_prune.py::"
    "test_nothing_goes_of_a_worktree_whose_journal_only_another_user_can_read"
)
NEXT_CLEARS = (
    "tests/with_git/test_gc.py::"
    "test_the_next_command_clears_private_files_of_dead_processes_and_of_no_others"
)

DEFENCES = (
    # The last moment before a file is replaced
    _of(
        "what was written after the last look gets its name back",
        "ckpt/worktree/handover.py: return status is not None and renamed_identity(status)"
        " == renamed_identity(found) => return status is not None",
        HANDOVER + "test_what_was_edited_after_the_last_look_stays",
    ),
    _of(
        "and is saved",
        "ckpt/worktree/handover.py: if not renames.exchange(temporary, name, dir_fd): => if True:",
        LAST_MOMENT + "test_it_is_saved_before_it_goes",
    ),
    _of(
        "a file that appears after the last look is not replaced",
        "ckpt/worktree/handover.py: "
        "        renames.to_free(temporary, name, dir_fd)\n        return True => "
        "        disk.rename(temporary, name, dir_fd=dir_fd)\n        return True",
        HANDOVER + "test_a_file_that_appears_where_there_was_none_is_not_replaced",
    ),
    _of(
        "who has a file open to write to it is waited for",
        "ckpt/worktree/handover.py: and has_writers(temporary, dir_fd): => and False:",
        LAST_MOMENT + "test_what_is_written_through_an_open_file_is_saved_too",
    ),
    _of(
        "but not for ever",
        "ckpt/worktree/writers.py: if self._left <= 0: => if False:",
        "tests/worktree/test_writers.py::test_patience_comes_to_an_end",
    ),
    _of(
        "an interrupt takes no edit away that has lost its name",
        "ckpt/worktree/handover.py: if status is not None and renamed_identity(status)"
        " in identities: => if status is not None:",
        HANDOVER + "test_an_interrupt_amid_a_late_edit_leaves_the_edit",
    ),
    _of(
        "a replaced file that cannot be removed is left to recovery",
        "ckpt/worktree/handover.py: raise OSError(errno.EIO, error.strerror, temporary) from error"
        " => raise",
        HANDOVER + "test_if_it_never_goes_that_is_no_error_of_a_path_that_could_be_left",
    ),
    _of(
        "after a kill such an edit gets its name back",
        "ckpt/engine/begun.py: "
        "if not meant or _is_known(repo, worktree, smudger, path, meant): => if True:",
        LAST_MOMENT + "test_it_is_saved_also_after_a_kill_in_the_next_moment",
    ),
    _of(
        "but not where a folder has it by then",
        "ckpt/engine/begun.py: if there is None or there not in => if there not in",
        LAST_MOMENT + "test_so_they_do_if_it_is_a_folder_by_then",
    ),
    # Hostile objects
    _of(
        "long names within each other are not held as paths by a gc",
        "ckpt/engine/repacking.py: hash((place.path, name)) => (place.path, b'/' + name * 50)",
        LIMITS + "test_a_gc_of_long_names_within_each_other_does_not_hold_all_the_paths",
    ),
    _of(
        "macros of attributes that name each other are followed without calls within calls",
        "ckpt/worktree/attributes.py: todo += self._macros.get(name, ())"
        " => self._fill(found, self._macros.get(name, ()))",
        "tests/worktree/test_attributes.py"
        "::test_macros_of_macros_are_followed_however_many_there_are",
    ),
    _of(
        "values of JSON are counted in one pass, whatever its quotes are",
        "ckpt/jsontext.py: 1 + _signs_outside_strings(data)"
        r' => 1 + _signs(__import__("re").sub(rb"\"(?:[^\"\\]|\\.)*\"", b"", data))',
        "tests/test_jsontext.py::test_quotes_without_an_end_are_not_looked_for_again_and_again",
        "tests/test_jsontext.py::test_to_count_values_takes_little_memory",
    ),
    _of(
        "a commit may have any time",
        'ckpt/engine/space.py: -time_in(header) => -int(header.rpartition(b"> ")[2].split()[0])',
        "tests/with_git/test_space.py::test_a_commit_of_a_time_that_no_calendar_has_is_measured",
    ),
    _of(
        "a note of the guard's that has no number in it says nothing",
        "ckpt/triggers/guard_notes.py:  and len(until) <= _LONGEST_NUMBER => ",
        "tests/triggers/test_guard.py::test_damaged_notes_say_nothing",
    ),
    _of(
        "a swap file of a dotfile has no other dot",
        "ckpt/worktree/denials.py: yield found[2]\n        yield found[1] => yield found[2]",
        "tests/test_settings.py::test_secrets_and_dependencies_are_denied",
    ),
    _of(
        "a copy of a copy has the secret, too",
        "ckpt/worktree/denials.py: _MOST_TIMES = 8 => _MOST_TIMES = 1",
        "tests/test_settings.py::test_secrets_and_dependencies_are_denied",
    ),
    _of(
        "the ending of a copy is one in any case",
        "ckpt/worktree/denials.py: path[-_LONGEST_ENDING:].lower() => path[-_LONGEST_ENDING:]",
        "tests/test_settings.py::test_secrets_and_dependencies_are_denied",
    ),
    _of(
        "a copy of a folder that a tool can fill again is somebody's",
        "ckpt/worktree/denials.py: if is_dir and decision: => if False:",
        "tests/test_settings.py::test_what_people_write_is_not_denied",
    ),
    _of(
        "a filter that answers without end does not fill the memory",
        "ckpt/worktree/filter_process.py: if len(lines) == _MOST_LINES: => if False:",
        "tests/worktree/test_filters.py::test_a_process_that_answers_without_end_fails",
    ),
    _of(
        "a filter that does not end is waited for no longer than there is time",
        "ckpt/worktree/filters.py: process.close(self._grace()) => process.close(5.0)",
        "tests/worktree/test_filters.py"
        "::test_a_process_that_does_not_end_is_waited_for_within_the_deadline",
    ),
    _of(
        "doctor runs no line of a hook that only looks like ours",
        "ckpt/install/hook_text.py:  if all(is_word_for_word(line, event) for line in ours) else b"
        '""'
        " => ",
        "tests/with_git/test_doctor.py"
        "::test_what_only_looks_like_ours_is_not_run_and_its_file_is_named",
    ),
    _of(
        "nor a guard that somebody has changed",
        "ckpt/install/guard.py: if is_ours else => if True else",
        "tests/with_git/test_doctor.py::test_neither_is_a_guard_that_was_changed",
        "tests/install/test_guard.py::test_a_guard_is_ours_only_word_for_word",
    ),
    _of(
        "nor a command in git's configuration",
        "ckpt/install/config_hooks.py: return found if is_ours else [] => return found",
        "tests/install/test_hook_text.py::test_a_configured_hook_is_ours_only_word_for_word",
    ),
    _of(
        "what is ours starts a program by its whole path",
        "ckpt/install/hook_text.py: os.path.isabs(python) and line => line",
        "tests/install/test_hook_text.py::test_words_that_only_look_like_ours_are_not_ours",
    ),
    _of(
        "the path of a submodule is no option in what people are told to type",
        "ckpt/engine/family.py: --init -- { => --init {",
        "tests/with_git/test_submodules.py::test_the_path_of_a_submodule_is_no_option_in_the_hint",
    ),
    _of(
        "what a gc packs while it is about to be flushed does not stop a save",
        "ckpt/disk.py: if path not in others: => if True:",
        "tests/store/test_objects.py::test_what_a_gc_has_packed_meanwhile_need_not_be_flushed",
    ),
    _of(
        "what only a pack has and nothing names is written again",
        "ckpt/store/objects.py: while self._reuse.packed: => while False:",
        COUNTED + "test_what_only_garbage_held_is_in_the_checkpoint",
    ),
    _of(
        "trees that a power cut has emptied are not taken over from git's index",
        "ckpt/store/objects.py: return {i for i in asked if i in packed or self._is_sound(i)}"
        " => return asked",
        FIRST + "test_what_a_power_cut_left_of_what_git_wrote_is_written_anew",
    ),
    _of(
        "nor are they taken over for what is staged",
        "ckpt/engine/index_state.py: whole = staging.whole_trees(objects, index)"
        " if present.source is None else None => whole = None",
        FIRST + "test_what_a_power_cut_left_of_what_git_wrote_is_written_anew",
    ),
    _of(
        "a loose object that ends as a power cut leaves it is read to its end",
        "ckpt/store/loose.py: if size % _BLOCK == 0 or not any("
        "os.pread(file.fileno(), 4, size - 4)): => if False:",
        FIRST + "test_what_a_power_cut_left_of_what_git_wrote_is_written_anew",
    ),
    _of(
        "the blob of a converted file is not relied on because there is a file of its name",
        "ckpt/engine/cleaning.py: objects.size(blob_id) != len(blob) => not objects.has(blob_id)",
        FIRST + "test_an_emptied_blob_of_a_converted_file_is_written_anew",
    ),
    _of(
        "what only an operation in progress names is written again",
        "ckpt/engine/snapshot.py: rely_on_unnamed(objects, present.operation.files.contents, tree)"
        " => pass",
        COUNTED + "test_what_only_an_operation_names_is_in_the_checkpoint",
    ),
    _of(
        "nor does a file of it that names nothing stop a save, or lead outside",
        "ckpt/engine/unnamed.py: if named is None:  # as a power cut may leave it\n"
        "            continue => "
        "if named is None:\n            named = ObjectID(files[path].strip())",
        "tests/hostile/test_planted.py::"
        "test_an_operation_that_names_a_path_outside_does_not_reach_it",
        "tests/with_git/test_operations.py::"
        "test_a_file_that_a_power_cut_has_left_without_an_id_stops_no_save",
    ),
    _of(
        "a tree that it names is looked into once",
        "ckpt/engine/unnamed.py: if both not in seen: => if True:",
        UNNAMED + "test_a_tree_that_is_repeated_without_an_end_is_looked_into_once",
    ),
    _of(
        "and not compared without an end",
        'ckpt/engine/unnamed.py: unfolding.add(b"", now, entries) => pass',
        UNNAMED + "test_nor_is_it_compared_with_all_others_without_an_end",
    ),
    _of(
        "what the index named until just now is written again",
        "ckpt/engine/wholeness.py: and _keeps(repo, commit)) => )",
        COUNTED + "test_what_is_unstaged_before_the_ref_is_made_is_in_the_checkpoint",
    ),
    _of(
        "no checkpoint relies on objects that the environment lends for a moment",
        "ckpt/store/repository.py: check_none_lent(own, self._alternates) => pass",
        "tests/store/test_repository.py::"
        "test_nothing_relies_on_objects_that_only_the_environment_lends",
    ),
    _of(
        "nor do those of triggers, which are made all the same",
        'ckpt/triggers/fire.py: _STORES = ("GIT_OBJECT_DIRECTORY",'
        ' "GIT_ALTERNATE_OBJECT_DIRECTORIES") => _STORES = ("GIT_OBJECT_DIRECTORY",)',
        "tests/with_git/test_guard_traps.py::"
        "test_nothing_relies_on_a_store_that_a_tool_lends_for_the_moment",
    ),
    _of(
        "a folder that becomes a repository keeps its store",
        "ckpt/engine/user_store.py: if known is not None and is_within( => if False and is_within(",
        USER_STORE + "test_a_folder_that_becomes_a_repository_keeps_the_store_that_it_has",
    ),
    _of(
        "a clock that was behind takes no store away",
        "ckpt/engine/user_store.py: if today < _last_used(place) // _A_DAY: => if False:",
        USER_STORE + "test_a_clock_that_is_wrong_for_a_while_is_no_reason_to_forget",
    ),
    _of(
        "nor one that was ahead",
        "ckpt/engine/user_store.py: if seen and today < seen[-1]: => if False:",
        USER_STORE + "test_a_clock_that_is_wrong_for_a_while_is_no_reason_to_forget",
    ),
    _of(
        "nor one that leaps",
        "ckpt/engine/user_store.py: len(seen) >= _LEAST_DAYS and => True and",
        USER_STORE + "test_it_has_to_be_missed_on_several_days",
    ),
    _of(
        "nothing is pruned of a worktree whose journal cannot be read",
        "ckpt/engine/prune.py: **_of_others(repo, checkpoints), => ",
        OF_OTHERS,
    ),
    _of(
        "nor dropped",
        "ckpt/engine/trash.py: if checkpoint.worktree in hidden_worktrees(repo): => if False:",
        OF_OTHERS,
    ),
    _of(
        "what a rollback needs that began in a repository around is not dropped",
        "ckpt/engine/journals.py: needed |= dict.fromkeys(_named(record), worktree) => pass",
        "tests/with_git/test_submodules.py::"
        "test_what_an_interrupted_rollback_around_a_submodule_needs_is_not_dropped",
    ),
    _of(
        "a repository whose work tree lies below its folder is not around itself for ever",
        "ckpt/engine/journals.py: if around.worktree not in todo: => if True:",
        "tests/with_git/test_prune.py::"
        "test_a_worktree_below_the_folder_of_its_git_dir_is_looked_at_once",
    ),
    _of(
        "a checkpoint whose ref was taken away is given it again by who knows it",
        "ckpt/engine/trash.py: if known is None or not _is_held_again(repo, known): => if True:",
        "tests/with_git/test_run.py::"
        "test_a_command_that_takes_the_refs_of_checkpoints_away_is_rolled_back",
    ),
    _of(
        "what a killed install has locked for git is freed by doctor",
        "ckpt/install/parts.py: return [*dead_locks(folder), => return [",
        "tests/faults/test_kill_install.py::"
        "test_a_configuration_that_a_killed_install_left_locked_is_free_after_doctor",
    ),
    _of(
        "what a killed rollback has not finished of rerere's notes is known as ours",
        "ckpt/store/rerere.py: _write_in(private_dir, path, contents) =>"
        " _write_in(os.path.dirname(path), path, contents)",
        UNFINISHED + "test_what_rerere_noted_is_put_back_whole_or_goes_with_the_recovery",
    ),
    _of(
        "what a killed export has not finished goes with the next",
        "ckpt/api/bundles.py: clear_unfinished(folder, _UNFINISHED) => pass",
        BUNDLES + "test_what_a_killed_export_left_goes_with_the_next_and_what_a_living_one_writes"
        "_stays",
    ),
    _of(
        "doctor looks at what was left also where nothing can be written",
        "ckpt/store/lock.py: if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS): =>"
        " if error.errno not in (errno.EACCES, errno.EPERM):",
        "tests/store/test_lock.py::"
        "test_what_killed_processes_left_is_seen_on_a_file_system_that_is_read_only",
    ),
    _of(
        "a private file that was never finished goes with the next command that changes a ref",
        "ckpt/store/refs.py: clear_unfinished(folder) => pass",
        NEXT_CLEARS,
    ),
    _of(
        "a private file that was never finished goes with the next gc",
        "ckpt/engine/left_over.py: for path in _dead_private(repo) if is_gone(path)] =>"
        " for path in ()]",
        NEXT_CLEARS,
    ),
    _of(
        "a private file that a living process has not finished stays",
        "ckpt/store/lock.py: with _dead(path) as inode:\n"
        "            if inode is not None:\n                yield path =>"
        " yield path",
        NEXT_CLEARS,
    ),
    _of(
        "what was pruned before a rollback began is made anew",
        "ckpt/engine/rollback.py: is_lost or attempt == LAST_ATTEMPT =>"
        " isinstance(error, MissingObject) or attempt == LAST_ATTEMPT",
        BESIDE_GC + "test_the_checkpoint_that_was_relied_on_goes_before_a_rollback_begins",
    ),
    _of(
        "what a rollback has missed is not known any more to its next attempt",
        "ckpt/engine/rollback.py: scan_cache.forget(self._repo) => pass",
        BESIDE_GC
        + "test_what_a_broken_disk_took_before_a_rollback_is_written_again_from_the_files",
    ),
    _of(
        "what an index named that is another by now does not fail a save",
        "ckpt/engine/losses.py: return not is_known => return self._leaves_out",
        BESIDE_GC + "test_the_index_that_a_later_save_went_by_lets_go",
    ),
    _of(
        "what git packs before the ref is made is written again",
        "ckpt/store/objects.py: self._reuse.packed |= gone => pass",
        COUNTED + "test_what_git_packs_before_the_ref_is_made_outlives_that_pack",
    ),
    _of(
        "a fork that lives on does not hold the locks of a dead process",
        "ckpt/store/kernel_lock.py: os.register_at_fork(after_in_child=_leave_to_parent) => pass",
        "tests/store/test_kernel_lock.py::"
        "test_the_lock_of_a_dead_process_is_free_though_a_fork_of_it_lives",
        "tests/store/test_kernel_lock.py::"
        "test_and_so_is_its_lock_of_git_s_and_what_it_had_begun_to_write",
    ),
    _of(
        "a foreign checkpoint does not move the branch to which HEAD goes",
        "ckpt/engine/head.py: return (*move.others, BranchMove(branch, before, after))"
        " => return move.others",
        FOREIGN + "test_neither_is_the_branch_to_which_head_goes",
    ),
    _of(
        "nor does it make a branch that git would not make",
        'ckpt/store/ref_names.py: or short == b"HEAD" or short.startswith(b"-") => ',
        FOREIGN + "test_head_goes_to_no_branch_that_git_would_not_make",
    ),
    _of(
        "all parts of an agent's state count together",
        "ckpt/store/agent_state.py: if self._values < 0: => if False:",
        LIMITS + "test_the_parts_of_an_agent_s_state_have_a_size_together",
    ),
    _of(
        "no text of JSON unfolds into values without end",
        "ckpt/jsontext.py: if number > _MOST_VALUES: => if False:",
        "tests/test_jsontext.py::test_a_text_that_unfolds_into_too_many_values_is_none",
    ),
    _of(
        "an interrupt just after a file was made leaves nothing of it",
        "ckpt/store/temporaries.py: if self._mark and not self.are_foreign:"
        " => if self._fd >= 0 and not self.are_foreign:",
        TEMPORARIES + "test_an_interrupt_just_after_a_file_was_made_leaves_nothing_of_it",
    ),
    _of(
        "a commit made after the first look is seen before anything is done",
        "ckpt/engine/prepare.py: if self._repo.refs.head() != present.head: => if False:",
        "tests/faults/test_head_meanwhile.py::"
        "test_a_commit_made_after_the_first_look_is_seen_before_anything_is_done",
    ),
    _of(
        "a loose object is read before it is relied on",
        "ckpt/store/reuse.py: return self.is_wary or self._is_sound(object_id) => return True",
        "tests/store/test_objects.py::test_a_file_without_its_bytes_is_no_object",
    ),
    _of(
        "what turns out to be damaged in its pack is written from the file",
        "ckpt/store/objects.py: self._reuse.damaged.add(object_id) => pass",
        "tests/store/test_objects.py::"
        "test_one_that_is_damaged_in_its_pack_is_written_by_the_next_attempt",
    ),
    _of(
        "a gc that prunes at once is known by its configuration too",
        "ckpt/store/pruning.py: if not asked and any(_EXPIRE in word.lower() for word in told):"
        " => if False:",
        PRUNING + "test_what_may_go_within_a_day_goes_at_once",
    ),
    _of(
        "a gc that is called by its own name is one",
        'ckpt/store/pruning.py: "gc" in words or os.path.basename(words[0]) == "git-gc"'
        ' => "gc" in words',
        PRUNING + "test_it_may_be_called_by_its_own_name",
    ),
    _of(
        "and by any time that is shorter than days",
        "ckpt/store/pruning.py: _IN_DAYS.fullmatch(expire) is None => expire in ('now', 'all')",
        PRUNING + "test_what_may_go_within_a_day_goes_at_once",
    ),
    _of(
        "nothing is rescued that a gc at work may take",
        "ckpt/engine/rescue.py: if is_collecting(repo.common_dir): => if False:",
        RESCUE + "test_nothing_is_brought_back_that_a_gc_at_work_may_take",
    ),
    _of(
        "no white space in a foreign operation is divided in every way",
        "ckpt/engine/foreign_operation.py: return lambda data: fullmatch(data.strip())"
        " => return re.compile(rb'\\s*' + expression + rb'\\s*').fullmatch",
        LIMITS + "test_the_files_of_an_operation_are_not_divided_in_every_way",
    ),
    _of(
        "a journal that other users could have written is not gone by",
        "ckpt/engine/journal.py: if doubt is not None: => if False:",
        FIXED + "test_a_journal_that_others_could_have_written_stays_until_a_person_closes_it",
        FIXED + "test_nor_does_undo_go_by_what_others_could_have_written",
    ),
    _of(
        "nor is one put aside that may be right",
        "ckpt/engine/repair.py: except (journal.NewerJournal, journal.Doubtful) as error:"
        " => except journal.NewerJournal as error:",
        FIXED + "test_a_journal_that_others_could_have_written_stays_until_a_person_closes_it",
    ),
    _of(
        "compressed paths of an index do not unfold without an end",
        "ckpt/store/index.py: if room < 0:\n                raise Corrupt"
        " => if False:\n                raise Corrupt",
        "tests/store/test_index.py::test_compressed_paths_that_unfold_without_an_end_are_corrupt",
    ),
    _of(
        "nor do the folders of its cache tree",
        "ckpt/store/index.py: if room < 0:\n            raise Value => if False:\n"
        "            raise Value",
        "tests/store/test_index.py::test_a_cache_tree_that_unfolds_without_an_end_counts_as_none",
    ),
    _of(
        "no star in the condition of an include is tried in every way",
        'ckpt/wildmatch.py: middle = [_once(b"[^/]*?" + segment, groups) for'
        ' => middle = [b"[^/]*?" + segment for',
        LIMITS + "test_the_conditions_of_a_repository_inside_are_not_compared_in_every_way",
    ),
    _of(
        "the conditions of includes are compared only as long as that ends soon",
        "ckpt/store/config_sources.py: if self.steps > MOST_STEPS: => if False:",
        LIMITS + "test_nor_are_conditions_and_remotes_without_number",
    ),
    _of(
        "what is staged outside the named paths stays staged",
        "ckpt/engine/restage.py: stay = [e for e in present.entries if not"
        " is_within(e.path, limits)]\n    return => stay = [e for e in present.entries if not"
        " is_within(e.path, (*limits, *(p for path in limits for p in folders_above(path))))]\n"
        "    return",
        RULES + "test_what_is_staged_outside_the_named_paths_stays_staged",
    ),
    _of(
        "what is saved for a session is not left to the rules for another",
        "ckpt/engine/snapshot.py: found.kind is self.kind and found.session == self.session =>"
        " True",
        "tests/with_git/test_ids_and_names.py"
        "::test_nor_does_one_that_a_session_would_not_find_or_that_follows_other_rules",
    ),
    _of(
        "what others made does not push out our own by its size",
        "ckpt/engine/retention.py: - over.keys():\n        left.drop(checkpoint_id) =>"
        " - over.keys():\n        pass",
        "tests/engine/test_retention.py::test_nor_does_it_where_all_of_it_stays",
    ),
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
        "no entry of zeros, of which git could not write an index",
        "ckpt/engine/tree_check.py: if is_null(child): => if False:",
        HOSTILE,
    ),
    _of(
        "nor one in an index that is trusted",
        "ckpt/store/index_check.py: if is_null(entry.id): => if False:",
        LIMITS + "test_no_entry_of_an_index_is_of_zeros_not_even_a_submodule",
    ),
    _of(
        "no name that HFS+ takes for .git",
        "ckpt/worktree/git_names.py: .translate(_IGNORED_BY_HFS) => ",
        HOSTILE,
    ),
    _of(
        "no name that NTFS takes for .git",
        "ckpt/engine/tree_check.py:  or any(map(_OF_NTFS.fullmatch, parts)) => ",
        HOSTILE,
    ),
    _of(
        "no checkpoint has a link in the place of .gitmodules",
        'ckpt/worktree/scan.py: return not is_gitmodules(path.rpartition(b"/")[2]) => return True',
        "tests/worktree/test_scan.py::test_a_link_where_git_accepts_none_is_special",
        "tests/with_git/test_hard_cases.py::"
        "test_a_gitmodules_that_is_a_link_is_listed_and_git_finds_no_fault",
    ),
    _of(
        "no link in the place of .gitmodules",
        "ckpt/engine/tree_check.py: if mode not in (REGULAR, EXECUTABLE) and is_gitmodules(name):"
        " => if False:",
        HOSTILE,
        LIMITS + "test_what_git_takes_for_gitmodules_is_a_file",
    ),
    _of(
        "nor one that shall be added",
        'ckpt/engine/foreign.py: check_entry(entry.path.rpartition(b"/")[2], entry.mode) => pass',
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
        "nor one whose deltas do",
        "ckpt/store/bundle.py: if made > max(_SOME, => if made > max(1 << 40,",
        "tests/store/test_bundle.py::test_a_delta_makes_no_thousand_times_of_its_base",
    ),
    _of(
        "large ones that are alike take no memory",
        "ckpt/store/bundle.py: return None if is_large else => return",
        "tests/store/test_bundle.py::test_large_ones_that_are_alike_are_made_in_pieces",
    ),
    _of(
        "a large one is what its delta says",
        "ckpt/store/bundle.py: if file.tell() != delta.made: => if False:",
        "tests/store/test_bundle.py::test_a_large_one_is_what_its_delta_says",
    ),
    _of(
        "a folder of very many files is read from a bundle",
        'ckpt/store/bundle.py: if kind != b"blob" or size <= LARGE: => if size <= LARGE:',
        "tests/store/test_bundle.py::test_a_folder_of_very_many_files_is_read",
    ),
    _of(
        "what may not be read is not called damaged or missing",
        "ckpt/store/soundness.py: error = self._denial(object_id) or error => pass",
        "tests/with_git/test_verify.py::test_what_may_not_be_read_is_not_called_damaged_or_missing",
    ),
    _of(
        "an object is what its id says",
        "ckpt/store/objects.py: elif self.hash(kind, data) == object_id: => elif True:",
        "tests/store/test_objects.py::test_a_damaged_object_is_never_taken_for_its_content",
    ),
    _of(
        "of two trees in a commit all readers take the one that git takes",
        'ckpt/store/record.py: if not line.startswith(b"parent "):\n            break'
        ' => if not line.startswith(b"parent "):\n            continue',
        "tests/store/test_record.py::test_of_two_trees_the_one_is_read_that_git_reads",
        BUNDLES + "test_one_with_two_trees_is_refused",
        HOSTILE,
    ),
    _of(
        "no command is printed in which another's text stands for an id",
        "ckpt/store/record.py: len(each) != length or each.strip(_HEX) => len(each) != length",
        "tests/store/test_record.py::test_a_commit_that_names_what_is_no_id_is_damaged",
        FOREIGN + "test_no_command_to_type_has_anothers_command_in_place_of_an_id",
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
        "no number in a list is so long that it hides the rest",
        "ckpt/store/record.py: if len(text) > _LONGEST_STATS => if False",
        "tests/store/test_record.py::test_damaged_trailers_are_an_error_that_names_the_checkpoint",
        HOSTILE,
    ),
    _of(
        "no name is longer than one of ours",
        "ckpt/store/record.py: if len(subject) > ids.MAX_NAME: => if False:",
        "tests/store/test_record.py::test_a_name_is_as_long_as_one_can_be",
        HOSTILE,
    ),
    _of(
        "nor is any other cell of a list",
        "ckpt/render.py: min(max(map(columns, column)), _WIDEST) => max(map(columns, column))",
        "tests/test_render.py::test_no_cell_is_so_wide_that_others_are_out_of_sight",
    ),
    _of(
        "nor what is shown of one checkpoint",
        'ckpt/render.py: return text if len(text) <= most else text[:most] + "…" => return text',
        "tests/test_render.py::test_details_tell_no_more_than_ckpt_would_have_stored",
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
    _of(
        "what cannot be stored is found out before the first of a file is",
        "ckpt/api/state_file.py: moment, checked(request) => moment, request",
        "tests/test_whole.py::test_a_file_that_holds_no_checkpoint_is_refused_whole",
    ),
    _of(
        "whosever session it would be",
        "ckpt/api/transfer.py: checked(SaveRequest(session=session)) => pass",
        "tests/test_whole.py::test_nothing_is_imported_for_a_session_that_cannot_be_stored",
    ),
    _of(
        "no bundle brings a history with a gap in it",
        "ckpt/engine/foreign.py: if fault is not None: => if False:",
        BUNDLES + "test_one_on_a_commit_that_is_not_whole_is_refused",
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
        "ckpt/private.py: if not is_own or not stat.S_ISREG(status.st_mode): => if False:",
        FOREIGN + "test_a_record_that_others_could_write_is_not_believed",
    ),
    _of(
        "nor is it closed, and believed from then on",
        "ckpt/private.py: if is_open(path) and not is_writable(path): => if is_open(path):",
        FOREIGN
        + "test_no_command_closes_a_record_that_others_could_write_so_that_it_would_be_believed",
    ),
    _of(
        "nor does doctor close it",
        "ckpt/engine/private_files.py: if private.is_writable(path)] => if False]",
        FIXED + "test_private_files_that_others_could_write_are_told_and_left_to_a_person",
    ),
    _of(
        "a record that others could only read makes nothing foreign",
        "ckpt/private.py: OPEN, WRITABLE = 0o077, 0o022 => OPEN, WRITABLE = 0o077, 0o077",
        FOREIGN
        + "test_a_record_that_others_could_only_read_is_believed_and_closed_by_the_next_save",
    ),
    _of(
        "a ledger that cannot be read is not written over",
        "ckpt/engine/session_state.py: private.append(self._path(_WRITES), _END + record + _END)"
        " => private.overwrite(self._path(_WRITES), record + _END, len(self._read_log()), 0)",
        "tests/engine/test_session_state.py::"
        "test_a_ledger_that_is_not_believed_is_not_written_over",
    ),
    _of(
        "a hook that is killed has not claimed its turn",
        "ckpt/triggers/agents/act.py: turn = state.turn\n        if state.is_claimed and not"
        " event.destroys: => turn = state.turn\n        if not state.claim() and not"
        " event.destroys:",
        STRUCK_TURNS + "test_an_agents_hook_that_is_killed_leaves_the_turn_to_the_next",
    ),
    _of(
        "an ensure that is killed has not claimed its turn",
        "ckpt/api/turns.py: if turns.is_claimed: => if isinstance(turns, SessionState) and not"
        " turns.claim():",
        STRUCK_TURNS + "test_an_ensure_that_is_killed_leaves_the_turn_to_the_next",
    ),
    _of(
        "a turn that begins amid a save is not taken for saved",
        "ckpt/engine/session_state.py: turn in (None, now) => True",
        "tests/test_turns.py::test_a_turn_that_begins_amid_a_save_gets_its_own",
    ),
    _of(
        "nor is one that only this process knows",
        "ckpt/api/turns.py: |= turn == self.turn => = True",
        "tests/test_turns.py::test_a_turn_that_begins_amid_a_save_gets_its_own",
    ),
    _of(
        "doctor closes no lock that will be a file of git's",
        "ckpt/engine/private_files.py: if not name.startswith(_OF_GIT): => if True:",
        FIXED + "test_a_lock_that_will_be_a_file_of_gits_keeps_its_bits",
    ),
    _of(
        "what is hidden here is not tracked because others track it",
        "ckpt/engine/prepare.py: if unstaged: => if False:",
        FOREIGN_INDEX + "test_what_is_hidden_here_is_not_tracked_because_others_track_it",
    ),
    _of(
        "nor what may come to be there",
        "ckpt/engine/unstaged.py: return self._by_pattern(path) => return None",
        FOREIGN_INDEX + "test_nor_is_it_tracked_before_it_is_there",
    ),
    _of(
        "nor if something is staged while the rollback runs",
        "ckpt/engine/rollback.py: wanted = without(self._target.index, prepared.unstaged)"
        " => wanted = self._target.index",
        FOREIGN_INDEX + "test_what_is_staged_while_a_rollback_runs_lets_nothing_in",
    ),
    _of(
        "nor if the rollback was interrupted",
        "ckpt/engine/strangers.py: wanted = without(wanted, self._record.unstaged) => pass",
        FOREIGN_INDEX + "test_nor_does_a_rollback_that_was_interrupted",
    ),
    _of(
        "commands of another's operation need consent",
        "ckpt/engine/foreign.py: if commands: => if False:",
        FOREIGN + "test_commands_of_a_rebase_are_shown_and_refused_without_trust",
    ),
    _of(
        "another's operation moves no branch unasked",
        "ckpt/engine/foreign.py: if branches: => if False:",
        FOREIGN + "test_branches_that_head_is_not_on_are_moved_only_with_trust",
    ),
    _of(
        "nor does git when it ends",
        "ckpt/engine/foreign_operation.py: or _UPDATE_REF.fullmatch(line)) => )",
        FOREIGN + "test_what_git_would_go_by_needs_trust",
    ),
    _of(
        "nor does it move those that it has noted",
        "ckpt/engine/foreign_operation.py: elif path == UPDATE_REFS: => elif False:",
        FOREIGN + "test_what_git_would_go_by_needs_trust",
    ),
    _of(
        "branches that move besides HEAD's are told",
        "ckpt/engine/head.py: () if move is None else _branch_reports(move) => ()",
        FOREIGN + "test_branches_that_head_is_not_on_are_moved_only_with_trust",
        "tests/with_git/test_operations.py::test_branches_that_go_back_with_an_operation_are_told",
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
        "ckpt/engine/recovery_states.py: check_objects(goal.objects, goal.operation) => pass",
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
        "ckpt/engine/recorded.py: granted = 0o777 & ~_umask() => granted = 0o777",
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
        "nor into one of another repository that no scan has seen",
        "ckpt/engine/plan.py: is_skipped or worktree.is_repository(folder) => is_skipped",
        FOREIGN + "test_nothing_gets_into_another_git_dir_in_the_worktree",
        RULES + "test_an_ignored_folder_that_has_become_a_repository_is_left_as_it_is",
    ),
    _of(
        "nor is such a git dir removed",
        'ckpt/engine/plan.py: IN_GIT_DIR.issubset(names) and path + b"/HEAD" not in held => False',
        RULES + "test_a_git_dir_in_the_way_is_left_and_listed_although_it_is_ignored",
    ),
    _of(
        "nor is anything in one tracked for the next rollback",
        "ckpt/engine/prepare.py: if self._options.trust:\n            return found | => "
        "if self._options.trust:\n            return found and",
        FOREIGN + "test_nothing_gets_into_another_git_dir_in_the_worktree",
    ),
    _of(
        "no path that leads out is touched",
        'ckpt/worktree/write.py: if name in (b"", b".", b"..") or name.lower() == b".git"'
        " => if False",
        WRITING + "test_a_hostile_path_changes_nothing",
    ),
    _of(
        "what changed at the last moment is left",
        "ckpt/worktree/handover.py: return identity(now) == identity(found) => return True",
        HANDOVER + "test_what_was_edited_before_the_last_look_stays_where_names_cannot_be_swapped",
    ),
    _of(
        "no file goes because it is called like a half-written one",
        "ckpt/worktree/unfinished.py: return found is not None and found[1] == rollback"
        " => return found is not None",
        WRITING + "test_half_written_files_of_a_killed_rollback_are_known_by_its_name",
        "tests/worktree/test_scan.py::test_those_of_no_rollback_or_of_another_are_files_like_any",
    ),
    _of(
        "nor if somebody tracks and edits it since",
        "ckpt/engine/begun.py: is_ours = state is not None and state.entry.id == tracked[path]"
        " => is_ours = True",
        UNFINISHED + "test_a_file_that_the_rollback_began_stays_if_it_was_tracked_and_edited_since",
    ),
    _of(
        "nor does a folder stop the recovery",
        "ckpt/worktree/write.py: if self._is_no_folder(path)] => ]",
        UNFINISHED + "test_a_folder_in_the_place_of_a_file_that_the_rollback_began_stays",
    ),
    _of(
        "and without its journal it is saved",
        "ckpt/worktree/scan.py: self.found.unsure.add(_parent(path))\n        return not child"
        " => return not child",
        UNFINISHED + "test_once_the_journal_is_put_aside_what_is_left_is_saved_like_any_file",
    ),
    _of(
        "a path that the file system cannot have does not stop a rollback for ever",
        "ckpt/engine/apply.py: (*_FORBIDDEN, *_IMPOSSIBLE, => (*_FORBIDDEN,",
        FAILING + "test_a_path_that_the_file_system_cannot_have_is_left_and_the_others_come_back",
    ),
    _of(
        "an index behind a link is locked and replaced where it is, as git does",
        "ckpt/store/repository.py: os.path.realpath(index) if os.path.islink(index) and"
        " os.path.isfile(index) else index => index",
        INDEX_KINDS + "test_an_index_behind_a_link_is_replaced_where_it_is",
        INDEX_KINDS + "test_a_lock_of_git_s_on_an_index_behind_a_link_is_respected",
    ),
    _of(
        "the tree of a folder is not read again for each of its files that a rollback changes",
        "ckpt/engine/holding.py: lookup(repo.objects, tree, action.path, read)"
        " => lookup(repo.objects, tree, action.path)",
        QUICK + "test_the_tree_of_a_folder_is_not_read_again_for_each_of_its_files",
    ),
    _of(
        "nor in a recovery",
        "ckpt/engine/recorded.py: lookup(self.objects, self.tree, path, self._trees)"
        " => lookup(self.objects, self.tree, path)",
        QUICK + "test_nor_when_a_rollback_is_finished_or_taken_back",
    ),
    _of(
        "many files in the way are not each compared with all that go",
        "ckpt/engine/plan.py: removed.by_folded.get(path.lower(), ())"
        " => [name for name in removed if name.lower() == path.lower()]",
        PLAN + "test_many_files_in_the_way_are_not_each_compared_with_all_that_go",
    ),
    _of(
        "what was edited since is saved before it is replaced",
        "ckpt/engine/apply.py: if status is None or found is None or found == action.before:"
        " => if True:",
        MEANWHILE
        + "test_a_file_edited_just_before_its_turn_is_saved_and_undo_brings_the_edit_back",
    ),
    _of(
        "what becomes something else while it is saved does not stop a rollback",
        "ckpt/engine/apply.py: except UnreadableFile:  # it is not what it was a moment ago"
        " => except ZeroDivisionError:",
        MEANWHILE + "test_a_file_that_becomes_something_else_while_it_is_saved_is_looked_at_again",
        MEANWHILE + "test_a_path_that_never_stops_becoming_something_else_is_left_to_its_writer",
    ),
    _of(
        "what is staged when the index is about to be written is saved",
        "ckpt/engine/restage.py: for _ in range(_ATTEMPTS - 1): => for _ in ():",
        MEANWHILE + "test_what_is_staged_when_the_index_is_about_to_be_written_is_saved_too",
    ),
    _of(
        "after a crash, what was edited since is saved first",
        "ckpt/engine/strangers.py: return found is not None and found not in known => return False",
        MEANWHILE + "test_undo_after_continue_brings_back_what_there_was_before_it",
    ),
    _of(
        "after a crash, what was staged since is saved first, whyever the index is written",
        "ckpt/engine/strangers.py: return not any(staging.same(now, => "
        "return self._record.index and not any(staging.same(now,",
        MEANWHILE + "test_what_was_staged_after_the_crash_is_saved_also"
        "_where_the_rollback_changes_only_stat_data",
    ),
    _of(
        "after a crash, undo brings back whatever the recovery replaced",
        "ckpt/engine/strangers.py: changing = tuple({*paths, *filter(self._is_file, self._paths)})"
        " => changing = tuple(paths)",
        MEANWHILE + "test_undo_after_continue_brings_back_an_ignored_file_that_nobody_had_edited",
    ),
    _of(
        "after a crash, undo brings back what was edited since in a submodule",
        "ckpt/engine/strangers.py: or self._has_strange_nested() => or False",
        MEANWHILE + "test_undo_after_continue_brings_back_an_edit_in_a_submodule",
    ),
    _of(
        "the folder of a submodule that is not initialised stays, or comes back",
        "ckpt/engine/plan.py: plan.hollow.add(path) => pass",
        HOLLOW + "test_its_folder_stays_when_the_files_in_it_go",
        HOLLOW + "test_its_folder_is_made_where_it_is_missing",
    ),
    _of(
        "the folder of a submodule stays when a rollback is taken back after a crash",
        "ckpt/engine/recovery.py: , *filter(self.goal.has_submodule, made)} => }",
        HOLLOW + "test_its_folder_stays_when_a_rollback_is_taken_back_that_stopped_half_way",
    ),
    _of(
        "files in the folder of a submodule that is no repository are saved",
        "ckpt/worktree/scan.py: self.below(path, ignore)  # now: what is in it decides on the"
        " gitlink => pass",
        HOLLOW + "test_files_in_it_are_saved_and_put_back",
        HOLLOW + "test_the_wrapper_saves_them_before_git_wipes_the_folder",
        HOLLOW + "test_a_trigger_saves_anew_with_every_change_to_files_in_it",
    ),
    _of(
        "no tree holds a submodule and files in its folder",
        'ckpt/engine/reading.py: any(file.startswith(path + b"/") for file in self.entries)'
        " => False",
        HOLLOW + "test_files_in_it_are_saved_and_put_back",
    ),
    _of(
        "what was a submodule's file at the checkpoint does not go",
        "ckpt/engine/recorded.py: if place in self.repositories:  # a submodule's too => if False:",
        HOLLOW + "test_files_that_were_a_repository_at_the_checkpoint_are_kept",
    ),
    _of(
        "the folder of a submodule that is not initialised is no empty folder",
        "ckpt/worktree/scan.py: if not children and folder in self.rules.gitlinks: => if False:",
        "tests/worktree/test_scan.py::test_a_submodule_that_is_not_checked_out_is_no_empty_folder",
    ),
    _of(
        "after a crash, what was edited in the folder of a submodule is saved, ignored or not",
        "ckpt/worktree/named.py: return is_nested_repository(self._place(folder)) => return True",
        HOLLOW + "test_an_edit_in_it_after_a_crash_is_saved_before_it_is_overwritten",
    ),
    _of(
        "after a crash, nothing is overwritten that could not be saved, for whatever reason",
        "ckpt/engine/strangers.py: return path not in present.entries and self._is_file(path)"
        " => return False",
        HOLLOW + "test_an_edit_stays_that_cannot_be_saved_since_its_folder_is_a_repository",
    ),
    _of(
        "after a crash, nothing is overwritten that was saved with another content",
        "ckpt/engine/strangers.py: if any(self._saved(path) != found[path][0] for path in changed):"
        " => if False:",
        "tests/with_git/test_proof.py::test_after_a_crash_they_stay_if_they_cannot_be_saved",
    ),
    _of(
        "after two crashes, undo brings back what was edited after the first",
        "ckpt/engine/strangers.py: self._note(self.checkpoint) => pass",
        MEANWHILE + "test_undo_brings_back_all_edits_also_if_continue_was_killed_amid_them",
    ),
    _of(
        "after two crashes, undo brings back what was edited after each",
        "ckpt/engine/strangers.py: self._carry(base, present) => pass",
        AGAIN + "test_what_is_edited_twice_comes_back_as_it_was_last",
        AGAIN + "test_abort_names_one_checkpoint_that_holds_all_edits",
    ),
    _of(
        "undo brings back what was edited at each moment of one recovery",
        "ckpt/engine/strangers.py: self._earlier = Recorded(self._repo, self.checkpoint) => pass",
        AGAIN + "test_undo_brings_back_edits_that_one_recovery_saved_one_after_the_other",
    ),
    _of(
        "what is edited first while a recovery runs does not keep undo from bringing back the rest",
        "ckpt/engine/strangers.py: return self._safety if is_changed else => return",
        AGAIN + "test_undo_returns_to_the_beginning_and_the_edit_if_that_came"
        "_when_all_else_was_replaced",
    ),
    _of(
        "after two crashes, undo stages what was staged after the first",
        "ckpt/engine/strangers.py: carry_index(base, present, record.paths) => pass",
        AGAIN + "test_converted_files_come_back_to_the_byte",
    ),
    _of(
        "after two crashes, undo takes HEAD to where somebody had gone after the first",
        "ckpt/engine/strangers.py: carry_head(base, present) => pass",
        AGAIN + "test_head_returns_to_the_branch_that_someone_had_gone_to",
    ),
    _of(
        "after two crashes, undo puts branches back that the first recovery had moved",
        "ckpt/engine/recovery.py: since = move if self.strangers.is_of_the_start else => since = "
        "move if True else",
        AGAIN + "test_head_returns_to_the_branch_that_someone_had_gone_to",
    ),
    _of(
        "after two crashes, no operation comes back to an index of another state",
        "ckpt/engine/strangers.py: or not (has_our_index or => or not (True or",
        AGAIN + "test_no_merge_comes_back_to_what_was_staged_since_but_its_commits_are_held",
    ),
    _of(
        "after two crashes, an operation comes back that somebody had begun after the first",
        "ckpt/engine/strangers.py: record.asked_head and present.operation != base.operation"
        " => False",
        AGAIN + "test_a_merge_that_was_begun_comes_back_with_its_head_and_index",
    ),
    _of(
        "after two crashes, the commits are held at which HEAD was after the first",
        "ckpt/engine/strangers.py: keep |= {base.head.commit, *base.kept} => pass",
        AGAIN + "test_a_commit_at_which_head_was_is_held_though_it_moved_once_more",
    ),
    _of(
        "after two crashes, a later edit is not pushed out by an earlier one",
        "ckpt/engine/carrying.py: if then is None or fits(path) => if True",
        AGAIN + "test_what_cannot_be_there_together_with_a_later_edit"
        "_stays_in_the_earlier_checkpoint",
    ),
    _of(
        "after two crashes, folders come back as they were after the first",
        "ckpt/engine/carrying.py: _carry_folders(earlier, present, record, changed) => pass",
        AGAIN + "test_folders_come_back_with_their_bits_and_empty_ones_too",
    ),
    _of(
        "after two crashes, a sparse checkout comes back as one",
        "ckpt/engine/strangers.py: leave_out_sparse(present) => pass",
        AGAIN + "test_what_a_sparse_checkout_left_out_is_left_out_again",
    ),
    _of(
        "an empty folder where files were left out is no damage",
        "ckpt/engine/truth.py: return all(file in recorded.absent for file in files) "
        "=> return False",
        "tests/with_git/test_sparse.py::test_an_empty_folder_where_files_were_left_out_is_no_lie",
    ),
    _of(
        "nor is a file where a folder was left out",
        "ckpt/engine/truth.py: in manifest.skipped or self._is_below_file(recorded.tree, path) "
        "=> in manifest.skipped",
        "tests/with_git/test_sparse.py::test_a_file_where_a_folder_was_left_out_is_no_lie",
    ),
    _of(
        "after two crashes, damage to what was saved after the first stops nobody",
        "ckpt/engine/carrying.py: if then != now and (then is None or _is_held(earlier.objects, "
        "then)): => if then != now:",
        AGAIN + "test_what_the_earlier_checkpoint_has_lost_stops_nobody",
    ),
    _of(
        "after two crashes, nothing is staged that is gone",
        "ckpt/engine/strangers.py: if not holds_git(base, present): => if False:",
        AGAIN + "test_what_the_earlier_checkpoint_has_lost_stops_nobody",
    ),
    _of(
        "what a submodule has saved again is known where the journal is that outlives its own",
        "ckpt/engine/rollback.py: self._around._renew_journal_of(self) => pass",
        MEANWHILE
        + "test_an_edit_in_a_submodule_while_all_go_back_survives_a_kill_in_the_one_around",
    ),
    _of(
        "after a crash, folders that were closed again are opened first",
        "ckpt/engine/recovery.py: applier.open_folders() => pass",
        "tests/faults/test_folder_bits.py::"
        "test_a_folder_that_was_closed_again_after_the_kill_is_opened_first",
    ),
    _of(
        "HEAD moves from where it was read and from nowhere else",
        "ckpt/store/refs.py: lambda: self.head() == old, => lambda: True,",
        HEAD_MEANWHILE + "test_a_head_that_moves_while_the_rollback_runs_is_not_overwritten",
        "tests/store/test_refs.py::test_a_head_that_moved_meanwhile_is_left",
    ),
    _of(
        "where HEAD has to stay, no branch moves",
        "ckpt/engine/head.py: if repo.refs.head() not in (move.before, wanted): => if False:",
        HEAD_MEANWHILE + "test_no_branch_moves_where_head_has_to_stay",
    ),
    _of(
        "where HEAD need not move, a branch that cannot keeps no files from going back",
        "ckpt/engine/head.py: if branch != target.head.branch or not stands: => if True:",
        "tests/with_git/test_run.py::"
        "test_a_branch_that_is_checked_out_twice_keeps_no_files_from_going_back",
    ),
    _of(
        "a branch that stays where it is may be a link",
        "ckpt/engine/head.py: None if is_there else repo.refs => repo.refs",
        HARD + "test_an_undo_brings_head_back_to_a_symbolic_branch",
    ),
    _of(
        "but a branch that moves meanwhile is looked at again",
        "ckpt/engine/head.py: if wanted.branch is not None and not stands: => if False:",
        HARD + "test_a_branch_that_moves_after_the_first_look_is_looked_at_again",
    ),
    _of(
        "HEAD does not move along with the branch that its own is a link to",
        "ckpt/engine/head.py: if behind != branch and behind in moved: => if False:",
        HARD + "test_the_branch_behind_a_symbolic_one_that_head_is_on_is_not_moved_from_there",
    ),
    _of(
        "after a crash, HEAD and its branch move from what was looked at and saved",
        "ckpt/engine/recovery.py: self.strangers.save_head()"
        " => self.strangers.save_head(); move = self._move()",
        HEAD_MEANWHILE + "test_a_head_that_moves_while_the_recovery_runs_is_saved_first",
        HEAD_MEANWHILE + "test_a_commit_made_as_the_recovery_saves_is_not_taken_off_its_branch",
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
        "after a crash, no merge begun since is concluded with files of another state",
        "ckpt/engine/recovery.py: if not record.operation and not record.paths: => if False:",
        OPERATIONS + "test_a_merge_begun_after_the_crash_has_to_end_first",
        OPERATIONS + "test_a_merge_begun_after_the_crash_is_saved_and_goes_where_head_goes_back",
    ),
    _of(
        "after a crash, files of a merge that has ended do not come back without a word",
        "ckpt/engine/recovery.py: ended = None if may_differ else => ended = None and",
        OPERATIONS + "test_a_merge_ended_after_the_crash_is_missed",
    ),
    _of(
        "after a crash, no operation goes on from a commit made since where HEAD was to stay",
        "ckpt/engine/recovery.py: return operation.strayed(self.repo, self.goal) if "
        "self.record.operation else None => return None",
        OPERATIONS + "test_no_merge_is_put_back_onto_a_commit_made_after_the_crash",
    ),
    _of(
        "after a crash, what only a removed target held is saved first",
        "ckpt/engine/strangers.py: return held if self._target is None else [*held, after]"
        " => return [*held, after]",
        GONE + "test_without_the_target_the_way_back_is_open",
    ),
    _of(
        "after a crash, what only a removed safety checkpoint held is saved first",
        "ckpt/engine/strangers.py: or self._safety is self._earlier is None => or False",
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
        "what was tracked in a repository inside comes back",
        "ckpt/engine/plan.py: undone | _shared(target) => undone",
        RULES + "test_so_it_does_if_it_was_removed_from_the_index_as_well",
    ),
    _of(
        "but not in one that was made since",
        "ckpt/engine/plan.py: for path in paths if not nested.isdisjoint(folders_above(path)))"
        " => for path in paths)",
        RULES + "test_a_repository_made_since_has_all_that_it_holds_to_itself",
    ),
    _of(
        "and what a rollback wrote there, an undo takes back",
        "ckpt/engine/plan.py: undone | _shared(target) => _shared(target)",
        RULES + "test_what_a_rollback_wrote_in_a_nested_repository_is_undone",
    ),
    _of(
        "every object is read before the first file changes",
        "ckpt/engine/needed.py: smudger.check(action.path, action.after) => pass",
        RULES + "test_a_missing_object_stops_a_rollback_before_anything_happens",
    ),
    _of(
        "and so is what the index shall name",
        "ckpt/engine/needed.py: if objects.has(blob):  # else it is => if False:  # else it is",
        RULES + "test_so_does_a_damaged_one_that_only_the_index_names",
    ),
    _of(
        "no checkpoint has its objects in a store for the moment",
        "ckpt/store/repository.py: if place and os.path.realpath(place) => "
        "if not place and os.path.realpath(own)",
        "tests/store/test_repository.py::test_no_ref_is_made_to_objects_in_another_store",
    ),
    _of(
        "where objects are replaced, the index is no proof of what a file holds",
        'ckpt/engine/looking.py: return bool(self._repo.refs.contents_below("refs/replace/")) => '
        "return False",
        FIRST + "test_a_file_is_read_where_objects_are_replaced_by_others",
    ),
    _of(
        "wherever that is noted",
        'ckpt/engine/looking.py: if self._repo.env.get("GIT_REPLACE_REF_BASE"): => if False:',
        FIRST + "test_a_file_is_read_where_objects_are_replaced_by_others",
    ),
    _of(
        "an export replaces no device and no pipe",
        "ckpt/api/transfer.py: if os.path.lexists(path) and not => if False and not",
        "tests/test_whole.py::test_what_is_no_file_is_not_replaced_by_one",
    ),
    _of(
        "no option of a foreign sequence runs a program",
        'ckpt/engine/foreign_operation.py: b"|".join(_HARMLESS) => b"[a-z-]{1,40}"',
        FOREIGN + "test_what_git_would_go_by_needs_trust",
    ),
    _of(
        "a rollback does not begin beside another's index.lock",
        "ckpt/engine/refusals.py: check_free(files, repo.private_dir, patience=_PATIENCE) => pass",
        RULES + "test_a_held_index_lock_stops_a_rollback_before_anything_happens",
    ),
    _of(
        "after a crash, no way leads to another's checkpoint under the id of ours",
        "ckpt/store/made_here.py: return known in (None, commit) or => return True or",
        FOREIGN + "test_a_rollback_does_not_end_at_another_checkpoint_than_its_own",
    ),
    _of(
        "nor does an undo lead there",
        "ckpt/engine/last_rollback.py: if not same and not trust: => if False:",
        ANOTHER + "test_undo_does_not_go_to_another_checkpoint_than_its_own",
        ANOTHER + "test_objects_are_not_put_back_from_another_checkpoint",
    ),
    _of(
        "another's checkpoint under the id of ours removes nothing unasked",
        "ckpt/engine/last_rollback.py: if not is_own or not same: => if False:",
        ANOTHER + "test_another_checkpoint_has_no_consent_to_remove_most_files",
        ANOTHER + "test_another_checkpoint_does_not_tell_what_the_rollback_had_brought",
    ),
    _of(
        "an undo needs no record of what was made here",
        "ckpt/engine/recorded.py: if commit == known or => if",
        ANOTHER + "test_undo_goes_back_though_nobody_remembers_what_was_made_here",
    ),
    _of(
        "nor does it after a crash and edits since",
        "ckpt/engine/recovery.py: safety_commit=saved.commit => safety_commit=record.safety_commit",
        ANOTHER + "test_so_it_does_after_a_rollback_that_was_interrupted",
    ),
    _of(
        "a repository inside goes to no other checkpoint than the one that was saved with it",
        "ckpt/engine/nested.py: checkpoint_commit=checkpoint.commit => checkpoint_commit=None",
        ANOTHER + "test_a_repository_inside_does_not_go_to_another_checkpoint_than_its_own",
        ANOTHER + "test_nor_does_undo_take_it_there",
    ),
    _of(
        "no command that people are told to type comes from another's manifest",
        "ckpt/store/details.py: if text is not None and (len(text) => if False and (len(text)",
        "tests/engine/test_manifest.py::test_a_commit_that_people_may_be_told_to_type_is_an_id",
    ),
    _of(
        "after a crash, commands that came meanwhile are not taken up",
        "ckpt/engine/recovery_states.py: if goal.is_foreign and not trust: => if False:",
        FOREIGN + "test_a_rollback_is_not_taken_back_to_commands_that_came_meanwhile",
    ),
    _of(
        "a rollback is finished and taken back in the worktree in which it was begun",
        "ckpt/engine/recovery.py: check_place(repo, record.worktree, => (lambda *_: None)(",
        TWO_WORKTREES
        + "test_a_rollback_that_was_interrupted_in_one_worktree_is_not_ended_in_another",
    ),
    _of(
        "after a crash, a worktree that was moved can still be recovered",
        "ckpt/engine/worktree_place.py: (then.device, then.inode) == (now.device, now.inode)"
        " => False",
        TWO_WORKTREES + "test_a_worktree_that_was_moved_after_the_crash_is_the_same",
    ),
    _of(
        "undo takes back no rollback of another worktree",
        "ckpt/engine/undo.py: check_place(repo, last.worktree, UNDO) => pass",
        TWO_WORKTREES + "test_undo_takes_back_no_rollback_of_another_worktree",
    ),
    _of(
        "half a journal is noticed",
        "ckpt/engine/journal.py: if checksum != _checksum(body): => if False:",
        "tests/engine/test_journal.py::test_every_damaged_byte_is_noticed",
    ),
    _of(
        "and so is one with something else in the place of a name",
        'ckpt/engine/journal.py: family=jsontext.text_or_none(document["family"]),'
        ' => family=document["family"],',
        "tests/engine/test_journal.py::test_a_journal_of_another_shape_is_refused",
    ),
    _of(
        "what is git's own is never a worktree",
        "ckpt/store/repository.py: check_apart(worktree, git_dir, common_dir) => pass",
        "tests/store/test_repository.py::test_nothing_of_a_git_dir_is_a_worktree",
    ),
    _of(
        "files of others are not closed to whom they come to",
        "ckpt/engine/recorded.py: Bounds(granted, granted & 0o700) => Bounds(granted)",
        FOREIGN + "test_nor_so_narrow_that_their_owner_could_not_go_back",
    ),
    _of(
        "branches that exclude each other stop a rollback before it begins",
        "ckpt/engine/head.py: if below: => if False:",
        FOREIGN
        + "test_branches_of_an_operation_that_exclude_each_other_are_noticed_before_it_begins",
    ),
    _of(
        "no number that is none gets into a document",
        "ckpt/jsontext.py: if not -_INFINITE < number < _INFINITE: => if False:",
        FOREIGN + "test_numbers_that_are_no_json_do_not_get_into_documents",
    ),
    # The object store, and git's garbage collection
    _of(
        "contents are on the disk before they have names",
        "ckpt/store/pending.py: disk.fsync_files([*self._files.values()], others) => pass",
        "tests/store/test_objects.py::test_every_content_is_on_the_disk_before_any_gets_its_name",
    ),
    _of(
        "names are on the disk before a ref is made",
        "ckpt/store/pending.py: disk.fsync_dirs([self._path, *folders], sorted(beside)) => pass",
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
        "ckpt/engine/publishing.py: if not _stays(repo) or not is_whole(commit, relied_on):"
        " => if False:",
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
        "what of a dead process could not be taken away is known the next time",
        "ckpt/store/temporaries.py: if not _are_left(files): => if True:",
        TEMPORARIES + "test_what_could_not_be_taken_away_once_goes_the_next_time",
    ),
    _of(
        "what a process could not take away itself is known to the next",
        "ckpt/store/temporaries.py: if not _are_left([*self._unfinished(), *kept]): => if True:",
        TEMPORARIES + "test_nor_is_what_a_process_could_not_take_away_forgotten_at_its_end",
    ),
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
    # What moves meanwhile
    _of(
        "a save looks again if something vanished before it was read, however new",
        "ckpt/engine/capture.py: attempt > 0 or not (look.missed or look.vanished) => True",
        MOVING + "test_a_folder_that_is_written_to_and_moved_is_saved_whole",
    ),
    _of(
        "what was moved into a folder that was listed is missed",
        "ckpt/engine/moves.py: if changed: => if False:",
        MOVING + "test_a_folder_that_is_moved_once_is_saved_whole",
    ),
    _of(
        "what did not stop moving makes a checkpoint partial",
        "ckpt/engine/capture.py: present.leave_out(missed) => pass",
        MOVING + "test_a_save_of_a_folder_that_never_stops_moving_ends_and_tells",
    ),
    _of(
        "what nobody listed anew is looked at once more as well",
        "ckpt/engine/moves.py: for folder, then in known.folders_as_compared(): "
        "=> for folder, then in ():",
        MOVING + "test_what_goes_into_a_folder_that_was_known_is_saved",
    ),
    _of(
        "a folder from which something vanished is listed again next time",
        "ckpt/worktree/found.py: self.unsure.add(folder) => pass",
        MOVING + "test_what_is_away_whenever_it_is_read_is_found_by_the_next_save",
    ),
    # The scan cache
    _of(
        "no damaged cache is believed",
        "ckpt/engine/scan_cache.py: and head.endswith(_checksum(body)) and => and",
        KEPT_CACHE + "test_no_damaged_byte_gets_through",
    ),
    _of(
        "no cache of a copy is believed",
        "ckpt/engine/scan_cache.py: if not head.startswith(_MAGIC + _identity(repo)): => if False:",
        KEPT_CACHE + "test_a_copy_that_was_put_in_the_place_of_the_original_is_noticed",
        KEPT_CACHE + "test_nothing_that_came_with_an_archive_is_parsed",
    ),
    _of(
        "no configuration includes without an end",
        "ckpt/store/config_sources.py: if self.files > _MOST_FILES or => if",
        LIMITS + "test_a_repository_inside_cannot_include_without_end",
        LIMITS + "test_nor_does_it_have_settings_without_number",
    ),
    _of(
        "nor has settings without number",
        "ckpt/store/config_sources.py: or self.lines > _MOST_LINES or => or",
        LIMITS + "test_nor_does_it_have_settings_without_number",
    ),
    _of(
        "no list of borrowed folders is without an end",
        'ckpt/store/alternates.py: "info", "alternates"), _LARGEST) => "info", "alternates"))',
        LIMITS + "test_a_repository_inside_does_not_borrow_without_end",
    ),
    _of(
        "nor all of them together",
        "ckpt/store/alternates.py: and len(todo) < _MOST => ",
        LIMITS + "test_nor_do_those_that_it_borrows_from",
    ),
    _of(
        "repositories are looked into that lie within each other, but not without an end",
        "ckpt/engine/dirty.py: if allowance.level == MOST_LEVELS: => if False:",
        LIMITS + "test_repositories_within_each_other_are_not_looked_into_without_end",
    ),
    _of(
        "and so they are saved",
        "ckpt/engine/recurse.py: if level > MOST_LEVELS: => if False:",
        LIMITS + "test_nor_are_they_saved",
    ),
    _of(
        "the folders of a sparse index have an end together",
        'ckpt/store/staging.py: entry.path.rstrip(b"/"), unfolding) => entry.path.rstrip(b"/"))',
        LIMITS + "test_the_folders_of_a_sparse_index_have_an_end_together",
    ),
    _of(
        "no index of too many files is read in a repository inside",
        "ckpt/engine/dirty.py: read_staged(repo, most=allowance.files) => read_staged(repo)",
        LIMITS + "test_an_index_of_too_many_files_is_not_read_to_tell_whether_anything_is_changed",
    ),
    _of(
        "nor one with folders within each other without an end",
        'ckpt/engine/dirty.py: if sum(len(e.path) * e.path.count(b"/") => if sum(0 * len(e.path)',
        LIMITS + "test_nor_one_with_folders_within_each_other_without_end",
    ),
    _of(
        "no settings file keeps a hook waiting",
        "ckpt/configure.py: name.encode()), _LARGEST) => name.encode()))",
        SPECIAL + "test_a_settings_file_that_would_take_long_to_read_is_not_gone_by",
    ),
    _of(
        "no private file without an end is read",
        "ckpt/private.py: if status.st_size > most: => if False:",
        SPECIAL + "test_a_private_file_that_is_larger_than_all_memory_is_not_read",
    ),
    _of(
        "nor the journal of a repository inside",
        "ckpt/engine/dirty.py: if journal_size(repo.private_dir) > _LARGEST_JOURNAL: => if False:",
        SPECIAL + "test_nor_is_the_journal_of_a_repository_inside",
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
        "nor does such a link",
        "ckpt/store/repository.py: if top is not None:\n        # Where all => "
        'if top is not None and os.path.isfile(os.path.join(top, ".git")):\n        # Where all',
        OWNERSHIP + "test_nor_does_a_link",
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
        'ckpt/store/worktree_check.py: if worktree == "/" or => if worktree == "//" or False and',
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
        "tests/test_private.py::test_private_files_are_their_owners",
    ),
    _of(
        "a link in place of a private folder is not written to",
        "ckpt/private.py: if not _is_folder(path):  # else another process was quicker"
        " => if False:",
        "tests/hostile/test_planted.py::test_a_private_folder_that_is_a_link_is_not_written_to",
    ),
    _of(
        "what a link leads to is not cleared away with it",
        "ckpt/private.py: if not is_folder:  # a link is taken away, never what it leads to"
        " => if not os.path.isdir(path):",
        "tests/hostile/test_planted.py::"
        "test_an_operation_that_is_a_link_is_taken_away_and_not_what_it_leads_to",
    ),
    _of(
        "a link among the sessions is not one of them",
        "ckpt/engine/session_state.py: private.names_in(folder)) => os.listdir(folder))",
        "tests/hostile/test_planted.py::"
        "test_a_session_that_is_a_link_is_never_cleared_away_with_what_it_leads_to",
    ),
    _of(
        "what is no file is not flushed as an object that git has just written",
        "ckpt/store/unflushed.py: stat.S_ISREG(status.st_mode) and => True and",
        "tests/hostile/test_special_files.py::"
        "test_in_place_of_an_object_that_is_staged_it_is_not_waited_for_and_written_anew",
    ),
    _of(
        "a save does without threads",
        "ckpt/disk.py: except RuntimeError:  # there can be no more of them => except SystemError:",
        "tests/test_disk.py::"
        "test_where_no_thread_can_be_started_all_files_are_flushed_all_the_same",
    ),
    _of(
        "a pipe is not waited for, and a device not read to its end",
        "ckpt/regular.py: if not stat.S_ISREG(status.st_mode) and not _is_null_device(status):"
        " => if False:",
        "tests/hostile/test_special_files.py::"
        "test_a_nested_repository_with_one_is_noted_and_all_else_is_saved",
    ),
    _of(
        "stat data in the index prove nothing after conversions have changed",
        'ckpt/engine/looking.py: return self._converted_by in (b"", conversions) => return True',
        "tests/with_git/test_conversions.py::"
        "test_a_file_that_is_converted_no_more_is_saved_as_it_is_on_disk",
    ),
    _of(
        "nor do those by which a rollback has git believe again what is not so",
        "ckpt/store/index_file.py: fields = fields._replace(dev=MISLEADING) => pass",
        "tests/with_git/test_conversions.py::"
        "test_a_file_that_is_converted_no_more_is_saved_as_it_is_on_disk",
    ),
    _of(
        "no filter of an unpacked repository is run",
        "ckpt/engine/nested.py: return repo.without_filters() => return repo",
        "tests/hostile/test_planted.py::test_no_filter_of_a_repository_is_run_that_is_no_submodule",
    ),
    _of(
        "nothing is saved into a repository to which one inside only leads",
        "ckpt/engine/nested.py: if not _is_owned(repo): => if False:",
        "tests/hostile/test_planted.py::"
        "test_a_repository_inside_that_leads_to_another_gets_no_checkpoint",
    ),
    _of(
        "nor from which it only has objects and refs",
        "ckpt/engine/nested.py: if os.path.dirname(repo.git_dir) != "
        'os.path.join(repo.common_dir, "worktrees"): => if False:',
        "tests/hostile/test_planted.py::test_nor_does_one_that_has_the_objects_and_refs_of_another",
    ),
    _of(
        "nor anywhere else by links in the git dir of one inside",
        "ckpt/engine/nested.py: if link is None: => if True:",
        "tests/hostile/test_planted.py::"
        "test_a_repository_inside_with_links_that_lead_out_of_its_git_dir_gets_no_checkpoint",
    ),
    _of(
        "nor of what such a one calls its submodule",
        "ckpt/engine/nested.py: if around.runs_filters and => if",
        "tests/hostile/test_planted.py::test_no_filter_of_a_repository_is_run_that_is_no_submodule",
    ),
    _of(
        "no more is read of a text than memory holds",
        "ckpt/worktree/reach.py: text = file.read(most + 1) => text = file.read()",
        LIMITS + "test_a_file_of_rules_without_end_takes_no_memory",
        "tests/hostile/test_special_files.py::"
        "test_a_text_that_is_larger_than_all_memory_is_not_read",
    ),
    _of(
        "nor of a content that others have made",
        "ckpt/store/objects.py: if most is not None and => if False and",
        "tests/hostile/test_special_files.py::"
        "test_a_content_that_is_larger_than_all_memory_is_not_read",
    ),
    _of(
        "nor is more made by a delta",
        "ckpt/store/pack_entries.py: if left > most: => if False:",
        "tests/store/test_packs.py::test_deltas_that_make_more_than_memory_holds_are_an_error",
    ),
    _of(
        "or by a chain of them",
        "ckpt/store/packs.py: left -= len(data) => left -= 0",
        "tests/store/test_packs.py::test_deltas_that_make_more_than_memory_holds_are_an_error",
    ),
    # Errors and signals
    _of(
        "a bug is one line and a log",
        "ckpt/cli.py: except Exception as error:  # a bug"
        " => except AssertionError as error:  # a bug",
        "tests/test_cli.py::test_a_bug_is_one_line_and_a_log",
    ),
    _of(
        "and one line where there is no memory for the log",
        "ckpt/cli.py: except Exception:  # as with too little => "
        "except AssertionError:  # as with too little",
        "tests/test_cli.py::test_a_bug_is_one_line_also_without_memory_to_log_it",
    ),
    _of(
        "a module that a full disk has cut off does not stay in the way",
        "ckpt/__main__.py: get_over_torn()\n    from => from",
        "tests/test_bytecode.py::test_a_module_that_was_cut_off_is_compiled_anew",
    ),
    _of(
        "nor is such a one left there",
        "ckpt/bytecode.py: if not is_whole: => if False:",
        "tests/test_bytecode.py::test_none_is_left_that_was_not_written_to_its_end",
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
    _of(
        "a signal is not lost where Python drops errors",
        "ckpt/interrupts.py:     _catch_lost()\n => ",
        "tests/faults/test_interrupts.py::test_a_signal_is_not_lost_where_python_drops_every_error",
    ),
    _of(
        "a repository that was moved away is not begun anew",
        "ckpt/private.py: try:\n        disk.mkdir(path, 0o700) =>"
        " disk.make_folders(os.path.dirname(path))\n    try:\n        disk.mkdir(path, 0o700)",
        MOVED + "test_the_first_thing_that_a_save_notes_makes_no_folder_at_the_old_place",
    ),
    _of(
        "nor are its objects and refs begun anew",
        "ckpt/disk.py: if path == top: => if False:",
        MOVED + "test_a_repository_that_is_moved_away_is_missed_and_not_begun_anew",
    ),
    _of(
        "a rollback whose journal was moved away is not done",
        "ckpt/private.py: if not os.path.isdir(os.path.dirname(folder)): => if False:",
        MOVED + "test_a_rollback_whose_journal_was_moved_away_does_not_call_itself_done",
    ),
    _of(
        "what is missed in a repository that is gone is told as that",
        "ckpt/api/opened.py: except CkptError:\n            self._repo.check_there() =>"
        " except CkptError:",
        MOVED + "test_a_repository_that_is_moved_away_is_missed_and_not_begun_anew",
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
        "the ref of a checkpoint that was made here is put back",
        "ckpt/engine/broken_refs.py: elif (noted := _noted(repo, target)) is not None:"
        " => elif (noted := None) is not None:",
        FIXED + "test_the_ref_of_a_checkpoint_that_was_made_here_is_put_back",
    ),
    _of(
        "and to nothing else",
        "ckpt/engine/broken_refs.py: replace(target, commit=value, problem=None)) is not None:"
        " => replace(target, commit=value, problem=None)) or True:",
        FIXED + "test_no_ref_is_put_back_to_what_is_not_its_checkpoint",
    ),
    _of(
        "a ref that keeps checkpoints from being saved or dropped is told as that",
        "ckpt/engine/broken_refs.py: targets = [*every_target(repo), *in_place_of_folders(repo)]"
        " => targets = every_target(repo)",
        FIXED + "test_a_ref_in_place_of_a_folder_of_ours_is_told_with_the_command_that_moves_it",
    ),
    _of(
        "what two doctors write down of refs that they move aside is not lost",
        "ckpt/engine/broken_refs.py: with prune_lock(repo.common_dir, timeout=_PATIENCE):\n"
        "        _set(repo, [*_set_aside => if True:\n        _set(repo, [*_set_aside",
        FIXED + "test_no_ref_is_moved_aside_while_another_process_writes_down_what_it_moved",
    ),
    _of(
        "no odd file among objects keeps doctor from its work",
        'ckpt/engine/broken_refs.py: lazy_pattern("[0-9a-f]{2}") => lazy_pattern("..")',
        FIXED + "test_what_lies_among_objects_and_is_no_folder_of_them_keeps_nobody_from_mending",
    ),
    _of(
        "nor does one where broken refs are written down",
        "ckpt/engine/broken_refs.py: yield from _unreadable_notes(repo) => pass",
        FIXED + "test_what_stands_where_broken_refs_are_written_down_is_moved_aside_first",
    ),
    _of(
        "no ref is moved aside while a pack has no index",
        "ckpt/engine/broken_refs.py: if unindexed is not None: => if False:",
        FIXED + "test_nothing_is_moved_aside_while_a_pack_has_no_index_that_can_be_read",
    ),
    _of(
        "nor while one cannot be opened",
        "ckpt/engine/broken_refs.py: if damaged is not None: => if False:",
        FIXED + "test_nothing_is_moved_aside_while_a_pack_cannot_be_opened",
    ),
    _of(
        "nor while the commit at HEAD cannot be read",
        "ckpt/engine/broken_refs.py: None if _has_head(repo) =>"
        " None if repo.objects.has(repo.refs.head().commit)",
        FIXED + "test_nothing_is_moved_aside_while_the_commit_at_head_is_damaged",
    ),
    _of(
        "what is in the place of a file of ours, and stops it all, is told",
        "ckpt/engine/repair.py: yield from no_files(repo) => pass",
        FIXED + "test_what_is_in_place_of_a_private_file_is_told_with_the_command_that_moves_it",
    ),
    # What stays, whatever the rules
    _of(
        "what is pinned stays",
        'ckpt/engine/retention.py: yield checkpoint, "pinned" => pass',
        "tests/engine/test_retention.py::test_no_rule_crosses_what_is_fixed",
    ),
    _of(
        "doctor sees the journals of all worktrees, each of which stops them all",
        "ckpt/engine/repair.py: for git_dir in git_dirs(repo):\n        is_dead"
        " => for git_dir in (repo.git_dir,):\n        is_dead",
        FIXED + "test_a_damaged_journal_of_another_worktree_is_named_and_moved_aside",
    ),
    _of(
        "doctor puts no journal aside but the one that it found broken",
        "ckpt/engine/repair.py: if found is None or found.detail != told: => if False:",
        FIXED + "test_a_good_journal_is_not_moved_aside_for_a_damaged_one_that_was_there",
    ),
    _of(
        "nor over another that was put aside",
        'ckpt/engine/repair.py: disk.temporary_name("broken-journal-") => "broken-journal-1"',
        FIXED + "test_each_journal_that_is_moved_aside_has_a_name_of_its_own",
    ),
    _of(
        "what an interrupted rollback needs stays",
        "ckpt/engine/journals.py: needed |= dict.fromkeys(_named(found), worktree_of(git_dir)) =>"
        " pass",
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
        "ckpt/engine/beginning.py: _check_held(member.repo, member.target) => pass",
        "tests/faults/test_standing_still.py::"
        "test_a_rollback_whose_checkpoint_is_dropped_meanwhile_does_not_begin_or_keeps_it",
    ),
    _of(
        "nor is what it is about to need in a nested repository",
        "ckpt/engine/rollback.py: yield from nested._beginnings() => pass",
        "tests/faults/test_standing_still.py::"
        "test_a_checkpoint_of_a_nested_repository_is_kept_while_another_goes_back",
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
        "ckpt/engine/rollback.py: refusals.check_locks(self._repo, move) => pass",
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
        "what was typed into a shell may have secrets in it",
        'ckpt/settings.py: *(".bash_history", ".zsh_history", => *(',
        "tests/test_settings.py::test_secrets_and_dependencies_are_denied",
    ),
    _of(
        "an editor's copy of a secret is one",
        "ckpt/worktree/denials.py:  and _may_be_copy(path): =>  and False:",
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
        "a folder in a stash that has become a file does not come back with it",
        "ckpt/engine/rescue.py: and untracked.keys().isdisjoint(folders_above(path)) => ",
        RESCUE + "test_a_stash_in_which_files_and_folders_changed_places_comes_back",
    ),
    _of(
        "nor does a file that has become a folder",
        "ckpt/engine/rescue.py: if path not in folders and => if",
        RESCUE + "test_a_stash_in_which_files_and_folders_changed_places_comes_back",
    ),
    _of(
        "what nobody has looked over does not count as made here",
        "ckpt/engine/publishing.py: if is_ours else () => if True else ()",
        RESCUE + "test_what_git_would_not_check_out_is_kept_but_is_foreign",
    ),
    _of(
        "what is staged is looked over, too",
        "ckpt/engine/rescue.py: trees.check(held.index) => pass",
        RESCUE + "test_what_git_would_not_check_out_is_kept_but_is_foreign",
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
    _of(
        "a rollback goes by the same rules as the save did",
        "ckpt/engine/recorded.py: if self.is_foreign: => if True:",
        LIMITS + "test_a_rollback_goes_by_a_large_file_of_rules_as_the_save_did",
    ),
    _of(
        "ignore rules of another's are few enough to be gone by",
        "ckpt/engine/foreign.py: if len(text) > LARGEST_RULES: => if False:",
        HOSTILE,
    ),
    _of(
        "no conflict of a foreign operation is looked for beyond its end",
        "ckpt/engine/foreign_operation.py: return not rest and all(map(_is_conflict, conflicts))"
        " => return not re.sub(_ID + rb'\\t[^\\0]+\\0', b'', data)",
        LIMITS + "test_the_files_of_an_operation_are_not_divided_in_every_way",
    ),
    _of(
        "what rerere notes counts among the files of an operation",
        "ckpt/store/operation_record.py: left -= len(content) => pass",
        LIMITS + "test_what_rerere_has_noted_has_a_size_together_with_them",
    ),
    _of(
        "no numbers in a state are compared each with each",
        "ckpt/state.py: return max(alike.values(), default=0) > _MOST_ALIKE => return False",
        "tests/test_state.py::test_values_that_are_made_to_have_one_hash_are_damage",
    ),
    _of(
        "no part of the state is stored that could not be read again",
        "ckpt/store/trees.py: if len(text) > LARGEST_STATE: => if False:",
        LIMITS + "test_no_checkpoint_is_made_whose_manifest_could_not_be_read",
    ),
    _of(
        "nor is an operation",
        "ckpt/store/operation_record.py: if sum(map(len, contents)) > _MOST_BYTES: => if False:",
        LIMITS + "test_no_larger_operation_is_stored",
    ),
    _of(
        "no index without end is read to its end",
        "ckpt/engine/index_facts.py: and status.st_size <= regular.LARGE: => :",
        LIMITS + "test_nor_does_a_file_in_the_git_dir_of_a_repository_inside",
    ),
    _of(
        "nor are the files of an operation",
        "ckpt/store/operation.py: left -= len(data) => pass",
        LIMITS + "test_the_files_of_an_operation_are_read_up_to_a_size_together",
    ),
    _of(
        "a branch that names nothing is told, before anybody takes it for a new one",
        "ckpt/engine/repair.py: yield from _branch(repo) => pass",
        FIXED + "test_a_branch_that_a_power_cut_emptied_is_told_with_the_command_that_mends_it",
    ),
    _of(
        "who follows a hint of install loses no hook",
        'ckpt/install/hook_files.py: (_move_away(wrapped), "git ckpt install")'
        ' => (f"rm {quote(wrapped)}", "git ckpt install")',
        "tests/with_git/test_install.py::test_who_makes_room_as_the_hints_say_loses_no_hook",
    ),
    _of(
        "a hook that was renamed is run by whatever is installed anew",
        "ckpt/install/hook_files.py: if os.path.lexists(_wrapped(path, event)): => if False:",
        "tests/with_git/test_install.py::"
        "test_a_hook_that_was_renamed_runs_again_when_ours_has_gone_and_is_put_back",
    ),
    _of(
        "nor does what keeps a pack from git",
        "ckpt/store/temporaries.py: [*self._unfinished(), *kept] => [*self._unfinished()]",
        TEMPORARIES + "test_nor_is_what_keeps_a_pack_from_git",
    ),
    _of(
        "what a rescue has written when it is killed hides nothing that is lost",
        "ckpt/store/unreachable.py: _ends(commits - halves, parents) => _ends(commits, parents)",
        RESCUE + "test_what_a_killed_rescue_has_written_does_not_hide_what_is_lost",
    ),
    _of(
        "nor does another's checkpoint that a fetch has put in the place of one",
        "ckpt/engine/lost.py: or _is_replaced(repo, checkpoint, held, commits): => :",
        RESCUE + "test_a_checkpoint_that_a_forced_fetch_replaced_comes_back_under_another_id",
    ),
    _of(
        "nor do the first words of a content that anybody may have written",
        "ckpt/engine/lost.py: return isinstance(document, dict) and names <= document.keys()"
        " => return True",
        RESCUE + "test_a_content_that_begins_as_what_ckpt_writes_is_found",
    ),
    _of(
        "nor does the message of a checkpoint hide a commit that is none",
        "ckpt/engine/lost.py: if checkpoint is None: => if own_id is None:",
        RESCUE + "test_a_commit_with_the_message_of_a_checkpoint_is_found_with_those_behind_it",
    ),
    _of(
        "nor does what a save has written hide what was staged",
        "ckpt/store/unreachable.py: for commit in trees.keys() - halves: => for commit in trees:",
        RESCUE + "test_nor_does_what_a_killed_save_has_written_hide_what_was_staged",
    ),
    _of(
        "nobody else's commit is taken for the state of a checkpoint",
        "ckpt/store/unreachable.py: return header.endswith(_STATE_COMMITTER) and => return",
        RESCUE + "test_a_commit_is_found_though_its_message_begins_as_that_of_a_state",
    ),
    _of(
        "nothing is to be done after a zero, where git reads no further",
        'ckpt/engine/foreign_operation.py: return b"\\0" not in data and all( => return all(',
        FOREIGN + "test_what_git_would_not_have_written_is_refused",
    ),
    _of(
        "a journal of another user is not gone by",
        "ckpt/private.py: if owners.is_others(status, git_dir): => if False:",
        "tests/engine/test_journal.py::"
        "test_what_belongs_to_another_user_is_refused_and_that_of_the_git_dirs_owner_is_not",
    ),
    _of(
        "after a crash, what the rollback could not put in place is told",
        "ckpt/engine/recovery.py: {**self.record.unstaged, **self.record.blocked,"
        " => {**self.record.unstaged,",
        "tests/with_git/test_interrupted.py::"
        "test_continue_tells_what_the_rollback_had_left_in_the_way",
    ),
    _of(
        "who stands in a folder that has gone is told the way to the undo",
        "ckpt/output.py: if there != self._here: => if False:",
        RULES + "test_where_the_current_folder_goes_the_way_out_of_it_is_named",
    ),
    _of(
        "a repository inside that is gone is not taken for restored",
        "ckpt/engine/rollback.py: "
        "prepared.plan.kept |= family.gone(self._target, self._worktree, limits) => pass",
        "tests/with_git/test_submodules.py::"
        "test_an_untracked_repository_that_is_gone_is_listed_and_not_taken_for_restored",
        "tests/with_git/test_submodules.py::"
        "test_one_that_is_gone_and_was_not_saved_is_listed_among_those_taken_along",
        "tests/with_git/test_submodules.py::"
        "test_a_submodule_that_was_initialised_and_is_not_is_listed",
    ),
    _of(
        "a repository inside that has changed since, or is new, is told",
        "ckpt/engine/family.py: is_other = state is None or without_links([state]) != (here,)"
        " => is_other = False",
        "tests/with_git/test_submodules.py::"
        "test_a_submodule_that_was_clean_and_is_not_is_listed_though_nothing_in_it_was_saved",
    ),
    _of(
        "what a command did goes back also if nobody can tell what it was",
        "ckpt/run.py: except Exception as error:  # whatever it is, the way back comes after it"
        " => except (CkptError, OSError) as error:",
        "tests/with_git/test_run.py::test_it_goes_back_also_if_nobody_can_tell_what_has_changed",
    ),
    _of(
        "what git has lost of the index or HEAD keeps nothing else from being saved",
        "ckpt/engine/losses.py: self._leaves_out = is_any(self._repo) => pass",
        "tests/with_git/test_gone.py::test_so_it_is_before_a_command_that_overwrites_files",
        "tests/with_git/test_gone.py::"
        "test_without_the_commit_at_head_files_are_saved_before_git_reset_takes_them",
    ),
    _of(
        "nor does a tree of HEAD that is lost",
        "ckpt/engine/gone.py: todo, seen = [top], {top} => todo, seen = [], {top}",
        LOST + "test_a_tree_of_head_that_is_gone_keeps_nothing_from_being_saved",
    ),
    _of(
        "what was staged and is lost does not come back as staged to be removed",
        "ckpt/engine/gone.py: if head is not None and paths: => if False:",
        LOST + "test_a_file_that_was_staged_anew_comes_back_as_if_it_had_not_been",
    ),
    _of(
        "nor in the place of what is there",
        "ckpt/engine/gone.py: if e.path not in folders => if True",
        LOST + "test_nothing_of_head_is_staged_where_something_else_is",
    ),
    _of(
        "nor below it",
        "ckpt/engine/gone.py: if files.isdisjoint(folders_above(e.path)) => if True",
        LOST + "test_nothing_of_head_is_staged_where_something_else_is",
    ),
    _of(
        "a conflict with a side that is lost stays a conflict",
        "ckpt/engine/gone.py: if entry not in left_out] => "
        "if entry.path not in {each.path for each in gone}]",
        LOST + "test_a_conflict_of_which_a_side_is_gone_stays_one",
    ),
    _of(
        "of what was staged, a broken file does not pass for the content",
        "ckpt/engine/wholeness.py: if not objects.is_partial: => if False:",
        "tests/with_git/test_gone.py::"
        "test_all_else_is_saved_and_the_checkpoint_says_what_is_missing",
    ),
    _of(
        "and the checkpoint says that it is missing",
        "ckpt/engine/present.py: self.lacks_edits or bool(self.gone) => self.lacks_edits",
        "tests/with_git/test_gone.py::"
        "test_all_else_is_saved_and_the_checkpoint_says_what_is_missing",
    ),
    _of(
        "who gives up a merge as a hint says keeps what was resolved by hand",
        'ckpt/engine/operation.py: give_up = f"git ckpt save && {_way_out(now, then)}"'
        ' => give_up = f"{_way_out(now, then)}"',
        "tests/faults/test_operations_meanwhile.py::"
        "test_who_gives_the_merge_up_as_the_hint_says_keeps_what_was_resolved_by_hand",
    ),
    _of(
        "what an agent overwrites in another repository than its own is saved there",
        "ckpt/triggers/agents/act.py: fired.append(_act_in(other, env, guest, counting)) => pass",
        "tests/triggers/test_agents.py::"
        "test_a_file_in_another_repository_is_saved_there_once_a_turn",
    ),
    _of(
        "but no filter command of it is run",
        "ckpt/triggers/fire.py: if request.is_stranger: => if False:",
        "tests/triggers/test_agents.py::test_no_filter_of_a_repository_that_a_file_is_in_is_run",
    ),
    _of(
        "nor is anything saved in a repository of the user's that its .git leads to",
        "ckpt/engine/nested.py: "
        "_check_owned(repo, to_bytes(repo.worktree) if path is None else path) => pass",
        "tests/triggers/test_agents.py::"
        "test_a_git_file_that_leads_to_a_repository_of_the_users_gets_no_checkpoint_there",
    ),
    _of(
        "and in each turn anew",
        "ckpt/triggers/agents/act.py: else state.follow(counting) => else None",
        "tests/triggers/test_agents.py::"
        "test_a_file_in_another_repository_is_saved_there_once_a_turn",
    ),
    _of(
        "whatever turn that repository has itself",
        "ckpt/engine/session_state.py: "
        "if (turn, counted_in) != (self.turn, self._counted_in): => if turn != self.turn:",
        "tests/triggers/test_agents.py::test_a_turn_of_its_own_with_the_same_number_is_another_one",
    ),
    _of(
        "and where nobody counts turns, each time",
        "ckpt/triggers/agents/act.py: state.unclaim() if counting is None => "
        "None if counting is None",
        "tests/triggers/test_agents.py::test_where_nobody_counts_turns_it_is_saved_each_time",
    ),
    _of(
        "HEAD does not go where no HEAD can be",
        "ckpt/engine/head.py: if target.head == Head(None, None): => if False:",
        "tests/with_git/test_gone.py::"
        "test_a_checkpoint_that_does_not_know_where_head_was_moves_none",
    ),
    _of(
        "hooks that git never looks for are not said to be in place",
        'ckpt/install/hook_places.py: if configured == "": => if False:',
        "tests/with_git/test_install.py::test_hooks_in_a_folder_without_a_name_are_turned_off",
    ),
)
