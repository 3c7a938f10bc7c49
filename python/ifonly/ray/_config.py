"""The servers' configuration (``docs/server.toml``): reading, checking and writing.

It is checked before any process starts, and written for every frontend.
"""

from __future__ import annotations

import ipaddress
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from .._build import StrPath
from ..errors import InputError

#: Keys that are arguments of :func:`ifonly.ray.deploy`.
_OURS = {"bundle": "bundle", "index": "index", "keys": "key", "shards": "shards"}
#: Default address of a frontend.
LISTEN = "127.0.0.1:0"
#: Defaults of the server.
GRACE_SECONDS = 600
SHUTDOWN_SECONDS = 30


def read(config: Mapping[str, Any] | StrPath | None) -> dict[str, Any]:
    """Reads a dictionary or a TOML file.

    It makes paths absolute, because frontends may start in other directories.
    """
    if config is None:
        given: dict[str, Any] = {}
        folder = Path.cwd()
    elif isinstance(config, Mapping):
        given = json.loads(json.dumps(dict(config)))
        folder = Path.cwd()
    else:
        path = Path(config).absolute()
        given, folder = _toml(path), path.parent
    for key, argument in _OURS.items():
        if key in given:
            raise InputError(f"config: {key} must not be in the configuration here; give {argument}= instead")
    ledger = given.get("ledger")
    if isinstance(ledger, str) and "://" not in ledger:
        _make_absolute(given, ["ledger"], folder)
    # A relative path would give each frontend its own ledger.
    _make_absolute(ledger, ["file", "url_file", "ca"], folder)
    if _has_password(ledger.get("url") if isinstance(ledger, dict) else ledger):
        raise InputError(
            "config: the ledger's URL contains a password, and the configuration passes through Ray's store; write the URL to a file on "
            'every node and give ledger = {"url_file": FILE}, or {"url_env": NAME} for an environment variable of Ray\'s workers'
        )
    _make_absolute(given.get("tls"), ["certificate", "key"], folder)
    peers = given.get("peers")
    if isinstance(peers, dict):
        for side in ("next", "previous"):
            _make_absolute(peers.get(side), ["certificate"], folder)
    given.setdefault("listen", LISTEN)
    given.setdefault("admin", LISTEN)
    _check(given)
    return given


def port(config: Mapping[str, Any]) -> int:
    """Returns the fixed port of the frontends, or 0."""
    return int(str(config["listen"]).rpartition(":")[2])


def limit(config: Mapping[str, Any], name: str, usual: int) -> float:
    """Returns a limit in seconds."""
    limits = config.get("limits")
    value = limits.get(name, usual) if isinstance(limits, Mapping) else usual
    return float(value)


def memory_limits(config: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Returns ``max_concurrent`` and ``buffer_megabytes`` of the limits, if they are set."""
    limits = config.get("limits")
    given = limits if isinstance(limits, Mapping) else {}
    return given.get("max_concurrent"), given.get("buffer_megabytes")


def write(config: Mapping[str, Any]) -> str:
    """Returns the configuration as TOML."""
    return "".join(f"{_key(key)} = {_value(value)}\n" for key, value in config.items())


def replace(path: Path, text: str) -> bool:
    """Writes a file atomically. Returns whether its content changed."""
    if path.is_file() and path.read_text() == text:
        return False
    beside = path.with_name(path.name + ".new")
    beside.touch(mode=0o600)
    beside.write_text(text)
    os.replace(beside, path)
    return True


def _toml(path: Path) -> dict[str, Any]:
    try:
        import tomllib
    except ImportError:  # Python 3.10
        import tomli as tomllib  # type: ignore[no-redef,import-not-found,unused-ignore]
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise InputError(f"config {path}: {error.strerror}") from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"config {path}: {error}") from error


def _make_absolute(table: Any, names: list[str], folder: Path) -> None:
    if not isinstance(table, dict):
        return
    for name in names:
        value = table.get(name)
        if isinstance(value, str):
            table[name] = str(folder / value)


def _has_password(url: Any) -> bool:
    """Whether the server would find a password in the URL: before the last @ or as a parameter."""
    if not isinstance(url, str) or "://" not in url:
        return False
    rest = url.partition("://")[2]
    named = {name for name, _ in parse_qsl(rest.partition("?")[2], keep_blank_values=True)}
    return bool(rest.rpartition("@")[0].partition(":")[2]) or not named.isdisjoint({"password", "pass"})


def _check(config: Mapping[str, Any]) -> None:
    """Refuses what `ifonly serve` would refuse, before any process is placed."""
    listen = str(config["listen"])
    host, _, number = listen.rpartition(":")
    if not host or not number.isdigit() or int(number) > 65_535:
        raise InputError(f"config: listen = {listen!r}: write it as host:port, such as 127.0.0.1:0 or 0.0.0.0:8443")
    if "tls" not in config and not config.get("plain_http") and not _is_loopback(host):
        raise InputError(
            f"config: without a certificate, {listen} would serve plain HTTP to other machines; give tls.certificate and tls.key, listen "
            "on 127.0.0.1, or set plain_http if a TLS terminator is in front"
        )
    for name, most in zip(("max_concurrent", "buffer_megabytes"), memory_limits(config)):
        if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most < 1):
            raise InputError(f"config: limits.{name} = {most!r}: must be a whole number, at least 1")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _key(key: str) -> str:
    return key if key.replace("_", "").replace("-", "").isalnum() and key.isascii() else _value(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        # JSON escapes are valid TOML, except for surrogate pairs.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {_value(one)}" for key, one in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(one) for one in value) + "]"
    raise InputError(f"config: {value!r} is not a valid value of a configuration")
