"""Exceptions, by who has to act.

``exit_code``, ``kind``, ``code`` and ``arguments`` have the values of ``ifonly ask --json`` for the
same error.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from .results import Counterfactuals


class IfonlyError(Exception):
    """Base class of all exceptions of this package."""

    exit_code: ClassVar[int] = 1
    kind: ClassVar[str] = "machine"

    #: Code of the error; its kind if it has no other code.
    code: str = "machine"
    #: Arguments of the code, by name.
    arguments: Mapping[str, Any] = MappingProxyType({})

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
    ...     print(error.exit_code, error.kind)
    1 machine
    """

    exit_code = 4
    kind = code = "input"


class ServersError(IfonlyError, ConnectionError):
    """Too few servers were reachable or answered."""

    exit_code = 5
    kind = code = "servers"


class IntegrityError(IfonlyError):
    """The servers contradict each other or sent invalid data. No answer is returned."""

    exit_code = 6
    kind = code = "integrity"


class MachineError(IfonlyError, OSError):
    """An error of this machine, such as a port in use or a file that cannot be read."""

    exit_code = 1
    kind = code = "machine"
