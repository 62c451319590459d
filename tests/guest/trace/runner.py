"""A tracer to be asked: programs come in as JSON lines, each is traced in a forked child, its records go out.

Runs on any interpreter that the guest supports, without what the host has installed: `groundbox` itself is not
imported, only the package of the tracer.

Usage: python runner.py SRC, where SRC is the folder that has `groundbox`.
"""

import base64
import json
import mmap
import os
import resource
import sys
import types

CPU_S = 10


def import_tracer(src):
    for name in ("groundbox", "groundbox.guest"):
        package = types.ModuleType(name)
        package.__path__ = [os.path.join(src, *name.split("."))]
        sys.modules[name] = package
    from groundbox.guest.trace import tracer

    return tracer


def run(tracer, order, memory):
    """In the child: trace the program as `__main__`."""
    module = types.ModuleType("__main__")
    module.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = module
    code = compile(order["source"], "main.py", "exec")
    recording = None
    if order["core"] != "none":
        tracer.NATIVE = order["native"]
        recording = tracer.start(code, order["source"], memory, core=order["core"], **order["options"])
    try:
        exec(code, module.__dict__)
    except SystemExit:
        pass
    except BaseException as fault:
        print(f"{type(fault).__name__}: {fault}", file=sys.__stderr__)
    if recording is not None:
        recording.stop(ended=True)


def answer(tracer, order):
    memory = mmap.mmap(-1, order["bytes"] + 8)
    outputs = os.memfd_create("out"), os.memfd_create("err")
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
        os.dup2(outputs[0], 1)
        os.dup2(outputs[1], 2)
        try:
            run(tracer, order, memory)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
    status = os.waitpid(child, 0)[1]
    data = memory[8 : 8 + int.from_bytes(memory[:8], "little")]
    texts = [os.pread(output, 1 << 20, 0).decode() for output in outputs]
    for output in outputs:
        os.close(output)
    return {"records": base64.b64encode(data).decode(), "stdout": texts[0], "stderr": texts[1], "status": status}


def main():
    tracer = import_tracer(sys.argv[1])
    for line in sys.stdin:
        print(json.dumps(answer(tracer, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
