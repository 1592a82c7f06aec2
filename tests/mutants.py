"""Which small changes of the code do the tests not notice? Mutants by Cosmic Ray, in a warm pytest.

    python -m tests.mutants --sample 10 lhb_engine/lasso/*.py -- tests/lhb_engine/lasso

All tests run once; which functions each of them calls is noted. A mutant replaces the code of its
function in a fork. There the tests that call this function run, the quickest first, until one
fails. No file is changed. Code outside functions has no mutants. What survives is printed.
"""

import argparse
import difflib
import functools
import gc
import os
import random
import re
import select
import signal
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, NamedTuple

import pytest

# changes that nobody makes by mistake, or that change nothing
SKIPPED = re.compile(
    r".*(Bit(Or|And|Xor)|(L|R)Shift|_Pow|_FloorDiv|_Mod|_Is|_IsNot)(_|$)"
    r"|.*(ExceptionReplacer|RemoveDecorator)"
)
EraseCursor = tuple[str, int]  # a function's qualified name and first line


class Mutant(NamedTuple):
    """A module's source with one change, and the code of the functions that differ."""

    source: str
    functions: dict[EraseCursor, CodeType]


def functions_in(code: CodeType) -> dict[EraseCursor, CodeType]:
    """Code of every function, class body and comprehension in `code`."""
    out = {}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            out[constant.co_qualname, constant.co_firstlineno] = constant
            out |= functions_in(constant)
    return out


def mutants(path: str, seed: int) -> Iterator[Mutant]:
    """A module's mutants in random order; the first one changes nothing."""
    from cosmic_ray.commands.init import _all_work_items
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    source, full = Path(path).read_text(), os.path.realpath(path)
    plain = functions_in(compile(source, full, "exec", dont_inherit=True))
    yield Mutant(source, plain)
    changes = [change for item in _all_work_items([path], {}) for change in item.mutations]
    random.Random(f"{seed} {path}").shuffle(changes)
    for change in changes:
        if SKIPPED.match(change.operator_name):
            continue
        operator = get_operator(change.operator_name)(**change.operator_args)
        text = mutate_code(source, operator, change.occurrence) or source
        try:
            code = functions_in(compile(text, full, "exec", dont_inherit=True))
        except SyntaxError:
            continue
        changed = {k: v for k, v in code.items() if k in plain and v != plain[k]}
        if changed:
            yield Mutant(text, changed)


class MutantRun:
    """A pytest plugin: the tests once, then each mutant in a fork."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.callers: dict[tuple[str, EraseCursor], set[pytest.Item]] = defaultdict(set)
        self.seconds: dict[pytest.Item, float] = {}
        self.failed: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note what fails."""
        if report.failed and not hasattr(report, "wasxfail"):
            self.failed.append(report.nodeid)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the tests and the mutants, and print what survives."""
        for i, item in enumerate(session.items):
            self._watch(item, session.items[i + 1] if i + 1 < len(session.items) else None)
        if self.failed:
            raise session.Failed(f"without any mutant these fail: {self.failed}")
        for path in self.options.modules:
            self._module(path)
        return True

    def _watch(self, item: pytest.Item, following: pytest.Item | None) -> None:
        called: set[CodeType] = set()

        def profile(frame: FrameType, event: str, _: Any) -> None:
            if event == "call":
                called.add(frame.f_code)

        start = time.process_time()
        threading.setprofile(profile)
        sys.setprofile(profile)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
        self.seconds[item] = time.process_time() - start
        for code in called:
            self.callers[code.co_filename, (code.co_qualname, code.co_firstlineno)].add(item)

    def _module(self, path: str) -> None:
        outcomes: Counter[str] = Counter()
        original = Path(path).read_text()
        for mutant in mutants(path, self.options.seed):
            outcome = self._outcome(os.path.realpath(path), mutant)
            if mutant.source == original:
                if outcome == "killed":
                    raise RuntimeError(f"{path}: the tests fail in a fork without any change")
                continue
            outcomes[outcome] += 1
            if outcome != "killed":
                lines = original.splitlines(), mutant.source.splitlines()
                change = list(difflib.unified_diff(*lines, n=0, lineterm=""))[2:]
                print(f"\n{path} {outcome}", *change, sep="\n", flush=True)
            if outcomes.total() == self.options.sample:
                break
        print(f"\n{path}: {dict(outcomes)}", flush=True)

    def _outcome(self, path: str, mutant: Mutant) -> str:
        """`killed`, `survived`, or `untested` where no test calls what differs."""
        callers = set().union(*(self.callers.get((path, k), set()) for k in mutant.functions))
        tests, left = [], float(self.options.seconds)
        for test in sorted(callers, key=lambda test: self.seconds[test]):
            left -= self.seconds[test]
            if left >= 0.0 or not tests:
                tests.append(test)
        if not tests:
            return "untested"
        here, there = os.pipe()
        child = os.fork()
        if child == 0:
            os.setpgid(0, 0)
            survives = False
            try:
                survives = self._survives(path, mutant, tests)
            finally:
                os.write(there, b"survived" if survives else b"killed")
                os._exit(0)
        os.close(there)
        # a mutant that never ends is killed as well
        ready = select.select([here], [], [], 60.0 + 30.0 * self.options.seconds)[0]
        said = os.read(here, 16).decode() if ready else ""
        os.close(here)
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return said or "killed"

    def _survives(self, path: str, mutant: Mutant, tests: list[pytest.Item]) -> bool:
        for found in gc.get_objects():
            if isinstance(found, functools._lru_cache_wrapper):
                found.cache_clear()
            if isinstance(found, FunctionType) and found.__code__.co_filename == path:
                place = found.__code__.co_qualname, found.__code__.co_firstlineno
                if place in mutant.functions:
                    found.__code__ = mutant.functions[place]
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.dup2(nothing, 2)
        self.failed.clear()
        for i, test in enumerate(tests):
            test._initrequest()  # type: ignore[attr-defined]
            following = tests[i + 1] if i + 1 < len(tests) else None
            test.config.hook.pytest_runtest_protocol(item=test, nextitem=following)
            if self.failed:
                return False
        return True


def main() -> None:
    """Read the command line; what follows `--` is given to pytest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="+")
    parser.add_argument("--sample", type=int, default=10, help="mutants of a module")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=5.0, help="of tests a mutant")
    cut = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    run = MutantRun(parser.parse_args(sys.argv[1:cut]))
    flags = [
        "-n0",
        "-q",
        "-s",
        "--timeout=0",
        "-p",
        "no:cacheprovider",
        "-m",
        "not slow and not image",
    ]
    sys.exit(pytest.main([*flags, *sys.argv[cut + 1 :]], plugins=[run]))


if __name__ == "__main__":
    main()
