#!/usr/bin/env python3
"""Opens the built site in a browser, over HTTP on the loopback interface, and looks at what a reader would see.

Usage: pages.py SITE SHOTS [CHROMIUM]. Every page is opened once: no error on its console, nothing of it missing, no address but its
own, and no wider than a narrow or a wide screen. Screenshots of some pages, light, dark and narrow, go to SHOTS.
"""
import functools
import http.server
import pathlib
import re
import sys
import threading

from playwright.sync_api import expect, sync_playwright

SITE, SHOTS = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
CHROMIUM = sys.argv[3] if len(sys.argv) > 3 else "/usr/bin/chromium"
WIDTHS = (390, 800, 1280, 1440)
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
SHOWN = ["index", "docs/tutorial", "docs/comparison", "docs/configuration", "docs/runtimes/claude-code", "docs/specification", "docs/adr/README"]
# WCAG 2.2, level AA, for text.
CONTRAST = 4.5


class Quiet(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass


def serve():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=SITE))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/"


def luminance(colour):
    channels = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


# Each text of the page with its colour and the first opaque background behind it.
TEXTS = """() => {
  const found = {};
  const walker = document.createTreeWalker(document.querySelector('.content, article') ?? document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim(), element = walker.currentNode.parentElement;
    // Not drawn, shown under the pointer alone, or in a terminal's own colours.
    if (!text || !element.checkVisibility({ visibilityProperty: true, opacityProperty: true }) || element.matches('.headerlink, #recording *')) continue;
    let behind = element, background = 'rgba(0, 0, 0, 0)';
    while (behind && /rgba\\(.*, 0\\)|transparent/.test(background)) { background = getComputedStyle(behind).backgroundColor; behind = behind.parentElement; }
    found[getComputedStyle(element).color + ' on ' + background] ??= text;
  }
  return Object.entries(found);
}"""


class Reader:
    def __init__(self, browser, base):
        self.page, self.base, self.troubles, self.at = browser.new_page(viewport=WIDE), base, [], ""
        # A busy machine is no trouble of the site's.
        self.page.set_default_timeout(120_000)
        self.page.on("console", lambda message: message.type in ("error", "warning") and self.trouble(f"console: {message.text}"))
        self.page.on("pageerror", lambda error: self.trouble(f"script: {error}"))
        self.page.on("response", lambda response: response.status >= 400 and self.trouble(f"{response.status}: {response.url}"))
        self.page.on("request", lambda request: self.own(request.url) or self.trouble(f"asks another host: {request.url}"))

    def own(self, url):
        return url.startswith((self.base, "data:", "blob:"))

    def trouble(self, text):
        self.troubles.append(f"{self.at}: {text}")

    def open(self, path):
        self.at = path
        self.page.goto(self.base + path, wait_until="load")

    def wider_than_screen(self, width):
        """Returns the elements that are wider than the screen; null if there are none."""
        self.page.set_viewport_size({"width": width, "height": 900})
        return self.page.evaluate("""() => document.documentElement.scrollWidth <= innerWidth ? null :
          [...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1)
            .map(e => e.tagName + '.' + e.className).slice(0, 5).join(', ') || 'something'""")

    def search(self, words):
        self.open("index.html")
        field = self.page.locator("input[name=q]").first
        field.fill(words)
        field.press("Enter")
        self.page.wait_for_function("/found|did not match/.test(document.querySelector('#search-results')?.textContent ?? '')")
        # The excerpts of the results are fetched one by one.
        self.page.wait_for_load_state("networkidle")
        return [link.get_attribute("href") for link in self.page.locator("#search-results li > a").all()]

    def ask_questions(self):
        """Follows each question of the landing page, by one click, to a heading that is in sight. Returns how many."""
        self.open("index.html")
        questions = self.page.locator(".questions a")
        count = questions.count()
        for number in range(count):
            self.open("index.html")
            question = questions.nth(number).inner_text()
            questions.nth(number).click()
            anchor = self.page.url.partition("#")[2]
            heading = self.page.locator(f"[id='{anchor}'] > :is(h1, h2, h3, h4)" if anchor else "h1").first
            try:
                # The page moves there smoothly.
                expect(heading).to_be_in_viewport(timeout=10_000)
            except AssertionError:
                self.trouble(f"no heading in sight answers `{question}`: {self.page.url}")
            print(f"question    {question}  {self.page.url.removeprefix(self.base)}")
        if count < 10:
            self.trouble(f"the landing page answers {count} questions")
        return count

    def play_recording(self):
        self.open("index.html")
        self.page.locator("#recording .ap-overlay-start").click()
        try:
            self.page.wait_for_function("/rehearsing 1 of/.test(document.querySelector('#recording .ap-terminal')?.textContent)", timeout=20_000)
        except Exception as error:
            self.trouble(f"the recording does not play: {str(error).splitlines()[0]}")

    def copy_command(self, command):
        """Copies the first block of the page by its button, and reads what a person would paste."""
        self.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        block = self.page.locator(".highlight-sh", has_text=command).first
        block.hover()
        block.locator("button.copybtn").click()
        copied = self.page.evaluate("navigator.clipboard.readText()")
        if copied.strip() != command:
            self.trouble(f"the button copies `{copied}` instead of `{command}`")
        if self.page.locator(".highlight-text button.copybtn").count():
            self.trouble("the output of a command has a button to copy it")

    def read_texts(self, scheme):
        """Returns the number of pairs of colours, and the page's background. A pair that is hard to read is a trouble."""
        self.page.emulate_media(color_scheme=scheme)
        pairs = self.page.evaluate(TEXTS)
        for colours, text in pairs:
            if (ratio := contrast(*colours.split(" on "))) < CONTRAST:
                self.trouble(f"contrast {ratio:.1f} of `{text[:40]}`: {colours}, {scheme}")
        return len(pairs), self.page.evaluate("getComputedStyle(document.body).backgroundColor")


