"""Build the wheel: `lhb.py` becomes the package `lhb`, which holds `clients` and `service`.

Benchmarks stay in the repository.

At the top level of an environment, `clients` and `service` would hide folders of these names in a
user's own program, and be hidden by them.
"""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWheel(build_py):
    """Move what was built below `lhb`; a development install is left as the repository is."""

    def run(self) -> None:
        """Build, then move."""
        super().run()
        if self.editable_mode:
            return
        built = Path(self.build_lib)
        shutil.rmtree(built / "benchmarks", ignore_errors=True)
        package = built / "lhb"
        shutil.rmtree(package, ignore_errors=True)
        package.mkdir()
        face = built / "lhb.py"
        text = face.read_text().replace("from clients import", "from lhb.clients import")
        (package / "__init__.py").write_text(text)
        face.unlink()
        (package / "py.typed").touch()
        for name in ("clients", "service"):
            (built / name).rename(package / name)


setup(cmdclass={"build_py": BuildWheel})
