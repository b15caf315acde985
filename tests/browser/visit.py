"""What a visitor does with the page, step by step."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from playwright.sync_api import ConsoleMessage, Page, Request, ViewportSize

from limpet.api import sample
from tests.server_process import ask

HOSTILE = '<img src=x onerror="document.title=1"><script>document.title=2</script>'
NARROW: ViewportSize = {"width": 360, "height": 740}
WIDE: ViewportSize = {"width": 1100, "height": 800}
PATIENCE = 10_000  # milliseconds that a step waits for what it expects
SENDS = """
import sys, urllib.request
urllib.request.urlopen(urllib.request.Request(sys.argv[1], sys.argv[2].encode(), {"Content-Type": "application/json"}))
"""


class Visit:
    """One visitor at one server; every step finds the page as the one before left it."""

    def __init__(self, page: Page, url: str, pictures: Path) -> None:
        self.page = page
        self.url = url
        self.pictures = pictures
        self.wrong: list[str] = []
        page.set_default_timeout(PATIENCE)
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("request", self._asked)
        page.add_init_script(
            "addEventListener('securitypolicyviolation', e => console.error('policy: ' + e.violatedDirective))"
        )

    def _said(self, line: ConsoleMessage) -> None:
        if line.type in ("error", "warning"):
            self.wrong.append(line.text)

    def _asked(self, request: Request) -> None:
        if not request.url.startswith(self.url):
            self.wrong.append(f"asked {request.url}")

    def picture(self, name: str) -> None:
        text = self.page.locator("body").inner_text()
        odd = re.search(r"\[object |undefined|NaN|Invalid Date", text)
        self.expect(odd is None, f"{name} shows {odd}")
        self.page.screenshot(path=self.pictures / f"{name}.png", full_page=True)

    def sees(self, text: str, where: str = "main") -> None:
        self.page.locator(where).get_by_text(text).first.wait_for()

    def expect(self, is_so: object, what: str) -> None:
        if not is_so:
            raise AssertionError(what)

    def remember(self, content: str, user: str) -> None:
        """By another program."""
        body = json.dumps({"content": content, "user": user})
        command = [sys.executable, "-c", SENDS, f"{self.url}/v1/records", body]
        subprocess.run(command, check=True, timeout=60)

    def steps(self) -> Iterator[tuple[str, Callable[[], None]]]:
        for name in vars(type(self)):
            if not name.startswith("_"):
                yield name.replace("_", " "), getattr(self, name)


class Open(Visit):
    """At a store without keys."""

    def empty_store_offers_the_sample(self) -> None:
        self.page.goto(self.url)
        self.sees("Nothing is kept here yet")
        code = self.page.locator("pre").all_inner_texts()
        self.expect(len(code) == 3 and all(self.url in text for text in code), "three snippets with this address")
        self.picture("1-empty")

    def sample_is_loaded_by_a_click(self) -> None:
        self.page.get_by_role("button", name="Load a sample conversation").click()
        self.sees("oat biscuits")
        self.expect(self.page.locator("#user").input_value() == sample.USER, "the sample's user is chosen")

    def slash_and_enter_search(self) -> None:
        self.page.locator("main").focus()
        self.page.keyboard.press("/")
        self.page.keyboard.type("paint her yellow")
        self.page.keyboard.press("Enter")
        self.page.wait_for_url(re.compile("q=paint"))
        self.sees("I want to paint her yellow", "ol.hits")
        self.picture("2-search")

    def explain_shows_signals(self) -> None:
        signals = self.page.locator("ol.hits table").first
        self.expect(not signals.is_visible(), "signals are hidden at first")
        self.page.get_by_label("explain").check()
        signals.wait_for()
        self.expect("words" in signals.inner_text(), "the words have a rank")
        self.picture("3-explain")

    def hit_leads_to_its_message(self) -> None:
        self.page.locator("ol.hits a").first.click()
        aimed = self.page.locator("li.aim")
        aimed.wait_for()
        self.expect("paint her yellow" in aimed.inner_text(), "the message is marked")
        box = aimed.bounding_box()
        height = (self.page.viewport_size or {"height": 0})["height"]
        self.expect(box is not None and 0 <= box["y"] < height, "the message is on the screen")
        self.picture("4-session")

    def context_is_shown(self) -> None:
        self.page.get_by_text("Context for the next prompt").click()
        self.page.get_by_label("Context for").fill(sample.CHATS[-1].lines[-1][1])
        self.page.get_by_label("Tokens at most").fill("200")
        self.page.get_by_role("button", name="Show").click()
        self.sees("tokens", ".context")
        self.picture("5-context")

    def reload_and_back_work(self) -> None:
        self.page.reload()
        self.page.locator("li.aim").wait_for()
        self.page.go_back()
        self.sees("I want to paint her yellow", "ol.hits")

    def records_have_a_history(self) -> None:
        self.page.get_by_role("link", name="Records").click()
        self.sees(sample.AFTER)
        self.picture("6-records")
        self.page.get_by_role("link", name=sample.AFTER).click()
        self.sees(sample.BEFORE)
        self.picture("7-record")

    def escape_keeps_a_record(self) -> None:
        self.page.get_by_role("button", name="Forget this record").click()
        self.page.locator("dialog").wait_for()
        self.picture("8-dialog")
        self.page.keyboard.press("Escape")
        self.page.locator("dialog").wait_for(state="hidden")
        self.expect(self.page.locator("h1").inner_text() == sample.AFTER, "it is still there")

    def record_is_forgotten(self) -> None:
        self.page.get_by_role("button", name="Forget this record").click()
        self.page.get_by_role("button", name="Forget it").click()
        self.page.wait_for_url(re.compile("#/records$"))
        self.sees("No records here.")
        self.expect(json.loads(ask(f"{self.url}/v1/records")[2])["items"] == [], "it is gone from the store")

    def change_of_another_process_appears(self) -> None:
        self.remember("Told by somebody else", sample.USER)
        self.sees("Told by somebody else")
        self.page.locator("#live", has_text="updated").wait_for()

    def hostile_text_stays_text(self) -> None:
        self.remember(HOSTILE, sample.USER)
        self.sees(HOSTILE)
        session = json.loads(ask(f"{self.url}/v1/sessions?user={sample.USER}&state=ACTIVE")[2])["items"][0]["id"]
        message = {"role": "user", "content": HOSTILE, "name": "<b>Eve</b>"}
        self.expect(ask(f"{self.url}/v1/sessions/{session}/messages", "POST", message)[0] == 201, "it is kept")
        self.page.goto(f"{self.url}/#/sessions/{session}")
        self.sees(HOSTILE, "ol.talk")
        self.page.goto(f"{self.url}/#/search?q=onerror")
        self.sees(HOSTILE, "ol.hits")
        self.picture("9-hostile")
        self.expect(self.page.locator("main img, main script, main b:text('Eve')").count() == 0, "no markup was made")
        self.expect(self.page.title() == "Limpet", "nothing was run")

    def new_messages_appear_in_an_open_session(self) -> None:
        self.page.goto(f"{self.url}/#/sessions")
        self.page.locator("tbody a").first.click()
        self.page.locator("ol.talk li").first.wait_for()
        session = self.page.url.rpartition("/")[2]
        ask(f"{self.url}/v1/sessions/{session}/messages", "POST", {"role": "assistant", "content": "Bring a towel."})
        self.sees("Bring a towel.", "ol.talk")

    def what_was_learned_names_its_sentence(self) -> None:
        made = ask(f"{self.url}/v1/sessions", "POST", {"channel": "tea", "chat": "time", "user": "ann"})
        turn = {"content": "Good morning! I prefer tea over coffee.", "reply": "Tea it is."}
        ask(f"{self.url}/v1/sessions/{json.loads(made[2])['id']}/turns", "POST", turn)
        self.page.locator("#user").fill("ann")
        self.page.locator("#user").press("Tab")
        self.page.goto(f"{self.url}/#/records")
        self.page.locator("tr", has_text="preference").get_by_role("link").click()
        self.sees("I prefer tea over coffee.", "blockquote")
        self.picture("learned")
        self.page.locator("figcaption a").click()
        self.page.locator("li.aim", has_text="I prefer tea").wait_for()

    def long_sessions_go_on_both_ways(self) -> None:
        made = ask(f"{self.url}/v1/sessions", "POST", {"channel": "long", "chat": "talk", "user": sample.USER})
        session = json.loads(made[2])["id"]
        messages = [{"role": "user", "content": f"Line {number}."} for number in range(1, 131)]
        ask(f"{self.url}/v1/sessions/{session}/messages/batch", "POST", {"messages": messages})
        lines = self.page.locator("ol.talk li")
        self.page.goto(f"{self.url}/#/sessions/{session}")
        self.sees("Line 130.", "ol.talk")
        for shown in (50, 100, 130):
            lines.nth(shown - 1).wait_for()
            self.expect(lines.count() == shown, f"{shown} messages are shown")
            if shown < 130:
                self.page.get_by_role("button", name="Earlier").click()
        self.expect(lines.all_inner_texts()[0].endswith("Line 1."), "the first is the first")
        self.page.goto(f"{self.url}/#/sessions/{session}?at=40")
        self.page.locator("li.aim", has_text="Line 40.").wait_for()
        self.page.get_by_role("button", name="Later").click()
        self.sees("Line 130.", "ol.talk")
        self.expect(lines.count() == 100, "from 31 to the end")

    def long_lists_go_on(self) -> None:
        for number in range(60):
            body = {"channel": "many", "chat": f"number{number}", "user": "crowd"}
            ask(f"{self.url}/v1/sessions", "POST", body)
        self.page.locator("#user").fill("crowd")
        self.page.locator("#user").press("Tab")
        self.page.get_by_role("link", name="Sessions").click()
        self.page.get_by_role("button", name="More").click()
        self.page.locator("tbody tr").nth(59).wait_for()
        self.expect(self.page.locator("tbody tr").count() == 60, "all sixty are shown")

    def narrow_screens_do_not_scroll_sideways(self) -> None:
        self.page.locator("#user").fill(sample.USER)
        self.page.locator("#user").press("Tab")
        self.page.set_viewport_size(NARROW)
        self.page.get_by_label("explain").check()
        for name in ("sessions", "records", "search?q=goose", "start"):
            self.page.goto(f"{self.url}/#/{name}")
            self.page.locator("main h1").wait_for()
            self._fits(name.partition("?")[0])
        for name in ("sessions", "records"):
            self.page.goto(f"{self.url}/#/{name}")
            self.page.locator("tbody a").first.click()
            self.page.locator("main h1 + p").wait_for()
            self._fits(f"one-of-{name}")

    def _fits(self, name: str) -> None:
        wide = self.page.evaluate("document.documentElement.scrollWidth")
        self.picture(f"narrow-{name}")
        self.expect(wide <= NARROW["width"], f"{name} is {wide} pixels wide")

    def dark_is_dark(self) -> None:
        self.page.emulate_media(color_scheme="dark")
        self.page.set_viewport_size(WIDE)
        self.page.goto(f"{self.url}/#/search?q=goose")
        self.page.locator("ol.hits li").first.wait_for()
        ground = self.page.evaluate("getComputedStyle(document.body).backgroundColor")
        self.expect(max(map(int, re.findall(r"\d+", ground)[:3])) < 64, f"the ground is {ground}")
        self.picture("dark-search")

    def errors_are_told(self) -> None:
        noise = len(self.wrong)
        self.page.goto(f"{self.url}/#/sessions/00000000-0000-0000-0000-000000000000")
        self.page.locator("#banner").wait_for()
        self.picture("error")
        # The browser notes every answer that is a refusal; this one was asked for.
        self.wrong[noise:] = [text for text in self.wrong[noise:] if "404" not in text]

    def nothing_went_wrong_unseen(self) -> None:
        self.expect(not self.wrong, "; ".join(self.wrong[:3]))


class Keyed(Visit):
    """The same page where a key is needed."""

    def __init__(self, page: Page, url: str, pictures: Path, secret: str) -> None:
        super().__init__(page, url, pictures)
        self._secret = secret

    def key_is_asked_for(self) -> None:
        self.page.goto(self.url)
        self.page.get_by_label("API key").wait_for()
        self.picture("key")

    def wrong_key_is_refused(self) -> None:
        self.page.get_by_label("API key").fill("lim_wrong")
        self.page.get_by_role("button", name="Use key").click()
        self.page.locator("#banner").wait_for()
        self.page.get_by_label("API key").wait_for()

    def key_opens_the_page(self) -> None:
        self.page.get_by_label("API key").fill(self._secret)
        self.page.get_by_role("button", name="Use key").click()
        self.sees("Nothing is kept here yet")
        self.expect(self._secret not in self.page.url, "no key stands in the address")
        self.expect(not self.page.get_by_label("API key").is_visible(), "the field is gone")

    def events_come_with_a_key(self) -> None:
        self.page.locator("#live", has_text="live").wait_for()
        self.page.get_by_role("link", name="Records").click()
        self.sees("Nothing is kept here yet")
        body = {"content": "Kept with a key", "user": "alice"}
        status, _, _ = ask(f"{self.url}/v1/records", "POST", body, Authorization=f"Bearer {self._secret}")
        self.expect(status == 201, "it is kept")
        self.sees("Kept with a key")

    def key_is_removed(self) -> None:
        self.page.get_by_role("button", name="Remove key").click()
        self.page.get_by_label("API key").wait_for()
        self.expect(self.page.evaluate("sessionStorage.length") == 0, "no key is left behind")

    def nothing_else_went_wrong(self) -> None:
        left = [text for text in self.wrong if "401" not in text]
        self.expect(not left, "; ".join(left[:3]))
