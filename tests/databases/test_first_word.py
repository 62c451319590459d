"""How a statement for a server is refused that hides its first word."""

import asyncio
import time

import pytest

from groundbox.databases import mysql, postgres
from groundbox.databases.database import Database

NO_WORD = "the statement has no word in its first 64 KiB: put blanks and comments behind the first word"
ASKED = [(mysql, "mysql://reader@/shop?unix_socket=/none"), (postgres, "postgresql://reader@/shop?host=/none")]


def refusal(driver, url, sql):
    """The message, and the processor time that it took."""
    begun = time.process_time()
    answer = asyncio.run(driver.ask("shop", Database(url=url), sql))
    return answer.failure["message"], time.process_time() - begun


@pytest.mark.parametrize(("driver", "url"), ASKED)
@pytest.mark.parametrize("sql", ["/*" + "*" * (8 << 20), "/**/" * (2 << 20) + "select 1", " " * (1 << 16) + "select 1"])
def test_a_first_word_far_behind_is_refused(driver, url, sql):
    assert refusal(driver, url, sql)[0] == NO_WORD


@pytest.mark.parametrize(("driver", "url"), ASKED)
def test_a_longer_comment_takes_no_longer_to_be_refused(driver, url):
    short = min(refusal(driver, url, "/*" + "*" * (1 << 17))[1] for _ in range(3))

    long = min(refusal(driver, url, "/*" + "*" * (1 << 23))[1] for _ in range(3))

    assert long < 10 * short


@pytest.mark.parametrize(("driver", "url"), ASKED)
def test_a_word_in_the_first_characters_is_found(driver, url):
    message = refusal(driver, url, "/*" + "*" * 60_000 + "*/ delete from orders /*" + "*" * (1 << 20))[0]

    assert message.endswith("; not DELETE")
