"""Environments: the packages that guests import, each a venv built from a hashed lock.

Covered: finding the interpreter, building, testing, switching, rolling back, checking and removing.
Not covered: a wall around the build. Only wheels are installed (a source distribution would run its
setup here, on the host), but the self-test imports the packages outside any sandbox, with the rights
of whoever builds.

An environment is a folder of versions and a symbolic link to the one in use:

    $GROUNDBOX_HOME/environments/
        .default.lock                    held by whoever builds, switches or removes `default`
        default/current -> versions/ID
        default/versions/ID/             never changes once it has this name
            venv/ caches/ lock.txt environment.json
            lease                        locked, shared, by everyone who runs from this version
        default/versions/ID.building/    the next one, until it has passed its tests
        default/versions/ID.removing/    half deleted

A build never touches what exists: it works in `ID.building`, is renamed when its self-test has passed,
and then `current` is replaced by a rename, so that there is no moment without a working version.
Whoever is killed in between leaves a `.building` folder and nothing else; the next build sweeps it up.
Sandboxes hold a lease on the version they started from; of the versions that nobody leases,
the current one and the two newest others are kept.
"""

from groundbox.sandbox.environments.build import add, create, remove, rollback, update
from groundbox.sandbox.environments.health import Finding, check
from groundbox.sandbox.environments.store import (
    Environment,
    all,
    data_home,
    find,
    get,
    lease,
    names,
    version_link,
    which_has,
)

__all__ = [
    "Environment",
    "Finding",
    "add",
    "all",
    "check",
    "create",
    "data_home",
    "find",
    "get",
    "lease",
    "names",
    "remove",
    "rollback",
    "update",
    "version_link",
    "which_has",
]
