#!/bin/sh
# Builds .venv in the checkout from requirements/dev.txt and installs groundbox into it, editable.
#
# Needs a Python from 3.11 to 3.13 that can make virtual environments. Debian keeps that part in a package
# of its own (python3-venv): as root it is installed here, otherwise the command to do so is printed.
# Called by the Makefile; safe to call again after it was interrupted.
set -eu

PYTHON=${PYTHON:-python3}

fail() {
    printf 'setup: %s\n' "$*" >&2
    exit 3
}

command -v "$PYTHON" >/dev/null || fail "there is no $PYTHON; install Python 3.11 to 3.13, or say PYTHON=/path/to/python3"
version=$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])') || fail "$PYTHON does not run"
case $version in
    3.11 | 3.12 | 3.13) ;;
    *) fail "$PYTHON is Python $version, and groundbox needs 3.11 to 3.13; say PYTHON=/path/to/python3" ;;
esac

if ! "$PYTHON" -c 'import venv; from ensurepip import version' 2>/dev/null; then
    command -v apt-get >/dev/null || fail "$PYTHON cannot make virtual environments (no ensurepip); install your system's venv package for it"
    # A Python that is not the system's own may have its package under its version.
    package=python3-venv
    [ "$version" = "$(/usr/bin/python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')" ] || package=python$version-venv
    [ "$(id -u)" = 0 ] || fail "$PYTHON cannot make virtual environments; run: sudo apt-get update && sudo apt-get install -y $package"
    echo "setup: $PYTHON cannot make virtual environments; installing $package" >&2
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" >&2
fi

# A half-made .venv, one of another Python, or one moved here from elsewhere is made anew.
have=$(.venv/bin/python -c 'import sys; print("%d.%d %s" % (*sys.version_info[:2], sys.prefix))' 2>/dev/null || true)
if [ "$have" != "$version $(pwd -P)/.venv" ] || [ ! -x .venv/bin/pip ]; then
    echo "setup: making .venv with Python $version" >&2
    rm -rf .venv
    "$PYTHON" -m venv .venv
fi

echo "setup: installing requirements/dev.txt and groundbox" >&2
.venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
