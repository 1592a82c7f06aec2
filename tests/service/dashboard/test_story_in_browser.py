"""The story of a session in a real Chromium: a daily mail, and a session that has nothing yet."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Page

from lhb import Client
from tests.faults.server_process import served
from tests.service.dashboard.shown import show

pytestmark = pytest.mark.slow
ARMS = {"kitchen": [1.0, 0.0], "garden": [0.0, 1.0], "none": [0.0, 0.0]}
START = datetime(2026, 6, 1, tzinfo=UTC)
DAYS = 90


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(tmp_path_factory.mktemp("story") / "test.db") as address:
        with Client(address) as client:
            send_mails(client)
            client.create_session("nothing yet", dim=2, horizon=4)
            play_faint(client)
            begin(client)
            go_on(client)
        yield address


def play_faint(client: Client) -> None:
    """Noise of ten times what choices pay."""
    session = client.create_session("faint", dim=2, horizon=1, refit="blocking", seed=1)
    numbers = random.Random(4)
    for _ in range(60):
        decision = session.decide([[0.5, -0.5], [-0.5, 0.5]])
        session.reward(numbers.gauss(0.5 if decision.arm else -0.5, 10), round=decision.round)


def begin(client: Client) -> None:
    """Two users of an hourly total, a share of whose hours is control's."""
    clock, share = {"slot_seconds": 3600, "start": START.isoformat()}, {"share": 0.5}
    session = client.create_session("begun", dim=2, horizon=1, clock=clock, holdout=share)
    for user in ("ann", "bob"):
        session.decide([*ARMS.values()][:2], trajectory=user, at=START, default_arm=0)


def go_on(client: Client) -> None:
    """A log of chance, day by day, and then ten choices of its own; an algorithm without checks."""
    session = client.create_session(
        "logged", dim=2, horizon=2, refit="blocking", seed=1, reward_unit="EUR"
    )
    numbers, arms = random.Random(1), [*ARMS.values()]
    names = numbers.choices([*ARMS], k=120)
    chosen = [ARMS[name] for name in names]
    rewards = [20 + 5 * kitchen + garden + numbers.gauss(0, 1) for kitchen, garden in chosen]
    times = [START + timedelta(days=day) for day in range(120)]
    session.history(chosen, rewards, arm_ids=names, at=times)
    for _ in range(10):
        decision = session.decide(arms, arm_ids=[*ARMS])
        session.reward(25 + numbers.gauss(0, 1), round=decision.round)
    plain = client.create_session("plain", dim=2, horizon=1, algorithm="ad_lasso", refit="blocking")
    for _ in range(60):
        decision = plain.decide(arms)
        plain.reward(numbers.gauss(0, 1), round=decision.round)


def send_mails(client: Client) -> None:
    """A mail a day; kitchen brings 2 today and 3 tomorrow, garden 1 tomorrow, and weeks count."""
    clock = {"slot_seconds": 86400, "start": START.isoformat()}
    options = {"seasonality": [{"period": 7}], "trend": True}
    session = client.create_session(
        "mail",
        dim=2,
        horizon=4,
        features=["k", "g"],
        clock=clock,
        options=options,
        refit="blocking",
    )
    numbers, before = random.Random(1), [0.0, 0.0]
    for day in range(DAYS):
        begin = START + timedelta(days=day)
        at, forced = begin + timedelta(hours=8), numbers.randrange(3)
        decision = session.decide([*ARMS.values()], arm_ids=[*ARMS], at=at, forced_arm=forced)
        now = ARMS[decision.arm_id or ""]
        caused = 2 * now[0] + 3 * before[0] + before[1]
        value = 20 + (2 if day % 7 < 2 else 0) + 0.02 * day + caused + numbers.gauss(0, 0.5)
        session.reward(value, interval=(begin, begin + timedelta(days=1)))
        before = now


def test_the_four_questions_are_answered_in_words(page: Page, url: str) -> None:
    show(page, f"{url}/#/sessions/mail")
    page.get_by_text("One choice of kitchen is worth").wait_for()
    said = page.inner_text("main")
    with Client(url) as client:
        arms = {one["arm_id"]: one for one in client.session("mail").credit_by_arm()["items"]}
    kitchen = arms["kitchen"]["one"]
    low, high = kitchen["interval"]
    assert low < 5 < high < low + 3  # by all forms of lag profiles that may hold
    worth = f"{kitchen['in_all']:.3g} ({low:.3g} to {high:.3g})"
    assert f"One choice of kitchen is worth {worth}" in said
    assert "since 1 Jun 2026" in said  # when the rounds were, not when they came
    assert "a decision over choosing by chance, for the choices of its latest days." in said
    assert "Whether this beats what you had is not known" in said
    assert "it would choose kitchen now" in said
    assert "nothing was found, and some checks could not be made." in said
    assert "Looked for, and not found: " in said
    assert "Create a session" not in said
    assert "create a session with holdout" in said  # in the list of what to do
    assert "Not checked, as there are too few rewards, or users, that would tell: " in said
    assert "--" not in said
    headings = [
        one.split("\n")[0] for one in page.get_by_role("heading", level=2).all_inner_texts()
    ]
    assert headings == [
        "What to do",
        "Can it be trusted?",
        "What actions are worth",
        "When they pay",
        "What came, and what was expected",
        "What it chooses",
    ]


