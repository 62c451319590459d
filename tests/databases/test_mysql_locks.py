"""What in a statement counts as taking a lock on MySQL and MariaDB."""

import time

import pytest

from groundbox.databases.mysql_locks import lock_in


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1 FOR SHARE",
        "SELECT 1 lock in share mode",
        "SELECT 1 LOCK/**/IN/*x*/SHARE MODE",
        "SELECT a FROM t WHERE a > 1e5for share",
        "SELECT 1 lock -- x\n in # y\n share mode",
        f"SELECT 1 FOR{'/**/' * 100}SHARE",
        f"SELECT 1 FOR /*{'x' * 100_000}*/ SHARE",
        f"SELECT 1 LOCK IN --{'x' * 200}\nSHARE MODE",
        f"SELECT 1 LOCK{' /**/' * 40}IN SHARE MODE",
        f"SELECT 1 FOR{' ' * 100_000}SHARE",
        f"SELECT '{'x' * (1 << 20)}' FOR SHARE",
        "SELECT '/*' LOCK IN SHARE MODE -- */",
        "SELECT 1 LOCK /*!50000 IN SHARE MODE */",
        "SELECT 1 FOR /*M!100000 SHARE */",
        "SELECT Get_Lock('app', 0)",
        "SELECT service_get_write_locks('a', 'b', 0)",
    ],
)
def test_what_takes_a_lock_is_told(sql):
    assert lock_in(sql) is not None


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT platform share FROM t",
        "SELECT substring(a FROM 1 FOR 3), share FROM t",
        "SELECT share FROM t FOR SYSTEM_TIME ALL",
        "SELECT concat('for ', 'share'), concat('get_', 'lock'), concat('/', '*!')",
        "SELECT widget_lock, get_locked, share FROM t /* in lock */",
        "SELECT shares FROM t WHERE what = 'for shares'",
    ],
)
def test_what_takes_none_is_sent(sql):
    assert lock_in(sql) is None


@pytest.mark.parametrize("unit", ["for ", "lock in ", "for#for#\n", "/*for/*a*/", "for/**/", "for --\n--\n"])
def test_the_time_stays_in_proportion_to_the_length(unit):
    def taken(chars):
        begun = time.process_time()
        lock_in("share " + unit * (chars // len(unit)))
        return time.process_time() - begun

    assert taken(1 << 19) < 60 * max(taken(1 << 15), 0.001)
