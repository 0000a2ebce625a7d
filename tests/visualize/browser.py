"""Pages in a headless Chromium: what they look like there, and what it says of them."""

import shutil
import subprocess
from collections.abc import Sequence
from html import unescape
from pathlib import Path

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")

_OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
    "--enable-logging=stderr",
)
_FACTS = """<script>window.addEventListener('load', () => {
const wide = document.documentElement.clientWidth, said = [];
if (document.documentElement.scrollWidth > wide) said.push('the page scrolls sideways');
for (const e of document.querySelectorAll('body *')) {
  if (e.closest('.wide, .strip, svg, .bars') && !e.matches('.wide, .strip, .bars')) continue;
  if (e.getBoundingClientRect().right > wide + 0.5) said.push('beyond the page: ' + e.tagName); }
for (const e of document.querySelectorAll('img')) if (!e.naturalWidth) said.push('an image is not shown');
for (const svg of document.querySelectorAll('svg')) {
  const box = svg.getBoundingClientRect();
  for (const text of svg.querySelectorAll('text')) {
    const r = text.getBoundingClientRect();
    if (box.width && (r.left < box.left - 1 || r.right > box.right + 1)) said.push('cut: ' + text.textContent); } }
const seen = name => [...document.querySelectorAll(name)].filter(e => e.getBoundingClientRect().width > 1).length;
said.push('lines ' + seen('polyline'), 'bars ' + seen('.bar i'), 'images ' + seen('img'));
parent.postMessage(said.map(s => location.search + ' ' + s).join('\\n'), '*') })</script>"""


def _run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(CHROMIUM), *_OPTIONS, f"--user-data-dir={folder / 'profile'}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


def _frames(folder: Path, page: str, widths: Sequence[int], height: int, receiver: str = "") -> str:
    """A page in a frame of each width, since a window cannot be as narrow as a phone."""
    (folder / "page.html").write_text(page)
    style = f"height:{height}px;border:0;display:block"
    frames = "".join(f"<iframe src='page.html?{w}' style='width:{w}px;{style}'></iframe>" for w in widths)
    (folder / "frame.html").write_text(f"<!doctype html><body style='margin:0'>{receiver}{frames}</body>")
    return (folder / "frame.html").as_uri()


def facts(folder: Path, page: str, widths: Sequence[int]) -> tuple[dict[int, list[str]], list[str]]:
    """By width what is wrong with the layout, with the number of what is drawn; and what the console says."""
    receiver = (
        "<pre id='said'></pre><script>window.onmessage = e => "
        "document.getElementById('said').append(e.data + '\\n')</script>"
    )
    address = _frames(folder, page + _FACTS, widths, 900, receiver)
    done = _run(folder, "--window-size=1400,1900", "--virtual-time-budget=5000", "--dump-dom", address)
    lines = unescape(done.stdout.partition('<pre id="said">')[2].partition("</pre>")[0]).splitlines()
    said = {width: [line.partition(" ")[2] for line in lines if line.startswith(f"?{width} ")] for width in widths}
    return said, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def screenshot(folder: Path, page: str, width: int, height: int, *, dark: bool) -> Path:
    """A picture of the page."""
    path = folder / "shot.png"
    _run(
        folder,
        f"--blink-settings=preferredColorScheme={0 if dark else 1}",
        f"--window-size={max(600, width)},{height}",
        f"--screenshot={path}",
        _frames(folder, page, [width], height),
    )
    return path
