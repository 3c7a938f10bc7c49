"""Private counterfactual retrieval: finds the nearest accepted record without revealing the query.

>>> import ifonly, pandas as pd
>>> jobs, approved = ["nurse", "baker", "nurse"], [True, False, True]
>>> loans = pd.DataFrame({"income": [2100, 900, 1800], "job": jobs, "approved": approved})
>>> report = ifonly.build(loans, "loans.bundle", accepted="approved")
>>> with ifonly.serve("loans.bundle") as deployment:
...     found = deployment.explainer().generate_counterfactuals({"income": 900, "job": "baker"})
>>> found[0].record["income"]
1800

Rust handles all secrets. It draws random numbers from the operating system; Python code never
handles secret shares.
"""

from . import errors
from ._ask import Explainer
from ._build import BuildReport, build, inspect
from ._ifonly import __version__
from ._lab import attack, attacks, leakage
from ._serve import Deployment, keygen, serve
from .errors import IfonlyError, InputError, IntegrityError, MachineError, ServersError
from .results import Answer, Change, Counterfactual, Counterfactuals

__all__ = [
    "Answer",
    "BuildReport",
    "Change",
    "Counterfactual",
    "Counterfactuals",
    "Deployment",
    "Explainer",
    "IfonlyError",
    "InputError",
    "IntegrityError",
    "MachineError",
    "ServersError",
    "__version__",
    "attack",
    "attacks",
    "build",
    "errors",
    "inspect",
    "keygen",
    "leakage",
    "serve",
]
