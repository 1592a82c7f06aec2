"""An import is written in slices: no reader sees it before it is whole, and a failed one goes."""

import asyncio
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from service.base.problems import Problem, ProblemCode
from service.commands.erase_trajectory import sweep
from service.transfer import import_file
from service.transfer.import_file import import_session, prepare_import
from service.writer.command import Command
from tests.contracts.test_store_hidden import n_rows
from tests.service.conftest import Serve, until
from tests.service.service_harness import ServiceHarness
from tests.service.transfer.test_import_derived import exported

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few rows are several slices."""
    monkeypatch.setattr(import_file, "SLICE_ROWS", 4)


@pytest.fixture
def lived(harness: ServiceHarness) -> bytes:
    """A file of 10 rounds with their rewards, in a database that has them no more."""
    harness.create(name="shop")
    harness.rounds(10)
    return exported(harness)


def begun(harness: ServiceHarness, path: Path, content: bytes, abandoned: list[Any]) -> Any:
    """The commands of an import; whose rows it leaves behind is noted."""
    path.mkdir()
    (path / "file").write_bytes(content)
    prepared = prepare_import(path / "file", path / "rows", "", "copy", False)
    return import_session(prepared, lambda *left: abandoned.append(left))


def played(harness: ServiceHarness, write: Any, n: int) -> Command[Any]:
    """Run the first n commands, and return the next."""
    command = write.send(None)
    for _ in range(n):
        command = write.send(harness.run(command))
    return command  # type: ignore[no-any-return]


def sessions(harness: ServiceHarness) -> list[str]:
    with harness.store.reader() as reader:
        return [session.id for session in reader.sessions("", "", 100, True)]


def test_no_session_is_seen_before_all_rows_are_written(
    harness: ServiceHarness, tmp_path: Path, lived: bytes
) -> None:
    before, rows = sessions(harness), n_rows(harness.store)
    write = begun(harness, tmp_path / "a", lived, [])
    n_slices = 0
    command = write.send(None)
    while True:
        result = harness.run(command)
        try:
            command = write.send(result)
        except StopIteration as done:
            session, is_new = done.value
            break
        assert sessions(harness) == before
        n_slices += 1
    assert (is_new, n_slices) == (True, 8)  # begin; 6 slices of 21 rows and their end; finish
    assert sorted(sessions(harness)) == sorted([*before, session.id])
    after = n_rows(harness.store)
    assert after["decisions"] == 2 * rows["decisions"] == 20
    assert after["hidden_rows"] == 0
    content, harness.key = exported(harness), session.key
    assert exported(harness).splitlines()[1:-1] == content.splitlines()[1:-1]


def test_a_slice_may_run_twice(harness: ServiceHarness, tmp_path: Path, lived: bytes) -> None:
    """A batch that fails for another command's fault runs its commands again."""
    write = begun(harness, tmp_path / "a", lived, [])
    slice = played(harness, write, 2)

    def broken(uow: Any) -> None:
        uow.save(harness.session)
        raise Problem(ProblemCode.INVALID, "after a write")

    broken.keys = lambda keys: None  # type: ignore[attr-defined]
    [(offset, error), (_, refused)], _ = harness.commit.run_in_thread([slice, broken])
    assert error is None
    assert refused is not None
    _, is_new = harness.run_large(resumed(harness, write, write.send(offset)))
    assert is_new
    assert n_rows(harness.store)["decisions"] == 20


def test_a_writer_that_was_taken_for_dead_stops(
    harness: ServiceHarness, tmp_path: Path, lived: bytes
) -> None:
    abandoned: list[Any] = []
    write = begun(harness, tmp_path / "a", lived, abandoned)
    command = played(harness, write, 3)
    harness.now += 61
    with harness.store.reader() as reader:
        [note] = reader.hidden()
    harness.run_large(sweep(note[:2]))
    with pytest.raises(Problem, match="paused") as refused:
        harness.run(command)
    assert refused.value.status == 503
    write.close()
    assert abandoned == [(note[:2], note.writer)]
    rows = n_rows(harness.store)
    assert (rows["decisions"], rows["hidden_rows"], rows["sessions"]) == (10, 0, 1)


def test_of_two_equal_imports_one_makes_the_session(
    harness: ServiceHarness, tmp_path: Path, lived: bytes
) -> None:
    abandoned: list[Any] = []
    first = begun(harness, tmp_path / "a", lived, abandoned)
    second = begun(harness, tmp_path / "b", lived, abandoned)
    command = played(harness, first, 2)
    session, is_new = harness.run_large(second)
    assert is_new
    again, is_new = harness.run_large(resumed(harness, first, command))
    assert (again.id, is_new) == (session.id, False)
    assert len(abandoned) == 1  # the rows of the first go


def resumed(harness: ServiceHarness, write: Any, command: Any) -> Iterator[Any]:
    """The rest of a write whose next command is at hand."""
    result = yield command
    while True:
        try:
            result = yield write.send(result)
        except StopIteration as done:
            return done.value


@pytest.mark.parametrize("in_process", [False, True])
async def test_imports_at_once_over_http(serve: Serve, in_process: bool) -> None:
    """Without a name every one makes a session, also within one millisecond."""
    async with serve() as client:
        if in_process:
            client.service.parsed_here_bytes = 0
        session = await client.create()
        for _ in range(5):
            await client.decide(session)
        content = (await client.get(f"/v1/sessions/{session}/events")).content
        path = "/v1/sessions/import"
        answers = await asyncio.gather(*(client.post(path, content=content) for _ in range(5)))
        assert [answer.status_code for answer in answers] == [201] * 5
        assert len({answer.json()["id"] for answer in answers}) == 5
        refused = await client.post(path, content=content[:-10])
        assert refused.status_code == 422
        assert refused.json()["code"] == "bad_import"
        named = [await client.post(f"{path}?name=n", content=content) for _ in range(2)]
        assert [answer.status_code for answer in named] == [201, 200]
        await until(lambda: has_no_hidden_rows(client.service))


async def has_no_hidden_rows(service: Any) -> bool:
    return n_rows(service.store)["hidden_rows"] == 0


def test_a_problem_comes_whole_out_of_a_process() -> None:
    problem = Problem(ProblemCode.BAD_IMPORT, "line 3", "decision.at", retry_after=2)
    found = pickle.loads(pickle.dumps(problem))
    assert (found.to_json(), found.headers()) == (problem.to_json(), problem.headers())
