"""Selects images from where languages are spoken, as XM3600's were from Open Images.

Source: Thapliyal et al., "Crossmodal-3600" (EMNLP 2022), section 2.2: for each language 100 images from an area where
it is spoken. A greedy algorithm begins with the language that has the smallest pool of candidates. If a pool has too
few, its countries come next, then their continents, then the world. Each image is selected for one language, which
becomes its `image/locale`.

The paper does not say in which order the images of a pool are taken; here a hash of seed and key decides.
`places.json` has the countries in which each of the 36 languages has an official status (CLDR), and the continents of
countries; the paper does not print its own table. Coordinates become countries and areas by a table of GeoNames.
"""

import collections
import dataclasses
import hashlib
import itertools
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources

import numpy as np

from xmcap import grid, spreadsheet, wording
from xmcap import languages as languages_lib
from xmcap.errors import UsageError
from xmcap.files import files
from xmcap.reading import layouts, tables
from xmcap.reading.inputs import Input
from xmcap.terminal import shown

LEVELS: tuple[str, ...] = ("area", "country", "continent", "world")
"""How near to its language an image was taken, the nearest first."""

_KEYS = ("image/key", "key", "ImageID")  # the last as in Open Images
_LOCATED_AT_ONCE = 10_000
_COUNTRY = re.compile("[A-Z]{2}", re.ASCII)


def _places() -> Mapping[str, Mapping[str, str]]:
  return json.loads(
    resources.files("xmcap.corpora.building").joinpath("places.json").read_text(encoding="utf-8")
  )


@dataclasses.dataclass(frozen=True)
class ImageOrigin:
  """Where images were taken: languages of the area, ISO 3166 code of the country, continent; "" if unknown.

  `area` is the code of GeoNames, such as `IN.28`, if it is known from coordinates.
  """

  languages: frozenset[str]
  country: str
  continent: str
  area: str = ""


@dataclasses.dataclass(frozen=True)
class Candidates:
  """Images to select from: their keys, the index of each one's place, and the places.

  `left_out` is the number of images of a folder without coordinates.
  """

  keys: Sequence[str]
  place_of: np.ndarray
  places: Sequence[ImageOrigin]
  left_out: int = 0


@dataclasses.dataclass(frozen=True)
class Selected:
  """An image, the language for which it was selected, and how near it was taken (`LEVELS`)."""

  key: str
  language: str
  level: str
  place: ImageOrigin


@dataclasses.dataclass(frozen=True)
class Selection:
  """The images in the order of selection; `pools` is language -> candidates in its area, or else its countries."""

  pictures: Sequence[Selected]
  pools: Mapping[str, int]


def countries_of_languages(path: str | os.PathLike | None = None) -> dict[str, frozenset[str]]:
  """Returns language -> countries: those that come with xmcap, or a CSV file's with the columns language and country.

  With a column `area`, a language is spoken in that area of the country alone, `IN.28`; without a cell there, in all of
  it.

  Raises:
    UsageError: the file is malformed.
  """
  if path is None:
    return {language: frozenset(places.split()) for language, places in _places()["languages"].items()}
  countries: dict[str, set[str]] = collections.defaultdict(set)
  for where, row in _rows(path, ("language", "country")):
    languages_lib.check(row["language"], where)
    country, area = _country(row["country"], where), row.get("area", "")
    if area and area.partition(".")[0] != country:
      raise UsageError(
        f"{where}: area '{shown(area)}' is not in {country}: give a code of GeoNames, such as IN.28"
      )
    countries[row["language"]].add(area or country)
  if not countries:
    raise UsageError(f"{path}: has no place: give a CSV of language and country")
  return {language: frozenset(languages) for language, languages in countries.items()}


