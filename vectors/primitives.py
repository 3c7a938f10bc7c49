"""BLAKE3, AES-128 and ristretto255 from their specifications, for check.py.

The code is slow and does not protect secrets.
"""
import functools

# -- BLAKE3 (https://github.com/BLAKE3-team/BLAKE3-specs)

IV = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)
ORDER = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
CHUNK_START, CHUNK_END, PARENT, ROOT, KEYED, CONTEXT, MATERIAL = 1, 2, 4, 8, 16, 32, 64
MIXES = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15), (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))


def words(data):
    return [int.from_bytes(data[i : i + 4], "little") for i in range(0, len(data), 4)]


def compress(chaining, block, counter, length, flags):
    v = list(chaining) + list(IV[:4]) + [counter & 0xFFFFFFFF, counter >> 32, length, flags]
    m = list(block)
    for _ in range(7):
        for i, (a, b, c, d) in enumerate(MIXES):
            for x, r, s in ((m[2 * i], 16, 12), (m[2 * i + 1], 8, 7)):
                v[a] = (v[a] + v[b] + x) & 0xFFFFFFFF
                e = v[d] ^ v[a]
                v[d] = (e >> r | e << 32 - r) & 0xFFFFFFFF
                v[c] = (v[c] + v[d]) & 0xFFFFFFFF
                e = v[b] ^ v[c]
                v[b] = (e >> s | e << 32 - s) & 0xFFFFFFFF
        m = [m[i] for i in ORDER]
    return [v[i] ^ v[i + 8] for i in range(8)] + [v[i + 8] ^ chaining[i] for i in range(8)]


