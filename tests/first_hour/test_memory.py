"""Memory: what is enough by default, what is said when it is not, and what programs are told of it."""

import pytest

import groundbox as gb
from groundbox.limits import GiB, MiB, usual_memory_bytes

ENOUGH = pytest.mark.skipif(usual_memory_bytes() < 1 * GiB, reason="the machine has less than 4 GiB of memory")


@ENOUGH
def test_a_csv_file_of_200_mb_is_read_with_pandas_at_the_default_limits():
    write = "lines = ''.join(f'{i},2024-01-{i % 28 + 1:02d},product-{i % 97},{i / 7:.4f}\\n' for i in range(30_000))"

    with gb.Sandbox() as box:
        box.run(
            f"{write}\nwith open('big.csv', 'w') as file:\n    file.write('id,day,product,price\\n')\n"
            "    while file.tell() < 200_000_000:\n        file.write(lines)\ndel lines"
        )
        read = box.run(
            "import os\nimport pandas as pd\ndf = pd.read_csv('big.csv')\n"
            "means = df.sort_values('price').groupby('product').price.mean()\n(os.path.getsize('big.csv'), len(means))"
        )

    assert read.error is None
    assert read.value["text/plain"].endswith(", 97)")


def test_the_default_is_a_quarter_of_the_machine_within_bounds():
    limits = gb.Limits()

    assert 512 * MiB <= limits.memory_bytes <= 2 * GiB
    assert limits.memory_bytes % MiB == 0
    assert limits.disk_bytes == limits.memory_bytes // 2


def test_whoever_fills_memory_with_files_hears_that_files_count():
    with gb.Sandbox(limits=gb.Limits(memory_bytes=96 * MiB, disk_bytes=256 * MiB)) as box:
        error = box.run("open('f', 'wb').write(bytes(60 << 20)); open('g', 'wb').write(bytes(60 << 20))").error

    assert error.type in ("OutOfMemory", "MemoryError")
    assert any("Files in the workdir" in hint and "count, too" in hint for hint in error.hints)


def test_psutil_tells_the_limits_of_the_sandbox():
    source = (
        "import psutil\nbefore = psutil.virtual_memory()\nheld = bytearray(b'x') * (100 << 20)\n"
        "open('f', 'wb').write(bytes(20 << 20))\nafter = psutil.virtual_memory()\n"
        "grown = after.used - before.used >> 20\n"
        "(before.total, before.percent < 60, 110 < grown < 135, psutil.swap_memory().total)"
    )

    with gb.Sandbox(limits=gb.Limits(memory_bytes=384 * MiB)) as box:
        told = box.run(source)
        script = box.run("import psutil\nprint(psutil.virtual_memory().total)", mode="script")

    assert told.error is None
    assert told.value["text/plain"] == f"({384 * MiB}, True, True, 0)"
    assert script.stdout == f"{384 * MiB}\n"


def test_psutil_tells_processor_times_of_the_sandbox():
    with gb.Sandbox() as box:
        told = box.run(
            "import psutil, time\nbusy = psutil.cpu_percent()\nend = time.process_time() + 0.2\n"
            "while time.process_time() < end: pass\nnow = psutil.cpu_percent()\n"
            "process = psutil.Process()\n"
            "(0 < now <= 100, abs(time.time() - process.create_time()) < 3600, 0 < process.memory_percent() < 100)"
        )

    assert told.error is None
    assert told.value["text/plain"] == "(True, True, True)"
