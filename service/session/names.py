"""Names of a session's features and arms, and how contexts that use them become numbers.

A context is a list of `dim` numbers, or an object: ``{"price": 3.2, "brand": "x"}``. An object is
turned into numbers once, before the decision is taken, by the names that the session keeps. So
rounds, fits, replay and exports know numbers only, and a column never changes its meaning.

A number goes into the column of its feature. A text is a category: the column of ``brand=x`` gets
a 1. A feature that an object leaves out counts 0. A feature or category without a column takes the
next free one; with categories "hashed", the columns beyond the listed features are shared by hash.
A product of two listed features has a column after them, which the session works out, and so has
the repetition of what was chosen lately.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from hashlib import blake2b
from threading import Lock
from typing import Annotated, Any, Literal, NotRequired

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, with_config
from typing_extensions import TypedDict

from lhb_engine.history import Floats
from service.base.byte_bounded import ByteBounded
from service.base.field_types import FEATURE, MOST_LETTERS, STRICT, Feature, Key
from service.base.problems import Problem, ProblemCode

# a feature, which may be a product, and with "=" its category
LABEL = f"^{FEATURE.pattern}(=[^\\x00]*)?$"
Label = Annotated[str, Field(max_length=2 * MOST_LETTERS + 1, pattern=LABEL)]
Pair = Annotated[list[Feature], Field(min_length=2, max_length=2)]
Repetition = Annotated[int, Field(ge=1, le=1000)]
Categories = Literal["one_hot", "hashed"]
ONE_HOT, HASHED = "one_hot", "hashed"
CATEGORY = "="  # between a feature and its category in the label of a column; no feature has it
PRODUCT = " x "  # between two features in the label of their product, or of a square
MOST_COLUMNS = 4096  # that have a label: the session's row holds them
MOST_NUMBERS = 2**22  # of a context set made from objects
MOST_BYTES = 2**25  # of parsed names in memory
LABEL_BYTES = 256  # of a label in memory, without its letters
SEPARATOR = "\0"  # no label has it
REPETITION = "repetition"  # label of its column
MOST_SHOWN = 8  # labels in the detail of a problem


class Names:
    """What the numbers of a session's contexts, and its arms, are called.

    `columns` are labels of the columns that are taken, the first ones: a feature, or a feature and
    its category (``brand=x``), or a product (``a x b``). `categories` is "one_hot" or "hashed".
    `arms` are the ids of arms where a decision names none. `products` are pairs of features.
    `repetition` is the memory in rounds of what was chosen lately; 0: no column is of that.
    """

    def __init__(
        self,
        columns: Sequence[str] = (),
        categories: str = ONE_HOT,
        arms: Sequence[str] | None = None,
        products: Iterable[Sequence[str]] = (),
        repetition: int = 0,
    ) -> None:
        self.categories = categories
        self.arms = None if arms is None else tuple(arms)
        self.products = tuple(map(tuple, products))
        self.repetition = repetition
        self._column: dict[str, int] = {}
        self._texts: set[str] = set()  # features that have categories
        for label in columns:
            self._take(label)

    @property
    def columns(self) -> tuple[str, ...]:
        """The labels of the columns that are taken."""
        return tuple(self._column)

    @property
    def are_given(self) -> bool:
        """Whether a column or an arm has a name, or columns are shared."""
        return bool(self._column) or self.arms is not None or self.categories != ONE_HOT

    @cached_property
    def text(self) -> str | None:
        """The stored JSON text; None where nothing is given."""
        parts: dict[str, Any] = {"columns": self.columns, "categories": self.categories}
        parts |= {"arms": self.arms} | ({"products": self.products} if self.products else {})
        parts |= {"repetition": self.repetition} if self.repetition else {}
        return json.dumps(parts, separators=(",", ":")) if self.are_given else None

    @cached_property
    def worked_out(self) -> range:
        """The columns that no context gives: those of products, and of repetition."""
        labels = computed_labels(self.products, self.repetition)
        first = self._column[labels[0]] if labels else 0
        return range(first, first + len(labels))

    @cached_property
    def n_bytes(self) -> int:
        """About how many bytes of memory they take."""
        n_labels = len(self._column) + len(self.arms or ())
        return 2 * len(self.text or "") + LABEL_BYTES * (1 + n_labels)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Names) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def encode(self, contexts: "NamedContexts", dim: int) -> tuple[Floats, "Names"]:
        """Turn contexts with names into numbers.

        Python's work grows with the columns, and not with the contexts: numpy does the rest.
        Returns the numbers, (K, dim), and these names, or new ones with the columns that were
        taken. Raises 422 naming the feature: no column is left for it, or it is a number here and a
        text there.
        """
        refuse_too_many_numbers(len(contexts), dim, "contexts")
        numbers = np.zeros(len(contexts) * dim)
        encode = self._hashed if self.categories == HASHED else self._one_hot
        columns, signs, names = encode(contexts, dim)
        places = contexts.arms * dim + columns[contexts.ids]
        np.add.at(numbers, places, contexts.values * signs[contexts.ids])
        return self._multiplied(numbers.reshape(len(contexts), dim)), names

    def whole(self, contexts: Floats) -> Floats:
        """Return contexts that are lists with the columns that are worked out, (K, dim)."""
        columns = self.worked_out
        return self._multiplied(np.insert(contexts, [columns.start] * len(columns), 0.0, axis=1))

    def _multiplied(self, numbers: Floats) -> Floats:
        """Fill the columns of products, in place; 422 where a product is beyond every number."""
        for pair in self.products:
            one, other = (numbers[:, self._column[feature]] for feature in pair)
            with np.errstate(over="ignore"):
                product = one * other + 0.0
            label = PRODUCT.join(pair)
            if not np.isfinite(product).all():
                detail = f"{label!r} is beyond the largest number"
                raise Problem(ProblemCode.OUT_OF_RANGE, detail, "contexts")
            numbers[:, self._column[label]] = product
        return numbers

    def _one_hot(
        self, contexts: "NamedContexts", dim: int
    ) -> tuple[NDArray[np.intp], Floats, "Names"]:
        """Return the column and the sign of each label; the first one without a column is 422."""
        names = self
        columns = np.zeros(contexts.n_labels, dtype=np.intp)
        for i, label in enumerate(contexts.labels(min(dim, MOST_COLUMNS) + 1)):
            column = names._column.get(label)
            if column is None:
                names._refuse_mixed(contexts, label)
                n = len(names._column)
                if n >= min(dim, MOST_COLUMNS):
                    detail = (
                        f"no column is left for {label!r}: the {n} columns are {names.shown()}. "
                        'A session with a larger dim, or with categories "hashed", takes it'
                    )
                    raise Problem(ProblemCode.NO_COLUMN, detail, contexts.field_of(label))
                if names is self:
                    names = self._with(self.columns)
                column = names._take(label)
            columns[i] = column
        return columns, np.ones(contexts.n_labels), names

    def _hashed(
        self, contexts: "NamedContexts", dim: int
    ) -> tuple[NDArray[np.intp], Floats, "Names"]:
        """Return the column and the sign of each label: its own, or one that labels share."""
        n_listed = len(self._column)
        numbers = contexts.numbers
        columns, signs = columns_of(numbers, dim - n_listed)
        columns += n_listed
        listed = np.array([label_number(label) for label in self._column], dtype=np.uint64)
        for column in np.flatnonzero(np.isin(listed, contexts.text_features)).tolist():
            texts = f"{self.columns[column]}{CATEGORY}"
            first = next(one for one in contexts.labels() if one.startswith(texts))
            self._refuse_mixed(contexts, first)
        if not len(numbers):
            return columns, signs, self
        order = contexts.order
        places = np.searchsorted(numbers, listed, sorter=order)
        labels = order[np.minimum(places, len(order) - 1)]
        is_there = numbers[labels] == listed
        columns[labels[is_there]] = np.flatnonzero(is_there)
        signs[labels[is_there]] = 1.0
        return columns, signs, self

    def working_out(self, products: Iterable[Sequence[str]], repetition: int) -> "Names":
        """Return these names with other columns that are worked out, after all that are given."""
        old = self.worked_out
        features = [label for column, label in enumerate(self.columns) if column not in old]
        columns = (*features, *computed_labels(products, repetition))
        return Names(columns, self.categories, self.arms, products, repetition)

    def numbered(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return options in which names in lists of features are the numbers of their columns.

        A name that no column has stays; categories have none, since theirs may be erased.
        """
        columns = {name: at for name, at in self._column.items() if CATEGORY not in name}

        def numbers(value: Any) -> Any:
            if isinstance(value, list):
                return [numbers(one) for one in value]
            return columns.get(value, value) if isinstance(value, str) else value

        lists = {name: options[name] for name in ("own", "profiles") if name in options}
        numbered = {name: numbers(one) for name, one in lists.items() if isinstance(one, list)}
        return {**options, **numbered}

    def without(self, label: str) -> "Names":
        """Return these names with the name of a category erased.

        Its column stays its own, with a name that says so: what was learned keeps its place.

        Raises 404 unknown_feature: no column has the name; 422 if it is not that of a category.
        """
        is_category, column = CATEGORY in label, self._column.get(label)
        if column is None and not (is_category and self.categories == HASHED):
            detail = f"the session has no category {label!r}"
            raise Problem(ProblemCode.UNKNOWN_FEATURE, detail, "name")
        if column is None or not is_category:
            kept = "hashed categories have no names" if is_category else "it is no category"
            raise Problem(ProblemCode.INVALID, f"{label!r} cannot be erased: {kept}", "name")
        feature, sign, _ = label.partition(CATEGORY)
        erased = f"{feature}{sign}(erased {column})"
        while erased in self._column:  # somebody has called a category so
            erased += "."
        columns = [erased if one == label else one for one in self.columns]
        return self._with(columns)

    def _with(self, columns: Sequence[str]) -> "Names":
        return Names(columns, self.categories, self.arms, self.products, self.repetition)

    def _take(self, label: str) -> int:
        """Give a label the next column, and return it."""
        column = self._column[label] = len(self._column)
        if CATEGORY in label:
            self._texts.add(label.partition(CATEGORY)[0])
        return column

    def _refuse_mixed(self, contexts: "NamedContexts", label: str) -> None:
        """Raise a 422 if a feature that is a number has a text here, or the other way round."""
        feature, is_text, _ = label.partition(CATEGORY)
        if is_text and feature in self._column:
            what = "a number in this session, and here a text"
        elif not is_text and feature in self._texts:
            what = "a text in this session, and here a number"
        else:
            return
        raise Problem(ProblemCode.INVALID, f"{feature!r} is {what}", contexts.field_of(label))

    def shown(self) -> str:
        """Return the labels of the first columns, for the detail of a problem."""
        columns = self.columns
        more, text = len(columns) - MOST_SHOWN, ", ".join(columns[:MOST_SHOWN])
        return f"{text} and {more} more" if more > 0 else text