def _node(data, key, flags, chunk):
    """Returns the arguments of the last compression of the subtree over data."""
    if len(data) <= 1024:
        chaining, start = key, CHUNK_START
        blocks = [data[i : i + 64] for i in range(0, len(data), 64)] or [b""]
        for block in blocks[:-1]:
            chaining, start = compress(chaining, words(block), chunk, 64, flags | start)[:8], 0
        last = blocks[-1]
        return chaining, words(last.ljust(64, b"\0")), chunk, len(last), flags | start | CHUNK_END
    left = 1 << ((len(data) - 1) // 1024).bit_length() - 1
    halves = _node(data[: left * 1024], key, flags, chunk), _node(data[left * 1024 :], key, flags, chunk + left)
    return key, [word for half in halves for word in compress(*half)[:8]], 0, 64, flags | PARENT


def _hash(data, key, flags, length):
    chaining, block, counter, size, flags = _node(data, key, flags, 0)
    out, counter = b"", 0
    while len(out) < length:
        out += b"".join(w.to_bytes(4, "little") for w in compress(chaining, block, counter, size, flags | ROOT))
        counter += 1
    return out[:length]


@functools.lru_cache(None)
def blake3(data):
    return _hash(data, IV, 0, 32)


@functools.lru_cache(None)
def keyed(key, data, length=32):
    return _hash(data, words(key), KEYED, length)


@functools.lru_cache(None)
def derive_key(context, data, length=32):
    return _hash(data, words(_hash(context.encode(), IV, CONTEXT, 32)), MATERIAL, length)


# -- GF(2^8) and AES-128 (FIPS 197)


def gf_multiply(a, b):
    product = 0
    while b:
        product ^= a if b & 1 else 0
        a = a << 1 ^ (0x11B if a & 0x80 else 0)
        b >>= 1
    return product


def gf_power(a, exponent):
    product = 1
    for _ in range(exponent):
        product = gf_multiply(product, a)
    return product


def _substitute(byte):
    inverse = gf_power(byte, 254)
    return functools.reduce(lambda s, i: s ^ (inverse << i | inverse >> 8 - i) & 0xFF, range(1, 5), inverse ^ 0x63)


S = [_substitute(byte) for byte in range(256)]
# One table per row of a column: substitution, then MixColumns.
T = [[int.from_bytes(bytes(gf_multiply(S[b], (2, 1, 1, 3)[(i - r) % 4]) for i in range(4)), "big") for b in range(256)] for r in range(4)]


def aes_round_keys(key):
    keys, factor = [int.from_bytes(key[i : i + 4], "big") for i in range(0, 16, 4)], 1
    for i in range(4, 44):
        word = keys[i - 1]
        if i % 4 == 0:
            a, b, c, d = word.to_bytes(4, "big")
            word = int.from_bytes(bytes((S[b] ^ factor, S[c], S[d], S[a])), "big")
            factor = gf_multiply(factor, 2)
        keys.append(keys[i - 4] ^ word)
    return keys


def aes_block(keys, block):
    s = [int.from_bytes(block[i : i + 4], "big") ^ keys[i // 4] for i in range(0, 16, 4)]
    t0, t1, t2, t3 = T
    for r in range(4, 40, 4):
        s = [
            t0[s[i] >> 24] ^ t1[s[i - 3] >> 16 & 255] ^ t2[s[i - 2] >> 8 & 255] ^ t3[s[i - 1] & 255] ^ keys[r + i]
            for i in range(4)
        ]
    last = [S[s[i] >> 24] << 24 | S[s[i - 3] >> 16 & 255] << 16 | S[s[i - 2] >> 8 & 255] << 8 | S[s[i - 1] & 255] for i in range(4)]
    return b"".join((word ^ keys[40 + i]).to_bytes(4, "big") for i, word in enumerate(last))


class KeyStream:
    """Block c is the encryption of c as 16 little-endian bytes."""

    def __init__(self, key):
        self.keys, self.blocks = aes_round_keys(key), {}

    def block(self, counter):
        if counter not in self.blocks:
            self.blocks[counter] = aes_block(self.keys, counter.to_bytes(16, "little"))
        return self.blocks[counter]

    def read(self, offset, length):
        first, last = offset // 16, -(-(offset + length) // 16)
        return b"".join(self.block(c) for c in range(first, last))[offset % 16 :][:length]


# -- ristretto255 (RFC 9496)

P = 2**255 - 19
GROUP_ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
SQRT_M1 = pow(2, (P - 1) // 4, P)
SQRT_AD_MINUS_ONE = 25063068953384623474111414158702152701244531502492656460079210482610430750235
INVSQRT_A_MINUS_D = 54469307008909316920995813868745141605393597292927456921205312896311721017578
assert (SQRT_AD_MINUS_ONE**2 + D + 1) % P == 0 and INVSQRT_A_MINUS_D**2 * (-1 - D) % P == 1


def _magnitude(a):
    return P - a if a & 1 else a


def _sqrt_ratio(u, v):
    r = u * v**3 * pow(u * v**7, (P - 5) // 8, P) % P
    check = v * r * r % P
    if check in (-u % P, -u * SQRT_M1 % P):
        r = r * SQRT_M1 % P
    return check in (u % P, -u % P), _magnitude(r)


def point_add(a, b):
    (x1, y1, z1, t1), (x2, y2, z2, t2) = a, b
    e, f = (y1 - x1) * (y2 - x2), (y1 + x1) * (y2 + x2)
    g, h = 2 * D * t1 * t2, 2 * z1 * z2
    e, f, g, h = f - e, h - g, h + g, f + e
    return e * f % P, g * h % P, f * g % P, e * h % P


def point_times(point, scalar):
    total = (0, 1, 1, 0)
    while scalar:
        if scalar & 1:
            total = point_add(total, point)
        point, scalar = point_add(point, point), scalar >> 1
    return total


def _base():
    y = 4 * pow(5, -1, P) % P
    x = _sqrt_ratio(y * y - 1, D * y * y + 1)[1]
    return x, y, 1, x * y % P


BASE = _base()


def _map(t):
    r = SQRT_M1 * t * t % P
    u, v = (r + 1) * (1 - D * D) % P, (-1 - r * D) * (r + D) % P
    square, s = _sqrt_ratio(u, v)
    s, c = (s, -1) if square else (-_magnitude(s * t % P), r)
    n = c * (r - 1) * (D - 1) ** 2 - v
    w = 2 * s * v, n * SQRT_AD_MINUS_ONE, 1 - s * s, 1 + s * s
    return w[0] * w[3] % P, w[2] * w[1] % P, w[1] * w[3] % P, w[0] * w[2] % P


def point_from_uniform(data):
    halves = (int.from_bytes(data[i : i + 32], "little") % 2**255 for i in (0, 32))
    return point_add(*map(_map, halves))


def point_compress(point):
    x, y, z, t = point
    u1, u2 = (z + y) * (z - y) % P, x * y % P
    inverse = _sqrt_ratio(1, u1 * u2 * u2 % P)[1]
    d1, d2 = inverse * u1 % P, inverse * u2 % P
    z_inverse = d1 * d2 * t % P
    if t * z_inverse % P & 1:
        x, y, d2 = y * SQRT_M1 % P, x * SQRT_M1 % P, d1 * INVSQRT_A_MINUS_D % P
    if x * z_inverse % P & 1:
        y = -y
    return _magnitude(d2 * (z - y) % P).to_bytes(32, "little")
