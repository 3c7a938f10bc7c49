"""What can go wrong, by who has to do something about it.

``code`` is the exit code of the command line for the same fault, ``kind`` the word that its ``--json`` prints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from .results import Counterfactuals


class IfonlyError(Exception):
    """The base of all exceptions of this package."""

    code: ClassVar[int] = 1
    kind: ClassVar[str] = "machine"

    #: Which of the people of a call it was about, counted from 0, if it was about one.
    person: int | None = None
    #: What the other people of the call got, if there were others.
    results: Counterfactuals | None = None


class InputError(IfonlyError, ValueError):
    """What the caller gave: a table, an option, a profile, a wish.

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
    """Too few servers could be reached or would answer."""

    code = 5
    kind = "servers"


class IntegrityError(IfonlyError):
    """Servers contradict each other or gave something impossible. No explanation is shown."""

    code = 6
    kind = "integrity"


class MachineError(IfonlyError, OSError):
    """This machine: a port, a file that cannot be read or written."""

    code = 1
    kind = "machine"
