"""The answers: what TensorStore and Google's client use of Cloud Storage's JSON and XML interfaces, and of S3.

https://cloud.google.com/storage/docs/json_api/v1 is followed; what is missing is answered by 501. TensorFlow's own
client reaches no other server than Google's, so it is not served.
"""

import base64
import datetime
import http.server
import json
import re
import secrets
import time
import urllib.parse
from collections.abc import Mapping
from typing import Any
from xml.sax.saxutils import escape

from tests.loopback_store.objects import InvalidNameError, PreconditionError, Stored

_PART = 256 << 10
"""Parts of an upload, but for the last one, are multiples of this."""
_LARGEST = 1 << 30  # bytes of a body
_DIGITS = "[0-9]{1,18}"
_RANGE = re.compile(rf"bytes (?:({_DIGITS})-({_DIGITS})|\*)/({_DIGITS}|\*)")
_READ = re.compile(rf"bytes=({_DIGITS})?-({_DIGITS})?")


class Refused(Exception):
  """An answer that ends a request."""

  def __init__(self, status: int, message: str, reason: str):
    self.status, self.message, self.reason = status, message, reason


class Upload:
  """An upload in parts: what it is for, and what has arrived."""

  def __init__(self, bucket: str, name: str, conditions: Mapping[str, str]):
    self.bucket, self.name, self.conditions = bucket, name, conditions
    self.data = bytearray()


