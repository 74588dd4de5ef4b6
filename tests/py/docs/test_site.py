"""The site: it builds without a warning, is whole in itself, and its links lead somewhere."""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import dtensor
from tests.py import fresh
from tests.py.docs.blocks import DOCS, ROOT


class Reader(HTMLParser):
    """The links, the files and the places of a page."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.files: list[str] = []
        self.places: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attrs if value}
        self.places |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        elif tag == "link" and values.get("href", "#") != "#":
            self.files.append(values["href"])
        elif "src" in values:
            self.files.append(values["src"])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Reader]:
    """The pages of the site; it is built without a network, whatever Sphinx would like to fetch."""
    folder = tmp_path_factory.mktemp("site").resolve()
    build = "import socket, sys; socket.socket.connect = None; from sphinx.cmd.build import main; "
    words = [
        "-W",
        "--keep-going",
        "-q",
        "-E",
        "-d",
        f"{folder}/doctrees",
        str(DOCS),
        f"{folder}/html",
    ]
    env = {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    done = fresh.run(["-c", build + "sys.exit(main(sys.argv[1:]))", *words], env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return {page: Reader(page) for page in (folder / "html").rglob("*.html")}


def test_every_source_is_a_page(site: dict[Path, Reader]) -> None:
    (root,) = {page.parent for page in site if page.name == "search.html"}
    sources = [p for p in DOCS.rglob("*") if p.suffix in (".md", ".ipynb")]
    for source in sources:
        page = root / source.relative_to(DOCS).with_suffix(".html")
        assert page in site
        index = site[root / "index.html"].links + site[root / "recipes" / "index.html"].links
        assert page.name == "index.html" or any(page.name in link for link in index)


def test_links_lead_somewhere(site: dict[Path, Reader]) -> None:
    for page, reader in site.items():
        for link in reader.links:
            parts = urlsplit(link)
            if parts.scheme in ("http", "https"):
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            assert target.is_file(), f"{page.name} links to {link}"
            if parts.fragment and target in site and parts.fragment not in ("", "top"):
                assert parts.fragment in site[target].places, f"{page.name} links to {link}"


def test_nothing_is_loaded_from_elsewhere(site: dict[Path, Reader]) -> None:
    for page, reader in site.items():
        for file in reader.files:
            parts = urlsplit(file)
            assert not parts.scheme, f"{page.name} loads {file}"
            assert not parts.netloc, f"{page.name} loads {file}"
            assert (page.parent / parts.path).resolve().is_file(), f"{page.name} loads {file}"
    for style in {page.parent for page in site}:
        for sheet in style.rglob("*.css"):
            assert "@import" not in sheet.read_text(encoding="utf-8")


def test_the_api_is_whole(site: dict[Path, Reader]) -> None:
    (page,) = (page for page in site if page.name == "api.html")
    for name in dtensor.__all__:
        assert f"dtensor.{name}" in site[page].places, f"docs/api.md lacks dtensor.{name}"
