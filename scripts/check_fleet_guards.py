"""Switch the guards of a fleet off, one by one, and see whether a test notices.

    python scripts/check_fleet_guards.py                 all of them: 10 to 20 minutes on two processors
    python scripts/check_fleet_guards.py replay proof    those whose names have one of these words
    python scripts/check_fleet_guards.py --list          names and tests, without running anything

Each guard is one exact text of the sources and what stands there when it is off. The script copies the working tree,
runs the tests of all chosen guards once as it is, and then, for each guard, those that should notice, in a copy where
that guard is off. A test has to fail there: a guard whose tests all pass, that breaks what is around a test, or whose
text is not found any more, is named at the end, and the exit status is 1.

Tests are named by file and function; those on PostgreSQL are left out. The copies are removed at the end.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[1]
_FLEET: Final = "src/groundbox/fleet"
_TEST_S: Final = 150
"""Seconds of one test: a guard that is off may let it wait for ever."""


class Guard(NamedTuple):
    """A guard, and how it is switched off.

    Attributes:
        file: Below the root of the tree.
        was: Text that is there once.
        off: What stands there without the guard.
        tests: Of which one has to fail; `FILE::FUNCTION`, below tests/.
    """

    name: str
    file: str
    was: str
    off: str
    tests: Sequence[str]


def _fleet(name: str, module: str, was: str, off: str, *tests: str) -> Guard:
    return Guard(name, f"{_FLEET}/{module}.py", was, off, [f"fleet/{each}" for each in tests])


_MAC: Final = 'text = "\\n".join((method, path, told, digest))'
_FORGED: Final = "test_joining.py::test_what_is_not_signed_with_the_secret_or_signed_for_something_else_changes_nothing"
_ANSWERS: Final = (
    "test_member.py::test_what_no_gateway_of_the_fleet_answers_neither_lengthens_a_lease_nor_ends_it",
    "test_joining.py::test_an_answer_holds_for_its_own_request_and_body_alone",
)
_BEFORE_READ: Final = "test_hostile.py::test_messages_of_nodes_are_refused_before_they_are_read"
_SLOW: Final = "test_hostile.py::test_slow_bodies_of_authentic_heads_give_way_to_other_nodes"
_OWN_BOOT: Final = "test_member.py::test_a_node_takes_requests_by_the_key_of_its_own_boot_alone"
_NO_SECRET: Final = "test_hostile.py::test_nodes_get_no_secret_of_a_client_and_nothing_that_it_says_of_the_fleet"
_NO_SECRET_IF_OFF: Final = "test_protocols.py::test_a_gateway_passes_no_key_on_in_a_header_of_a_protocol_that_is_off"
_KIND: Final = "test_joining.py::test_a_node_of_another_kind_joins_only_when_it_is_welcome"
_LENGTHENS: Final = "test_outages.py::test_a_gateway_lengthens_leases_only_between_the_two_times_that_it_has_told"
_ALIVE: Final = "AND state IN (?, ?, ?) AND number < ?"

GUARDS: Final = (
    # Who speaks
    _fleet(
        "signature of messages",
        "joining",
        "if match is None or not hmac.compare_digest(match[3], _mac(secret, method, path, match[1], match[2])):",
        "if match is None:",
        *(f"{_FORGED}[{act}]" for act in ("join", "renew", "leave")),
    ),
    _fleet(
        "signature covers the body",
        "reception",
        "            check_body(digest, body)\n",
        "",
        f"{_FORGED}[renew]",
    ),
    _fleet(
        "signature covers what is asked for",
        "joining",
        _MAC,
        _MAC.replace("method, path, ", ""),
        f"{_FORGED}[renew]",
    ),
    _fleet(
        "signature covers the time",
        "joining",
        _MAC,
        _MAC.replace("told, ", ""),
        "test_joining.py::test_a_time_that_was_changed_spoils_the_signature",
    ),
    _fleet(
        "signature of answers",
        "member",
        'check_answer(self._secret, signature, reply.headers.get(ANSWER_HEADER, ""), reply.body)',
        "pass",
        _ANSWERS[0],
    ),
    _fleet(
        "answers belong to their requests",
        "joining",
        'return _mac(secret, "answer", request, "",',
        'return _mac(secret, "answer", "", "",',
        *_ANSWERS,
    ),
    _fleet(
        "least length of the join secret",
        "joining",
        "if not secret or len(secret) < 16:",
        "if not secret:",
        "test_joining.py::test_a_secret_of_less_than_sixteen_characters_is_refused",
    ),
    _fleet(
        "half a minute, and clocks",
        "joining",
        "if abs(ahead_s) > CLOCK_S:",
        "if abs(ahead_s) > 1e9:",
        "test_joining.py::test_a_message_does_not_hold_after_half_a_minute",
        "test_joining.py::test_another_clock_or_an_old_message_is_refused",
    ),
    # Replays
    _fleet(
        "a boot joins once",
        "catalogue",
        'if run("SELECT boot_id FROM groundbox_nodes WHERE boot_id = ?", (boot_id,)):',
        "if False:",
        "test_joining.py::test_a_replayed_join_is_refused",
    ),
    _fleet(
        "counter against replay, in the catalogue",
        "catalogue",
        f"{_ALIVE} RETURNING boot_id",
        "AND state IN (?, ?, ?) AND ? IS NOT NULL RETURNING boot_id",
        "test_joining.py::test_a_replayed_renewal_lengthens_nothing",
        "test_joining.py::test_a_captured_renewal_lengthens_nothing_when_it_is_sent_again",
    ),
    _fleet(
        "counter against replay, from memory",
        "roster",
        "if number <= peer.node.number:",
        "if False:",
        _LENGTHENS,
    ),
    _fleet(
        "counter against replay, of what was heard meanwhile",
        "catalogue",
        f'{_ALIVE}",\n                    (number, boot_id',
        'AND state IN (?, ?, ?) AND ? IS NOT NULL",\n                    (number, boot_id',
        "test_outages.py::test_what_was_heard_before_the_last_renewal_takes_no_number_back",
    ),
    # Messages that cost
    _fleet(
        "a message is authenticated before it is read",
        "reception",
        'if error.code != "other_clock":',
        'await request.body()\n            if error.code != "other_clock":',
        "test_hostile.py::test_strangers_are_refused_by_the_head_of_their_message_and_take_no_place",
    ),
    _fleet(
        "a head is used once",
        "reception",
        "            self._use_once(signature)\n",
        "",
        "test_hostile.py::test_a_captured_head_is_good_for_one_use",
    ),
    _fleet(
        "a slow body gives way",
        "reception",
        "if len(self._reading) >= _MOST_READING:",
        "if False:",
        _SLOW,
    ),
    _fleet(
        "a slow body has a time limit",
        "reception",
        "asyncio.timeout(_BODY_S)",
        "asyncio.timeout(3600)",
        _SLOW,
    ),
    _fleet("size of messages", "reception", "if len(body) > _MOST_MESSAGE:", "if False:", _BEFORE_READ),
    _fleet(
        "number of messages at once",
        "reception",
        "if self._acting[kind] >= _MOST_MESSAGES:",
        "if False:",
        "test_hostile.py::test_nodes_that_join_take_no_place_of_a_renewal",
    ),
    _fleet(
        "bounds of what a node tells of its load",
        "joining",
        "Count = Annotated[int, msgspec.Meta(ge=0, le=2**40)]",
        "Count = int",
        "test_hostile.py::test_a_load_that_cannot_be_meant_is_refused",
    ),
    _fleet(
        "bounds of what a node tells that was used",
        "joining",
        "Seconds = Annotated[float, msgspec.Meta(ge=0, le=2**40)]",
        "Seconds = float",
        "test_hostile.py::test_what_no_run_can_have_used_is_refused",
    ),
    _fleet(
        "size of bodies that are looked into",
        "routing",
        "if len(body) > _MOST_LOOKED_AT or",
        "if",
        "test_hostile.py::test_large_bodies_are_not_looked_into",
    ),
    Guard(
        "pause between large bodies",
        "src/groundbox/server/guard.py",
        "if self._ended and self._large is not None and self._size > _LARGE_BYTES:",
        "if False:",
        ["fleet/test_hostile.py::test_large_bodies_are_given_on_one_after_the_other_with_a_pause"],
    ),
    _fleet(
        "length of an Idempotency-Key",
        "claims",
        "if len(given) > _MOST_NAME:",
        "if False:",
        "test_hostile.py::test_a_long_name_of_a_request_is_refused",
    ),
    # Who joins
    _fleet(
        "a name belongs to the node that lives under it",
        "catalogue",
        "if other_url != url:",
        "if False:",
        "test_joining.py::test_a_name_belongs_to_the_node_that_lives_under_it",
    ),
    _fleet(
        "who comes at an address ends who was there",
        "catalogue",
        "(name = ? OR url = ?) AND state",
        "(name = ? OR url = ? AND 1 = 0) AND state",
        "test_joining.py::test_a_node_that_comes_at_the_address_of_another_one_ends_it",
    ),
    _fleet(
        "version",
        "catalogue",
        '            ("versions", "groundbox", version),\n',
        "",
        f"{_KIND}[sqlite-other0-other_version]",
    ),
    _fleet(
        "digest of the environment",
        "catalogue",
        '            ("environments", "environment", environment),\n',
        "",
        f"{_KIND}[sqlite-other1-other_environment]",
    ),
    _fleet(
        "a node is asked at its URL",
        "reception",
        "await self._call_back(asked)",
        "pass",
        "test_joining.py::test_a_node_that_is_not_reached_does_not_join",
    ),
    _fleet(
        "the boot that answers there is the one that joins",
        "reception",
        ' or msgspec.json.decode(body).get("boot_id") != asked.boot_id',
        "",
        "test_joining.py::test_a_url_where_another_boot_answers_is_refused",
    ),
    _fleet(
        "URL of a node",
        "reception",
        "check_url(asked.url)",
        "pass",
        "test_joining.py::test_a_node_does_not_join_with_a_url_or_a_name_that_is_none",
    ),
    _fleet(
        "name of a node",
        "reception",
        "check_name(asked.name)",
        "pass",
        "test_joining.py::test_a_node_does_not_join_with_a_url_or_a_name_that_is_none",
    ),
    Guard(
        "--no-auth --join",
        "src/groundbox/cli/serve.py",
        "if fleet is not None and no_auth:",
        "if False:",
        ["fleet/test_hostile.py::test_a_node_of_a_fleet_asks_for_a_key"],
    ),
    # Gateways at nodes
    _fleet("proof per client's key", "joining", "told.encode(), hashlib", 'b"", hashlib', _OWN_BOOT),
    _fleet(
        "proof is asked for",
        "member",
        "if not hmac.compare_digest(given.encode(), proof(self._key, told).encode()):",
        "if False:",
        _OWN_BOOT,
    ),
    _fleet(
        "key of a boot, and of no earlier one",
        "joining",
        'b"gateway\\0" + boot_id.encode()',
        'b"gateway\\0"',
        _OWN_BOOT,
    ),
    _fleet(
        "boot that a request is for",
        "member",
        "if headers[BOOT_HEADER] != self._boot_id or not self._boot_id:",
        "if not self._boot_id:",
        _OWN_BOOT,
    ),
    _fleet(
        "a node without a boot takes nothing",
        "member",
        "!= self._boot_id or not self._boot_id:",
        "!= self._boot_id:",
        "test_member.py::test_a_node_that_has_ended_all_takes_nothing_until_it_has_joined_anew",
    ),
    _fleet(
        "secrets of clients stay at the gateway: Authorization",
        "gateway",
        "proxy-authorization proxy-connection authorization",
        "proxy-authorization proxy-connection",
        _NO_SECRET_IF_OFF,
    ),
    _fleet("secrets of clients stay at the gateway: cookie", "gateway", " cookie ", " ", _NO_SECRET),
    *(
        _fleet(f"secrets of clients stay at the gateway: *{end}", "gateway", f'b"{end}"', 'b"-none"', _NO_SECRET_IF_OFF)
        for end in ("-api-key", "-auth-token")
    ),
    _fleet(
        "secrets of clients stay at the gateway: X-Access-Token",
        "gateway",
        '(name != b"x-access-token" or value.startswith(_TOKEN_PREFIX))',
        "True",
        _NO_SECRET,
    ),
    _fleet(
        "secrets of clients stay at the gateway: in the query",
        "gateway",
        'if b"token=" in query:',
        "if False:",
        _NO_SECRET,
    ),
    _fleet(
        "headers of gateways come from gateways",
        "gateway",
        "{BOOT_HEADER} {KEY_HEADER} {RESTORE_HEADER} ",
        "",
        _NO_SECRET,
    ),
    Guard(
        "processes of a node inherit no secret",
        "src/groundbox/cli/serve.py",
        "secret = check_secret(os.environ.pop(SECRET, None))",
        "secret = check_secret(os.environ.get(SECRET))",
        ["fleet/test_hostile.py::test_a_node_takes_the_join_secret_out_of_what_its_processes_inherit"],
    ),
    _fleet(
        "a request whose body was not sent whole ends its connection",
        "upstream",
        " or not self._is_sent",
        "",
        "test_hostile.py::test_a_connection_on_which_the_body_was_not_sent_whole_is_not_used_again",
    ),
    _fleet(
        "what a node says unasked ends its connection",
        "upstream",
        "if not self._is_asked:\n            self.abort()\n            return",
        "pass",
        "test_upstream.py::test_what_a_node_says_unasked_is_no_answer_to_the_next_request",
    ),
    # Keys
    Guard(
        "ids of other keys' sandboxes",
        "src/groundbox/server/sandboxes.py",
        "if held is None or held.key_id != key.id:",
        "if held is None:",
        ["fleet/test_gateway.py::test_only_keys_of_the_gateway_come_in_and_see_their_own"],
    ),
    _fleet(
        "ids of other keys' sandboxes that are restored",
        "gateway",
        "if kept is None or kept.key_id != key.id:",
        "if kept is None:",
        "test_restoring.py::test_another_key_does_not_get_what_is_restored",
    ),
    _fleet(
        "scope of operators",
        "operating",
        '    key.require("admin")',
        "    pass",
        "test_hostile.py::test_operators_alone_drain_leave_and_let_in",
    ),
    _fleet(
        "scope of metrics",
        "gateway",
        'request.scope["groundbox.key"].require("metrics")',
        "pass",
        "test_hostile.py::test_operators_alone_drain_leave_and_let_in",
    ),
    _fleet(
        "the header of E2B opens E2B's paths alone",
        "gateway",
        'scope["type"] == "http" and DATA_PLANE.fullmatch(scope["path"])',
        "True",
        "test_hostile.py::test_the_id_of_a_sandbox_in_a_header_opens_no_other_path",
    ),
    _fleet(
        "the header of E2B names a node on E2B's paths alone",
        "routing",
        "return _header(scope, E2B_ID) if DATA_PLANE.fullmatch(path) else None",
        "return _header(scope, E2B_ID)",
        "test_hostile.py::test_the_id_of_a_sandbox_in_a_header_opens_no_other_path",
    ),
    _fleet(
        "a call of MCP without sessions names no node by one",
        "routing",
        "return _header(scope, _MCP_SESSION) if version is None or version in MCP_SESSIONS else None",
        "return _header(scope, _MCP_SESSION)",
        "test_protocols.py::test_a_session_that_a_call_without_sessions_names_gives_a_key_no_room_on_another_node",
    ),
    _fleet(
        "what MCP makes is told by its method, however that is spelt",
        "routing",
        'if message is not None and message.method not in ("initialize", "tools/call"):',
        """if b'"initialize"' not in body and b'"tools/call"' not in body:""",
        "test_protocols.py::test_what_mcp_makes_counts_in_a_quota_however_it_is_spelt",
    ),
    _fleet(
        "revoked keys are named to nodes",
        "reception",
        "leased.revoked = [key_id for key_id in asked.load.of_keys if self._is_revoked(key_id)]",
        "pass",
        "test_joining.py::test_a_renewal_is_told_which_of_its_keys_are_revoked",
    ),
    _fleet(
        "nodes refuse revoked keys",
        "member",
        "self._service.keys.revoke_vouched(lease.revoked)",
        "pass",
        "test_hostile.py::test_a_revoked_key_ends_on_open_terminals_and_by_tokens",
    ),
    _fleet(
        "quota of sandboxes over all nodes",
        "gateway",
        "if makes and elsewhere >= most:",
        "if False:",
        "test_hostile.py::test_a_quota_of_sandboxes_counts_what_all_nodes_have",
    ),
    _fleet(
        "quota of sandboxes that a node is told",
        "gateway",
        "sandboxes=max(1, most - elsewhere)",
        "sandboxes=most",
        "test_hostile.py::test_a_quota_of_sandboxes_counts_what_all_nodes_have",
    ),
    _fleet(
        "quota of sandboxes that are being made",
        "roster",
        " + self.making.get(key_id, 0)",
        "",
        "test_hostile.py::test_a_quota_counts_sandboxes_that_are_being_made_while_their_node_tells_its_load",
    ),
    Guard(
        "quota of runs on all gateways",
        "src/groundbox/server/keys.py",
        "            self._tokens -= runs\n",
        "            pass\n",
        ["server/test_keys.py::test_runs_a_minute_are_those_on_all_servers_of_a_database"],
    ),
    _fleet(
        "bytes by a sandbox's token",
        "reception",
        "charge(cpu_s=cpu_s, size=size)",
        "charge(cpu_s=cpu_s)",
        "test_hostile.py::test_bytes_of_requests_by_a_sandboxs_token_count_for_its_key_once",
    ),
    # Leases and generations
    _fleet(
        "a node without a lease carries out nothing",
        "member",
        "            self.check_lease()\n",
        "",
        "test_member.py::test_a_node_whose_lease_has_ended_carries_out_nothing_and_says_who_it_is",
    ),
    _fleet(
        "a node ends before its lease does",
        "member",
        "lease.lease_s * FENCE",
        "lease.lease_s",
        "test_member.py::test_a_gateway_that_takes_renewals_and_answers_none_holds_no_node_past_its_lease",
    ),
    _fleet(
        "a node ends its sandboxes at the lease's end",
        "member",
        "        await self._service.sandboxes.close_all()\n",
        "",
        "test_member.py::test_a_gateway_that_takes_renewals_and_answers_none_holds_no_node_past_its_lease",
    ),
    _fleet(
        "a node calls off requests at the lease's end",
        "member",
        "            task.cancel()\n        await self._service",
        "            pass\n        await self._service",
        "test_member.py::test_what_goes_on_when_the_lease_ends_is_called_off_and_said_to_be_lost",
    ),
    _fleet(
        "half of an answer is cut",
        "member",
        "if begun:  # the server",
        "if False:  # the server",
        "test_member.py::test_half_of_an_answer_is_cut_when_the_lease_ends",
    ),
    _fleet(
        "a renewal that comes too late renews nothing",
        "member",
        "if _now() >= self._ends:  # this process",
        "if False:  # this process",
        "test_member.py::test_a_renewal_that_is_answered_after_the_lease_has_ended_renews_nothing",
    ),
    _fleet(
        "a boot that is over is fenced",
        "catalogue",
        f"{_ALIVE} RETURNING boot_id",
        "AND ? <> ? AND ? <> '' AND number < ? RETURNING boot_id",
        "test_joining.py::test_a_lease_that_has_ended_is_never_renewed",
        "test_joining.py::test_a_boot_that_has_left_is_not_renewed",
    ),
    _fleet(
        "a boot that is over is fenced, from memory",
        "roster",
        '        if peer.is_lost:\n            raise JoinRefused("fenced"',
        '        if False:\n            raise JoinRefused("fenced"',
        _LENGTHENS,
    ),
    _fleet(
        "what was heard meanwhile brings no lost node back",
        "catalogue",
        f'{_ALIVE}",\n                    (number, boot_id',
        "AND ? <> ? AND ? <> '' AND number < ?\",\n                    (number, boot_id",
        "test_outages.py::test_what_was_heard_of_a_node_that_is_lost_brings_it_not_back",
    ),
    _fleet(
        "a node that said it is over stays so",
        "roster",
        "return self.is_over or self.node.state not in ALIVE",
        "return self.node.state not in ALIVE",
        "test_roster.py::test_a_boot_that_has_said_it_is_over_stays_so",
    ),
    _fleet(
        "nobody is called lost while a gateway may have heard it",
        "catalogue",
        "WHERE quiet < {self._now} AND until > {self._now}",
        "WHERE quiet < 0",
        "test_outages.py::test_no_node_is_called_lost_while_a_gateway_that_is_cut_off_may_have_heard_it",
    ),
    _fleet(
        "a gateway lengthens nothing too early",
        "roster",
        "return contact.ended + self.catalogue.lease_s * LENGTHENS < now <= contact.began",
        "return now <= contact.began",
        _LENGTHENS,
    ),
    _fleet(
        "a gateway lengthens nothing too late",
        "roster",
        "LENGTHENS < now <= contact.began + self._outage_s",
        "LENGTHENS < now",
        _LENGTHENS,
    ),
    _fleet(
        "a gateway that was not quiet keeps its row",
        "catalogue",
        "AND gateway_id <> ? AND quiet > {self._now}",
        "AND gateway_id <> ?",
        "test_outages.py::test_a_gateway_at_the_address_of_one_that_was_quiet_takes_its_place_and_of_no_other",
    ),
    _fleet(
        "of two restorations one succeeds",
        "catalogue",
        "WHERE sandbox_id = ? AND generation = ? RETURNING",
        "WHERE sandbox_id = ? AND ? IS NOT NULL RETURNING",
        "test_joining.py::test_of_two_gateways_that_restore_a_sandbox_one_does",
    ),
    _fleet(
        "snapshots of a later generation are not read",
        "snapshots",
        "if int(each[:6]) < generation]",
        "]",
        "test_restoring.py::test_a_snapshot_has_all_files_and_only_the_newest_stays",
    ),
    _fleet(
        "closing drops no snapshot of a later generation",
        "snapshots",
        "if int(each[:6]) <= generation:",
        "if True:",
        "test_restoring.py::test_a_snapshot_has_all_files_and_only_the_newest_stays",
    ),
    # Twice
    _fleet(
        "what may have begun is not sent again",
        "gateway",
        "if not may_repeat or broken >= _MOST_TRIES:",
        "if broken >= _MOST_TRIES:",
        "test_hostile.py::test_what_a_node_may_have_begun_is_sent_to_no_other_one_and_what_does_no_harm_to_two",
    ),
    _fleet(
        "a program that ends nodes ends two at most",
        "gateway",
        "if not may_repeat or broken >= _MOST_TRIES:",
        "if not may_repeat:",
        "test_hostile.py::test_what_a_node_may_have_begun_is_sent_to_no_other_one_and_what_does_no_harm_to_two",
    ),
    _fleet(
        "a request of one name is not sent elsewhere when its node is lost",
        "gateway",
        "if not may_repeat:\n            told =",
        "if False:\n            told =",
        "test_hostile.py::test_a_request_of_one_name_goes_to_the_node_that_had_it_and_to_no_other_when_that_is_lost",
    ),
    _fleet(
        "a name of a request holds at all gateways",
        "claims",
        "claim.tag.set_result(found.get(name, tag))",
        "claim.tag.set_result(tag)",
        "test_claims.py::test_requests_of_one_name_that_come_to_two_gateways_at_once_go_to_one_node",
        "test_claims.py::test_a_request_of_one_name_goes_to_one_node_through_whichever_gateway",
    ),
    _fleet(
        "a name that another gateway was told of is not given up",
        "catalogue",
        'shared = "" if even_shared else " AND shared = 0"',
        'shared = ""',
        "test_claims.py::test_a_claim_that_another_gateway_was_told_of_is_given_up_only_where_twice_does_no_harm",
    ),
    _fleet(
        "a name that another request was told of is not given up",
        "claims",
        "if claim.is_shared and not even_shared:",
        "if False:",
        "test_claims.py::test_a_node_that_refuses_one_of_two_requests_of_a_name_has_both",
    ),
    _fleet(
        "a name that has moved is where it moved at all gateways",
        "gateway",
        "return other, True",
        "return peer, False",
        "test_claims.py::test_what_went_to_another_node_as_its_own_was_lost_goes_there_at_every_gateway",
    ),
    _fleet(
        "a name of a request is its key's",
        "claims",
        'return f"{key.id}:{',
        'return f":{',
        "test_claims.py::test_names_are_those_of_their_keys",
    ),
    # Other protocols
    _fleet(
        "an endpoint of OpenSandbox is told with the client's key",
        "gateway",
        'if answer.status == 200 and (rewrite := self._rewrite_of(scope["path"])) is not None:',
        "if False:",
        "test_protocols.py::test_sandboxes_of_opensandbox_are_reached_through_the_gateway_by_their_endpoints",
    ),
    Guard(
        "a node tells no proof of its gateway",
        "src/groundbox/protocols/opensandbox.py",
        'headers = {} if "groundbox.fleet" in request.scope else _key_sent(request.headers)',
        "headers = _key_sent(request.headers)",
        ["fleet/test_protocols.py::test_a_node_does_not_tell_what_its_gateway_brought"],
    ),
    Guard(
        "tokens of other keys' submissions",
        "src/groundbox/protocols/judge0.py",
        "return submission if submission is not None and submission.key_id == key.id else None",
        "return submission",
        ["fleet/test_protocols.py::test_submissions_of_another_key_are_not_found"],
    ),
)


class Verdict(NamedTuple):
    """What tests said of one copy: how many failed, and what else went wrong."""

    failed: list[str]
    problem: str
    took_s: float


def main() -> int:
    """Check the guards that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", help="parts of names of guards; all of them without any")
    parser.add_argument("--list", action="store_true", help="print names and tests")
    parser.add_argument("-j", type=int, default=2, metavar="N", help="guards at the same time (2)")
    asked = parser.parse_args()
    chosen = [each for each in GUARDS if not asked.words or any(word in each.name for word in asked.words)]
    if asked.list:
        for each in chosen:
            print(f"{each.name}\n    {each.file}: {', '.join(each.tests)}")
        return 0
    with tempfile.TemporaryDirectory(prefix="guards-") as folder:
        return checked(chosen, Path(folder), at_once=asked.j)


