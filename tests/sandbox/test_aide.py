"""Small orders during a run: programs are started and files are handled while a cell keeps the worker busy."""

import asyncio
import contextlib
import functools

import pytest

import groundbox as gb
from groundbox.errors import GuestProcessError

WAIT = "import os, time\nwhile not os.path.exists('go'):\n    time.sleep(0.01)\n"


def on_a_loop(test):
    @functools.wraps(test)
    def run():
        asyncio.run(test())

    return run


@contextlib.asynccontextmanager
async def aided(**options):
    """A sandbox with an aide, that has run a program."""
    async with gb.AsyncSandbox(**options) as box:
        box.use_aide()
        await box.run("0")
        yield box


@contextlib.asynccontextmanager
async def running(box, source):
    """A run that lasts until a file `go` is there, which the block has to make; gives the task of the run."""
    task = asyncio.ensure_future(box.run(WAIT + source))
    await asyncio.sleep(0)  # it holds the lock from now on
    try:
        yield task
    finally:
        await asyncio.wait({task})


async def printed_by(process):
    return b"".join([chunk.data async for chunk in process.output()])


@on_a_loop
async def test_programs_start_and_files_are_handled_while_a_cell_runs():
    async with aided() as box:
        async with running(box, "print(open('go').read())") as run:
            process = await box.start("echo out; cat; exit 3")
            await process.write("typed")
            await process.close_stdin()
            printed, ended = await printed_by(process), await process.wait()
            listed = await box.guest_files.list("/box")
            assert not run.done()
            await box.guest_files.write("go", "went")
        execution = run.result()

    assert (printed, ended) == (b"out\ntyped", (3, None))
    assert "work" in [entry.name for entry in listed.entries]
    assert execution.stdout == "went\n"


@on_a_loop
async def test_what_was_started_beside_a_run_outlives_it_and_what_the_run_left_does_not():
    async with aided() as box:
        async with running(box, "import subprocess; left = subprocess.Popen(['sleep', '1000'])"):
            kept = await box.start("sleep 1000")
            await box.guest_files.write("go", "")
        script = await box.run("import subprocess; subprocess.Popen(['sleep', '2000'])", mode="script")
        names = "[open(f'/proc/{pid}/cmdline').read() for pid in os.listdir('/proc') if pid.isdigit()]"
        alive = (await box.run(f"import os\n{names}")).text
        assert kept.exit is None

    assert script.outcome is gb.Outcome.OK
    assert "1000" in alive
    assert "2000" not in alive


@on_a_loop
async def test_a_restart_ends_the_aide_and_the_next_run_has_another():
    async with aided() as box:
        async with running(box, ""):
            before = await box.start("sleep 1000")
            await box.guest_files.write("go", "")
        await box.restart()
        await box.run("import os; os.remove('go')")
        async with running(box, "") as run:
            process = await box.start("echo again")
            printed = await printed_by(process)
            assert not run.done()
            await box.guest_files.write("go", "")

    assert (before.exit.signal, printed) == (9, b"again\n")


@on_a_loop
async def test_an_aide_that_the_guest_has_killed_is_replaced_by_the_next_run():
    kill = "for pid in filter(str.isdigit, os.listdir('/proc')):\n    pid != '1' and os.kill(int(pid), 9)\n"
    async with aided() as box:
        await box.run("import os, time\n" + kill + "time.sleep(0.3)")  # a process that dies takes a moment
        async with running(box, "") as run:
            process = await box.start("echo again")
            printed = await printed_by(process)
            assert not run.done()
            await box.guest_files.write("go", "")

    assert printed == b"again\n"


@on_a_loop
async def test_orders_wait_for_the_run_if_no_process_can_be_had_for_an_aide():
    async with gb.AsyncSandbox(limits=gb.Limits(process_count=1)) as box:
        box.use_aide()
        execution = await box.run("print(1)")
        listed = await box.guest_files.list(".")

    assert (execution.stdout, listed.entries) == ("1\n", [])


@on_a_loop
async def test_an_asker_that_is_cancelled_leaves_the_aide_ready_for_the_next_order():
    async with aided() as box, running(box, "") as run:
        for _ in range(20):
            task = asyncio.ensure_future(box.start("sleep 1000"))
            await asyncio.sleep(0.001)
            task.cancel()
            await asyncio.wait({task})
        printed = await printed_by(await box.start("echo ready; pgrep -c sleep || true"))
        assert not run.done()
        await box.guest_files.write("go", "")

    assert printed.startswith(b"ready\n")


@on_a_loop
async def test_a_program_that_cannot_be_started_says_why_during_a_run():
    async with aided() as box, running(box, ""):
        with pytest.raises(GuestProcessError, match="No such file or directory"):
            await box.start(["/no/such/program"])
        await box.guest_files.write("go", "")


@on_a_loop
async def test_results_are_the_guests_word_as_soon_as_there_is_an_aide():
    async with gb.AsyncSandbox() as box:
        alone = await box.run("print(1)", mode="script")
        box.use_aide()
        aided_run = await box.run("print(1)", mode="script")

    assert alone.trust != aided_run.trust == "guest"
