# SPDX-License-Identifier: MIT
"""Promises, for each a function that keeps it, and a test that fails if it does not.

A row names the function by its module in `ckpt`, then what is done to it, and the test without its
`test_`. Where a function has gone, name the one that keeps the promise now.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from mutations.changes import BODY, BOTH, RETURNS, SWAPPED, WITHOUT, Change, changed

CHECKOUT = Path(__file__).parents[2]


class Row(NamedTuple):
    promise: str
    place: str
    change: Change
    short: str

    @property
    def file(self) -> str:
        return f"ckpt/{self.place.partition(':')[0].replace('.', '/')}.py"

    @property
    def function(self) -> str:
        return self.place.partition(":")[2]

    @property
    def test(self) -> str:
        place, _, name = self.short.partition("::")
        folder, slash, file = place.rpartition("/")
        return f"tests/{folder}{slash}test_{file}.py::test_{name}"

    def changed(self) -> str:
        """The source of the module with that done to the function."""
        return changed((CHECKOUT / self.file).read_text(), self.function, self.change)


# fmt: off
_TABLE = (
    # Captured and restored (SPEC 2)
    ("exec bits are captured", "engine.capture:_mode", WITHOUT("is_executable", "False"),
     "with_git/plain_git::the_ref_names_a_commit_whose_tree_is_the_worktree"),
    ("links are captured and never followed", "engine.capture:_mode", WITHOUT("S_ISLNK", "False"),
     "with_git/ignore_in_checkpoints::links_are_taken_and_never_followed"),
    ("files created since are removed", "engine.plan:Plan.removals", RETURNS("[]"),
     "with_git/rollback_rules::files_and_folders_made_since_are_removed"),
    ("what is ignored is not captured", "git.rules:IgnoreStack.ignored", RETURNS("False"),
     "with_git/ignore_in_checkpoints::a_checkpoint_takes_what_git_would_add"),
    ("unless passed as state files", "engine.snapshot:_read_state_files", RETURNS("{}"),
     "with_git/state_files::an_ignored_state_file_comes_back_with_content_and_mode"),
    ("empty directories come back", "worktree.write:Worktree.make_folder", BODY("pass"),
     "with_git/undo::undo_brings_empty_folders_back_and_takes_others_away"),
    ("permission bits come back", "worktree.write:Worktree.set_folder_permissions", BODY("pass"),
     "with_git/folder_permissions::a_folder_with_files_comes_back_with_its_bits"),
    ("the index comes back", "engine.apply:Applier.restage", BODY("pass"),
     "with_git/round_trip::files_staged_meanwhile_do_not_come_back_staged"),
    ("conflict stages come back", "git.index:read_state", WITHOUT("_STAGES", "_STAGES[:1]"),
     "with_git/index_kinds::the_sides_of_every_kind_of_conflict_come_back"),
    ("HEAD and branch come back with --head", "engine.head:plan_move", RETURNS("None"),
     "with_git/head::with_head_everything_is_as_it_was"),
    ("the operation in progress comes back", "git.operation:install", BODY("pass"),
     "with_git/operations::a_stopped_operation_comes_back_and_goes_on_although_git_forgot_it"),
    ("its objects are kept alive", "git.operation:commits_to_keep", RETURNS("()"),
     "with_git/operations::a_stopped_operation_comes_back_and_goes_on_although_git_forgot_it"),
    ("agent state comes back all or nothing", "api.tracking:TrackedObjects._undo", RETURNS("[]"),
     "tracking::if_one_object_fails_all_are_what_they_were_and_no_file_has_changed"),
    ("nested repositories are never entered or deleted", "paths:is_nested_repository",
     RETURNS("False"), "with_git/rollback_rules::a_nested_repository_made_since_is_never_removed"),
    ("what was left out is never deleted", "engine.checkpoint:Recorded.left_out", RETURNS("None"),
     "with_git/rollback_rules::a_file_that_was_denied_at_the_checkpoint_is_kept"),
    ("bytes come back where git converts them", "engine.conversions:write_raw", RETURNS("None"),
     "with_git/round_trip::bytes_come_back_where_git_converts_them"),
    ("skip-worktree is no deletion", "engine.working_state:sparse_entries", RETURNS("{}"),
     "with_git/sparse::what_a_sparse_checkout_leaves_out_is_no_deletion"),
    ("an unreadable path makes it partial", "engine.working_state:Present.is_partial",
     RETURNS("False"),
     "with_git/bad_input::an_unreadable_file_makes_the_checkpoint_partial_and_is_named"),
    ("old content is never reused", "engine.scan_cache:Clock.is_settled", RETURNS("True"),
     "with_git/scan_cache::an_edit_in_the_tick_in_which_a_file_was_saved_is_found"),
    ("large untracked files are skipped", "worktree.scan:Walk._take_file",
     WITHOUT("max_file_size", "None"),
     "with_git/ignore_in_checkpoints::large_untracked_files_are_left_out_and_large_tracked_ones_taken"),
    ("secrets are skipped", "worktree.scan:Denials.ignored", RETURNS("False"),
     "with_git/ignore_in_checkpoints::a_secret_is_left_out_listed_and_never_in_the_repository"),
    ("the home directory is refused", "git.repository:check_breadth", BODY("pass"),
     "with_git/bad_input::the_home_folder_is_refused"),
    ("a repository of another user is refused", "git.repository:_check_owner", BODY("pass"),
     "with_git/bad_input::a_repository_of_another_user_is_refused_until_declared_safe"),
    # Storage (SPEC 3)
    ("ids grow, clock behind or not", "engine.snapshot:publish", WITHOUT("newest_here", "None"),
     "with_git/ids_and_names::a_clock_that_went_back_does_not_make_an_id_older_than_the_newest"),
    ("a newer format is refused", "git.record:_check_format", BODY("pass"),
     "with_git/plain_git::a_checkpoint_of_a_newer_format_is_refused_and_not_guessed_at"),
    ("refs of other tools are left alone", "engine.verify:every_target", WITHOUT("is_ours", "True"),
     "with_git/doctor_fix::refs_of_other_tools_are_left_alone"),
    ("objects first and durable", "git.objects:ObjectStore._publish", WITHOUT("fsync"),
     "store/objects::every_content_is_on_the_disk_before_any_gets_its_name"),
    ("a reported checkpoint survives git gc", "engine.snapshot:publish", WITHOUT("missing", "()"),
     "with_git/clones::a_save_begins_again_when_git_prunes_what_it_has_written"),
    ("an equal state does if kept as long", "engine.snapshot:SaveRequest.is_met_by",
     RETURNS("True"), "with_git/ids_and_names::a_trigger_is_not_content_with_what_may_go_before"),
    # Rollback (SPEC 4)
    ("nothing is touched if an object is missing", "engine.prepare:_unrestorable", RETURNS("{}"),
     "with_git/rollback_rules::a_missing_object_stops_a_rollback_before_anything_happens"),
    ("the safety checkpoint comes first", "engine.rollback:_Rollback.go",
     SWAPPED("_save", "_change"),
     "with_git/round_trip::destroyed_work_comes_back_exactly_and_undo_brings_the_destruction_back"),
    ("a dry run changes nothing", "engine.rollback:_Rollback.go", WITHOUT("dry_run", "False"),
     "with_git/save_changes_nothing::a_dry_run_writes_no_ref_no_object_and_no_file"),
    ("the journal comes before the first file", "engine.rollback:_Rollback.go",
     SWAPPED("_begin", "_change"),
     "faults/kill_rollback::a_rollback_killed_anywhere_is_finished_or_taken_back_exactly"),
    ("a file is compared just before it is replaced", "worktree.write:_is_still", RETURNS("True"),
     "faults/edits_meanwhile::a_file_that_never_stops_changing_is_left_to_its_writer"),
    ("if it differs it is captured again", "engine.apply:Applier._save_changed", BODY("pass"),
     "faults/edits_meanwhile::"
     "a_file_edited_just_before_its_turn_is_saved_and_undo_brings_the_edit_back"),
    ("nothing is written through a link", "worktree.write:Worktree._open_child",
     WITHOUT("_FOLDER_FLAGS", "os.O_RDONLY | os.O_DIRECTORY"),
     "hostile/swapped::nothing_outside_changes"),
    ("what safety does not hold is left and listed", "engine.prepare:_obstacles_to",
     RETURNS("[]"), "with_git/rollback_rules::an_ignored_file_in_the_way_is_left_and_listed"),
    ("HEAD moves only from where it was read", "git.refs:Refs.set_head", WITHOUT("HeadMoved"),
     "faults/head_meanwhile::a_head_that_moves_while_the_rollback_runs_is_not_overwritten"),
    ("no branch of another worktree moves", "engine.head:_other_worktree_with", RETURNS("None"),
     "with_git/head::a_branch_checked_out_in_another_worktree_is_not_moved"),
    ("commits left behind stay reachable", "engine.head:commits_to_keep", RETURNS("()"),
     "with_git/head::so_do_those_of_a_branch_that_head_was_not_on"),
    ("half a merge does not become a commit", "engine.head:check_operation", BODY("pass"),
     "with_git/rollback_rules::rolling_back_out_of_a_merge_is_refused"),
    ("--keep-edits keeps a person's edits", "engine.sessions:why_kept", RETURNS("None"),
     "with_git/keep_edits::each_path_goes_back_or_stays_by_who_changed_it_last"),
    ("the next command notices the journal", "disk:journal_exists", RETURNS("False"),
     "with_git/interrupted::no_other_rollback_begins_before_it_is_settled"),
    ("where a path is neither, a safety checkpoint", "engine.recovery:Resumed.has_edits",
     RETURNS("False"), "with_git/interrupted::work_done_in_between_is_saved_first"),
    ("a save meanwhile is marked", "engine.snapshot:write", WITHOUT("journal_exists", "False"),
     "with_git/interrupted::a_save_in_between_is_marked_and_never_latest"),
    ("saves wait for a live rollback", "engine.snapshot:save", WITHOUT("worktree_lock"),
     "faults/together::a_save_waits_while_a_rollback_is_at_work"),
    ("prune reads the journals", "engine.journal:needed_by_rollbacks", RETURNS("{}"),
     "with_git/prune::a_checkpoint_that_an_interrupted_rollback_needs_stays"),
    ("removing most files needs consent", "engine.prepare:check_removals", BODY("pass"),
     "with_git/rollback_rules::removing_most_files_needs_consent"),
    ("index.lock of others is respected", "engine.prepare:check_locks", BODY("pass"),
     "with_git/rollback_rules::a_held_index_lock_stops_a_rollback_before_anything_happens"),
    # Retention (SPEC 8)
    ("nothing crosses the floors", "engine.retention:_floors", RETURNS("iter(())"),
     "engine/retention::no_rule_crosses_what_is_fixed"),
    ("dropped refs can be brought back", "engine.trash:drop", WITHOUT("move_all_aside",
     "repo.refs.remove(checkpoint.ref.encode(), checkpoint.commit.encode())"),
     "with_git/ids_and_names::a_dropped_checkpoint_lies_in_the_trash_and_comes_back"),
    ("pruning happens after a save", "triggers.fire:_save", WITHOUT("prune_by_itself"),
     "with_git/auto_prune::triggers_do_so_too"),
    ("the repository's own file is not trusted", "settings.settings:load",
     WITHOUT("trusted", "True"),
     "with_git/ignore_in_checkpoints::the_repository_s_own_file_cannot_let_secrets_in"),
    ("broken settings stop no trigger", "settings.settings:load_forgiving",
     RETURNS("load_settings(repo, flags)"),
     "triggers/fire::broken_settings_count_as_the_defaults_and_are_warned_of"),
    # Reliability (SPEC 10)
    ("kill: what a dead command locked is free", "git.refs:Refs.clear_dead", RETURNS("[]"),
     "faults/struck_save::a_save_struck_anywhere_loses_nothing_and_the_next_one_works"),
    ("kill: the new ref is there before the old one goes", "git.refs:Refs.change",
     SWAPPED("replace_held", "unlink"),
     "faults/struck_by_hand::a_command_struck_anywhere_loses_nothing_and_does_it_when_repeated"),
    ("race: only what is as it was is dropped", "git.refs:Refs.change", WITHOUT("contents", "said"),
     "engine/trash::a_checkpoint_that_changed_meanwhile_is_not_dropped"),
    ("race: a drop waits while a rollback begins", "engine.rollback:_begin",
     WITHOUT("prune_lock"), "faults/standing_still::"
     "a_rollback_whose_checkpoint_is_dropped_meanwhile_does_not_begin_or_keeps_it"),
    ("full disk: nothing half written is left", "disk:discard", BODY("pass"),
     "worktree/write::a_file_that_cannot_be_written_leaves_the_old_one_and_no_other"),
    ("full disk: a trigger stops nothing", "triggers.fire:fire",
     WITHOUT("_failed", "(_ for _ in ()).throw(error)"),
     "with_git/status::a_full_disk_does_not_stop_a_commit_and_is_warned_of"),
    ("read-only: the rest is rolled back", "engine.apply:Applier._leaving",
     WITHOUT("_LEFT_ALONE", "()"), "faults/read_only::"
     "a_folder_that_is_read_only_is_left_and_listed_and_the_rest_rolled_back"),
    ("scan: what changes while it is read is read again", "engine.capture:read_stable",
     BOTH(WITHOUT("identity", "0"), WITHOUT("again", "data")),
     "faults/changing_files::a_file_that_changes_while_it_is_read_is_read_again"),
    ("scan: files of two commits do not mix", "engine.capture:_is_still", RETURNS("True"),
     "manager::a_checkout_during_a_save_is_seen"),
    ("hostile: trees", "git.trees:check_name", BODY("pass"),
     "hostile/objects::they_are_refused_and_nothing_changes"),
    ("hostile: trees without end", "git.trees:diff_trees", WITHOUT("UnsafeTree"),
     "hostile/objects::what_unfolds_without_an_end_is_not_waited_for[deep and long]"),
    ("hostile: operation files", "engine.checkpoint:Recorded.operation",
     WITHOUT("foreign", "False"), "hostile/foreign::the_operation_of_another_never_comes_along"),
    ("hostile: git dirs are not written to", "worktree.write:Worktree._is_closed",
     RETURNS("False"), "worktree/write::nothing_is_written_into_a_git_dir_of_another_name"),
    ("hostile: nor are other repositories", "engine.prepare:_in_repositories",
     RETURNS("{}"), "hostile/foreign::nothing_gets_into_another_git_dir_in_the_worktree"),
    ("foreign is what the local record lacks", "git.record:read_checkpoint",
     WITHOUT("made_here", "[_line(checkpoint_id, commit.decode())]"),
     "hostile/foreign::what_was_fetched_is_foreign_and_what_was_saved_is_not"),
    ("corrupt: objects", "git.objects:ObjectStore._read", WITHOUT("_verified", "pieces"),
     "store/objects::a_damaged_object_is_never_taken_for_its_content"),
    ("corrupt: the cache", "engine.scan_cache:_head", RETURNS("_MAGIC.ljust(_START)"),
     "engine/scan_cache::no_damaged_byte_gets_through"),
    ("corrupt: the journal", "engine.journal:_checksum", RETURNS("b'x'"),
     "engine/journal::every_damaged_byte_is_noticed"),
)
# fmt: on
ROWS = tuple(Row(*row) for row in _TABLE)