def test_layers_add_up_and_are_read_by_keyboard(page: Page, url: str) -> None:
    show(page, f"{url}/#/sessions/mail")
    came = page.locator("section.card", has_text="What came, and what it is made of")
    came.locator(".uplot").wait_for()
    assert "29 Aug 2026" in came.inner_text()  # the newest day
    came.locator(".plot").focus()
    page.keyboard.press("ArrowLeft")
    assert "28 Aug 2026" in came.inner_text()
    with page.expect_download() as download:
        came.get_by_role("button", name="CSV").click()
    head, *rows = (line.split(",") for line in download.value.path().read_text().splitlines())
    assert head == ["at", "without actions", "actions", "reward"]
    with Client(url) as client:
        items = client.session("mail").series(bins=400, by="time")["items"]
    assert rows[0][0] == "2026-06-01T00:00:00.000Z"
    for row, item in zip(rows, items, strict=False):
        assert abs(sum(map(float, row[1:3])) - item["expected"]) < 1e-9
        assert float(row[3]) == item["reward"]
    beside = page.locator("section.card", has_text="What moves it besides actions")
    with page.expect_download() as download:
        beside.get_by_role("button", name="CSV").click()
    head, *parts = (line.split(",") for line in download.value.path().read_text().splitlines())
    assert head == ["at", "trend", "season"]
    for row, part, item in zip(rows, parts, items, strict=False):
        assert abs(float(row[1]) - item["parts"]["base"] - sum(map(float, part[1:]))) < 1e-9


def test_a_part_without_data_says_so_in_a_sentence(page: Page, url: str) -> None:
    show(page, f"{url}/#/sessions/nothing%20yet")
    page.get_by_text("The first decision begins the story.").wait_for()
    assert page.locator(".plot:visible").count() == 0
    assert page.get_by_role("button", name="CSV").count() == 0
    said = page.inner_text("main")
    assert "Take decisions, and send rewards." in said
    for sentence in ("No decision yet.", "Nothing has been learned yet", "It has chosen nothing"):
        assert sentence in said


def test_while_nothing_is_known_something_is_to_do(page: Page, url: str) -> None:
    show(page, f"{url}/#/sessions/begun")
    todo = page.get_by_label("What to do").locator("li")
    todo.first.wait_for()
    assert "What choices pay is not known yet. No estimate is in use." in todo.first.inner_text()
    said = page.inner_text("main")
    assert "Nothing. The checks" not in said
    assert "by the features above" not in said
    needed = "control has 0 blocks of 2 hours with rewards; 30 are needed, which come with about 60"
    assert needed in said
    assert not page.get_by_label("One user alone:").is_visible()  # the totals are everybody's


def test_how_long_until_it_is_known_is_said_while_it_is_not(page: Page, url: str) -> None:
    with Client(url) as client:
        estimate = client.session("faint").estimate()
        assert estimate["gain"]["over_chance"]["low"] < 0
    show(page, f"{url}/#/sessions/faint")
    page.get_by_text("By its model it is between").wait_for()
    said = page.inner_text("main")
    assert "more rounds decide" in said or "not be known for a very long time" in said
    show(page, f"{url}/#/sessions/mail")
    page.get_by_text("By its model it is between").wait_for()
    assert "more days decide" not in page.inner_text("main")


def test_its_own_choices_are_told_from_a_log_and_the_list_says_the_same(
    page: Page, url: str
) -> None:
    with Client(url) as client:
        found = client.session("logged").credit_by_arm()
    players = {one["by"]: one for one in found["players"]}
    assert [(by, one["n"]) for by, one in players.items()] == [("caller", 120), ("agent", 10)]
    chance = sum(one["one"]["in_all"] for one in found["items"]) / len(found["items"])
    own = players["agent"]["one"]["in_all"]
    assert own == next(one["one"]["in_all"] for one in found["items"] if one["arm_id"] == "kitchen")
    number = f"+{own - chance:.3g} EUR"
    show(page, f"{url}/#/sessions/logged")
    page.get_by_text("by its own choices of 10 days.").wait_for()
    said = page.inner_text("main")
    headline = page.locator(".headline").inner_text()
    assert headline.startswith(f"{number} a day over choosing these arms by chance")
    more = own - players["caller"]["one"]["in_all"]
    assert f"Its own earn +{more:.3g} EUR (" in said
    assert "day 130, " in said  # the newest, and its date
    show(page, url)
    page.get_by_text(f"{number} a day over choosing these arms by chance (").wait_for()


