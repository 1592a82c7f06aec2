"""Every command has an example that it takes, fits a terminal, and is completed by shells."""

import shlex
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

from clients.cli.main import app
from clients.cli.output import WIDTH, table
from tests.forked_process import lhb_text

Path = tuple[str, ...]


def commands(group: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every command below a group, with the words that name it."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


COMMANDS = dict(commands(get_command(app)))


def example(command: Any) -> list[str]:
    """The words of the example that ends a command's help, without variables before `lhb`."""
    *_, last = command.help.strip().splitlines()
    words = shlex.split(last)
    assert words[0] == "Example:", last
    return words[words.index("lhb") + 1 :]


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_a_command_takes_its_own_example(path: Path) -> None:
    command, words = COMMANDS[path], example(COMMANDS[path])
    assert tuple(words[: len(path)]) == path
    command.make_context(path[-1], words[len(path) :])  # parses; runs nothing


def test_an_example_that_a_command_does_not_take_is_found() -> None:
    with pytest.raises(Exception, match="--nothing"):
        COMMANDS["replay",].make_context("replay", ["--nothing"])


@pytest.mark.parametrize("path", [(), *COMMANDS], ids=" ".join)
def test_help_fits_a_terminal(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    monkeypatch.setenv("TERMINAL_WIDTH", str(WIDTH))
    with pytest.raises(SystemExit) as ended:
        app([*path, "--help"], prog_name="lhb")
    assert not ended.value.code
    lines = capsys.readouterr().out.splitlines()
    assert any("Usage: lhb" in line for line in lines)
    assert max(map(len, lines)) <= WIDTH


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("lhb ses", {"session", "sessions"}),
        ("lhb session s", {"show"}),
        ("lhb serve --po", {"--port"}),
        ("lhb simulate --algorithm any", {"anytime"}),
        ("lhb simulate --weights sp", {"spiking"}),
        ("lhb reproduce rand", {"random_w"}),
    ],
)
def test_a_shell_completes(typed: str, offered: set[str]) -> None:
    asked = {"_LHB_COMPLETE": "complete_bash", "COMP_WORDS": typed}
    done = lhb_text(**asked, COMP_CWORD=str(len(typed.split()) - 1))
    assert set(done.stdout.split()) == offered, done.stderr


def test_columns_stand_below_their_heads() -> None:
    rows = [("a", 5, "one"), ("longer", 1234, "the second one")]
    assert list(table(("name", "rounds", "note"), rows)) == [
        "name    rounds  note",
        "a            5  one",
        "longer    1234  the second one",
    ]
    assert list(table(("name", "rounds"), [])) == ["name  rounds"]
