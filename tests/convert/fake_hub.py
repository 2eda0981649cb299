"""A Hugging Face hub on loopback: what huggingface_hub 2.4.0 asks of it to download a model."""

import contextlib
import hashlib
import http.server
import json
import pathlib
import re
import threading
from collections.abc import Iterator

from xmcap.convert import hub as hub_lib
from xmcap.errors import UsageError, XmcapError


class Hub(http.server.ThreadingHTTPServer):
  """Serves the files of one repository.

  Attributes:
    files: name -> contents; a .safetensors is elsewhere, as large files are, and its address redirects.
    commits: branch or tag -> commit.
    refuse: status and the hub's error code of all answers, or None.
    asked: (method, path) of each request.
  """

  def __init__(self, repository: str, folder: pathlib.Path, commits: dict[str, str]):
    super().__init__(("127.0.0.1", 0), _Handler)
    self.repository, self.commits = repository, commits
    self.files = {
      str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()
    }
    self.refuse: tuple[int, str] | None = None
    self.asked: list[tuple[str, str]] = []

  @property
  def address(self) -> str:
    return f"http://127.0.0.1:{self.server_address[1]}"

  def downloaded(self) -> set[str]:
    """The names of the files whose contents were fetched."""
    found = [
      re.search("/(?:resolve/[^/]+|elsewhere)/(.*)", path) for method, path in self.asked if method == "GET"
    ]
    return {match[1] for match in found if match}


class _Handler(http.server.BaseHTTPRequestHandler):
  server: Hub

  def log_message(self, format, *args):
    del format, args

  def do_HEAD(self):
    self._answer()

  def do_GET(self):
    self._answer()

  def _answer(self):
    hub, path = self.server, self.path.partition("?")[0]
    hub.asked.append((self.command, path))
    if hub.refuse:
      return self._send(hub.refuse[0], b"{}", {"X-Error-Code": hub.refuse[1]})
    if path.startswith("/elsewhere/"):
      return self._send(200, hub.files[path.removeprefix("/elsewhere/")])
    api = re.fullmatch(rf"/api/models/{hub.repository}(?:/(revision|tree)/([^/]+))?", path)
    if api and api[1] == "tree":
      return self._json([self._entry(name) for name in sorted(hub.files)])
    file = re.fullmatch(rf"/{hub.repository}/resolve/([^/]+)/(.+)", path)
    if not api and not file:
      return self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"})
    revision = (api[2] if api else file[1]) or "main"
    commit = hub.commits.get(revision, revision)
    if commit not in hub.commits.values():
      return self._send(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
    if api:
      siblings = [{"rfilename": name} for name in sorted(hub.files)]
      return self._json({"id": hub.repository, "sha": commit, "siblings": siblings})
    data = hub.files[file[2]]
    headers = {"X-Repo-Commit": commit, "ETag": f'"{hashlib.sha1(data).hexdigest()}"'}
    if not file[2].endswith(".safetensors"):
      return self._send(200, data, headers)
    headers |= {
      "Location": f"http://localhost:{hub.server_address[1]}/elsewhere/{file[2]}",  # on another host
      "X-Linked-Size": str(len(data)),
      "X-Linked-ETag": f'"{hashlib.sha256(data).hexdigest()}"',
    }
    return self._send(302, b"", headers)

  def _entry(self, name):
    data = self.server.files[name]
    entry = {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
    if name.endswith(".safetensors"):
      entry["lfs"] = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}
    return entry

  def _json(self, value):
    self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

  def _send(self, status, data, headers=None):
    self.send_response(status)
    for name, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
      self.send_header(name, value)
    self.end_headers()
    if self.command == "GET":
      self.wfile.write(data)


@contextlib.contextmanager
def running(repository: str, folder: pathlib.Path, commits: dict[str, str]) -> Iterator[Hub]:
  """A hub that serves the files of a folder."""
  hub = Hub(repository, folder, commits)
  thread = threading.Thread(target=hub.serve_forever, daemon=True)
  thread.start()
  try:
    yield hub
  finally:
    hub.shutdown()
    hub.server_close()
    thread.join()


def find(*arguments: str) -> None:
  """Prints the commit that `--input` stands for, None for a folder here, or the error."""
  try:
    found = hub_lib.find("--input", *arguments)
  except (UsageError, XmcapError) as error:
    found = f"{type(error).__name__}: {error}"
  print(found and getattr(found, "commit", found))
