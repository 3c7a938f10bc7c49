"""Checks signature.json: the signed message of a record and its signature (Ed25519, RFC 8032)."""
import hashlib

import primitives as p


def sha512(data):
    return int.from_bytes(hashlib.sha512(data).digest(), "little")


def encoded(point):
    x, y, z, _ = point
    inverse = pow(z, -1, p.P)
    return (y * inverse % p.P | (x * inverse % p.P & 1) << 255).to_bytes(32, "little")


def keys(seed):
    """Returns the secret scalar, the prefix of nonces, and the public key."""
    digest = hashlib.sha512(seed).digest()
    scalar = int.from_bytes(digest[:32], "little") & (1 << 254) - 8 | 1 << 254
    return scalar, digest[32:], encoded(p.point_times(p.BASE, scalar))


def sign(seed, message):
    scalar, prefix, public = keys(seed)
    nonce = sha512(prefix + message) % p.GROUP_ORDER
    point = encoded(p.point_times(p.BASE, nonce))
    answer = (nonce + sha512(point + public + message) * scalar) % p.GROUP_ORDER
    return point + answer.to_bytes(32, "little")


def check(v):
    assert set(v) == set("signing_key public_key name version schema text subject message signature".split()), "fields"
    seed = bytes.fromhex(v["signing_key"])
    assert v["public_key"] == keys(seed)[2].hex(), "public_key"
    texts = [v[field].encode() for field in ("name", "version")]
    lengths = b"".join(len(text).to_bytes(8, "little") + text for text in texts)
    subject = p.derive_key("ifonly signed records v1", lengths + v["schema"].encode())
    assert v["subject"] == subject.hex(), "subject"
    message = b"ifonly record v1" + subject + bytes.fromhex(v["text"])
    assert v["message"] == message.hex(), "message"
    assert v["signature"] == sign(seed, message).hex(), "signature"