def read_candidates(path: str | os.PathLike, cities: str | os.PathLike | None = None) -> Candidates:
  """Reads images from CSV with a header line, one line an image; or from the files of a folder.

  Columns: `image/key` (or `key`, `ImageID`), and `languages` (codes of those spoken in the area, apart by spaces),
  `country` (ISO 3166, two letters), or `latitude` and `longitude` in degrees; `continent` is known from the country,
  and may be given for those without. Of a folder, images without GPS coordinates in EXIF are left out.

  Args:
    cities: a table of GeoNames (see `coordinates`), for coordinates; they give country and area.

  Raises:
    UsageError: no such columns, an unknown language, country or continent, wrong coordinates, a key twice, no image, or
      coordinates without `cities` or the other way round.
  """
  left_out = 0
  if os.path.isdir(path):
    rows, left_out = _of_folder(path)
  else:
    rows = _rows(path, ())
  continents = {name.lower(): name for name in _places()["continents"]}
  continent_of = {
    language: name for name, members in _places()["continents"].items() for language in members.split()
  }
  keys: list[str] = []
  place_of: list[int] = []
  places: dict[ImageOrigin, int] = {}
  index_of: dict[tuple[str, ...], int] = {}  # cells -> index of the place
  seen: set[str] = set()
  for where, row in _located(rows, path, cities):
    if not keys:
      key_column = next((name for name in _KEYS if name in row), None)
      if key_column is None or not {"languages", "country"} & row.keys():
        raise UsageError(
          f"{path}: the header needs image/key, and languages, country, or latitude and longitude"
        )
    key = row[key_column]
    if not key or key in seen:
      raise UsageError(
        f"{where}: {f'picture {shown(key)} was there before' if key else 'no key'}; correct the line"
      )
    seen.add(key)
    cells = tuple(row.get(name, "") for name in ("languages", "country", "continent", "area"))
    if cells not in index_of:
      languages, country, continent, area = cells
      for language in languages.split():
        languages_lib.check(language, where)
      country = country and _country(country, where)
      if country and country not in continent_of and not (continent or area):
        raise UsageError(
          f"{where}: country '{country}' is on no known continent; give it in a column continent"
        )
      if continent and continent.lower() not in continents:
        raise UsageError(
          f"{where}: continent '{shown(continent)}' is none of {', '.join(continents.values())}"
        )
      place = ImageOrigin(
        frozenset(languages.split()),
        country,
        continents.get(continent.lower()) or continent_of.get(country, ""),
        area,
      )
      index_of[cells] = places.setdefault(place, len(places))
    keys.append(key)
    place_of.append(index_of[cells])
  if not keys:
    raise UsageError(f"{path}: contains no picture below the header")
  return Candidates(keys, np.array(place_of, np.int32), list(places), left_out)


def _of_folder(path: str | os.PathLike) -> tuple[list[tuple[str, dict[str, str]]], int]:
  """Returns the images of a folder that have coordinates, as rows of a CSV file, and the number of those without."""
  from xmcap.corpora.building import coordinates

  pictures = list(coordinates.of_pictures(path))
  rows = [
    (f"{path}", {"image/key": key, "latitude": str(degrees[0]), "longitude": str(degrees[1])})
    for key, degrees in pictures
    if degrees is not None
  ]
  if not rows:
    raise UsageError(f"{path}: none of {wording.count(len(pictures), 'picture')} has GPS coordinates in EXIF")
  return rows, len(pictures) - len(rows)


def _located(
  rows: Iterable[tuple[str, dict[str, str]]], path: str | os.PathLike, cities: str | os.PathLike | None
) -> Iterator[tuple[str, dict[str, str]]]:
  """Yields the rows, with the country and area of their coordinates if they have such."""
  rows = iter(rows)
  first = next(rows, None)
  if first is None:
    return
  has_coordinates = {"latitude", "longitude"} <= first[1].keys()
  if has_coordinates != (cities is not None):
    raise UsageError(
      f"{path}: has coordinates: give --cities=FILE, a table of GeoNames such as cities500.txt"
      if has_coordinates
      else f"{path}: has no columns latitude and longitude: leave --cities out"
    )
  rows = itertools.chain([first], rows)
  if cities is None:
    yield from rows
    return
  if "country" in first[1]:
    raise UsageError(f"{path}: has both coordinates and country: keep one")
  from xmcap.corpora.building import coordinates

  gazetteer = coordinates.Gazetteer(cities)
  while part := list(itertools.islice(rows, _LOCATED_AT_ONCE)):
    degrees = [coordinates.parse(row["latitude"], row["longitude"], where) for where, row in part]
    for (where, row), (country, area) in zip(part, gazetteer.at(degrees), strict=True):
      yield where, {**row, "country": country, "area": area}