def checked(guards: Sequence[Guard], folder: Path, *, at_once: int) -> int:
    """Run it, and print a line for each guard. Returns the exit status."""
    missing = [each for each in guards if (ROOT / each.file).read_text(encoding="utf-8").count(each.was) != 1]
    for each in missing:
        print(f"NOT FOUND  {each.name}: this text is not there once in {each.file}:\n{each.was}")
    there = [each for each in guards if each not in missing]
    trees: queue.SimpleQueue[Path] = queue.SimpleQueue()
    for number in range(at_once):
        trees.put(copied(folder / str(number)))
    begun = judged(folder / "0", sorted({test for each in there for test in each.tests}))
    if begun.failed or begun.problem:
        print(f"with all guards on, these fail: {', '.join(begun.failed) or begun.problem}")
        return 1
    print(f"with all guards on, their tests pass ({begun.took_s:.0f} s)", flush=True)
    unnoticed = []
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        jobs = {pool.submit(switched_off, each, trees): each for each in there}
        for job in concurrent.futures.as_completed(jobs):
            guard, verdict = jobs[job], job.result()
            if verdict.failed and not verdict.problem:
                print(f"noticed    {guard.name}: {', '.join(verdict.failed)} ({verdict.took_s:.0f} s)", flush=True)
            else:
                unnoticed.append(guard)
                print(f"UNNOTICED  {guard.name}: {verdict.problem or 'no test failed'}", flush=True)
    print(f"{len(guards)} guards, {len(unnoticed)} of them noticed by no test, {len(missing)} not found")
    return 1 if unnoticed or missing else 0


