"""Admission: what a request that arrives would wait, and which requests are refused unread."""

import pytest

from service.web.admission import Admission, is_plain

HEAD = b"POST /v1/sessions/s/decisions HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n"
END = b"\r\nbody"


class Loop:
    """An event loop: what it begins takes time, and of that time some on the processor."""

    def __init__(self, most: float) -> None:
        self.now, self.cpu = 5.0, 1.0
        self.admission = Admission(most, lambda: self.now, lambda: self.cpu)

    def begin(self, n: int, seconds: float, cpu: float) -> None:
        for _ in range(n):
            self.admission.receive()
            self.now += seconds
            self.cpu += cpu
            self.admission.begin()

    def turn(self, n: int, begin: float, commit: float) -> None:
        """Read n requests, begin them all, then commit them all: so are requests under load."""
        for _ in range(n):
            self.admission.receive()
        self.admission.committing = lambda: (n_begun, 0.0)
        for n_begun in range(1, n + 1):  # noqa: B007 -- `committing` reads it
            self.now += begin
            self.cpu += begin
            self.admission.begin()
        self.now += n * commit
        self.cpu += n * commit
        self.admission.committing = lambda: (0, 0.0)


def test_the_wait_is_that_of_those_ahead() -> None:
    loop = Loop(0.101)
    loop.begin(1024, 0.004, 0.002)
    assert loop.admission.wait == 0  # nobody waits
    for n in range(1, 60):
        loop.admission.receive()
        assert loop.admission.wait == pytest.approx(0.002 * n if n > 32 else 0)
        assert loop.admission.is_late() == (n > 50)
    loop.admission.committing = lambda: (10, 0.0)
    assert loop.admission.wait == pytest.approx(0.002 * 69)
    loop.admission.committing = lambda: (10, 0.1)
    assert loop.admission.wait == pytest.approx(0.002 * 69)  # both go on at once
    loop.admission.committing = lambda: (10, 0.2)
    assert loop.admission.wait == pytest.approx(0.2)


@pytest.mark.parametrize("n", [64, 300, 1250, 4000])
def test_a_request_costs_what_its_commit_costs_too(n: int) -> None:
    loop = Loop(0.25)
    for _ in range(2 + 20_000 // n):
        loop.turn(n, 0.00007, 0.00013)
    loop.admission.committing = lambda: (1000, 0.0)
    assert loop.admission.wait == pytest.approx(0.2, rel=0.25)  # of 0.07 if it began alone


def test_work_for_others_is_not_taken_for_a_requests() -> None:
    loop = Loop(0.1)
    loop.begin(512, 1.0, 0.9)  # a request now and then, beside much else
    loop.begin(256, 0.001, 0.001)
    loop.begin(512, 0.015, 0.012)
    loop.begin(256, 0.001, 0.001)  # a smaller measurement is the better one
    for _ in range(99):
        loop.admission.receive()
    assert loop.admission.wait == pytest.approx(0.099)


def test_full_batches_of_the_writer_count() -> None:
    admission = Admission(0.1)
    admission.committing = lambda: (1, 0.09)
    assert not admission.is_late()
    admission.committing = lambda: (1, 0.11)
    assert admission.is_late()
    assert {k.lower(): v for k, v in admission.problem().headers().items()}["retry-after"] == "1"
    assert [family.samples[0].value for family in admission.metrics()] == [0.11, 0.0]
    unlimited = Admission(0)
    unlimited.committing = lambda: (10**6, 1e9)
    assert not unlimited.is_late()


@pytest.mark.parametrize(
    "data",
    [
        HEAD + END,
        HEAD.replace(b"content-length", b"Content-Length") + b"connection: keep-alive\r\n" + END,
        b"POST /v1/batch HTTP/1.1\r\nContent-Length:4\r\n" + END,
    ],
)
def test_whole_requests_are_told(data: bytes) -> None:
    assert is_plain(data)


@pytest.mark.parametrize(
    "data",
    [
        HEAD + END[:-1],  # more is to come
        HEAD + END + b"G",  # and another one
        HEAD + b"content-length: 4\r\n" + END,
        HEAD + b"content-length : 40\r\n" + END,
        HEAD + b"x: a\ntransfer-encoding: chunked\r\n" + END,
        HEAD + b"connection: close\r\n" + END,
        HEAD + b"expect: 100-continue\r\n" + END,
        HEAD.replace(b": 4", b": +4") + END,
        HEAD.replace(b"POST", b"PATCH") + END,
        HEAD.replace(b"1.1", b"1.0") + END,
        HEAD.replace(b"sessions", b"keys") + END,
        b"GET /healthz HTTP/1.1\r\ncontent-length: 4\r\n" + END,
        b"POST /v1/batch HTTP/1.1\r\nhost: a\r\n" + END,
        HEAD,
        b"",
    ],
)
def test_what_only_a_parser_can_tell_is_parsed(data: bytes) -> None:
    assert not is_plain(data)
