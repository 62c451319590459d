"""The program that conftest starts: plays the template and the worker for one test."""

import json
import os
import signal
import sys
import threading

sys.path.insert(0, sys.argv[1])
report = open(sys.argv[2], "w")  # noqa: SIM115
order = json.loads(sys.argv[3])


def tell(item):
    report.write(json.dumps(item) + "\n")
    report.flush()


if "script" in order:
    from groundbox.guest.python.scripts import run_script

    if order.get("ipython"):
        from groundbox.guest.python.cells import CellRunner

        CellRunner(ipython=True)
    run_script(order["script"], filename="main.py", argv=order["argv"], report=tell)

from groundbox.guest.python.cells import CellRunner  # noqa: E402

for module in order.get("imports", []):
    __import__(module)
runner = CellRunner(ipython=order["ipython"])
if order.get("warm"):
    runner.warm_up()
if order.get("template_facts"):
    facts = {
        "threads": len(os.listdir("/proc/self/task")),
        "names": sorted(runner._namespace),
        "sigint": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
        "fonts": sum("/fonts/" in os.path.realpath(f"/proc/self/fd/{each}") for each in os.listdir("/proc/self/fd")),
    }
    print(json.dumps(facts), flush=True)
runner.environment_packages = order.get("packages", {})
events = []
runner.emit = events.append
if order.get("fork") and (child := os.fork()):
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
runner.after_fork()
for source in order["cells"]:
    events.clear()
    if order.get("interrupt_after_s"):
        threading.Timer(order["interrupt_after_s"], os.kill, (os.getpid(), signal.SIGINT)).start()
    result = runner.run(source)
    tell({"result": result, "events": events})
sys.stdout.flush()
os._exit(0)