class NamedContexts:
    """Contexts of K arms with names, as checked: which labels there are, and which arm has which.

    A process that parses a large body makes this, and all that costs time for each label is done
    there: a session turns it into numbers in time that hardly grows with it.

    There are `n_labels` different labels, numbered as they first come. `arms` and `ids`, (n,), are
    of each feature of each arm: the arm, and the label's number; `values` is 1 for a category.
    """

    def __init__(
        self,
        n_arms: int,
        labels: Iterable[str],
        arms: list[int],
        ids: list[int],
        values: list[float],
    ) -> None:
        labels = list(labels)
        self._n_arms, self.n_labels = n_arms, len(labels)
        self._text = SEPARATOR.join(labels)  # one text is sent faster than many
        self.arms, self.ids = np.array(arms, dtype=np.intp), np.array(ids, dtype=np.intp)
        self.values = np.array(values, dtype=np.float64) + 0.0  # -0.0 equals 0.0

    def __len__(self) -> int:
        return self._n_arms

    def labels(self, most: int | None = None) -> list[str]:
        """Return the labels, or the first ones."""
        if not self.n_labels:
            return []
        return self._text.split(SEPARATOR, -1 if most is None else most)[:most]

    @cached_property
    def numbers(self) -> NDArray[np.uint64]:
        """The numbers of the labels."""
        return np.array([label_number(label) for label in self.labels()], dtype=np.uint64)

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """The places of the labels, in the order of their numbers."""
        return np.argsort(self.numbers)

    @cached_property
    def text_features(self) -> NDArray[np.uint64]:
        """The numbers of the features that are texts, each once."""
        names = {one.partition(CATEGORY)[0] for one in self.labels() if CATEGORY in one}
        return np.array(sorted(map(label_number, names)), dtype=np.uint64)

    def hash(self) -> "NamedContexts":
        """Make, before a transaction, all that a session with hashed categories asks for."""
        assert len(self.order) == self.n_labels
        assert len(self.text_features) <= self.n_labels
        return self

    def field_of(self, label: str) -> str:
        """Return where a label first stands, for a problem."""
        first = int(np.argmax(self.ids == self.labels().index(label)))
        return f"contexts[{self.arms[first]}].{label.partition(CATEGORY)[0]}"

    def digest_parts(self) -> Iterator[bytes]:
        """Yield bytes that depend on what each arm has, and not on its order."""
        numbers = self.numbers[self.ids]
        order = np.lexsort((numbers, self.arms))
        yield str(self._n_arms).encode()
        for part in (self.arms, numbers, self.values):
            yield part[order].tobytes()


