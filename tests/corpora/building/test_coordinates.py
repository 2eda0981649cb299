"""Images selected by their coordinates (XM3600, section 2.2): tables of GeoNames, EXIF, areas of a country."""

import collections
import csv

import pytest
from PIL import ExifTags, Image

from tests.make.command import xmcap
from xmcap.corpora.building import coordinates
from xmcap.errors import UsageError

# Latitude, longitude, country and area as GeoNames has them.
CITIES = {
  "Kolkata": (22.56263, 88.36304, "IN", "28"),
  "Hyderabad": (17.38405, 78.45636, "IN", "40"),
  "Delhi": (28.65195, 77.23149, "IN", "07"),
  "Suva": (-18.14161, 178.44149, "FJ", "01"),
  "Lisbon": (38.71667, -9.13333, "PT", "14"),
}


@pytest.fixture
def cities(tmp_path):
  lines = []
  for name, (latitude, longitude, country, area) in CITIES.items():
    cells = ["1", name, name, "", str(latitude), str(longitude), "P", "PPLA", country, "", area, *[""] * 7]
    lines.append("\t".join([*cells, "2024-01-01"]))
  path = tmp_path / "cities500.txt"
  path.write_text("\n".join(lines) + "\n", encoding="utf-8")
  return path


def test_nearest_place_within_100_km_gives_country_and_area(cities):
  found = coordinates.Gazetteer(cities).at(
    [(22.6, 88.4), (-18.1, -179.9), (-18.1, 179.2), (30.0, -40.0), (39.5, -9.13), (39.7, -9.13)]
  )
  # 175 and 80 km from Suva on both sides of the date line; the Atlantic; 87 and 109 km north of Lisbon.
  assert found == [("IN", "IN.28"), ("", ""), ("FJ", "FJ.01"), ("", ""), ("PT", "PT.14"), ("", "")]


def _picture(path, degrees=None):
  image, exif = Image.new("RGB", (8, 8)), Image.Exif()
  if degrees:
    gps = exif.get_ifd(ExifTags.IFD.GPSInfo)
    for number, side, tag in zip(degrees, ("NS", "EW"), (1, 3), strict=True):
      minutes = abs(number) % 1 * 60
      gps[tag] = side[number < 0]
      gps[tag + 1] = (int(abs(number)), int(minutes), round(minutes % 1 * 60, 4))
  image.save(path, exif=exif)


def test_pictures_have_their_coordinates_in_exif(tmp_path):
  _picture(tmp_path / "a.jpg", CITIES["Lisbon"][:2])
  _picture(tmp_path / "b.jpg", CITIES["Suva"][:2])
  _picture(tmp_path / "c.jpg")
  (tmp_path / "d.jpg").write_bytes(b"no picture")
  found = dict(coordinates.of_pictures(tmp_path))
  assert found["a"] == pytest.approx(CITIES["Lisbon"][:2], abs=1e-5)
  assert found["b"] == pytest.approx(CITIES["Suva"][:2], abs=1e-5)
  assert found["c"] is found["d"] is None


def _selected(out):
  with open(out, encoding="utf-8") as file:
    return collections.Counter(
      (row["image/locale"], row["level"], row["area"]) for row in csv.DictReader(file)
    )


def test_areas_of_a_country_come_before_the_country(tmp_path, cities):
  """As in the paper, Bengali and Telugu take the pictures of their areas, and Hindi those of the rest of India."""
  places = tmp_path / "places.csv"
  places.write_text("language,country,area\nbn,IN,IN.28\nte,IN,IN.40\nhi,IN,IN.07\npt,PT,\n")
  lines = [f"{name}{n},{latitude},{longitude}" for name, (latitude, longitude, *_) in CITIES.items()
           for n in range(3 if name != "Delhi" else 1)]  # fmt: skip
  candidates, out = tmp_path / "candidates.csv", tmp_path / "out.csv"
  candidates.write_text("\n".join(["image/key,latitude,longitude", *lines, ""]))
  command = ("data", "select", candidates, f"--out={out}", f"--places={places}", "--count=2")
  xmcap(*command, f"--cities={cities}").succeeded()
  found = _selected(out)
  assert found.pop(("hi", "area", "IN.07")) == 1
  assert found.pop(("bn", "area", "IN.28")) == found.pop(("te", "area", "IN.40")) == 2
  assert found.pop(("pt", "area", "PT.14")) == 2
  ((language, level, area),) = found
  assert (language, level) == ("hi", "country") and area in ("IN.28", "IN.40")
  xmcap(*command).refused("has coordinates: give --cities=FILE")
  candidates.write_text("image/key,latitude,longitude\na,95,3\n")
  xmcap(*command, f"--cities={cities}").refused("line 2: latitude '95' and longitude '3' must be degrees")
  candidates.write_text("image/key,country\na,IN\n")
  xmcap(*command, f"--cities={cities}").refused("no columns latitude and longitude: leave --cities out")
  places.write_text("language,country,area\nbn,BD,IN.28\n")
  xmcap(*command).refused("line 2: area 'IN.28' is not in BD")


def test_pictures_of_a_folder_are_selected(tmp_path, cities):
  folder, out = tmp_path / "photos", tmp_path / "out.csv"
  folder.mkdir()
  for number in range(2):
    _picture(folder / f"{number}.jpg", CITIES["Lisbon"][:2])
  _picture(folder / "2.jpg")
  command = ("data", "select", folder, f"--out={out}", "--languages=pt", "--count=2", f"--cities={cities}")
  xmcap(*command).succeeded("1 pictures without coordinates were left out")
  assert _selected(out) == {("pt", "area", "PT.14"): 2}


@pytest.mark.parametrize(
  "text, said", [("1\ta\tb\n", "line 1: 3 cells apart by tabs, but GeoNames has 19"), ("", "no place")]
)
def test_other_tables_are_refused(tmp_path, text, said):
  (tmp_path / "x.txt").write_text(text)
  with pytest.raises(UsageError, match=said):
    coordinates.Gazetteer(tmp_path / "x.txt")
