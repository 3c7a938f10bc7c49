//! Addresses of shards, as `host:port`, from the configuration and from a file that may change.
//! Host names are resolved for every connection, so a shard that moves is found again.

use super::set::{ShardsConfig, ShardsError};
use std::net::SocketAddr;

/// Maximum number of shards.
const MAX_SHARDS: usize = 4096;
/// Maximum number of characters of an invalid line in a message.
const SHOWN_CHARACTERS: usize = 100;

/// A configured shard that is not available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnavailableShard {
    /// The address, or the invalid line of the file.
    pub(crate) address: String,
    /// The reason, including the address.
    pub(crate) reason: String,
}

/// Host and port of an address or of the URL that a shard prints; `None` if it is invalid.
pub(crate) fn address(text: &str) -> Option<&str> {
    let text = text.trim();
    let bare = text.strip_prefix("https://").map_or(text, |bare| bare.strip_suffix('/').unwrap_or(bare));
    if let Ok(address) = bare.parse::<SocketAddr>() {
        return (address.port() != 0).then_some(bare);
    }
    let (host, port) = bare.rsplit_once(':')?;
    let is_port = port.bytes().all(|digit| digit.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port != 0);
    let is_host = !host.is_empty() && host.chars().all(|letter| letter.is_alphanumeric() || "-._".contains(letter));
    (is_port && is_host).then_some(bare)
}

/// All addresses without duplicates, and the invalid lines of the file.
pub(crate) fn addresses(config: &ShardsConfig) -> Result<(Vec<String>, Vec<UnavailableShard>), ShardsError> {
    let mut invalid = vec![];
    // Addresses of the configuration were checked at the start.
    let mut addresses: Vec<String> =
        config.addresses.iter().filter_map(|text| address(text)).map(String::from).collect();
    if let Some(path) = &config.file {
        let text = std::fs::read_to_string(path)
            .map_err(|error| ShardsError::File { path: path.clone(), reason: error.to_string() })?;
        let lines = (1..).zip(text.lines().map(str::trim));
        for (number, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
            match address(line) {
                Some(address) => addresses.push(address.into()),
                None => {
                    let address: String = line.chars().take(SHOWN_CHARACTERS).collect();
                    let path = path.display();
                    let reason =
                        format!("{path}, line {number}: not a valid shard address: {address:?}; use host:port");
                    invalid.push(UnavailableShard { address, reason });
                }
            }
        }
        if addresses.is_empty() && invalid.is_empty() {
            let reason = "the file lists no shard; write one address (host:port) per line".into();
            return Err(ShardsError::File { path: path.clone(), reason });
        }
    }
    addresses.sort();
    addresses.dedup();
    match addresses.len() + invalid.len() {
        ..=MAX_SHARDS => Ok((addresses, invalid)),
        have => Err(ShardsError::TooMany { have, most: MAX_SHARDS }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_host_and_port_or_the_url_that_a_shard_prints() {
        for (text, bare) in [
            ("10.0.0.4:7001", "10.0.0.4:7001"),
            (" https://10.0.0.4:7001 ", "10.0.0.4:7001"),
            ("https://[::1]:7001/", "[::1]:7001"),
            ("shard-0.loans_shards.svc:7001", "shard-0.loans_shards.svc:7001"),
            ("münchen.example:1", "münchen.example:1"),
        ] {
            assert_eq!(address(text), Some(bare), "{text}");
        }
        for text in [
            "",
            ":",
            "7001",
            ":7001",
            "host",
            "host:",
            "host:x",
            "host:+1",
            "host:0",
            "host:70000",
            "10.0.0.4:0",
            "http://host:1",
            "https://",
            "https://host",
            "https://host:1/shard",
            "host:1/",
            "a:1,b:2",
            "a b:1",
            "::1:7001",
            "[::1]",
            "me@host:1",
        ] {
            assert_eq!(address(text), None, "{text}");
        }
    }

    #[test]
    fn a_file_of_addresses_is_read_line_by_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shards");
        let config =
            ShardsConfig { addresses: vec!["https://b:1".into()], file: Some(path.clone()), ..Default::default() };
        let alone = ShardsConfig { addresses: vec![], ..config.clone() };
        let read = |config: &ShardsConfig, text: &str| {
            std::fs::write(&path, text).unwrap();
            addresses(config)
        };
        assert!(matches!(addresses(&config), Err(ShardsError::File { .. })), "the file does not exist yet");
        let (found, invalid) = read(&config, "# two\n\n a:1\r\nhttps://b:1\nc\n").unwrap();
        assert_eq!((found, invalid.len()), (vec!["a:1".to_owned(), "b:1".into()], 1));
        assert!(invalid[0].reason.contains("line 5") && invalid[0].reason.contains("\"c\""), "{}", invalid[0].reason);
        assert_eq!(read(&config, "").unwrap().0, ["b:1"]);
        for text in ["", "# no shard\n\n"] {
            let error = read(&alone, text).unwrap_err().to_string();
            assert!(error.contains("lists no shard") && error.contains(path.to_str().unwrap()), "{error}");
        }
        let many = |count: usize| (0..count).map(|number| format!("shard-{number}:1\n")).collect::<String>();
        // Duplicates count once.
        assert_eq!(read(&alone, &many(4096).repeat(2)).unwrap().0.len(), 4096);
        let error = read(&alone, &many(4097)).unwrap_err();
        assert!(!error.is_temporary() && error.to_string().contains("4097"), "{error}");
        let long = read(&alone, &"x".repeat(10_000)).unwrap().1;
        assert!(long[0].reason.len() < 1000);
    }
}