@with_config(STRICT)
class StoredNames(TypedDict):
    """The names of a session as its row stores them."""

    columns: Annotated[list[Label], Field(max_length=MOST_COLUMNS)]
    categories: Categories
    arms: Annotated[list[Key], Field(min_length=1, max_length=MOST_COLUMNS)] | None
    products: NotRequired[Annotated[list[Pair], Field(min_length=1, max_length=MOST_COLUMNS)]]
    repetition: NotRequired[Repetition]


NO_NAMES = Names()


_parsed: ByteBounded[str, Names] = ByteBounded(MOST_BYTES)
_lock = Lock()  # of `_parsed`: the event loop and threads that read use it


def names_of(text: str | None) -> Names:
    """Return the names of a session from their stored text."""
    if text is None:
        return NO_NAMES
    with _lock:
        names = _parsed.get(text)
    if names is None:
        names = Names(**json.loads(text))
        with _lock:
            _parsed.keep(text, names, names.n_bytes)
            _parsed.trim()
    return names


def refuse_too_many_numbers(n_arms: int, dim: int, field: str) -> None:
    """Raise a 422, before they are made, if contexts from names would be too many numbers."""
    if n_arms * dim > MOST_NUMBERS:
        detail = f"{n_arms} contexts of {dim} numbers are more than {MOST_NUMBERS}"
        raise Problem(ProblemCode.OUT_OF_RANGE, detail, field)


