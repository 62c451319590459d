#!/bin/sh
# Builds .venv in the checkout from requirements/dev.txt and installs groundbox into it, editable.
#
#   setup.sh             build, with $PYTHON if that is set, else with the newest that is found
#   setup.sh choose      only print which Python that would be: its version, whether it makes venvs, its real path
#
# Needs a final CPython from 3.11 to 3.13, not free-threaded, that can make virtual environments. Without $PYTHON it is
# looked for on PATH, in /usr/local/bin and /usr/bin, and among what pyenv and uv keep for this user; one in a folder that
# is closed to the user cannot be started here, and so neither by the user's sandboxes. A .venv that is there keeps its own.
# Debian has what makes virtual environments in a package of its own (python3-venv): as root it is installed here,
# otherwise the command to do so is printed.
# Called by the Makefile; safe to call again after it was interrupted.
set -eu

PYTHON=${PYTHON:-}

fail() {
    printf 'setup: %s\n' "$*" >&2
    exit 3
}

# "3.12.1 venv /real/path/of/python" of an interpreter that can be used, else why not, and 1.
ask() {
    "$1" -I -c '
import importlib.util, os, sys, sysconfig
version = ".".join(map(str, sys.version_info[:3]))
lacks = [name for name in ("_bz2", "_ctypes", "_lzma", "_sqlite3", "_ssl", "zlib") if not importlib.util.find_spec(name)]
problem = (
    "not CPython" if sys.implementation.name != "cpython"
    else "Python %s, and groundbox needs 3.11 to 3.13" % version if not (3, 11) <= sys.version_info[:2] <= (3, 13)
    else "Python %s, but not its final release" % version if sys.version_info.releaselevel != "final"
    else "the free-threaded build" if sysconfig.get_config_var("Py_GIL_DISABLED")
    else "built without " + ", ".join(lacks) if lacks
    else ""
)
if problem:
    sys.exit(print(problem) or 1)
try:
    import venv
    from ensurepip import version as pip
    makes = "venv"
except Exception:
    makes = "no-venv"
print(version, makes, os.path.realpath(sys._base_executable or sys.executable))
' 2>/dev/null
}

# Executables that may be a Python, newest release first; some may not be there.
candidates() {
    for release in 3.13 3.12 3.11; do
        echo "$PATH:/usr/local/bin:/usr/bin" | tr : '\n' | sed "/^\$/d; s|\$|/python$release|"
        ls -d "${PYENV_ROOT:-$HOME/.pyenv}/versions/$release".*/bin/python 2>/dev/null | sort -rV || true
        ls -d "${UV_PYTHON_INSTALL_DIR:-$HOME/.local/share/uv/python}/cpython-$release".*/bin/python$release 2>/dev/null | sort -rV || true
    done
    command -v python3 || true
}

# The first that makes virtual environments, else the first that can be used: the facts of `ask`.
newest() {
    candidates | {
        spare=''
        while read -r path; do
            [ -x "$path" ] && facts=$(ask "$path" </dev/null) || continue
            case $facts in
                *\ venv\ *) echo "$facts"; exit ;;
                *) spare=${spare:-$facts} ;;
            esac
        done
        echo "$spare"
    }
}

choose() {
    if [ -n "$PYTHON" ]; then
        command -v "$PYTHON" >/dev/null || fail "there is no $PYTHON that you may run; say PYTHON=/path/to/python3"
        facts=$(ask "$PYTHON") || fail "$PYTHON is ${facts:-no Python that runs}; say PYTHON=/path/to/python3, or leave it out"
    else
        facts=$(newest)
        [ -n "$facts" ] || fail "there is no Python from 3.11 to 3.13 that you may run; install one, or say PYTHON=/path/to/python3"
    fi
}

say_what_it_costs() {
    case $facts in 3.11.*)
        echo "setup: 3.11 does what later ones do, more slowly: checks=True, and traces where no tracer in C can be had" >&2 ;;
    esac
}

make_venvs_possible() {
    case $facts in *\ venv\ *) return ;; esac
    command -v apt-get >/dev/null || fail "$base cannot make virtual environments (no ensurepip); install your system's venv package for it"
    # A Python that is not the system's own may have its package under its version.
    package=python3-venv
    [ "$base" = "$(readlink -f /usr/bin/python3)" ] || package=python${version%.*}-venv
    [ "$(id -u)" = 0 ] || fail "$base cannot make virtual environments; run: sudo apt-get update && sudo apt-get install -y $package"
    echo "setup: $base cannot make virtual environments; installing $package" >&2
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" >&2
}

if [ "${1:-}" = choose ]; then
    choose
    say_what_it_costs
    echo "$facts"
    exit
fi

# One that is half-made, or was moved here from elsewhere, is made anew.
have=$(.venv/bin/python -c 'import os, sys; print(sys.prefix, os.path.realpath(sys._base_executable))' 2>/dev/null || true)
if [ -z "$PYTHON" ] && [ -x .venv/bin/pip ] && facts=$(ask .venv/bin/python) && [ "$have" = "$(pwd -P)/.venv ${facts#* * }" ]; then
    how='which .venv has; `make clean` first to choose anew'
elif [ -n "$PYTHON" ]; then
    choose
    how='as PYTHON says'
else
    choose
    how='the newest here; PYTHON=/path/to/python3 chooses another'
fi
version=${facts%% *}
base=${facts#* * }
echo "setup: Python $version ($base), $how" >&2
say_what_it_costs

if [ "$have" != "$(pwd -P)/.venv $base" ] || [ ! -x .venv/bin/pip ]; then
    make_venvs_possible
    echo "setup: making .venv" >&2
    rm -rf .venv
    "$base" -m venv .venv
fi

echo "setup: installing requirements/dev.txt and groundbox" >&2
.venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
