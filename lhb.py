"""Long-horizon bandits: what programs import, and the `lhb` command.

    from lhb import Client, LaggedGroupLasso, make_agent, simulate

Nothing is loaded before it is asked for. `Client` and its errors need httpx only, the rest needs
the extra `engine`.
"""

import os
import re
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clients import *
    from lhb_engine import *

    __version__: str

DISTRIBUTION = "long-horizon-bandits"
HERE = os.path.dirname(os.path.abspath(__file__))  # `clients` and `service` are in this folder
# A program may have a folder `clients` of its own. This module is a package as well, so that ours
# is lhb.clients then.
__path__ = [HERE]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return version(DISTRIBUTION)
    clients = import_module("clients" if _is_ours("clients") else "lhb.clients")
    sources = [clients, import_module("lhb_engine")]
    if name == "__all__":
        return sorted(["__version__", *(one for source in sources for one in source.__all__)])
    for source in sources:
        if name in source.__all__:
            try:
                return getattr(source, name)
            except ModuleNotFoundError as error:
                raise ImportError(f"{name} {_needs(error)}") from error
    raise AttributeError(f"module 'lhb' has no attribute {name!r}")


def __dir__() -> list[str]:
    names: list[str] = __getattr__("__all__")
    return names


def main() -> None:
    """Run the `lhb` command."""
    if sys.argv[1:] == ["--version"]:
        print(version(DISTRIBUTION))
        return
    # `clients` and `service` are ours, in this process and in those that it starts
    sys.path.insert(0, HERE)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [HERE, os.environ.get("PYTHONPATH")]))
    os.environ["PYTHONSAFEPATH"] = "1"  # not before them, the folder that the command runs in
    try:
        from clients.cli.main import main as run

        run()
    except ModuleNotFoundError as error:
        raise SystemExit(f"lhb: this command {_needs(error)}") from None


def _is_ours(package: str) -> bool:
    """Whether `import package` finds the one beside this file."""
    spec = find_spec(package)
    return spec is not None and spec.origin == os.path.join(HERE, package, "__init__.py")


def _needs(error: ModuleNotFoundError) -> str:
    """Name the missing module and the extra that brings it; raise what is no missing extra."""
    missing = (error.name or "").partition(".")[0]
    extra = _extras().get(missing)
    if extra is None:
        raise error
    return f"needs {missing}, which is not installed: pip install '{DISTRIBUTION}[{extra}]'"


def _extras() -> dict[str, str]:
    """Return the extra of each module that an extra brings."""
    try:
        texts = requires(DISTRIBUTION) or []
    except PackageNotFoundError:  # a checkout that was not installed
        return {}
    found: dict[str, str] = {}
    for text in texts:
        requirement, _, marker = text.partition(";")
        if "extra ==" in marker:
            module = re.split(r"[^\w-]", requirement)[0].lower().replace("-", "_")
            extra = re.split(r"[\"']", marker)[1]
            found.setdefault({"scikit_learn": "sklearn"}.get(module, module), extra)
    return found


if __name__ == "__main__":
    main()