def test_an_algorithm_without_checks_is_not_said_to_be_in_order(page: Page, url: str) -> None:
    show(page, f"{url}/#/sessions/plain")
    page.get_by_text("No checks are made for this algorithm.").wait_for()
    assert "nothing was found" not in page.inner_text("main")
    show(page, url)
    row = page.locator("tr", has=page.get_by_role("link", name="plain"))
    row.get_by_text("not checked").wait_for()


def test_a_finding_that_is_gone_is_told_for_two_fits_and_dated_from_its_first(
    page: Page, url: str
) -> None:
    """Of five fits: one finding stands but for a gap, one was said last but two, one long ago."""
    fits = [
        {
            "due": due,
            "at": "2026-06-01T00:00:00Z",
            "findings": [{"code": c, "message": f"{c} is."} for c in codes],
        }
        for due, codes in ((10, "bad"), (20, "b"), (30, "cb"), (40, "c"), (50, "b"))
    ]
    show(page, url)
    said = page.evaluate(
        """async fits => {
            const { trust } = await import("/dashboard/trust.js")
            const checks = { findings: fits.at(-1).findings, unchecked: [], checked: "Checked." }
            const session = { deciding: "in_use", options: {}, unit: "round" }
            return trust({ session, checks, fits, series: {}, nFits: 5 }).textContent
        }""",
        fits,
    )
    assert "With care: one finding stands, see what to do." in said
    assert "Since the fit after round 10 (1 Jun 2026): b is." in said
    assert "Was said until the fit after round 40 (1 Jun 2026), and not since: c is." in said
    assert "a is." not in said
    assert "d is." not in said


def test_a_list_of_known_numbers_asks_for_no_arms_and_fits_its_width(page: Page, url: str) -> None:
    page.set_viewport_size({"width": 1000, "height": 800})
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    show(page, url)
    row = page.locator("tr", has=page.get_by_role("link", name="mail"))
    row.get_by_text("a decision over choosing by chance (").wait_for()
    row = page.locator("tr", has=page.get_by_role("link", name="begun"))
    row.get_by_text("not known yet").wait_for()
    with Client(url) as client:
        ids = {name: client.session(name).id for name in ("mail", "begun")}
    assert not [
        one for one in asked if "credit/arms" in one and any(i in one for i in ids.values())
    ]
    words = "decides by what it learned, which is in doubt: see what was found"
    page.evaluate(
        "words => document.querySelectorAll('.state').forEach(one => { one.textContent = words })",
        words,
    )
    wide, room = page.evaluate(
        """() => {
            const list = document.querySelector(".scroll")
            return [list.scrollWidth, list.clientWidth]
        }"""
    )
    assert wide <= room


def test_a_thing_has_one_colour_in_all_plots(page: Page, url: str) -> None:
    """An arm that is a feature alone has its colour, whatever the order; no action is grey."""
    show(page, url)
    kitchen, garden, none, both = page.evaluate(
        """async () => {
            const { palette } = await import("/dashboard/palette.js")
            const arm = (arm_id, context, is_fixed) => ({ arm_id, context, is_fixed })
            const items = [arm("none", [0, 0], true), arm("garden", [0, 1], true),
                arm("both", [1, 1], true), arm("kitchen", [1, 0], true)]
            const session = { dim: 2, features: ["k", "g"] }
            const found = palette(session, { items })
            const again = palette(session, { items: items.reverse() })
            return [["kitchen", "k"], ["garden", "g"], ["none", "none"], ["both", "both"]]
                .map(names => [...names.map(name => found.get(name)), again.get(names[0])])
        }"""
    )
    assert len({*kitchen}) == len({*garden}) == len({*both}) == 1
    assert {*none} == {"--six"}
    assert len({kitchen[0], garden[0], none[0], both[0]}) == 4


