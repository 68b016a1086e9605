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

from playwright.sync_api import sync_playwright

SITE, SHOTS = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
CHROMIUM = sys.argv[3] if len(sys.argv) > 3 else "/usr/bin/chromium"
WIDTHS = (390, 800, 1280, 1440)
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
SHOWN = ["index", "docs/tutorial", "docs/comparison", "docs/configuration", "docs/runtimes/claude-code", "docs/specification", "docs/adr/README"]
# WCAG 2.2, level AA, for text.
CONTRAST = 4.5


class Quiet(http.server.SimpleHTTPRequestHandler):
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
    // What is not drawn, and the mark beside a heading that shows under the pointer alone.
    if (!text || !element.checkVisibility({ visibilityProperty: true, opacityProperty: true }) || element.matches('.headerlink')) continue;
    let behind = element, background = 'rgba(0, 0, 0, 0)';
    while (behind && /rgba\\(.*, 0\\)|transparent/.test(background)) { background = getComputedStyle(behind).backgroundColor; behind = behind.parentElement; }
    found[getComputedStyle(element).color + ' on ' + background] ??= text;
  }
  return Object.entries(found);
}"""


class Reader:
    def __init__(self, browser, base, **options):
        self.context = browser.new_context(viewport=WIDE, **options)
        self.page, self.base, self.troubles, self.at = self.context.new_page(), base, [], ""
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

    def wider_than_screen(self):
        """Says what sticks out, for whoever has to mend it."""
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
        return self.page.locator("#search-results li").count()


def main():
    SHOTS.mkdir(parents=True, exist_ok=True)
    base = serve()
    pages = sorted(str(path.relative_to(SITE)) for path in SITE.rglob("*.html"))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM)
        reader, dark = Reader(browser, base), Reader(browser, base, color_scheme="dark")

        reader.open("index.html")
        heading = reader.page.locator("h1").first
        if not heading.is_visible() or not heading.inner_text().startswith("hookjail"):
            reader.trouble("the start page does not begin with hookjail")
        reader.page.get_by_role("link", name="Tutorial", exact=True).first.click()
        if not reader.page.url.endswith("docs/tutorial.html"):
            reader.trouble("the navigation does not lead to the tutorial")

        found = reader.search("landlock")
        if found < 5:
            reader.trouble(f"a search for landlock finds {found} pages")
        reader.page.screenshot(path=SHOTS / "search.png")
        if nothing := reader.search("nosuchwordanywhere"):
            reader.trouble(f"a search for a word that is nowhere finds {nothing} pages")

        texts = 0
        for page in pages:
            reader.open(page)
            for width in WIDTHS:
                reader.page.set_viewport_size({"width": width, "height": 900})
                if wide := reader.wider_than_screen():
                    reader.trouble(f"wider than {width} pixels: {wide}")
            dark.open(page)
            for one in (reader, dark):
                for colours, text in one.page.evaluate(TEXTS):
                    texts += 1
                    if (ratio := contrast(*colours.split(" on "))) < CONTRAST:
                        one.trouble(f"contrast {ratio:.1f} of `{text[:40]}`: {colours}, {'dark' if one is dark else 'light'}")
        if dark.page.evaluate("getComputedStyle(document.body).backgroundColor") == reader.page.evaluate("getComputedStyle(document.body).backgroundColor"):
            dark.trouble("the dark scheme has the light one's background")

        for name in SHOWN:
            shot = name.replace("/", "-")
            for one, scheme, size in ((reader, "light", WIDE), (dark, "dark", WIDE), (reader, "narrow", NARROW)):
                one.page.set_viewport_size(size)
                one.open(name + ".html")
                one.page.screenshot(path=SHOTS / f"{shot}-{scheme}.png", full_page=scheme == "narrow" and name == "index")
        browser.close()

    troubles = reader.troubles + dark.troubles
    print("\n".join(troubles))
    print(f"{len(pages)} pages, {texts} pairs of colours, {found} pages about landlock, {len(troubles)} troubles; screenshots in {SHOTS}")
    sys.exit(bool(troubles))


main()
