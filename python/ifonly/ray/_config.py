"""The servers' configuration, as ``docs/server.toml`` has it: read, checked before anything starts, written for every front."""

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

#: What :func:`ifonly.ray.deploy` sets itself.
_OURS = {"bundle": "bundle", "index": "index", "keys": "key", "shards": "shards"}
#: Where a front listens unless the configuration says otherwise.
LISTEN = "127.0.0.1:0"
#: The server's own defaults.
GRACE_SECONDS = 600
SHUTDOWN_SECONDS = 30


def read(config: Mapping[str, Any] | StrPath | None) -> dict[str, Any]:
    """A dictionary or a TOML file, with its paths made absolute: fronts may start elsewhere."""
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
            raise InputError(f"config: {key} is not for the configuration here; give {argument}= instead")
    ledger = given.get("ledger")
    if isinstance(ledger, str) and "://" not in ledger:
        _make_absolute(given, ["ledger"], folder)
    # A path that every front resolved by itself would be a ledger for each of them.
    _make_absolute(ledger, ["file", "url_file", "ca"], folder)
    if _has_password(ledger.get("url") if isinstance(ledger, dict) else ledger):
        raise InputError(
            "config: the ledger's URL has a password, and what is in the configuration goes through Ray and into its store; write the URL to a file "
            'that every node has and give ledger = {"url_file": FILE}, or {"url_env": NAME} for a variable in the environment of Ray\'s workers'
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
    """The port that clients are promised, or 0."""
    return int(str(config["listen"]).rpartition(":")[2])


def limit(config: Mapping[str, Any], name: str, usual: int) -> float:
    """A number of seconds among the limits."""
    limits = config.get("limits")
    value = limits.get(name, usual) if isinstance(limits, Mapping) else usual
    return float(value)


def memory_limits(config: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """How many answers may be at work at once, and how many megabytes of answers may wait, as far as the configuration says."""
    limits = config.get("limits")
    given = limits if isinstance(limits, Mapping) else {}
    return given.get("running"), given.get("transit_megabytes")


def write(config: Mapping[str, Any]) -> str:
    """As TOML."""
    return "".join(f"{_key(key)} = {_value(value)}\n" for key, value in config.items())


def replace(path: Path, text: str) -> bool:
    """Puts a file in the place of another in one step; whether that changed anything."""
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
    """As the server reads it: before the last @, or as a parameter."""
    if not isinstance(url, str) or "://" not in url:
        return False
    rest = url.partition("://")[2]
    named = {name for name, _ in parse_qsl(rest.partition("?")[2], keep_blank_values=True)}
    return bool(rest.rpartition("@")[0].partition(":")[2]) or not named.isdisjoint({"password", "pass"})


def _check(config: Mapping[str, Any]) -> None:
    """What `ifonly serve` would refuse, said before anything is placed."""
    listen = str(config["listen"])
    host, _, number = listen.rpartition(":")
    if not host or not number.isdigit() or int(number) > 65_535:
        raise InputError(f"config: listen = {listen!r}: write it as host:port, such as 127.0.0.1:0 or 0.0.0.0:8443")
    if "tls" not in config and not config.get("plain_http") and not _is_loopback(host):
        raise InputError(
            f"config: without a certificate, {listen} would serve plain HTTP to other machines; give tls.certificate and tls.key, listen on "
            "127.0.0.1, or allow it with plain_http (behind a TLS terminator)"
        )
    for name, most in zip(("running", "transit_megabytes"), memory_limits(config)):
        if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most < 1):
            raise InputError(f"config: limits.{name} = {most!r}: a number, at least 1")


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
        # JSON's escapes are TOML's, without the pairs of surrogates.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {_value(one)}" for key, one in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(one) for one in value) + "]"
    raise InputError(f"config: {value!r} is no value of a configuration")
