"""Conversations of the agent in the console, followed while they go on."""

import json
from pathlib import Path

import pytest

from tests.server.conftest import serving
from tests.server.test_conversations import recording

pytest.importorskip("playwright.sync_api", reason="playwright is not installed here: make clients")
from playwright.sync_api import expect

WAITING = """
import time
print('waiting', flush=True)
time.sleep(globals().get('pause_s', 0))
print('went on')
"""
PICTURE = """
import matplotlib.pyplot as plt
open('table.csv', 'w').write('a,b')
plt.bar(['south', 'west'], [18005, 14820])
plt.show()
print(18005 - 14820)
"""
ANSWER = "South is 3185 ahead of west.\n<b>Nobody</b> else is 777 near."


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server whose model is a recording."""
    folder = tmp_path_factory.mktemp("talk")
    replay = recording(folder / "recording.jsonl", WAITING, PICTURE, ANSWER, mended=True)
    with serving(folder / "log", "--replay", replay) as started:
        yield started


def asked(console, question="Which region leads?"):
    """Ask, and return the conversation's element once a program of it runs."""
    console.write(question, "question")
    console.page.keyboard.press("Control+Enter")
    talk = console.page.locator("#cells > .talk").last
    expect(talk.locator(".cell").first).to_be_visible()
    return talk


def test_each_step_is_seen_while_it_goes_on(console):
    console.run("pause_s = 5")
    talk = asked(console)

    expect(talk.locator(".footer").last).to_have_text("Running program 1…")
    expect(console.page.locator("#interrupt")).to_have_text("Stop")
    expect(console.page.locator("#run")).to_be_disabled()
    expect(talk).to_have_attribute("data-outcome", "ok")
    expect(talk.locator(".cell")).to_have_count(2)
    assert talk.locator(".question").inner_text() == "Which region leads?"
    assert talk.locator(".printed").first.inner_text() == "waiting\nwent on\n"
    assert talk.locator(".picture img").count() == 1
    assert talk.locator(".answer").inner_text().startswith("South is 3185 ahead of west.\n<b>Nobody</b>")
    assert "777" in talk.locator(".answer .warning").first.inner_text()
    assert talk.locator("b").count() == 0
    assert "table.csv" in console.page.locator("#files").inner_text()
    expect(console.page.locator("#run")).to_be_enabled()


def test_it_is_followed_again_after_the_page_was_left_and_stopped(console):
    console.run("pause_s = 150")
    asked(console)
    console.page.reload()
    console.page.locator("html[data-ready]").wait_for(state="attached")
    talk = console.page.locator("#cells > .talk")
    expect(talk.locator(".footer").last).to_have_text("Running program 1…")

    console.page.locator("#interrupt").click()

    expect(talk).to_have_attribute("data-outcome", "bound")
    assert "it was called off" in talk.locator(".footer").last.inner_text()
    cell = console.run("1 + 1")
    assert cell.locator(".value").inner_text() == "2"


def test_one_that_is_over_is_there_again_between_the_runs_and_in_the_notebook(console):
    console.run("print('before')")
    talk = asked(console)
    expect(talk).to_have_attribute("data-outcome", "ok")
    console.run("print('after')")

    console.page.reload()
    console.page.locator("html[data-ready]").wait_for(state="attached")
    expect(console.page.locator("#cells > li")).to_have_count(3)
    kinds = [each.get_attribute("class").split()[0] for each in console.page.locator("#cells > li").all()]
    with console.page.expect_download() as downloading:
        console.page.locator("#save-notebook").click()
    cells = json.loads(Path(downloading.value.path()).read_text())["cells"]

    assert kinds == ["cell", "talk", "cell"]
    assert [each["source"][-1].strip() for each in cells] == [
        "print('before')",
        "print('went on')",
        "print(18005 - 14820)",
        "print('after')",
    ]


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_axe_finds_nothing_and_nothing_is_wider_than_the_screen(opened, scheme, width):
    axe = pytest.importorskip("axe_playwright_python.base", reason="axe is not installed here: make clients")
    console = opened(color_scheme=scheme, viewport={"width": width, "height": 844}).enter()
    talk = asked(console)
    expect(talk).to_have_attribute("data-outcome", "ok")
    console.page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")

    found = console.page.evaluate(axe.AXE_SCRIPT + "\n;axe.run(document, {iframes: false})")["violations"]
    widest = console.page.evaluate("document.documentElement.scrollWidth")

    assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in found] == []
    assert widest <= width
