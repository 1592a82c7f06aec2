"""What a new setting costs: a line for a session's, and those that `make answers` writes of it.

In a copy of the packages a bool of a session and one of an agent are declared. Bodies, the answer,
changes, copies, exports, imports, also of files from before, and, for a session's, the row and the
client's arguments have it then.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import indent

import pytest

ROOT = Path(__file__).parents[3]
ADDED = {  # file: the line before, and the lines that are added
    "service/session/spec.py": (
        "    keep_rounds: KeepRounds | None = setting(",
        "    rehearsed: bool = "
        'setting(False, "whether", changeable=True, copyable=True, since="1.1")\n',
    ),
}
WRITTEN = {"clients/sdk/settings.py": 4}  # by `make answers`: so many lines more
OPTION = {  # of an agent
    "lhb_engine/agents/anytime_options.py": (
        "    signed: bool = option(",
        '    bold: bool = option(False, "", changeable=True)\n',
    ),
}
OPTION_SCRIPT = """
import json
import sys
from pathlib import Path
from lhb_engine.agents.anytime import Anytime
from service.api.body_parsing import COPY, PATCH, SESSION
from service.api.sessions import session_answer
from service.api.status import algorithm_answer
from service.commands.sessions import change_session
from service.commands.sessions import create_session
from service.writer.agent_cache import build_agent
from tests.service.service_harness import ServiceHarness
from tests.service.transfer.test_import_forgeries import exported

def read(parser, **body):
    return dict(parser.read(json.dumps(body).encode()))

said = algorithm_answer(Anytime, True)["options"]["properties"]["bold"]
assert (said["type"], said["default"], said["description"]) == ("boolean", False, "")
folder = Path(sys.argv[1])
harness = ServiceHarness(folder)
body = read(SESSION, dim=2, horizon=4, options={"bold": True})
session, _ = harness.run(create_session("", body, False))
harness.key = session.key
assert session_answer(harness.session, "none")["options"]["bold"] is True
assert build_agent(harness.session, None).options.bold is True
harness.run(change_session(harness.key, read(PATCH, options={"bold": False})))
assert harness.session.options["bold"] is False
imported, _ = harness.import_file(folder, exported(harness))
assert imported.options["bold"] is False
assert read(COPY, options={"bold": True})["options"] == {"bold": True}
harness.close()
"""
SCRIPT = """
import json
import sys
from pathlib import Path
from lhb_engine.agents.fit_cost import FitCost
from service.api.body_parsing import COPY, PATCH, SESSION
from service.api.sessions import SessionAnswer
from service.api.sessions import session_answer
from service.commands.sessions import change_session
from service.commands.sessions import create_session
from service.transfer.copy_session import copied_session, copy_session
from tests.contracts.client_settings import SETTINGS_FILE, settings_written
from tests.service.service_harness import ServiceHarness
from tests.service.transfer.test_import_forgeries import exported, folded
from tests.service.transfer.test_kept_exports import EXPORTS, kept

def read(parser, **body):
    return dict(parser.read(json.dumps(body).encode()))

for parser in (SESSION, PATCH, COPY):
    told = parser.adapter.json_schema()["properties"]
    assert told["rehearsed"]["description"] == "whether"
    assert (told["rehearsed"]["x-since"], told["options"]["x-since"]) == ("1.1", "1.0")
assert "rehearsed" in SessionAnswer.__required_keys__
of_client = settings_written().splitlines()
assert sum("rehearsed: bool" in line for line in of_client) == 4
assert len(of_client) == len(SETTINGS_FILE.read_text().splitlines()) + 4
folder = Path(sys.argv[1])
harness = ServiceHarness(folder)
def created(**more):
    session, _ = harness.run(create_session("", read(SESSION, dim=2, horizon=4, **more), False))
    harness.key = session.key
    return harness.session
assert created().rehearsed is False
assert b"rehearsed" not in exported(harness)
harness.run(change_session(harness.key, read(PATCH, rehearsed=True)))
assert session_answer(harness.session, "none")["rehearsed"] is True
imported, _ = harness.import_file(folder, exported(harness))
harness.key = imported.key
assert harness.session.rehearsed is True
assert created(name="a", rehearsed=True).rehearsed is True
assert created(name="a", rehearsed=True).id == created(name="a", rehearsed=True).id
asked = read(COPY, rehearsed=False)
copy, agent = copied_session(harness.session, asked, False, FitCost(9e9, 9e9), 0.0)
assert copy.rehearsed is False
for path in EXPORTS.iterdir():  # from before there was this setting
    assert folded(kept(path.name.split(".nd")[0])).session.rehearsed is False
harness.close()
"""


FAILED = """
except Exception:
    import traceback
    failed[{name!r}] = traceback.format_exc()
"""


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What fails of the scripts, by name, in a copy of the packages that has all these lines."""
    folder = tmp_path_factory.mktemp("packages")
    for package in ("service", "lhb_engine", "clients"):
        ignored = shutil.ignore_patterns("node_modules")  # what is compiled stays so
        shutil.copytree(ROOT / package, folder / package, ignore=ignored)
    for name, (before, line) in {**ADDED, **OPTION}.items():
        path = folder / name
        text = path.read_text()
        assert text.count(before) == 1, name
        path.write_text(text.replace(before, line + before))
    both = "failed = {}"
    for name, script in {"session": SCRIPT, "agent": OPTION_SCRIPT}.items():
        (folder / name).mkdir()
        one = script.replace("sys.argv[1]", repr(str(folder / name)))
        both += f"\ntry:\n{indent(one, '    ')}{FAILED.format(name=name)}"
    ran = subprocess.run(
        [sys.executable, "-c", f"{both}\nprint(json.dumps(failed))"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(folder), str(ROOT)))},
        capture_output=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr.decode()
    return dict(json.loads(ran.stdout))


def test_a_bool_of_a_session_is_two_files(failed: dict[str, str]) -> None:
    assert len(ADDED) + len(WRITTEN) <= 2
    assert sum(line.count("\n") for _, line in ADDED.values()) + sum(WRITTEN.values()) <= 5
    assert "session" not in failed, failed["session"]


def test_an_option_of_an_agent_is_no_file_of_the_service(failed: dict[str, str]) -> None:
    assert [name.split("/")[0] for name in OPTION] == ["lhb_engine"]
    assert "agent" not in failed, failed["agent"]