def main():
    SHOTS.mkdir(parents=True, exist_ok=True)
    base = serve()
    pages = sorted(str(path.relative_to(SITE)) for path in SITE.rglob("*.html"))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM)
        reader = Reader(browser, base)

        reader.open("index.html")
        heading = reader.page.locator("h1").first
        if not heading.is_visible() or not heading.inner_text().startswith("hookjail"):
            reader.trouble("the start page does not begin with hookjail")
        answered = reader.ask_questions()
        reader.play_recording()
        reader.open("index.html")
        reader.page.get_by_role("link", name="Tutorial", exact=True).first.click()
        if not reader.page.url.endswith("docs/tutorial.html"):
            reader.trouble("the navigation does not lead to the tutorial")
        reader.copy_command("hookjail doctor --profile develop")

        found = reader.search("landlock")
        if len(found) < 5 or "/adr/" in found[0]:
            reader.trouble(f"a search for landlock finds {len(found)} pages, first {found[:1]}")
        reader.page.screenshot(path=SHOTS / "search.png")
        if nothing := reader.search("nosuchwordanywhere"):
            reader.trouble(f"a search for a word that is nowhere finds {nothing}")

        texts = 0
        for page in pages:
            reader.open(page)
            for width in WIDTHS:
                if wide := reader.wider_than_screen(width):
                    reader.trouble(f"wider than {width} pixels: {wide}")
            light, white = reader.read_texts("light")
            dark, black = reader.read_texts("dark")
            texts += light + dark
            if luminance(white) <= luminance(black):
                reader.trouble(f"the dark scheme is not darker: {black}, {white}")

        for name in SHOWN:
            reader.open(f"{name}.html")
            for shot, scheme, size in (("light", "light", WIDE), ("dark", "dark", WIDE), ("narrow", "light", NARROW)):
                reader.page.emulate_media(color_scheme=scheme)
                reader.page.set_viewport_size(size)
                reader.page.screenshot(path=SHOTS / f"{name.replace('/', '-')}-{shot}.png")
        browser.close()

    troubles = reader.troubles
    print("\n".join(troubles))
    print(f"{len(pages)} pages, {answered} questions, {texts} pairs of colours, {len(found)} pages about landlock, {len(troubles)} troubles; screenshots in {SHOTS}")
    sys.exit(bool(troubles))


main()
