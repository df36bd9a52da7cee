"""The page of --report in Chromium: points are drawn, a click selects a camera, nothing is said on
the console, names of files stay text, and without WebGL2, while the graphics card is lost, and on paper there is a
picture. What was not computed is not praised. Arguments: PROGRAM ROOT FOLDER to fill.

Chromium is driven by its own protocol over two pipes, so that nothing but Python and it is needed; without it the test
is skipped.
"""

import base64
import io
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

SKIPPED = 77  # as tests/CMakeLists.txt says
HOSTILE = "00 <script>window.hacked=1<!--<img src=x onerror=window.hacked=1>&amp;\".jpg"
FLAGS = ["--no-sandbox", "--headless=new", "--disable-extensions", "--disable-background-networking", "--no-first-run",
         "--disable-sync", "--hide-scrollbars", "--window-size=1280,1000", "--force-device-scale-factor=1"]


class Browser:
    """A page in Chromium, spoken to in JSON that ends with a zero byte, on the descriptors 3 and 4."""

    def __init__(self, chromium, profile, flags):
        to_browser, self.out = os.pipe()
        self.back, from_browser = os.pipe()
        saved = [(fd, os.dup(fd)) for fd in (3, 4) if fd in (to_browser, self.out, self.back, from_browser)]
        moved = {old: new for old, new in saved}
        to_browser, from_browser = moved.get(to_browser, to_browser), moved.get(from_browser, from_browser)
        self.out, self.back = moved.get(self.out, self.out), moved.get(self.back, self.back)

        def wire():
            os.dup2(to_browser, 3)
            os.dup2(from_browser, 4)

        self.process = subprocess.Popen(
            [chromium, *FLAGS, *flags, "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"],
            preexec_fn=wire, pass_fds=(3, 4), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.buffer, self.next, self.events, self.session = b"", 0, [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def read(self):
        while b"\0" not in self.buffer:
            more = os.read(self.back, 1 << 20)
            if not more:
                raise RuntimeError("Chromium ended")
            self.buffer += more
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **parameters):
        self.next += 1
        message = {"id": self.next, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == self.next:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self.events.append(answer)

    def open(self, path):
        self.call("Page.navigate", url=Path(path).absolute().as_uri())
        self.wait("document.readyState === 'complete'")

    def value(self, script):
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, (script, result["exceptionDetails"])
        return result["result"].get("value")

    def wait(self, script, seconds=60):
        end = time.monotonic() + seconds
        while not self.value(script):
            assert time.monotonic() < end, f"in {seconds} s not: {script}"
            time.sleep(.1)

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x, y):
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
        self.mouse("mouseReleased", x, y, button="left", clickCount=1)

    def touch(self, *places):
        """Fingers that go from place to place: each is a list of the fingers' (x, y)."""
        for i, fingers in enumerate(places):
            points = [dict(x=x, y=y, id=k) for k, (x, y) in enumerate(fingers)]
            self.call("Input.dispatchTouchEvent", type="touchMove" if i else "touchStart", touchPoints=points)
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
        self.value("new Promise(r => requestAnimationFrame(() => requestAnimationFrame(() => r(1))))")

    def picture(self, **more):
        from PIL import Image
        data = self.call("Page.captureScreenshot", format="png", **more)["data"]
        return Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")

    def complaints(self):
        """What the console said, and what the page asked the network for."""
        said = [e["params"] for e in self.events if e.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded",
                                                                        "Runtime.consoleAPICalled")]
        said = [s for s in said if s.get("entry", {}).get("level") != "verbose" and "swiftshader" not in json.dumps(s).lower()
                and "GPU stall" not in json.dumps(s)]
        urls = [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        return said + [u for u in urls if not u.startswith(("file:", "data:", "about:"))]

    def close(self):
        self.call("Browser.close") if self.process.poll() is None else None
        self.process.wait(20)


def box(browser, element):
    return browser.value(f"(r => [r.x, r.y, r.width, r.height])(document.getElementById('{element}').getBoundingClientRect())")


def colours(image, area):
    x, y, width, height = map(round, area)
    part = image.crop((x, y, x + width, y + height)).resize((160, 120))
    return len(set(part.getcolors(1 << 20)))


def check_scene(browser, page, shots):
    browser.open(page)
    browser.wait("document.getElementById('view').classList.contains('live')")
    time.sleep(1.5)
    image = browser.picture()
    image.save(shots / "scene.png")
    area = box(browser, "canvas")
    assert colours(image, area) > 1500, f"{colours(image, area)} colours: are there points?"
    assert browser.value("document.title").startswith("browser")
    # A click on a camera, where the page says that it is drawn, selects it; its own image is then shown.
    for i in (0, 3):
        x, y, _ = browser.value(f"view.where({i})")
        browser.click(area[0] + x, area[1] + y)
        browser.wait("document.body.dataset.chosen !== '-1'", 10)
        chosen = int(browser.value("document.body.dataset.chosen"))
        heading = browser.value("document.querySelector('#frame h3').textContent")
        assert heading == browser.value(f"files[{chosen}]")
        assert browser.value("document.querySelectorAll('#frame img').length") == 3
        browser.wait("[...document.querySelectorAll('#frame img')].every(i => i.naturalWidth > 0)", 10)
        if i == 3:
            assert abs(chosen - 3) <= 1, chosen  # neighbours overlap in the picture
        browser.click(area[0] + 5, area[1] + area[3] - 5)
        assert browser.value("document.body.dataset.chosen") == "-1", "a click beside all cameras lets go"
    # A drag turns, the wheel zooms, keys do both.
    def place():
        return browser.value("view.where(3)")
    before, middle = place(), (area[0] + area[2] / 2, area[1] + area[3] * .8)
    browser.mouse("mousePressed", *middle, button="left", buttons=1, clickCount=1)
    browser.mouse("mouseMoved", middle[0] + 80, middle[1] - 30, button="left", buttons=1)
    browser.mouse("mouseReleased", middle[0] + 80, middle[1] - 30, button="left", clickCount=1)
    browser.value("new Promise(r => requestAnimationFrame(() => requestAnimationFrame(() => r(1))))")
    assert place() != before
    before = place()
    browser.mouse("mouseWheel", *middle, deltaX=0, deltaY=-200)
    time.sleep(.3)
    browser.value("new Promise(r => requestAnimationFrame(() => requestAnimationFrame(() => r(1))))")
    assert place() != before
    check_touch(browser, area)
    browser.value("choose(3)")
    check_lost(browser, area, shots)
    browser.picture(captureBeyondViewport=True, clip=dict(x=0, y=0, width=1280, height=2400, scale=1)).save(shots / "whole.png")
    # Hostile names are text.
    assert browser.value("window.hacked") is None
    assert HOSTILE in browser.value("document.getElementById('gallery').textContent")
    assert browser.value("document.querySelectorAll('script').length") == 6
    assert not browser.complaints(), browser.complaints()
    # On paper the picture takes the canvas's place.
    browser.call("Emulation.setEmulatedMedia", media="print")
    assert browser.value("getComputedStyle(document.getElementById('still')).visibility") == "visible"
    assert browser.value("getComputedStyle(document.getElementById('canvas')).display") == "none"
    splits = "[...document.querySelectorAll('.card')].filter(c => getComputedStyle(c).breakInside !== 'avoid').map(c => c.id)"
    assert browser.value(splits) == [], "no card lies on two pages"
    pdf = base64.b64decode(browser.call("Page.printToPDF", printBackground=True)["data"])
    (shots / "scene.pdf").write_bytes(pdf)
    assert pdf.startswith(b"%PDF") and len(pdf) > 30_000
    browser.call("Emulation.setEmulatedMedia", media="")
    for width, scheme in ((390, "light"), (1280, "dark")):
        browser.call("Emulation.setDeviceMetricsOverride", width=width, height=1000, deviceScaleFactor=1, mobile=width < 500)
        browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        time.sleep(.5)
        browser.picture().save(shots / f"{scheme}-{width}.png")
        assert browser.value("document.documentElement.scrollWidth") <= width
        light = browser.value("getComputedStyle(document.body).backgroundColor")
        assert (light == "rgb(244, 245, 247)") == (scheme == "light"), light
    browser.call("Emulation.clearDeviceMetricsOverride")


def check_lost(browser, area, shots):
    """A lost graphics card leaves the picture; when it is back, so is the view, as it was."""
    def shown(element):
        return browser.value(f"getComputedStyle(document.getElementById('{element}')).visibility") == "visible"
    assert shown("canvas") and not shown("still")
    browser.value("window.loser = document.getElementById('canvas').getContext('webgl2').getExtension('WEBGL_lose_context')")
    browser.value("loser.loseContext()")
    browser.wait("!document.getElementById('view').classList.contains('live')", 10)
    assert shown("still") and not shown("canvas") and not shown("tools")
    time.sleep(.5)
    assert colours(browser.picture(), area) > 1500, "the picture is seen"
    browser.value("view.reset(), choose(2)")  # while there is nothing to draw on
    browser.value("loser.restoreContext()")
    browser.wait("document.getElementById('view').classList.contains('live')", 10)
    time.sleep(1.5)
    image = browser.picture()
    image.save(shots / "back.png")
    assert shown("canvas") and not shown("still") and colours(image, area) > 1500, "the view is back"
    x, y, _ = browser.value("view.where(0)")
    browser.click(area[0] + x, area[1] + y)
    assert abs(int(browser.value("document.body.dataset.chosen"))) <= 1
    browser.value("choose(3)")


def check_touch(browser, area):
    """One finger turns, two that part come nearer, two that go together move the view, a tap selects a camera."""
    def apart(a, b):
        return sum((p - q) ** 2 for p, q in zip(a, b, strict=True)) ** .5

    def cameras():
        return [browser.value(f"view.where({i})") for i in (0, 3)]

    def reset():
        browser.value("view.reset()")
        time.sleep(.7)
        return cameras()
    browser.call("Emulation.setTouchEmulationEnabled", enabled=True, maxTouchPoints=5)
    x, y = area[0] + area[2] / 2, area[1] + area[3] * .8
    first = reset()
    browser.touch([(x, y)], [(x + 30, y)], [(x + 60, y - 20)])
    turned = cameras()
    assert apart(turned[0][:2], first[0][:2]) > 5, "one finger turns"
    assert abs(apart(turned[0][:2], turned[1][:2]) - apart(first[0][:2], first[1][:2])) > .5, "which is no mere shift"
    first = reset()
    browser.touch([(x - 40, y), (x + 40, y)], [(x - 60, y), (x + 60, y)], [(x - 80, y), (x + 80, y)])
    near = cameras()
    assert apart(near[0][:2], near[1][:2]) > 1.3 * apart(first[0][:2], first[1][:2]) and near[0][2] < first[0][2], (near, first)
    browser.touch([(x - 80, y), (x + 80, y)], [(x - 60, y), (x + 60, y)], [(x - 40, y), (x + 40, y)])
    assert apart(cameras()[0], first[0]) < .02 * apart(first[0], (0, 0, 0)), "back, as the fingers are"
    first = reset()
    browser.touch([(x - 40, y), (x + 40, y)], [(x - 20, y - 15), (x + 60, y - 15)], [(x, y - 30), (x + 80, y - 30)])
    for before, after in zip(first, cameras(), strict=True):
        assert after[0] > before[0] + 10 and after[1] < before[1] - 8, (before, after)
    reset()
    assert browser.value("document.body.dataset.chosen") == "-1", "no gesture selects a camera"
    tx, ty, _ = cameras()[1]
    browser.touch([(area[0] + tx, area[1] + ty)])
    chosen = int(browser.value("document.body.dataset.chosen"))
    assert abs(chosen - 3) <= 1, chosen
    assert browser.value("scrollY") == 0, "nothing scrolled"
    browser.value("choose(-1)")
    browser.call("Emulation.setTouchEmulationEnabled", enabled=False)


def check_without_webgl(browser, page, shots):
    browser.open(page)
    browser.wait("document.querySelectorAll('#gallery img').length > 0")
    assert browser.value("document.getElementById('canvas').hidden")
    assert "no WebGL2" in browser.value("document.getElementById('hint').textContent")
    browser.picture().save(shots / "still.png")
    assert colours(browser.picture(), box(browser, "still")) > 1500
    browser.value("document.querySelectorAll('.thumb')[2].click()")
    assert browser.value("document.body.dataset.chosen") == "2"
    complaints = [c for c in browser.complaints() if "WebGL" not in json.dumps(c)]
    assert not complaints, complaints


def check_not_compared(browser, page, why):
    """Frames that nothing was compared of are not said to agree, and what is not there is not drawn."""
    browser.open(page)
    browser.wait("document.querySelectorAll('#gallery img').length > 0")
    health = browser.value("document.querySelector('#cards .card').textContent")
    assert f"not compared with each other: {why}" in health and "conspicuous" not in health, health
    figures = browser.value("document.getElementById('figures').textContent")
    assert "not compared" in figures and "none" not in figures, figures
    assert browser.value("document.querySelectorAll('.good').length") == 0
    assert not browser.complaints(), browser.complaints()


def check_without_scene(browser):
    """Neither cameras nor points: a note in the view's place, and frames can be chosen."""
    text = browser.value("document.getElementById('view').textContent")
    assert "No view in 3D" in text and "click a camera" not in text, text
    assert browser.value("document.querySelectorAll('canvas, .still').length") == 0
    assert browser.value("document.getElementById('view').clientHeight") < 100
    browser.value("document.querySelectorAll('.thumb')[1].click()")
    browser.wait("[...document.querySelectorAll('#frame img')].some(i => i.naturalWidth > 0)", 10)
    strip = "(document.getElementById('strip') || document.createElement('p')).textContent"
    sure = browser.value("health.frames.some(frame => isNumber(frame.confidence))")
    assert ("confidence" in browser.value(strip)) == sure, "bars only of what is known"
    assert not browser.complaints(), browser.complaints()


def main():
    program, root, folder = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    chromium = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")
    if not chromium:
        print("skipped: no chromium (Debian's package of this name)")
        sys.exit(SKIPPED)
    shutil.rmtree(folder, ignore_errors=True)
    frames = folder / "frames"
    frames.mkdir(parents=True)
    for i, image in enumerate(sorted((root / "examples/room").glob("*.jpg"))[::2]):
        shutil.copy(image, frames / (HOSTILE if i == 0 else image.name))
    def made(name, *more):
        command = [program, "--frames", frames, "--device", "cpu", "--width", "252", "--conf-percentile", "20", "--out",
                   folder / f"{name}/", "--report", *more]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return folder / name / "scene.html"
    page = made("browser")
    assert page.stat().st_size < 8e6
    browser = Browser(chromium, folder / "profile", ["--use-angle=swiftshader", "--enable-unsafe-swiftshader"])
    try:
        check_scene(browser, page, folder)
        check_not_compared(browser, made("one", "--max-frames", "1"), "there is only one")
        check_not_compared(browser, made("cameras", "--heads", "camera"), "there is no depth")
        check_not_compared(browser, made("depth", "--heads", "depth"), "there are no cameras")
        check_without_scene(browser)
    finally:
        browser.close()
    browser = Browser(chromium, folder / "profile2", ["--disable-gpu", "--disable-3d-apis"])
    try:
        check_without_webgl(browser, page, folder)
    finally:
        browser.close()
    print("the page works in", subprocess.run([chromium, "--version"], capture_output=True, text=True).stdout.strip())


if __name__ == "__main__":
    main()
