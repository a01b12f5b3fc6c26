# SPDX-License-Identifier: GPL-2.0
"""The error that a command of the test bed prints as a message, without a traceback."""


class TestbedError(Exception):
    """An error outside of the program; the text says what failed, where, and what to do."""
