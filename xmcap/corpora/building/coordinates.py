"""From coordinates to countries and areas, by the nearest place of a table of GeoNames; and coordinates in pictures.

The table is one of https://download.geonames.org/export/dump/, such as `cities500.txt`: lines of 19 cells apart by
tabs, of which the fifth and sixth are latitude and longitude in degrees, the ninth the country (ISO 3166), the eleventh
the area within it. The code of an area joins both, `IN.28`; `admin1CodesASCII.txt` there has their names.
"""

import math
import os
from collections.abc import Iterator, Sequence

import numpy as np
from scipy import spatial

from xmcap import extras
from xmcap.errors import UsageError
from xmcap.reading import archives
from xmcap.reading.inputs import Input
from xmcap.terminal import shown

WITHIN = 100.0
"""Kilometres within which a place of the table must be, or a picture is nowhere: at sea, or in a desert."""

_CELLS, _LATITUDE, _LONGITUDE, _COUNTRY, _AREA = 19, 4, 5, 8, 10
_RADIUS = 6371.0  # of the earth, kilometres


class Gazetteer:
  """The places of a table of GeoNames.

  Args:
    path: the table, as text, .zip or .gz.

  Raises:
    UsageError: a line is none of such a table, or there is none.
  """

  def __init__(self, path: str | os.PathLike):
    numbers: list[tuple[float, float]] = []
    self._places: list[tuple[str, str]] = []
    with Input(path) as source:
      for line_number, line in source.lines():
        cells = line.rstrip("\n").split("\t")
        where = f"{path}, line {line_number}"
        if len(cells) != _CELLS:
          raise UsageError(
            f"{where}: {len(cells)} cells apart by tabs, but GeoNames has {_CELLS}: give its cities500.txt"
          )
        numbers.append(parse(cells[_LATITUDE], cells[_LONGITUDE], where))
        country = cells[_COUNTRY]
        self._places.append((country, f"{country}.{cells[_AREA]}" if country else ""))
    if not numbers:
      raise UsageError(f"{path}: no place: give a table of GeoNames such as cities500.txt")
    self._places.append(("", ""))  # the tree's index of nothing near
    self._tree = spatial.KDTree(_on_sphere(np.array(numbers)))

  def at(self, coordinates: Sequence[tuple[float, float]]) -> list[tuple[str, str]]:
    """Returns country and area of latitudes and longitudes in degrees, ("IN", "IN.28"); ("", "") far from any place."""
    chord = 2 * math.sin(min(WITHIN / _RADIUS, math.pi) / 2)
    _, nearest = self._tree.query(_on_sphere(np.array(coordinates)), distance_upper_bound=chord)
    return [self._places[index] for index in np.asarray(nearest).tolist()]


def _on_sphere(degrees: np.ndarray) -> np.ndarray:
  """Latitudes and longitudes [N, 2] -> points of the unit sphere [N, 3], where distances grow with those on earth."""
  latitude, longitude = np.radians(degrees).T
  return np.stack(
    [np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude), np.sin(latitude)], axis=-1
  )


def parse(latitude: str, longitude: str, where: str) -> tuple[float, float]:
  """Returns coordinates in degrees; UsageError if they are none."""
  try:
    numbers = float(latitude), float(longitude)
  except ValueError:
    numbers = math.nan, math.nan
  if not _are_on_earth(*numbers):
    raise UsageError(
      f"{where}: latitude '{shown(latitude)}' and longitude '{shown(longitude)}' must be degrees, from -90 to 90 and"
      " from -180 to 180"
    )
  return numbers


def of_pictures(folder: str | os.PathLike) -> Iterator[tuple[str, tuple[float, float] | None]]:
  """Yields the key (the name without suffix) of each picture in a folder, and its GPS coordinates in EXIF or None.

  UsageError if there is no picture.
  """
  stems = [(entry, *archives.split_suffix(entry.name)) for entry in os.scandir(folder) if entry.is_file()]
  pictures = sorted((stem, entry.path) for entry, stem, suffix in stems if suffix in archives.PICTURES)
  if not pictures:
    raise UsageError(f"{folder}: no pictures in this folder: name one, or a CSV file")
  for stem, path in pictures:
    yield stem, _in_exif(path)


def _in_exif(path: str) -> tuple[float, float] | None:
  try:
    from PIL import ExifTags, Image
  except ImportError as error:
    raise UsageError(
      f"Pillow, which reads coordinates, is not installed: {extras.install('train')}"
    ) from error
  try:
    with Image.open(path) as picture:
      gps = picture.getexif().get_ifd(ExifTags.IFD.GPSInfo)
    latitude, longitude = (
      (-1 if str(gps[side]).strip("\0 ").upper() in "SW" else 1)
      * sum(float(part) / 60**power for power, part in enumerate(gps[degrees]))
      for side, degrees in (
        (ExifTags.GPS.GPSLatitudeRef, ExifTags.GPS.GPSLatitude),
        (ExifTags.GPS.GPSLongitudeRef, ExifTags.GPS.GPSLongitude),
      )
    )
  except (
    OSError,
    ValueError,
    SyntaxError,
    KeyError,
    TypeError,
    ZeroDivisionError,
    Image.DecompressionBombError,
  ):
    return None  # no picture, or one without whole coordinates
  return (latitude, longitude) if _are_on_earth(latitude, longitude) else None


def _are_on_earth(latitude: float, longitude: float) -> bool:
  return abs(latitude) <= 90 and abs(longitude) <= 180  # false for NaN
