"""A nosy program: it looks for what is on the machine that it runs on, and finds next to nothing."""

# %%
import os


def attempt(name, action):
    try:
        found = action()
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
    print(f"{name:<32} {found}")


attempt("who am I", os.getuid)
attempt("processes that I can see", lambda: len([name for name in os.listdir("/proc") if name.isdigit()]))
attempt("password hashes", lambda: open("/etc/shadow").read())
attempt("other people's homes", lambda: os.listdir("/home"))
attempt("the first process's environment", lambda: len(open("/proc/1/environ").read()))
attempt("writing a program to /usr/bin", lambda: open("/usr/bin/mine", "w"))
attempt("a setting of the kernel", lambda: open("/proc/sys/kernel/core_pattern", "w"))
attempt("becoming root", lambda: os.setuid(0))
attempt("variables of the environment", lambda: " ".join(sorted(os.environ)))
