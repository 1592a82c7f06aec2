"""Pages that have drawn all that they asked for."""

from playwright.sync_api import Page


def show(page: Page, address: str) -> None:
    """Opens `address` anew, and waits until no part of the page is still to come.

    A page whose address differs after the # alone is not loaded anew: so another one is between.
    """
    page.goto("about:blank")
    page.goto(address)
    wait_for_all(page)


def wait_for_all(page: Page) -> None:
    page.locator("main[aria-busy=false]").wait_for()
