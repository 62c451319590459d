# ruff: noqa: E501  one case a line
"""What newcomers and attackers did in their first hour, and the test that each became.

The tests of a wall stay where the wall's tests are, since they share its tools: this table leads to them.
Each was seen to fail before what it is about was mended; those with `layers` or a guard fail without it at every run.
"""

import ast
import functools
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

NEWCOMERS = {
    "asks for checks with Python 3.11": "first_hour/test_python_versions.py::test_a_user_who_asks_for_checks_gets_them_with_whatever_python_the_sandbox_runs",
    "sets up where several Pythons are, some closed": "first_hour/test_setup.py::test_a_python_that_the_user_may_not_start_is_passed_over",
    "looks at a result in a notebook": "first_hour/test_notebook.py::test_each_kind_of_value_shows_itself_in_jupyter_and_marimo",
    "runs a cell of a notebook in a sandbox": "first_hour/test_notebook.py::test_a_cell_prints_as_it_runs_and_shows_its_value",
    "mistypes an argument in an editor": "first_hour/test_editors.py::test_mypy_accepts_what_can_be_asked_and_refuses_each_slip",
    "says timeout for wall_s": "first_hour/test_editors.py::test_a_wrong_argument_of_groundbox_run_names_the_right_one",
    "types the README's next line after make setup": "first_hour/test_setup.py::test_the_checkouts_command_works_from_any_folder_and_through_a_link",
    "has no control groups": "first_hour/test_first_steps.py::test_a_user_without_control_groups_is_told_the_cure_in_one_line",
    "asks doctor for a verdict": "first_hour/test_first_steps.py::test_doctor_judges_the_backend_that_was_asked_for_only",
    "imports what other interpreters have": "first_hour/test_typical_programs.py::test_typical_programs_work_and_are_quiet",
    "extends an environment": "sandbox/test_environments.py::test_what_extends_an_extension_has_all_of_both",
    "shows a figure of plotly": "first_hour/test_plotly.py::test_show_gives_a_picture",
    "lets a model see a figure over MCP": "first_hour/test_plotly.py::test_a_model_sees_the_picture_over_mcp_and_is_not_sent_the_page",
    "gives files to mcp and keeps what comes out": "first_hour/test_mcp_files.py::test_files_come_in_and_pictures_stay",
    "runs a program that writes to /mnt/data": "first_hour/test_files_where_programs_put_them.py::test_a_program_reads_and_writes_in_mnt_data",
    "leaves a report beside the workdir": "first_hour/test_files_where_programs_put_them.py::test_a_report_left_at_home_is_told_once",
    "says bash, sh, js or py": "first_hour/test_names_of_languages.py::test_people_name_a_language_as_they_know_it",
    "mistypes a command or an option": "first_hour/test_mistyped_commands.py::test_what_was_meant_is_named",
    "follows a hint": "first_hour/test_hints.py::test_a_hint_is_true_and_helps_when",
    "pickles a result": "first_hour/test_results.py::test_a_result_comes_back_from_another_process_with_all_that_it_printed",
    "returns a result from a web framework": "first_hour/test_results.py::test_pydantic_sends_what_to_dict_gives_and_a_web_framework_describes_it",
    "asks if result": "first_hour/test_results.py::test_a_result_is_true_where_the_program_succeeded",
    "runs on after memory ran out": "first_hour/test_results.py::test_after_a_memory_kill_the_next_run_starts_afresh_if_asked",
    "reads a CSV file of 200 MB": "first_hour/test_memory.py::test_a_csv_file_of_200_mb_is_read_with_pandas_at_the_default_limits",
    "asks psutil for the memory": "first_hour/test_memory.py::test_psutil_tells_the_limits_of_the_sandbox",
    "pastes a function with blank lines": "first_hour/test_prompt.py::test_a_function_with_blank_lines_is_pasted",
    "presses Tab": "first_hour/test_prompt.py::test_tab_completes_what_the_live_process_has",
    "answers input()": "first_hour/test_prompt.py::test_input_is_answered_by_what_is_typed",
    "presses Ctrl-C": "first_hour/test_endings.py::test_a_program_that_is_interrupted_runs_its_finally",
    "fills the disk": "first_hour/test_endings.py::test_a_full_disk_costs_the_file_that_does_not_fit_and_nothing_else",
    "pipes into head": "first_hour/test_endings.py::test_a_reader_that_has_gone_gets_no_complaint",
    "looks through a demo": "cli/test_demo.py::test_the_index_leads_to_everything_that_was_made",
    "opens the page of a long trace": "trace/show/test_page_in_browser.py::test_the_time_to_a_moment_grows_with_the_steps_and_not_with_their_square",
    "reads the logs of a service": "first_hour/test_logs.py::test_each_run_is_one_line_with_its_id_its_outcome_and_its_times",
    "asks a local model": "first_hour/test_local_models.py::test_ask_goes_to_an_endpoint_and_runs_what_the_model_writes",
}

