"""Spans against all of their rounds written out."""

from hypothesis import given
from hypothesis import strategies as st

from service.writer.unit_of_work import Spans

SPANS = st.lists(st.tuples(st.integers(1, 60), st.integers(0, 9)), max_size=40)


@given(SPANS)
def test_a_span_is_found_by_any_round_it_shares(asked: list[tuple[int, int]]) -> None:
    spans: Spans[int] = Spans()
    of_round: dict[int, int] = {}
    for i, (first, length) in enumerate(asked):
        last = first + length
        shared = [of_round[round] for round in range(first, last + 1) if round in of_round]
        assert spans.over(first, last) == (shared[-1] if shared else None)
        if not shared:
            spans.add(first, last, i)
            of_round.update(dict.fromkeys(range(first, last + 1), i))
