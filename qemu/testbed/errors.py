# SPDX-License-Identifier: GPL-2.0
"""The error that a command of the test bed shows as a message instead of a traceback."""


class TestbedError(Exception):
    """Something outside the program is wrong; the text says what, where and what to do."""
