"""The processes that tests fork."""

import signal
import socket
import tempfile
from multiprocessing import forkserver

from tests.forked_process import ForkedProcess


def test_a_server_that_is_killed_while_it_asks_for_a_process_ends_nobody_else() -> None:
    with tempfile.TemporaryFile() as errors:
        first = ForkedProcess("import time; time.sleep(600)", {}, (None, None, errors))
        with socket.socket(socket.AF_UNIX) as asks:
            asks.connect(forkserver._forkserver._forkserver_address)  # type: ignore[attr-defined]
        second = ForkedProcess("print('here')", {}, (None, None, errors))
        assert second.communicate(60) == ("here\n", None)
        assert first.poll() is None
        first.send_signal(signal.SIGKILL)
        with first.stdout:
            assert first.wait(60) == -signal.SIGKILL
