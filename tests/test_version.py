"""The version that cards, reports and servers tell."""

from importlib import metadata

import groundbox as gb
from groundbox.version import UNKNOWN, own_version


def test_it_is_that_of_the_package():
    assert own_version() == metadata.version("groundbox")


def test_what_was_never_installed_has_one_too(monkeypatch):
    """A training that ran from a folder of sources ended, after its last step, for want of a version to tell."""

    def unknown(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", unknown)

    assert own_version() == UNKNOWN


def test_the_package_says_its_version():
    assert gb.__version__ == own_version()
    assert "__version__" in dir(gb)