def select(
  candidates: Candidates,
  languages: Sequence[str],
  count: int = 100,
  seed: int = 0,
  countries: Mapping[str, frozenset[str]] | None = None,
) -> Selection:
  """Selects `count` images for each language; equal candidates and seed give equal images, in any order of lines.

  Args:
    languages: the languages.
    countries: as `countries_of_languages` returns; None: those that come with xmcap.

  Raises:
    UsageError: too few images, or a language without countries.
  """
  countries = countries_of_languages() if countries is None else countries
  if lacking := [language for language in languages if language not in countries]:
    raise UsageError(
      f"no country is known for {', '.join(lacking)}: give --places=FILE with language and country"
    )
  needed = count * len(languages)
  if len(candidates.keys) < needed:
    raise UsageError(
      f"{wording.count(len(candidates.keys), 'picture')} for {wording.count(len(languages), 'language')} of "
      f"{count:,} each: "
      f"{needed:,} are needed"
    )
  has_areas = any(place.languages or place.area for place in candidates.places)
  near = {
    language: _near(candidates.places, language, countries) for language in languages
  }  # [levels, places]
  of_place = np.bincount(candidates.place_of, minlength=len(candidates.places))
  pools = {language: int(of_place[near[language][0 if has_areas else 1]].sum()) for language in languages}
  ranks = _ranks(candidates.keys, seed)
  is_free = np.ones(len(candidates.keys), bool)
  images: list[Selected] = []
  for language in sorted(languages, key=lambda language: (pools[language], language)):
    missing = count
    for level, is_near in zip(LEVELS, near[language], strict=True):
      pool = np.flatnonzero(is_near[candidates.place_of] & is_free)
      taken = pool[np.argsort(ranks[pool], kind="stable")[:missing]]
      is_free[taken] = False
      missing -= len(taken)
      for index in map(int, taken):
        place = candidates.places[int(candidates.place_of[index])]
        images.append(Selected(candidates.keys[index], language, level, place))
      if not missing:
        break
  return Selection(images, pools)


def _near(
  places: Sequence[ImageOrigin], language: str, countries: Mapping[str, frozenset[str]]
) -> np.ndarray:
  """Returns for each of `LEVELS` whether each place is so near to a language, bool [levels, places]."""
  spoken = countries[language]
  own = {place.partition(".")[0] for place in spoken}
  continents = {name for name, members in _places()["continents"].items() if own & set(members.split())}
  return np.array(
    [
      # Of coordinates, the area; or the country, if the language is not limited to areas of it.
      [
        language in place.languages or (bool(place.area) and bool({place.area, place.country} & spoken))
        for place in places
      ],
      [place.country in own for place in places],
      [place.continent in continents for place in places],
      [True] * len(places),
    ]
  )


def _ranks(keys: Sequence[str], seed: int) -> np.ndarray:
  """Returns a random number for each key, uint64 [keys], that depends on the key and the seed alone."""
  digests = (hashlib.blake2b(f"{seed} {key}".encode(), digest_size=8).digest() for key in keys)
  return np.frombuffer(b"".join(digests), np.uint64)


def _country(text: str, where: str) -> str:
  country = text.upper()
  if not _COUNTRY.fullmatch(country):
    raise UsageError(f"{where}: country '{shown(text)}' must be a code of two letters (ISO 3166), such as DE")
  return country


def _rows(path: str | os.PathLike, required: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
  """Yields (place, column -> stripped cell) of the rows of CSV, for files of any length."""
  with Input(path) as source:
    lines = tables.cells(
      source, on_fault=lambda kind, number, fault: layouts.refuse(kind, f"{path}, line {number}", fault)
    )
    first, names = next(lines, (1, []))
    header = list(map(str.strip, names))
    if len(set(header)) < len(header) or not set(required) <= set(header):
      raise UsageError(
        f"{path}, line {first}: the header must have {', '.join(required) or 'each column'} once"
      )
    for number, cells in lines:
      yield f"{path}, line {number}", dict(zip(header, map(str.strip, cells), strict=True))


def write(path: str | os.PathLike, selection: Selection) -> None:
  """Writes CSV with image/key, image/locale (the language), level, country, continent and area."""
  rows = (
    (image.key, image.language, image.level, image.place.country, image.place.continent, image.place.area)
    for image in selection.pictures
  )
  headings = ("image/key", "image/locale", "level", "country", "continent", "area")
  files.write_text(path, spreadsheet.table(headings, list(rows)))


def table(selection: Selection) -> str:
  """Returns for each language its pool and the images of each level, in the order of selection."""
  counts = collections.Counter((image.language, image.level) for image in selection.pictures)
  order = dict.fromkeys(image.language for image in selection.pictures)
  lines = [
    (language, f"{selection.pools[language]:,}", *(f"{counts[language, level]:,}" for level in LEVELS))
    for language in order
  ]
  total = ("all", "", *(f"{sum(counts[language, level] for language in order):,}" for level in LEVELS))
  return grid.Grid(("language", "pool", *LEVELS), tuple(lines), (total,)).text()