ATTACKERS = {
    "hands the host a socket that lingers": "escape/test_heartbeat.py::test_a_descriptor_sent_to_the_host_is_refused_by_the_kernel",
    "sends numbers that take long to decode": "escape/test_heartbeat.py::test_no_frame_of_a_cell_holds_the_loop",
    "sends them as arguments of tools": "escape/test_heartbeat.py::test_no_arguments_for_tools_hold_the_loop",
    "sends many large calls at once": "escape/test_tools.py::test_what_calls_under_way_hold_is_bounded",
    "writes a trace of millions of values": "escape/test_heartbeat.py::test_no_trace_holds_the_loop_or_takes_far_more_memory_than_its_bytes",
    "takes locks without end": "escape/test_kernel_memory.py::test_what_no_group_counts_is_refused",
    "sets socket filters without end": "escape/test_kernel_memory.py::test_what_no_group_counts_is_refused",
    "crashes where cores go to a pipe": "escape/test_exhaustion.py::test_no_crash_starts_the_hosts_handler_of_cores",
    "forges the end of a later script": "first_hour/test_hostile_results.py::test_after_a_hostile_cell_a_scripts_end_is_marked_as_the_guests_word",
    "interrupts itself to look cancelled": "first_hour/test_hostile_results.py::test_a_program_that_interrupts_itself_was_not_cancelled",
    "does so from JavaScript": "first_hour/test_hostile_results.py::test_a_javascript_program_that_interrupts_process_1_was_not_cancelled",
    "shows a picture that is none": "first_hour/test_hostile_results.py::test_what_is_not_what_its_type_says_is_left_out_and_told",
    "returns values that no budget counts": "first_hour/test_hostile_results.py::test_every_kind_of_result_is_bounded",
    "names a file like a line of groundbox": "first_hour/test_file_names.py::test_a_name_with_characters_that_act_is_not_written_and_no_line_of_the_command",
    "takes the processor in many sessions": "escape/test_shares.py::test_a_busy_program_of_the_host_keeps_its_share_beside_many_sessions",
    "keeps descriptors in flight": "escape/test_shares.py::test_descriptors_in_messages_of_a_guest_leave_the_users_other_programs_theirs",
    "leaves groups in the kernel": "jail/test_cgroup_reuse.py::test_a_group_is_gone_from_the_kernel_when_its_pages_are",
    "leaves names that are not there": "jail/test_cgroup_reuse.py::test_names_that_a_guest_looked_up_in_vain_are_not_kept",
    "holds memory in buffers of the kernel": "escape/test_exhaustion.py::test_the_machine_itself_lacks_no_more_than_the_limit",
    "leaves twenty thousand files": "escape/test_heartbeat.py::test_nothing_that_a_run_leaves_holds_the_loop",
}


@functools.cache
def functions(path):
    tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize("case", NEWCOMERS | ATTACKERS)
def test_the_case_has_its_test(case):
    path, name = (NEWCOMERS | ATTACKERS)[case].split("::")

    assert name in functions(path)
