"""What a bucket answered, as one line: which bucket, which operation, which permission is missing, what to do.

TensorFlow, TensorStore and Google's clients raise different types, but all repeat the store's answer in their messages:
an HTTP status, and JSON that names the account and the permission.
"""

import re

from xmcap.errors import RestartError, UsageError, XmcapError, one_line

OPERATIONS = {
  "storage.buckets.get": "reading its settings",
  "storage.objects.list": "listing",
  "storage.objects.create": "writing",
  "storage.objects.get": "reading",
  "storage.objects.delete": "deleting or overwriting",
}
"""Permission -> what needs it. Together they are all that a run needs."""

LOGIN = (
  "log in with `gcloud auth application-default login`, set GOOGLE_APPLICATION_CREDENTIALS, or give the host a service"
  " account"
)

_LIBRARIES = ("tensorflow", "google", "requests", "urllib3")
_BUCKET = re.compile(r"gs://([A-Za-z0-9._-]+)|/storage/v1/b/([a-z0-9][a-z0-9._-]*)")
_STATUS = re.compile(
  r"HTTP response code:? (\d{3})|\b(\d{3}) (?:GET|POST|PUT|PATCH|DELETE) http|^(\d{3}) |"
  r"\b(PERMISSION_DENIED|UNAUTHENTICATED)\b"  # TensorStore, which leaves the number out
)
_PERMISSION = re.compile(r"\bstorage\.(?:buckets|objects|multipartUploads|folders)\.\w+")
_ACCOUNT = re.compile(r"([\w.+-]+@[\w.-]+\w) does not have")
_MESSAGE = re.compile(r'\\?"message\\?":\s*\\?"((?:[^"\\]|\\(?!")[^"])+)')
_DONE = re.compile(r"when (reading|writing|deleting|renaming|uploading|listing|initiating an upload)")
_TRANSIENT = re.compile(
  r"\b(408|429|5\d\d)\b|UNAVAILABLE|DEADLINE|timed? ?out|resolve|connect|reset|NewConnection|RetryError",
  re.IGNORECASE,
)


def explained(error: BaseException, address: str = "") -> XmcapError | None:
  """Returns the error for the user if `error`, or what caused it, is a bucket's refusal or failure; else None.

  `address` is what was asked for; without it, the error's message must name the bucket.
  """
  cause: BaseException | None = error
  while cause is not None:
    if isinstance(cause, XmcapError):
      return None
    if (bucket := _bucket(cause, address)) and (refusal := _explained(cause, bucket)):
      return refusal
    cause = cause.__cause__ or cause.__context__
  return None


def grant(bucket: str, permission: str, account: str = "") -> str:
  """The command that gives an account the role with a permission."""
  whom = "user" if account and not account.endswith("gserviceaccount.com") else "serviceAccount"
  role = "legacyBucketReader" if permission.startswith("storage.buckets.") else "objectUser"
  command = f"gcloud storage buckets add-iam-policy-binding gs://{bucket} --role=roles/storage.{role}"
  return f"{command} --member={whom}:{account or 'ACCOUNT'}"


def _bucket(error: BaseException, address: str) -> str:
  """The bucket that an error is about; "" if it is not about a bucket."""
  text = str(error)
  named = _BUCKET.search(text)
  is_known = named or _STATUS.search(text) or type(error).__module__.partition(".")[0] in _LIBRARIES
  if is_known and address.startswith("gs://"):
    return address.split("/")[2]
  return (named[1] or named[2]) if named else ""


def _explained(error: BaseException, bucket: str) -> XmcapError | None:
  text = " ".join(str(error).split())
  if type(error).__module__.startswith("google.auth"):
    return UsageError(f"gs://{bucket}: no valid credentials for it ({one_line(error)}): {LOGIN}")
  match = _STATUS.search(text)
  status = next(filter(None, match.groups()), "") if match else ""
  status = {"PERMISSION_DENIED": "403", "UNAUTHENTICATED": "401"}.get(status, status)
  permission = _PERMISSION.search(text)
  done = _DONE.search(text)
  operation = OPERATIONS.get(permission[0] if permission else "") or (done[1] if done else "a request")
  message = _MESSAGE.search(text)
  said = one_line(Exception(message[1])) if message else one_line(error)
  if status == "401":
    return UsageError(
      f"gs://{bucket}: {operation} is refused, because there are no valid credentials: {LOGIN}"
    )
  if status == "403" and permission:
    account = _ACCOUNT.search(text)
    whose = account[1] if account else "this account"
    command = grant(bucket, permission[0], account[1] if account else "")
    return UsageError(
      f"gs://{bucket}: {operation} is refused: {whose} lacks {permission[0]}, or there is no such bucket: `{command}`"
    )
  if status == "403":
    return UsageError(
      f"gs://{bucket}: {operation} is refused ({said}): change the bucket, or give another one"
    )
  if status == "404" and "bucket does not exist" in text:
    return UsageError(f"gs://{bucket}: there is no such bucket: create it, or correct the address")
  if _TRANSIENT.search(f"{type(error).__name__} {text}"):
    return RestartError(f"gs://{bucket}: {operation} failed ({said}): check the network, and start again")
  return None
