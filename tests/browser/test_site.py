"""The sample site, examples/site."""
import glob
import os
import shutil
import subprocess

from support import SITE, Skip, test

PAGES = sorted(os.path.basename(path) for path in glob.glob(f"{SITE}/*.html"))


@test()
def each_page_is_valid_html(ground):
    if not shutil.which("tidy"):
        raise Skip("no tidy: tools/setup browser")
    for name in PAGES:
        said = subprocess.run(["tidy", "-q", "-e", f"{SITE}/{name}"], capture_output=True, text=True).stderr
        # It is older than this attribute.
        wrong = [line for line in said.splitlines() if 'proprietary attribute "aria-current"' not in line]
        assert wrong == [], f"{name}: {wrong}"


@test()
def the_first_page_introduces_weft_and_leads_to_the_live_page(ground):
    server, page = ground.weft(), ground.page
    page.open(server.url)
    assert page.title() == "weft"
    assert "blocking code" in page.text("h1")
    assert "C library" in page.text("main")
    page.click("main a[href='/_weft']")
    page.wait("return location.pathname === '/_weft' && document.body && document.body.dataset.state === 'live'")


@test()
def every_link_and_picture_leads_somewhere(ground):
    server, page = ground.weft(), ground.page
    for name in PAGES:
        page.open(server.url + name)
        dead = page.script("""
            const urls = [...document.querySelectorAll("[href], [src]")].map(e => e.href || e.src);
            const answers = await Promise.all(urls.map(async url => [url, (await fetch(url)).status]));
            return answers.filter(([url, status]) => status !== 200 || !url.startsWith(location.origin));""")
        assert dead == [], f"{name}: {dead}"
        assert page.script("return [...document.images].every(i => i.complete && i.naturalWidth > 0)"), name
        assert page.script("return [...document.images].every(i => i.hasAttribute('alt'))"), name


@test()
def it_follows_light_and_dark_with_contrast(ground):
    server, page = ground.weft(), ground.page
    backs = []
    for name in PAGES:
        for dark in (False, True):
            page.dark(dark)
            page.open(server.url + name)
            backs.append(page.script("return getComputedStyle(document.body).backgroundColor"))
            contrasts = ground.contrasts()
            assert len(contrasts) > 10, contrasts
            assert min(contrasts)[0] >= 4.5, min(contrasts)
    assert len(set(backs)) == 2, backs


@test()
def it_fits_a_phone(ground):
    server, page = ground.weft(), ground.page
    page.size(360, 740, 2, phone=True)
    for name in PAGES:
        page.open(server.url + name)
        assert page.script("return document.documentElement.scrollWidth") <= 360, name
