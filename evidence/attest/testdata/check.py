"""check.py PUBLIC KEYID: checks an envelope with securesystemslib, and its statement with in-toto-attestation."""

import json
import sys

from cryptography.hazmat.primitives.serialization import load_pem_public_key
from google.protobuf import json_format
from in_toto_attestation.v1 import statement_pb2
from in_toto_attestation.v1.statement import Statement
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey

with open(sys.argv[1], "rb") as file:
    key = SSlibKey.from_crypto(load_pem_public_key(file.read()), keyid=sys.argv[2])
envelope = Envelope.from_dict(json.load(sys.stdin))
try:
    envelope.verify([key], 1)
except VerificationError:
    print("refused")
    sys.exit(3)
statement = Statement.copy_from_pb(json_format.Parse(envelope.payload, statement_pb2.Statement()))
statement.validate()
subject = statement.pb.subject[0]
print(subject.name, subject.digest["sha256"], statement.pb.predicate_type)
