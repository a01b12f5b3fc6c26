# SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
"""Errors of liblsmem as exceptions, and modules that need not be there."""

from __future__ import annotations

import importlib
import os
from typing import Any, Callable, Optional


# lsm_strerror() when the library is loaded (_lib.py)
strerror: Callable[[int], str] = os.strerror


class Error(OSError):
    """A call of liblsmem has failed; errno says why.

    version: of EILSEQ (another version was expected): the present version of the object, else None.
    """

    def __init__(self, number: int, what: str, version: Optional[int] = None) -> None:
        super().__init__(number, f"{what}: {self.words(number)}")
        self.version = version

    @staticmethod
    def words(number: int) -> str:
        """What @number means."""
        return strerror(number)


class Revoked(Error):
    """A snapshot was revoked, because the scan was too slow: what it has given is not all. ECANCELED."""

    @staticmethod
    def words(number: int) -> str:
        return "the snapshot was revoked; batches so far are not all"


class ViewRevoked(Revoked):
    """A view was revoked, because it lasted too long: what was read of it may be wrong. ECANCELED."""

    @staticmethod
    def words(number: int) -> str:
        return "the view was revoked; what was read may be wrong"


def wanted(name: str, purpose: str) -> Any:
    """The module @name, which is optional."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"lsmem: {purpose} needs {name}, which cannot be imported ({error}): "
                          f"pip install {name}") from error