@lru_cache(2**14)
def label_number(label: str) -> int:
    """Return the number of a label: its column modulo how many there are, and below that its sign.

    The hash is BLAKE2b (RFC 7693) of 8 bytes, unkeyed, over ``lhb feature``, a zero byte and the
    label in UTF-8; it is read as a big-endian number. Its lowest bit is the sign (1: negative). The
    other bits modulo the number of columns are the column. This never changes: stored rounds depend
    on it. A label is a feature, or a feature, "=" and its category.
    """
    digest = blake2b(b"lhb feature\0" + label.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def columns_of(numbers: NDArray[np.uint64], n_columns: int) -> tuple[NDArray[np.intp], Floats]:
    """Return the columns of labels by their numbers, and the signs of what they add there."""
    columns = ((numbers >> np.uint64(1)) % np.uint64(n_columns)).astype(np.intp)
    return columns, 1.0 - 2.0 * (numbers & np.uint64(1)).astype(np.float64)


def computed_labels(products: Iterable[Sequence[str]], repetition: int) -> list[str]:
    """Return the labels of the columns that a session works out, in their order."""
    return [*map(PRODUCT.join, products), *([REPETITION] if repetition else [])]


def counted_labels(
    features: Sequence[str], dim: int, products: Iterable[Sequence[int]]
) -> list[str]:
    """Return labels of `dim` features, by number where they have none, and of products."""
    every = [*features, *map(str, range(len(features), dim))]
    return [*every, *(PRODUCT.join((every[one], every[other])) for one, other in products)]


def check_names(parts: Any, dim: int) -> None:
    """Check what `Names` is made of, as a new session or an imported one gives it.

    Raises 422 naming the part: too many columns, a label twice, none left for categories, or a
    product of something that is no listed feature, or not directly after these.
    """
    columns, arms, products = list(parts["columns"]), parts["arms"], parts.get("products") or []
    for part, labels in (("features", columns), ("arms", arms or [])):
        if len(set(labels)) < len(labels):
            twice = next(label for i, label in enumerate(labels) if label in labels[:i])
            raise Problem(ProblemCode.INVALID, f"{twice!r} stands twice", part)
    repetition = parts.get("repetition") or 0
    labels = computed_labels(products, repetition)
    first = columns.index(labels[0]) if labels and labels[0] in columns else 0
    if columns[first : first + len(labels)] != labels:
        raise Problem(ProblemCode.INVALID, "products have columns after the features", "products")
    if repetition and not first:
        raise Problem(ProblemCode.INVALID, "repetition needs the names of `features`", "repetition")
    for pair, label in zip(products, labels, strict=not repetition):
        if not set(pair) <= set(columns[:first]):
            detail = f"{label!r} is no product of two listed features"
            raise Problem(ProblemCode.INVALID, detail, "products")
        if len(label) > MOST_LETTERS:
            raise Problem(ProblemCode.INVALID, "a product's name is too long", "products")
    if len(columns) > min(dim, MOST_COLUMNS):
        detail = f"{len(columns)} features are more than {min(dim, MOST_COLUMNS)} (dim is {dim})"
        raise Problem(ProblemCode.OUT_OF_RANGE, detail, "features")
    if parts["categories"] == HASHED and len(columns) == dim:
        detail = 'categories "hashed" needs a dim beyond the number of features'
        raise Problem(ProblemCode.OUT_OF_RANGE, detail, "dim")


def fill_repetition(names: Names, contexts: Floats, lately: bytes | None) -> None:
    """Fill the column in contexts (K, dim), in place, by what a trajectory keeps, F as bytes."""
    alike = 0.0 if lately is None else contexts @ np.frombuffer(lately)
    contexts[:, names.worked_out[-1]] = alike


def after_choice(names: Names, lately: bytes | None, context: bytes, dim: int) -> bytes:
    """Return F after a choice of `context`, as a decision stores it; empty: no action.

    With m rounds of memory a trajectory keeps F, which begins at 0 and after a choice of context x
    is F + (x - F) / m, where a round without action counts as x = 0. The column of an arm with
    context x is <x, F>, over all columns but those that a session works out.
    """
    before = np.zeros(dim) if lately is None else np.frombuffer(lately)
    chosen = np.frombuffer(context, count=dim) if context else np.zeros(dim)
    after = before + (chosen - before) / names.repetition
    after[names.worked_out] = 0.0
    return after.tobytes()