def switched_off(guard: Guard, trees: queue.SimpleQueue[Path]) -> Verdict:
    """What the guard's tests say of a copy without it; the copy is as it was afterwards."""
    tree = trees.get()
    path = tree / guard.file
    text = path.read_text(encoding="utf-8")
    try:
        _write(path, text.replace(guard.was, guard.off))
        return judged(tree, guard.tests)
    finally:
        _write(path, text)
        trees.put(tree)


def _write(path: Path, text: str) -> None:
    """Write a source, with a time that no compiled form of an earlier one has."""
    later = path.stat().st_mtime + 2
    path.write_text(text, encoding="utf-8")
    os.utime(path, (later, later))


def copied(into: Path) -> Path:
    """A copy of the working tree, with what is not committed."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "src", "tests", "pyproject.toml"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in listed.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (into / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, into / name)
    return into


def judged(tree: Path, tests: Sequence[str]) -> Verdict:
    """Run tests of a copy, on its own sources, in one process."""
    began = time.monotonic()
    report = tree / "report.xml"
    report.unlink(missing_ok=True)
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--timeout={_TEST_S}"),
            *(f"--junit-xml={report}", "-k", "not postgres", *(f"tests/{each}" for each in tests)),
        ],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree / "src")},
        capture_output=True,
        text=True,
    )
    took_s = time.monotonic() - began
    if not report.exists():
        return Verdict([], f"pytest ended with {ran.returncode}: {(ran.stdout + ran.stderr)[-500:]}", took_s)
    cases = list(ET.parse(report).iter("testcase"))
    failed = [str(case.get("name")) for case in cases if case.find("failure") is not None]
    broken = [str(case.get("name")) for case in cases if case.find("error") is not None]
    skipped = [str(case.get("name")) for case in cases if case.find("skipped") is not None]
    problem = f"what is around the test broke: {', '.join(broken)}" if broken else ""
    if skipped or not cases:
        problem = f"skipped: {', '.join(skipped)}" if skipped else f"no such test: {', '.join(tests)}"
    return Verdict(failed, problem, took_s)


if __name__ == "__main__":
    sys.exit(main())
