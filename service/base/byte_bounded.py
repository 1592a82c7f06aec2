"""A cache whose limit is the bytes that it holds, not the number of things."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ByteBounded(Generic[K, V]):
    """A cache that forgets first what was not asked for for longest.

    After `trim` all values together have at most `most` bytes, by what `keep` was told. The value
    used last stays, whatever its size.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.n_bytes = 0
        self._held: OrderedDict[K, V] = OrderedDict()
        self._sizes: dict[K, int] = {}

    def get(self, key: K) -> V | None:
        """Return the value of a key, which counts as a use of it, or None."""
        value = self._held.get(key)
        if value is not None:
            self._held.move_to_end(key)
        return value

    def keep(self, key: K, value: V, n_bytes: int) -> None:
        """Hold a value of this size, in the place of the key's former one."""
        self.n_bytes += n_bytes - self._sizes.get(key, 0)
        self._held[key], self._sizes[key] = value, n_bytes
        self._held.move_to_end(key)

    def remove(self, key: K) -> None:
        """Forget a key, if it is held."""
        if key in self._held:
            del self._held[key]
            self.n_bytes -= self._sizes.pop(key)

    def trim(self) -> None:
        """Forget values until the limit holds."""
        while self.n_bytes > self.most and len(self._held) > 1:
            key, _ = self._held.popitem(last=False)
            self.n_bytes -= self._sizes.pop(key)

    def clear(self) -> None:
        """Forget everything."""
        self._held.clear()
        self._sizes.clear()
        self.n_bytes = 0

    def __contains__(self, key: K) -> bool:
        """Return whether a key is held; this is no use of it."""
        return key in self._held

    def __len__(self) -> int:
        return len(self._held)
