"""Exceptions, by who has to act.

``code`` is the exit code of the command line for the same error. ``kind`` is the word that its
``--json`` output has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from .results import Counterfactuals


class IfonlyError(Exception):
    """Base class of all exceptions of this package."""

    code: ClassVar[int] = 1
    kind: ClassVar[str] = "machine"

    #: Index of the person in the call that the error concerns, counted from 0, if any.
    person: int | None = None
    #: Answers of the other people in the call, if any.
    results: Counterfactuals | None = None


class InputError(IfonlyError, ValueError):
    """Invalid input: table, option, profile or wish.

    >>> import ifonly
    >>> try:
    ...     ifonly.build("nowhere.csv", "nowhere.bundle", servers=0)
    ... except ifonly.IfonlyError as error:
    ...     print(error.code, error.kind)
    1 machine
    """

    code = 4
    kind = "input"


class ServersError(IfonlyError, ConnectionError):
    """Too few servers were reachable or answered."""

    code = 5
    kind = "servers"


class IntegrityError(IfonlyError):
    """The servers contradict each other or sent invalid data. No answer is returned."""

    code = 6
    kind = "integrity"


class MachineError(IfonlyError, OSError):
    """An error of this machine, such as a port in use or a file that cannot be read."""

    code = 1
    kind = "machine"
