"""A certificate of this process for the names of Google's servers, which only clients that are told so trust."""

import datetime
import os
import pathlib
import shutil
import ssl
import tempfile
from collections.abc import Sequence


class Authority:
  """A self-signed certificate for some names. `file` is what clients trust, and `context` is for the server.

  The key is in a folder that only this user can read, and lasts as long as the process.
  """

  def __init__(self, names: Sequence[str]):
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "xmcap rehearsal")])
    now = datetime.datetime.now(datetime.UTC)
    signed = (
      x509.CertificateBuilder()
      .subject_name(subject)
      .issuer_name(subject)
      .public_key(key.public_key())
      .serial_number(x509.random_serial_number())
      .not_valid_before(now - datetime.timedelta(days=1))
      .not_valid_after(now + datetime.timedelta(days=30))
      .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
      .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
      .sign(key, hashes.SHA256())
    )
    self._folder = pathlib.Path(tempfile.mkdtemp(prefix="xmcap-bucket-"))
    self.file = self._folder / "certificate.pem"
    self.file.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    private = self._folder / "key.pem"
    private.touch(mode=0o600)
    private.write_bytes(
      key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
      )
    )
    self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    self.context.load_cert_chain(self.file, private)
    os.unlink(private)

  def remove(self) -> None:
    """Removes the certificate's file."""
    shutil.rmtree(self._folder, ignore_errors=True)
