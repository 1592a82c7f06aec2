"""Names of features: which number goes into which column, for ever."""

import json
import sys
from types import FrameType
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from service.api.context_arrays import read_contexts
from service.base.loop_slices import run_at_once
from service.base.problems import Problem
from service.session.names import (
    MOST_NUMBERS,
    NamedContexts,
    Names,
    StoredNames,
    check_names,
    label_number,
    names_of,
)


def checked_names(text: str, dim: int) -> Names:
    """What an import makes of a text."""
    parts = TypeAdapter(StoredNames).validate_json(text)
    check_names(parts, dim)
    return names_of(text)


def hashed_column(label: str, n_columns: int) -> tuple[int, float]:
    """The column of a label among `n_columns`, and the sign of what it adds there."""
    number = label_number(label)
    return (number >> 1) % n_columns, -1.0 if number & 1 else 1.0


def named(contexts: list[dict[str, Any]]) -> NamedContexts:
    found = run_at_once(read_contexts(contexts))
    assert isinstance(found, NamedContexts)
    return found


def test_columns_are_taken_in_the_order_of_first_use() -> None:
    names = Names(["price"])
    numbers, then = names.encode(
        named([{"brand": "x", "price": 2.0}, {"brand": "y"}, {"new": 3.0}]), 4
    )
    assert then.columns == ("price", "brand=x", "brand=y", "new")
    assert numbers.tolist() == [[2, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 3]]
    assert names.columns == ("price",)  # the stored ones stay as they are
    again, still = then.encode(named([{"brand": "y", "price": -1.0}, {}]), 4)
    assert still is then
    assert again.tolist() == [[-1, 0, 1, 0], [0, 0, 0, 0]]
    assert names_of(then.text).columns == then.columns
    assert again.flags.c_contiguous


def test_an_erased_name_is_nobody_elses() -> None:
    """Also where somebody has called a category like an erased one."""
    names = Names(["user=(erased 1)", "user=bob", "price"]).without("user=bob")
    assert names.columns == ("user=(erased 1)", "user=(erased 1).", "price")
    assert names.without("user=(erased 1)").columns[0] == "user=(erased 0)"
    checked_names(names.text, 4)
    numbers, then = names.encode(named([{"user": "bob"}]), 4)
    assert (numbers.tolist(), then.columns[-1]) == ([[0, 0, 0, 1]], "user=bob")


@pytest.mark.parametrize(
    ("contexts", "code", "field"),
    [
        ([{"price": 1.0}, {"brand": "z"}], "no_column", "contexts[1].brand"),
        ([{"stock": 1.0}], "no_column", "contexts[0].stock"),
        ([{"price": "3.2"}], "invalid", "contexts[0].price"),
        ([{"brand": 1.0}], "invalid", "contexts[0].brand"),
    ],
)
def test_what_has_no_column_is_refused_by_its_name(
    contexts: list[dict[str, float | str]], code: str, field: str
) -> None:
    names = Names(["price", "brand=x", "brand=y"])
    with pytest.raises(Problem) as caught:
        names.encode(named(contexts), 3)
    assert (caught.value.code, caught.value.field) == (code, field)