def test_what_is_not_sure_is_said_in_words(page: Page, url: str) -> None:
    """Of a number whose interval holds 0, and of a session that could not be checked over time."""
    show(page, url)
    open_one, sure, trusted, held = page.evaluate(
        """async () => {
            const { inBrief } = await import("/dashboard/headline.js")
            const { trust } = await import("/dashboard/trust.js")
            const number = low => ({ value: 1, low, high: 2, by: "a round", over: "control" })
            const checks = { findings: [], unchecked: [], checked: "Checked." }
            const fits = [{ due: 5, at: "2026-06-01T00:00:00Z", findings: [] }]
            const unchecked = [{ codes: ["trend"] }]
            const estimate = { gain: { best_is_right: 0.9 }, n_rows: 9, unchecked }
            const given = { estimate, checks, fits, series: {}, nFits: 1 }
            const session = { deciding: "in_use", options: {}, unit: "round" }
            const told = more => trust({ ...given, session: { ...session, ...more } }).textContent
            const brief = [-1, 0.5].map(low => inBrief(number(low), {}))
            return [...brief, told({}), told({ holdout: { share: 0.2 } })]
        }"""
    )
    assert open_one == "+1 a round over control, not sure yet (-1 to +2)"
    assert sure == "+1 a round over control (+0.5 to +2)"
    assert trusted.startswith("In part: nothing was found, and whether rewards move over time")
    assert "Its intervals hold if rewards have no trend of their own" in trusted
    assert held.startswith("Yes, as far as the checks see")  # control plays at the same times


def test_what_the_measured_interval_and_the_models_have_in_common_is_said(
    page: Page, url: str
) -> None:
    show(page, url)
    said, apart = page.evaluate(
        """async () => {
            const { headline } = await import("/dashboard/headline.js")
            const group = { n_units: 2 }, series = { items: [], last_round: 10 }
            const session = { n_rounds: 10, unit: "round", each: "round", holdout: {}, options: {} }
            const player = (by, worth) => ({ by, n: 5, one: { in_all: worth }, context: [worth] })
            const arms = { players: [player("agent", 1), player("control", 0)], items: [] }
            const estimate = { totals: { values: [1], squares: [[0.01]], unknown: [] } }
            const measured = low => ({ difference: 2, low, high: 3, ratio: null })
            const told = low => headline({ session, estimate, arms, series, epochs: [],
                lift: { decides: "lift", lift: measured(low), verdict: "V.", agent: group,
                        control: group },
            }).map(one => one.textContent).join(" ")
            return [told(0.95), told(1.2)]
        }"""
    )
    assert "Plan with what both intervals hold: +0.95 to +1.1." in said
    assert "The two intervals have nothing in common" in apart


def test_beside_control_one_account_of_what_is_open_is_given(page: Page, url: str) -> None:
    """Not that of the model's gain over chance; and levels that the past took away are not open."""
    show(page, url)
    bare, narrowed = page.evaluate(
        """async () => {
            const { headline } = await import("/dashboard/headline.js")
            const group = { n_units: 2 }, series = { items: [], last_round: 10 }
            const session = { n_rounds: 10, unit: "round", each: "round", holdout: {}, options: {} }
            const arms = { players: [], items: [] }
            const gain = { over_chance: { value: 1, low: -1, high: 3 } }
            const estimate = { gain, n_rows: 10, levels: { spread: 3 } }
            const told = narrowed_by_past => headline({ session, estimate, arms, series, epochs: [],
                lift: { decides: "lift", units: "trajectories", verdict: "V.", agent: group,
                        control: group,
                        lift: { difference: 2, low: -1, high: 3, ratio: null, narrowed_by_past } },
            }).map(one => one.textContent).join(" ")
            return [told(0), told(0.8)]
        }"""
    )
    assert "Of that interval 5.88 either way is how the groups' users differ" in bare
    assert "either way" not in narrowed
    assert "more rounds decide" not in bare + narrowed


def test_arms_of_one_name_are_one_share(page: Page, url: str) -> None:
    """A log's action of nothing, and a round without one, by different ids."""
    show(page, url)
    said = page.evaluate(
        """async () => {
            const { choosesCard } = await import("/dashboard/chooses.js")
            const bins = [0, 1].map(i => ({ first_round: i, last_round: i }))
            const card = choosesCard("x")
            const item = { arm_id: null, n: 5, context: [0], is_fixed: true, one: { in_all: 0 } }
            const items = [{ ...item, arm: 0, shares: [0.5, 0.25] },
                           { ...item, arm: null, shares: [0.5, 0.5] },
                           { ...item, arm: null, arm_id: "a", context: [1], shares: [0, 0.25] }]
            document.querySelector("main").append(card.node)
            const session = { features: ["a"], dim: 1, options: {}, each: "round", unit: "round" }
            card.update(session, { items, bins, first_round: 0, last_round: 1 }, { by: "rounds" })
            return card.node.innerText
        }"""
    )
    assert "round 1: no action 0.75, a 0.25" in said
