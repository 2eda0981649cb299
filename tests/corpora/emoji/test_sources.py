"""Sources of emoji names and images, with substitutes for apt-get, dpkg and npm."""

import pytest

from xmcap.corpora.emoji import sources as emoji_sources
from xmcap.errors import UsageError, XmcapError


@pytest.fixture
def command(tmp_path, monkeypatch):
  """Makes shell scripts the only commands there are."""
  folder = tmp_path / "bin"
  folder.mkdir()
  monkeypatch.setenv("PATH", str(folder))

  def add(name, script):
    path = folder / name
    path.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
    path.chmod(0o755)

  return add


@pytest.fixture(autouse=True)
def read_nothing(monkeypatch):
  monkeypatch.setattr(emoji_sources.cldr, "read_xml", lambda folder: f"xml {folder.name}")
  monkeypatch.setattr(emoji_sources.cldr, "read_json", lambda folder: f"json {folder.name}")
  monkeypatch.setattr(emoji_sources.emoji_images, "FontImages", lambda path: f"font {path.name}")
  monkeypatch.setattr(emoji_sources.emoji_images, "FileImages", lambda path: f"files {path.name}")


DPKG = """
mkdir -p "$3/usr/share/unicode/cldr/common/annotations" "$3/usr/share/unicode/cldr/common/collation"
mkdir -p "$3/usr/share/fonts/truetype/noto"
: > "$3/usr/share/fonts/truetype/noto/NotoColorEmoji.ttf"
"""
APT = 'for package in "$2" "$3"; do : > "${package}_1_all.deb"; done'
NPM = """
name=${3%@*}
mkdir -p package/img/google/64 package/img/google/sheets
echo 1 > package/img/google/64/1f34e.png; echo 1 > package/img/google/sheets/64.png; echo 1 > package/a.json
tar czf "$name-1.0.0.tgz" package && rm -r package
"""


def test_emoji_sources_prefer_installed_packages(tmp_path, command):
  tree = tmp_path / "root"
  (tree / "usr/share/unicode/cldr/common/annotations").mkdir(parents=True)
  (tree / "usr/share/fonts/truetype/noto").mkdir(parents=True)
  (tree / "usr/share/fonts/truetype/noto/NotoColorEmoji.ttf").write_text("")
  found = emoji_sources.find("auto", tmp_path / "cache", root=tree)
  assert (found.way, found.cldr, found.images) == ("installed", "xml common", "font NotoColorEmoji.ttf")


def test_emoji_sources_fetch_debian_packages_without_root(tmp_path, command):
  command("apt-get", APT)
  command("dpkg", DPKG)
  found = emoji_sources.find("auto", tmp_path / "cache", root=tmp_path / "absent")
  assert (found.way, found.cldr) == ("debian", "xml common")
  assert not list((tmp_path / "cache").rglob("*.deb"))
  assert not list((tmp_path / "cache").rglob("collation"))


def test_emoji_sources_cache_fetched_packages(tmp_path, command):
  command("apt-get", APT)
  command("dpkg", DPKG)
  emoji_sources.find("debian", tmp_path / "cache")
  command("apt-get", "exit 1")
  assert emoji_sources.find("debian", tmp_path / "cache").way == "debian"


def test_emoji_sources_fall_back_to_npm(tmp_path, command):
  command("apt-get", "echo 'E: Unable to locate package' >&2; exit 100")
  command("npm", NPM)
  found = emoji_sources.find("auto", tmp_path / "cache", root=tmp_path / "absent")
  assert (found.way, found.cldr, found.images) == ("npm", "json npm", "files 64")
  tree = tmp_path / "cache" / "npm" / "emoji-datasource-google"
  assert sorted(str(p.relative_to(tree)) for p in tree.rglob("*") if p.is_file()) == [
    "a.json",
    "img/google/64/1f34e.png",
  ]


def test_emoji_sources_error_names_all_sources(tmp_path, command):
  command("apt-get", "echo 'E: Unable to locate package' >&2; exit 100")
  with pytest.raises(XmcapError) as caught:
    emoji_sources.find("auto", tmp_path / "cache", root=tmp_path / "absent")
  message = str(caught.value)
  assert "\n" not in message
  for part in (
    "apt-get install",
    "apt-get download",
    "npm pack",
    "Unable to locate",
    "command npm is missing",
  ):
    assert part in message


def test_emoji_sources_failed_fetch_leaves_no_files(tmp_path, command):
  command("apt-get", APT)
  command("dpkg", "echo broken >&2; exit 2")
  with pytest.raises(XmcapError, match="broken"):
    emoji_sources.find("debian", tmp_path / "cache")
  assert list((tmp_path / "cache").iterdir()) == []


def test_emoji_sources_refuse_path_traversal_in_archives(tmp_path, command):
  command(
    "npm",
    'mkdir -p d/package; echo 1 > evil; cd d; tar czPf "../${3%@*}-1.tgz" package/../../evil; cd ..; rm -r d',
  )
  with pytest.raises(XmcapError, match="cannot extract"):
    emoji_sources.find("npm", tmp_path / "cache")


def test_emoji_sources_refuse_an_unknown_source():
  with pytest.raises(UsageError, match="unknown source 'web'"):
    emoji_sources.find("web")
