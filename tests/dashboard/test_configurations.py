"""Which settings are at work, since when and where, and what differs; also on the screen of a browser."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from boards import START, history_of, metrics, served
from prequential.configuration.settings.model import Config
from prequential.configuration.settings.streams import StreamConfig
from prequential.configuration.settings.texts import ListedSettings, texts
from prequential.views.state.configurations import Configurations
from prequential.views.state.output_records import OutputRecord

from tests.browser import opened, ready

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FORMER = StreamConfig()
PRESENT = replace(FORMER, estimators=("all", "fading:0.999"), label_horizon=86_400_000)
OWN = StreamConfig(settle=1)

#: The page is restarted last: it has the former configuration, and one stream's own section.
CONFIG = Config(defaults=FORMER, streams={"own": OWN})


def header(config: StreamConfig) -> bytes:
    return msgspec.json.encode(ListedSettings(config.digest, texts(config)))


def made(stream: str, partition: int, config: StreamConfig, second: int, says: bool = False) -> OutputRecord:
    """A message, with the header or without."""
    about: dict[str, Any] = {"stream": stream, "partition": partition, "config": config.digest}
    return metrics(second, **about)._replace(settings=header(config) if says else None)


def roll_out(says: bool = True) -> list[OutputRecord]:
    """Streams `a` and `b` are evaluated anew since seconds 20 and 25, `c` not yet, `own` has its section."""
    return [
        *(made(name, place, FORMER, 10) for place, name in enumerate("abc")), made("own", 3, OWN, 10),
        made("a", 0, PRESENT, 20, says), made("b", 1, PRESENT, 25), made("a", 0, PRESENT, 30),
        made("c", 2, FORMER, 31), made("own", 3, OWN, 32),
    ]  # fmt: skip


def page_of(config: Config, *records: OutputRecord) -> dict[str, Any]:
    return history_of(records, config=config).configurations.page()


class TestPage:
    def test_half_of_a_roll_out(self) -> None:
        told = page_of(CONFIG, *roll_out())
        assert (told["streams"], told["changed"], told["others"]) == (4, 2, 2)
        at_work = {one["config"]: one for one in told["at_work"]}
        assert [one["streams"] for one in told["at_work"]] == [2, 1, 1]
        new = at_work[PRESENT.digest]
        assert (new["names"], new["partitions"], new["own"]) == (["a", "b"], [0, 1], 0)
        assert (new["since"], new["until"], new["newest"], new["messages"]) == (
            START + 20_000, START + 25_000, START + 30_000, 3,
        )  # fmt: skip
        old = at_work[FORMER.digest]
        assert (old["names"], old["own"], old["since"], old["first"]) == (["c"], 1, None, START + 10_000)
        assert at_work[OWN.digest]["own"] == 1
        [change] = told["changes"]
        assert (change["before"], change["after"]) == (FORMER.digest, PRESENT.digest)
        keys = [
            {"key": "estimators", "values": ["without window:1000"]},
            {"key": "label_horizon", "values": ["7d -> 1d"]},
        ]
        assert (change["keys"], change["untold"]) == (keys, [])
        # The page has the former settings: for it `c` needn't change.
        assert change["still"]["streams"] == 0
        [beside] = told["beside_own"]
        assert (beside["own"], beside["config"], beside["keys"]) == (FORMER.digest, PRESENT.digest, keys)

    def test_whoever_is_still_evaluated_by_the_former_settings(self) -> None:
        told = page_of(Config(defaults=PRESENT, streams={"own": OWN}), *roll_out())
        assert (told["changed"], told["others"]) == (2, 1)
        [change] = told["changes"]
        assert change["still"] == {
            "streams": 1, "names": ["c"], "partitions": [2], "more_partitions": 0, "newest": START + 31_000,
        }  # fmt: skip

    def test_settings_of_which_nobody_says_what_they_are(self) -> None:
        [change] = page_of(CONFIG, *roll_out(says=False))["changes"]
        assert (change["untold"], change["keys"]) == ([PRESENT.digest], [])

    def test_back_again_is_a_change_of_its_own(self) -> None:
        records = [made("a", 0, one, 10 * i, says=True) for i, one in enumerate((FORMER, PRESENT, FORMER), 1)]
        told = page_of(CONFIG, *records)
        [change] = told["changes"]
        assert (change["before"], change["after"]) == (PRESENT.digest, FORMER.digest)
        assert (change["since"], told["others"]) == (START + 30_000, 0)

    def test_headers_that_are_none_and_messages_without_settings_say_nothing(self) -> None:
        found = Configurations(CONFIG)
        for some in (b"", b"[]", b'{"config": 7}', b"\xff"):
            found.tell(some)
        found.add("a", 0, "", START)
        assert found.page() == {
            "streams": 0, "changed": 0, "others": 0, "at_work": [], "more_at_work": 0, "changes": [],
            "beside_own": [],
        }  # fmt: skip

    def test_a_key_that_one_version_doesnt_say(self) -> None:
        former = {**texts(PRESENT), "gone": ["a", "b"]}
        said = msgspec.json.encode(ListedSettings(PRESENT.digest, former))
        records = [made("a", 0, PRESENT, 1)._replace(settings=said), made("a", 0, FORMER, 2)]
        [change] = page_of(CONFIG, *records)["changes"]
        assert change["keys"][-1] == {"key": "gone", "values": ["[a, b] -> (not set)"]}

    def test_the_numbers_above_every_page_are_those_of_the_page(self) -> None:
        """They are kept up, not counted."""
        found = Configurations(CONFIG)
        for i in range(200):
            config = (FORMER, PRESENT, OWN)[i * i % 7 % 3]
            found.add(("a", "own", "c")[i % 3], i % 2, config.digest, i)
            told = found.page()
            at_work = sum(one["streams"] - one["own"] for one in told["at_work"])
            changed = sum(one["streams"] for one in told["changes"])
            assert found.counts() == {"streams": min(i + 1, 6), "others": at_work, "changed": changed}


@pytest.mark.slow
class TestInABrowser:
    def test_what_is_at_work_and_what_differs(self, page: Page) -> None:
        with served(roll_out(), config=CONFIG) as (address, _):
            ready(page, f"{address}#/configurations")
            said = "2 of 4 streams are evaluated with settings other than those of this page"
            assert said in page.inner_text("main")
            rows = page.locator("table[aria-label='settings at work'] tbody tr").all_inner_texts()
            new = PRESENT.digest[:12]
            assert rows[0].split("\t") == [
                f"{new} other settings than this page", "2", "a, b", "0, 1",
                "14 Nov 2023 22:13:40 UTC to 14 Nov 2023 22:13:45 UTC", "14 Nov 2023 22:13:50 UTC", "3",
            ]  # fmt: skip
            assert f"{FORMER.digest[:12]} as this page" in "\n".join(rows)
            heads = page.locator("h2").all_inner_texts()
            assert heads == [
                "At work now", f"Changed: {FORMER.digest[:12]} → {new}",
                f"This page: {FORMER.digest[:12]}, at work: {new}",
            ]  # fmt: skip
            differs = page.locator("table[aria-label='what differs'] >> nth=0").inner_text()
            assert "estimators\twithout window:1000" in differs
            assert "label_horizon\t7d -> 1d" in differs
            assert page.locator("nav a[aria-current]").inner_text() == "Configurations"

    def test_what_comes_is_on_the_open_page(self, page: Page) -> None:
        with served(made("a", 0, FORMER, 1), config=CONFIG) as (address, board):
            ready(page, f"{address}#/configurations")
            assert "All of 1 stream are evaluated with the settings of this page" in page.inner_text("main")
            board.take([made("a", 0, PRESENT, 2)])
            page.wait_for_selector("text=The differences are unknown")
            board.take([made("a", 0, PRESENT, 3, says=True)])
            page.wait_for_selector("table[aria-label='what differs']")

    def test_it_fits_a_phone_and_says_nothing_where_nothing_is(self, chromium: Browser) -> None:
        with opened(chromium, width=360) as page, served(roll_out(), config=CONFIG) as (address, _):
            ready(page, f"{address}#/configurations")
            assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        with opened(chromium) as page, served() as (address, _):
            ready(page, f"{address}#/configurations")
            assert "No metrics yet." in page.inner_text("main")

    def test_every_page_says_that_settings_have_changed(self, page: Page) -> None:
        """Of topics: a replay's file is what it is."""
        with served(roll_out(), config=CONFIG) as (address, board):
            ready(page, address)
            assert page.locator(".rolling").count() == 0
            board._clock = lambda: START + 40_000
            ready(page, f"{address}#/incidents")
            said = "Settings of 2 streams have changed; 2 of 4 have others than this page."
            assert page.inner_text(".rolling") == said
            page.click(".rolling a")
            page.wait_for_selector("h1:text-is('Configurations')")


def test_the_header_is_what_anybody_can_read() -> None:
    said = json.loads(header(PRESENT))
    assert said["config"] == PRESENT.digest
    assert (said["settings"]["label_horizon"], said["settings"]["stages"]) == ("1d", ["initial", "final"])
