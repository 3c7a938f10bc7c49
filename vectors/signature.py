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


def decoded(data):
    """Returns the point with this canonical encoding, None if there is none."""
    y, sign = int.from_bytes(data, "little") % 2**255, data[31] >> 7
    if y >= p.P:
        return None
    square, x = p._sqrt_ratio(y * y - 1, p.D * y * y + 1)
    if not square or x == 0 and sign:
        return None
    x = p.P - x if x & 1 != sign else x
    return x, y, 1, x * y % p.P


def verifies(public, message, signature):
    """Verifies strictly: S below the order, no point of small order, no cofactor."""
    a, r = decoded(public), decoded(signature[:32])
    s = int.from_bytes(signature[32:], "little")
    small = lambda point: encoded(p.point_times(point, 8)) == encoded((0, 1, 1, 0))
    if a is None or r is None or small(a) or small(r) or s >= p.GROUP_ORDER:
        return False
    k = sha512(signature[:32] + public + message) % p.GROUP_ORDER
    x, y, z, t = a
    sum_of_points = p.point_add(p.point_times(p.BASE, s), p.point_times((-x, y, z, -t), k))
    return encoded(sum_of_points) == signature[:32]


def subject(dataset, bundle_id, schema):
    """Returns the bytes that bind signatures to a dataset."""
    texts = [dataset[field].encode() for field in ("name", "version")]
    lengths = b"".join(len(text).to_bytes(8, "little") + text for text in texts)
    return p.derive_key("ifonly signed records v2", lengths + bytes.fromhex(bundle_id) + schema.encode())


def check(v):
    assert set(v) == set("signing_key public_key name version bundle_id schema text subject message signature".split()), "fields"
    seed = bytes.fromhex(v["signing_key"])
    assert v["public_key"] == keys(seed)[2].hex(), "public_key"
    context = subject(v, v["bundle_id"], v["schema"])
    assert v["subject"] == context.hex(), "subject"
    message = b"ifonly record v1" + context + bytes.fromhex(v["text"])
    assert v["message"] == message.hex(), "message"
    assert v["signature"] == sign(seed, message).hex(), "signature"
    assert verifies(keys(seed)[2], message, bytes.fromhex(v["signature"])), "signature"