def test_too_many_numbers_are_refused_before_they_are_made() -> None:
    with pytest.raises(Problem, match=str(MOST_NUMBERS)):
        Names(["price"]).encode(NamedContexts(MOST_NUMBERS // 3 + 1, [], [], [], []), 3)


def test_a_full_session_says_what_fills_it() -> None:
    with pytest.raises(Problem, match=r"'brand=z'.* 2 columns are brand=x, brand=y.*hashed"):
        Names(["brand=x", "brand=y"]).encode(named([{"brand": "z"}]), 2)


def test_the_hash_is_the_documented_one_for_ever() -> None:
    """Stored rounds hold what it gave: these numbers never change."""
    # printf 'lhb feature\0brand=x' | b2sum -l 64
    made = [hashed_column(label, n) for label in ("brand=x", "brand=y", "ü") for n in (5, 1000)]
    assert made == [(1, 1.0), (371, 1.0), (2, 1.0), (12, 1.0), (0, -1.0), (710, -1.0)]


def test_hashed_categories_share_the_columns_beyond_the_listed_ones() -> None:
    names = Names(["price"], "hashed")
    contexts: list[dict[str, float | str]] = [{"price": 2.0, "brand": "x", "stock": 7.0}]
    numbers, then = names.encode(named(contexts), 6)
    assert then is names
    wanted = np.zeros(6)
    wanted[0] = 2.0
    for label, value in (("brand=x", 1.0), ("stock", 7.0)):
        column, sign = hashed_column(label, 5)
        wanted[1 + column] += sign * value
    assert numbers[0].tolist() == wanted.tolist()
    with pytest.raises(Problem, match="'price'"):
        names.encode(named([{"price": "x"}]), 6)


@pytest.mark.parametrize("categories", ["one_hot", "hashed"])
def test_products_have_columns_after_the_features_and_are_worked_out(categories: str) -> None:
    """Of objects and of lists alike; what an object says of a product does not count."""
    columns = ("price", "new", "price x new", "price x price")
    names = Names(columns, categories, None, [("price", "new"), ("price", "price")])
    given = named([{"price": -3.0, "new": 2.0, "price x new": 5.0}, {"price": 4.0, "brand": "x"}])
    numbers, then = names.encode(given, 5)
    assert then.products == names.products
    assert numbers[:, :4].tolist() == [[-3.0, 2.0, -6.0, 9.0], [4.0, 0.0, 0.0, 16.0]]
    lists = np.array([[-3.0, 2.0, 7.0], [4.0, 0.0, 1.0]])
    assert names.whole(lists).tolist() == [[-3.0, 2.0, -6.0, 9.0, 7.0], [4.0, 0.0, 0.0, 16.0, 1.0]]
    assert names.text is not None
    assert checked_names(names.text, 5) == names == names_of(names.text)
    with pytest.raises(Problem, match="'price x price'"):
        names.whole(np.array([[1e200, 0.0, 0.0]]))


def test_hashes_are_spread_and_their_signs_balanced() -> None:
    """Of 20 000 labels in 20 columns: within five standard errors of a fair draw."""
    found = [hashed_column(f"brand={i}", 20) for i in range(20_000)]
    counts = np.bincount([column for column, _ in found], minlength=20)
    assert np.abs(counts - 1000).max() < 5 * 31
    assert abs(sum(sign for _, sign in found)) < 5 * 142


@pytest.mark.parametrize(
    "text",
    [
        "{",
        '{"columns": [], "categories": "other", "arms": null}',
        '{"columns": ["a", "a"], "categories": "one_hot", "arms": null}',
        '{"columns": ["a", "b", "c"], "categories": "one_hot", "arms": null}',
        '{"columns": ["a", "b"], "categories": "hashed", "arms": null}',
        '{"columns": ["=x"], "categories": "one_hot", "arms": null}',
        '{"columns": ["a"], "categories": "one_hot", "arms": []}',
        '{"columns": ["a"], "categories": "one_hot", "arms": null, "more": 1}',
        '{"columns": ["a"], "categories": "one_hot", "arms": null, "products": [["a", "a"]]}',
        '{"columns": ["a x a", "a"], "categories": "one_hot", "arms": null,'
        ' "products": [["a", "a"]]}',
    ],
)
def test_stored_names_that_no_session_has_are_refused(text: str) -> None:
    with pytest.raises((Problem, ValidationError)):
        checked_names(text, 2)
    checked_names(json.dumps({"columns": ["a"], "categories": "hashed", "arms": ["b"]}), 2)
    stored = {"columns": ["a", "a x a"], "categories": "one_hot", "arms": None}
    checked_names(json.dumps(stored | {"products": [["a", "a"]]}), 2)


def lines_run(names: Names, contexts: NamedContexts, dim: int) -> int:
    """How many lines of Python encoding takes."""
    n = 0

    def count(frame: FrameType, event: str, _: object) -> Any:
        nonlocal n
        n += event == "line"
        return count if frame.f_code.co_filename == names_of.__code__.co_filename else None

    names.encode(contexts, dim)  # hashes of listed features are kept
    sys.settrace(count)
    try:
        names.encode(contexts, dim)
    finally:
        sys.settrace(None)
    return n


@pytest.mark.parametrize("categories", ["one_hot", "hashed"])
def test_in_a_transaction_work_does_not_grow_with_the_contexts(categories: str) -> None:
    """A session's lock is held meanwhile: what has to be done for each feature is done before."""
    names = Names(["price"], categories)
    few, many = (named([{"price": 1.0, "brand": f"b{i % 5}"} for i in range(n)]) for n in (5, 5000))
    assert lines_run(names, few.hash(), 8) == lines_run(names, many.hash(), 8)
    labels = named([{f"f{i}": 1.0} for i in range(5000)])
    if categories == "hashed":
        assert lines_run(names, labels.hash(), 8) == lines_run(names, few, 8)
    else:
        with pytest.raises(Problem, match="no column is left for 'f7'"):
            names.encode(labels, 8)


def test_hashed_numbers_are_the_sum_over_features_by_their_documented_columns() -> None:
    names = Names(["price", "stock"], "hashed")
    given = [{"price": 2.0, "brand": "x", "size": 0.5}, {}, {"stock": -1.0, "brand": "y"}]
    expected = np.zeros((3, 6))
    for arm, context in enumerate(given):
        for feature, value in context.items():
            if feature in names.columns:
                expected[arm, names.columns.index(feature)] += float(value)
            else:
                label = f"{feature}={value}" if isinstance(value, str) else feature
                column, sign = hashed_column(label, 4)
                expected[arm, 2 + column] += sign * (1.0 if isinstance(value, str) else value)
    assert names.encode(named(given), 6)[0].tolist() == expected.tolist()
    with pytest.raises(
        Problem, match="'stock' is a number in this session, and here a text"
    ) as bad:
        names.encode(named([{"price": 1.0}, {"stock": "many"}]), 6)
    assert bad.value.field == "contexts[1].stock"


def test_the_order_of_features_is_no_other_body() -> None:
    one, other = [{"a": 1.0, "b": "x"}, {"b": "y"}], [{"b": "x", "a": 1.0}, {"b": "y"}]
    assert list(named(one).digest_parts()) == list(named(other).digest_parts())
    for changed in (
        [{"a": 1.0, "b": "x"}, {"b": "x"}],
        [{"a": 2.0, "b": "x"}, {"b": "y"}],
        one[:1],
    ):
        assert list(named(one).digest_parts()) != list(named(changed).digest_parts())
