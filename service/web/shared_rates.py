"""One limit of requests for all servers on a PostgreSQL: each tells the others what it let through.

Once a second, by a notification, so that no request waits for the database and nothing is stored.
What a caller gets from all servers together is the rate; what they let through before they hear of
each other is owed, and paid by later requests.
"""

import asyncio
import json
from secrets import token_hex

from service.base.recurring import Recurring
from service.storage.postgres.connection import ANSWER_SECONDS, translated
from service.storage.postgres.fit_claims import Connection, listening
from service.web.rate_limit import RateLimit

CHANNEL = "lhb_rates"
TELL_SECONDS = 1.0
AGAIN_SECONDS = 1.0  # from a lost connection to the next
MOST_CALLERS = 100  # in a notification, which has at most 8000 bytes


class SharedRates(Recurring):
    """Tells other servers what this one let through, and counts what they did.

    Without the database every server goes on by itself, and tells the others later.
    """

    def __init__(self, url: str, rates: RateLimit) -> None:
        self._url, self._rates = url, rates
        self._me = token_hex(8)
        rates.to_tell = {}
        super().__init__("share_rates", lambda: AGAIN_SECONDS, self._share)
        self.start()
        self.wake()

    async def _share(self) -> None:
        """Hear and tell, for as long as the connection stands, once there is a rate."""
        if not self._rates.is_on:
            return
        async with listening(self._url, "rates", CHANNEL) as connection:
            while True:
                with translated():
                    async for notification in connection.notifies(timeout=TELL_SECONDS):
                        sender, counts = json.loads(notification.payload)
                        for caller, n in counts.items() if sender != self._me else ():
                            self._rates.count_elsewhere(caller, n)
                async with asyncio.timeout(ANSWER_SECONDS):
                    await self._send(connection)

    async def _send(self, connection: Connection) -> None:
        """Send the counts; what cannot be sent stays for the next time."""
        counts = self._rates.to_tell or {}
        callers = list(counts)
        for start in range(0, len(callers), MOST_CALLERS):
            part = {caller: counts[caller] for caller in callers[start : start + MOST_CALLERS]}
            text = json.dumps([self._me, part])
            with translated():
                await connection.execute("select pg_notify($1, $2)", (CHANNEL, text))
            for caller, n in part.items():
                counts[caller] -= n  # more may have come meanwhile
                if not counts[caller]:
                    del counts[caller]
