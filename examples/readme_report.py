"""Take the picture that opens the README: the report of ``scoreprism demo`` on a desk and, dark, on a phone."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from click.testing import CliRunner
from PIL import Image
from playwright.sync_api import sync_playwright

from scoreprism.cli import main as scoreprism

ROOT = Path(__file__).parents[1]
OUT = ROOT / "docs" / "figures" / "report.png"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
HEIGHT, GAP = 1180, 28


def photographed(browser, page, name, width, scheme, scroll):
    context = browser.new_context(
        viewport={"width": width, "height": HEIGHT}, color_scheme=scheme, device_scale_factor=1.5
    )
    sheet = context.new_page()
    sheet.goto(page.as_uri())
    sheet.evaluate(f"document.querySelector('{scroll}').scrollIntoView()")
    sheet.screenshot(path=str(name))
    context.close()
    return Image.open(name).convert("RGB")


def main():
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page = Path(folder) / "demo.html"
        CliRunner().invoke(scoreprism, ["demo", "-o", str(page)], catch_exceptions=False)
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        views = [("desk", 1180, "light", "body"), ("phone", 400, "dark", "#calibration")]
        pictures = [
            photographed(browser, page, Path(folder) / f"{name}.png", width, scheme, scroll)
            for name, width, scheme, scroll in views
        ]
        browser.close()
    whole = Image.new("RGB", (sum(p.width for p in pictures) + GAP, pictures[0].height), "#8a8f98")
    whole.paste(pictures[0], (0, 0))
    whole.paste(pictures[1], (pictures[0].width + GAP, 0))
    whole = whole.resize((1600, round(1600 * whole.height / whole.width)), Image.Resampling.LANCZOS)
    whole.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(OUT, optimize=True)
    print("drew", OUT.relative_to(ROOT), f"{OUT.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