class Handler(http.server.BaseHTTPRequestHandler):
  """Answers the requests of one connection."""

  protocol_version = "HTTP/1.1"
  disable_nagle_algorithm = True  # an answer is written in two parts
  server: Any  # a Store

  def do_GET(self) -> None:
    server = self.server
    self.words = [""]
    with server.lock:
      server.at_once += 1
      server.most_at_once = max(server.most_at_once, server.at_once)
    try:
      time.sleep(server.latency)
      self._answer()
    finally:
      with server.lock:
        server.at_once -= 1

  do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

  def _answer(self) -> None:
    try:
      self._admit()
      self._find_answer()
    except PreconditionError:
      self._refuse(412, "At least one of the pre-conditions you specified did not hold.", "conditionNotMet")
    except Refused as refused:
      self._refuse(refused.status, refused.message, refused.reason)
    except (ConnectionError, TimeoutError):
      raise
    except (
      InvalidNameError,
      ValueError,
      LookupError,
      AttributeError,
      TypeError,
      OSError,
      RecursionError,
    ) as odd:
      self.close_connection = True  # of a body that was not read
      self._refuse(400, str(odd), "badRequest")

  def _admit(self) -> None:
    """Reads the request; refuses one without the store's token, or that a page of another host made a browser send."""
    if self.headers.get_all("Host") != [self.server.host]:
      self.close_connection = True
      raise Refused(400, f"the host is {self.server.host}", "badRequest")
    url = urllib.parse.urlsplit(self.path)
    words = [urllib.parse.unquote(word) for word in url.path.lstrip("/").split("/")]
    credential = f"Credential={self.server.token}/"
    if secrets.compare_digest(words[0].encode(), self.server.token.encode()):
      words = words[1:]
    elif credential not in self.headers.get("Authorization", ""):
      self.close_connection = True
      raise Refused(401, "the token of the store is missing", "required")
    self.query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
    self.words = words or [""]
    self.body = self._read_body()

  def _find_answer(self) -> None:
    match self.command, self.words:
      case "GET", ["storage", "v1", "b", bucket]:
        self._allow("storage.buckets.get", bucket)
        self._bucket(bucket)
      case "GET", ["storage", "v1", "b", bucket, "storageLayout"]:
        self._allow("storage.objects.list", bucket)
        self._json(
          {"kind": "storage#storageLayout", "bucket": bucket, "location": "US", "locationType": "region"}
        )
      case "GET", ["storage", "v1", "b", bucket, "o"]:
        self._allow("storage.objects.list", bucket)
        self._list(bucket)
      case "GET", ["storage", "v1", "b", bucket, "o", name] | [
        "download",
        "storage",
        "v1",
        "b",
        bucket,
        "o",
        name,
      ]:
        self._allow("storage.objects.get", bucket)
        self._get(bucket, name)
      case "DELETE", ["storage", "v1", "b", bucket, "o", name]:
        self._allow("storage.objects.delete", bucket)
        if not self.server.objects.delete(bucket, name, self.query):
          self._missing(bucket, name)
        self.reply(204, b"")
      case "POST", [
        "storage",
        "v1",
        "b",
        bucket,
        "o",
        name,
        "rewriteTo" | "copyTo" as how,
        "b",
        to,
        "o",
        new,
      ]:
        self._allow("storage.objects.get", bucket)
        self._copy(bucket, name, to, new, how)
      case "POST", ["upload", "storage", "v1", "b", bucket, "o"]:
        self._upload(bucket)
      case "PUT" | "DELETE", ["upload", "storage", "v1", "b", _, "o"]:
        self._upload_part()
      case "GET", [bucket] | [bucket, ""]:
        self._list_s3(bucket)
      case "PUT", [bucket, *name]:
        self.server.objects.write(bucket, "/".join(name), self.body, {})
        self.reply(200, b"", {"ETag": '"written"'})
      case "GET" | "HEAD", [bucket, *name]:
        self._allow("storage.objects.get", bucket)
        self._read(bucket, "/".join(name))
      case _:
        raise Refused(501, f"{self.command} {self.path} is not served here", "notImplemented")

  def _read(self, bucket: str, name: str) -> None:
    """Sends an object, or the range of it that the request names."""
    with self.server.lock:
      self.server.requests.append((f"{bucket}/{name}", self.headers.get("Range", "")))
    found = self.server.objects.read(bucket, name)
    if found is None:
      self._missing(bucket, name)
      return
    stored, data = found
    wanted, headers, status = self.headers.get("Range", ""), self._versions(stored), 200
    if wanted:
      parsed = _READ.fullmatch(wanted)
      first, last = parsed.groups() if parsed else (None, None)
      if not (first or last) or (first and last and int(last) < int(first)):
        raise Refused(400, "Invalid Range", "badRequest")
      start = int(first) if first else max(len(data) - int(last or 0), 0)
      stop = min(int(last) + 1, len(data)) if first and last else len(data)
      if start >= len(data):
        self.reply(416, b"", {"Content-Range": f"bytes */{len(data)}"})
        return
      headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(data)}"
      data, status = data[start:stop], 206
    if fault := self.server.fault(name):
      data = fault(self, data)
    if data is not None:
      self.reply(status, data, headers)

  def _versions(self, stored: Stored) -> dict[str, str]:
    """The headers that name an object's generation."""
    return {
      "ETag": f'"{stored.generation:x}"',
      "x-goog-generation": str(stored.generation),
      "x-goog-metageneration": "1",
      "x-goog-stored-content-length": str(stored.size),
    }

  # ---- buckets and objects ------------------------------------------------------------------------

  def _allow(self, permission: str, bucket: str) -> None:
    """Refuses what the caller may not do, and any request for a bucket that there is not."""
    kind = "bucket" if permission in ("storage.buckets.get", "storage.objects.list") else "object"
    denied = (
      f"does not have {permission} access to the Google Cloud Storage {kind}. Permission '{permission}' denied on"
      " resource (or it may not exist)."
    )
    match self.server.refused.get(permission):
      case 401:
        raise Refused(401, f"Anonymous caller {denied}", "required")
      case 403:
        raise Refused(403, f"{self.server.account} {denied}", "forbidden")
    if not self.server.objects.has_bucket(bucket):
      raise Refused(404, "The specified bucket does not exist.", "notFound")

  def _bucket(self, bucket: str) -> None:
    self._json(
      {"kind": "storage#bucket", "id": bucket, "name": bucket, "metageneration": "1", "location": "US"}
    )

  def _list(self, bucket: str) -> None:
    query = self.query
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
    first, end = query.get("startOffset", ""), query.get("endOffset")
    after, most = query.get("pageToken", ""), min(int(query.get("maxResults", 1000)), 1000)
    if most < 1:
      raise Refused(400, "Invalid maxResults", "badRequest")
    items, prefixes, token, last = [], [], None, None
    for name in self.server.objects.names(bucket, prefix):
      if name < first or (end is not None and name >= end):
        continue
      head, slash, _ = name[len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
      shown = prefix + head + slash if slash else name
      if after and (name <= after or shown == after) or shown in prefixes[-1:]:
        continue
      if len(items) + len(prefixes) == most:
        token = last
        break
      last = shown
      if slash:
        prefixes.append(shown)
        if query.get("includeTrailingDelimiter") != "true" or shown != name:
          continue
      if stored := self.server.objects.find(bucket, name):
        items.append(self._resource(bucket, stored))
    answer = {"kind": "storage#objects", "items": items, "prefixes": prefixes, "nextPageToken": token}
    self._json({name: value for name, value in answer.items() if value})

  def _list_s3(self, bucket: str) -> None:
    contents = "".join(
      f"<Contents><Key>{escape(name)}</Key><Size>{stored.size}</Size></Contents>"
      for name in self.server.objects.names(bucket, self.query.get("prefix", ""))
      if name > self.query.get("start-after", "") and (stored := self.server.objects.find(bucket, name))
    )
    answer = f"<ListBucketResult><IsTruncated>false</IsTruncated>{contents}</ListBucketResult>"
    self.reply(200, answer.encode())

  def _get(self, bucket: str, name: str) -> None:
    found = self.server.objects.read(bucket, name)
    if found is None or self.query.get("generation", str(found[0].generation)) != str(found[0].generation):
      self._missing(bucket, name)
      return
    stored, data = found
    if self.query.get("ifGenerationNotMatch") == str(stored.generation):
      self.reply(304, b"")
      return
    self.server.objects.check(bucket, name, self.query)
    if self.query.get("alt") == "media":
      self._read(bucket, name)
    else:
      self._json(self._resource(bucket, stored, data))

  def _copy(self, bucket: str, name: str, to: str, new: str, how: str) -> None:
    self._allow_write(to, new)
    found = self.server.objects.read(bucket, name)
    if found is None:
      self._missing(bucket, name)
      return
    stored = self.server.objects.write(to, new, found[1], self.query)
    resource = self._resource(to, stored, found[1])
    size = str(stored.size)
    whole = {"kind": "storage#rewriteResponse", "done": True, "totalBytesRewritten": size, "objectSize": size}
    self._json({**whole, "resource": resource} if how == "rewriteTo" else resource)

  # ---- uploads -------------------------------------------------------------------------------------

  def _allow_write(self, bucket: str, name: str) -> None:
    self._allow("storage.objects.create", bucket)
    if self.server.objects.find(bucket, name):
      self._allow("storage.objects.delete", bucket)  # to overwrite

  def _upload(self, bucket: str) -> None:
    kind, name, data, fields = self.query.get("uploadType"), self.query.get("name", ""), self.body, {}
    if kind == "multipart":
      boundary = b"\r\n--" + str(self.headers.get_boundary()).encode()
      text, data = (part.split(b"\r\n\r\n", 1)[1] for part in self.body.split(boundary)[:2])
      fields = json.loads(text)
    elif kind == "resumable" and self.body:
      fields = json.loads(self.body)
    name = name or fields.get("name", "")
    self._allow_write(bucket, name)
    if kind == "resumable":
      self.server.objects.check(bucket, name, self.query)
      key = secrets.token_hex(16)
      self.server.uploads[key] = Upload(bucket, name, self.query)
      place = f"{self.server.url}/upload/storage/v1/b/{bucket}/o?uploadType=resumable&upload_id={key}"
      self.reply(200, b"", {"Location": place, "X-GUploader-UploadID": key})
      return
    self._stored(bucket, name, data, fields.get("crc32c"), self.query)

  def _upload_part(self) -> None:
    key = self.query.get("upload_id", "")
    upload = self.server.uploads.get(key)
    if upload is None:
      raise Refused(410, "No such upload session", "gone")
    if self.command == "DELETE":
      del self.server.uploads[key]
      self.reply(499, b"")
      return
    # Without a range, the body is the whole object.
    whole = f"bytes 0-{len(self.body) - 1}/{len(self.body)}" if self.body else "bytes */0"
    found = _RANGE.fullmatch(self.headers.get("Content-Range", whole))
    if found is None or (found[1] and int(found[1]) > len(upload.data)):
      raise Refused(400, "Invalid Content-Range", "badRequest")
    if found[1]:
      upload.data[int(found[1]) :] = self.body
    if found[3] == "*" and len(self.body) % _PART:
      raise Refused(400, f"A part has {len(self.body)} bytes, no multiple of {_PART}", "badRequest")
    if found[3] != str(len(upload.data)):
      arrived = {"Range": f"bytes=0-{len(upload.data) - 1}"} if upload.data else {}
      self.reply(308, b"", arrived)
      return
    self._allow_write(upload.bucket, upload.name)
    self._stored(upload.bucket, upload.name, bytes(upload.data), None, upload.conditions)
    del self.server.uploads[key]

  def _stored(
    self, bucket: str, name: str, data: bytes, crc: str | None, conditions: Mapping[str, str]
  ) -> None:
    if crc not in (None, _crc32c(data)):
      raise Refused(400, f"Provided CRC32C {crc} doesn't match calculated CRC32C", "invalid")
    self._json(self._resource(bucket, self.server.objects.write(bucket, name, data, conditions), data))

  # ---- requests and answers ------------------------------------------------------------------------

  def _read_body(self) -> bytes:
    """The body of the request, of known length or in chunks."""
    if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
      return self.rfile.read(_size(self.headers.get("Content-Length") or "0", 10))
    data = bytearray()
    while size := _size(self.rfile.readline(64).partition(b";")[0].strip().decode(), 16):
      data += self.rfile.read(size)
      _size(f"{len(data):x}", 16)
      self.rfile.readline(64)
    while self.rfile.readline().strip():  # headers after the last part
      pass
    return bytes(data)

  def reply(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
    self.send_response(status)
    for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
      self.send_header(name, value)
    self.end_headers()
    if self.command != "HEAD":
      self.wfile.write(body)

  def log_message(self, *arguments) -> None:
    pass

  def _resource(self, bucket: str, stored: Stored, data: bytes | None = None) -> dict[str, object]:
    when = datetime.datetime.fromtimestamp(stored.generation / 1e9, datetime.UTC)
    resource: dict[str, object] = {
      "kind": "storage#object", "id": f"{bucket}/{stored.name}/{stored.generation}", "name": stored.name,
      "bucket": bucket, "generation": str(stored.generation), "metageneration": "1", "size": str(stored.size),
      "updated": f"{when:%Y-%m-%dT%H:%M:%S}.{when.microsecond // 1000:03d}Z", "storageClass": "STANDARD",
    }  # fmt: skip
    return resource if data is None else {**resource, "crc32c": _crc32c(data)}

  def _json(self, content: Mapping[str, object]) -> None:
    self.reply(200, json.dumps(content).encode(), {"Content-Type": "application/json; charset=UTF-8"})

  def _missing(self, bucket: str, name: str) -> None:
    self._refuse(404, f"No such object: {bucket}/{name}", "notFound")

  def _refuse(self, status: int, message: str, reason: str) -> None:
    if self.words[0] in ("storage", "upload", "download"):
      error = {"code": status, "message": message, "errors": [{"message": message, "reason": reason}]}
      self.reply(status, json.dumps({"error": error}).encode(), {"Content-Type": "application/json"})
      return
    code = {401: "AccessDenied", 403: "AccessDenied", 404: "NoSuchKey"}.get(status, reason)
    self.reply(status, f"<Error><Code>{code}</Code><Details>{escape(message)}</Details></Error>".encode())


def _size(text: str, base: int) -> int:
  """A number of bytes; ValueError if it is none, or too large."""
  if not re.fullmatch("[0-9a-fA-F]{1,12}", text) or (size := int(text, base)) > _LARGEST:
    raise ValueError(f"no number of bytes up to {_LARGEST}: {text}")
  return size


def _crc32c(data: bytes) -> str:
  import google_crc32c

  return base64.b64encode(google_crc32c.value(data).to_bytes(4, "big")).decode()
