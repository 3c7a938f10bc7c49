//! Where shards are: `host:port`, from the configuration and from a file that may change. Names are
//! looked up when a shard is asked, so that one that moves is found again.

use super::set::{ShardsConfig, ShardsError};
use std::net::SocketAddr;

/// More shards than anybody has.
const MOST: usize = 4096;
/// The most letters of somebody's mistake that are repeated.
const SHOWN: usize = 100;

/// Somebody who should have rows and does not say so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnavailableShard {
    /// The address, or the line of the file that is none.
    pub(crate) who: String,
    /// Who it is and why it is not there, in words.
    pub(crate) why: String,
}

/// Host and port of what may also be the URL that a shard prints; `None` if it is no address.
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

/// All addresses, each once, and the lines of the file that are none.
pub(crate) fn addresses(config: &ShardsConfig) -> Result<(Vec<String>, Vec<UnavailableShard>), ShardsError> {
    let mut away = vec![];
    // Those of the configuration were checked at the start.
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
                    let who: String = line.chars().take(SHOWN).collect();
                    let path = path.display();
                    let why = format!("{path}, line {number}: {who:?} is no address of a shard; write it as host:port");
                    away.push(UnavailableShard { who, why });
                }
            }
        }
        if addresses.is_empty() && away.is_empty() {
            let reason = "the file names no shard; it has an address, host:port, on each line".into();
            return Err(ShardsError::File { path: path.clone(), reason });
        }
    }
    addresses.sort();
    addresses.dedup();
    match addresses.len() + away.len() {
        ..=MOST => Ok((addresses, away)),
        have => Err(ShardsError::TooMany { have, most: MOST }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_host_and_port_also_as_a_shard_prints_them() {
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
    fn a_file_of_addresses_is_taken_line_by_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shards");
        let config =
            ShardsConfig { addresses: vec!["https://b:1".into()], file: Some(path.clone()), ..Default::default() };
        let alone = ShardsConfig { addresses: vec![], ..config.clone() };
        let read = |config: &ShardsConfig, text: &str| {
            std::fs::write(&path, text).unwrap();
            addresses(config)
        };
        assert!(matches!(addresses(&config), Err(ShardsError::File { .. })), "there is no file yet");
        let (found, wrong) = read(&config, "# two\n\n a:1\r\nhttps://b:1\nc\n").unwrap();
        assert_eq!((found, wrong.len()), (vec!["a:1".to_owned(), "b:1".into()], 1));
        assert!(wrong[0].why.contains("line 5") && wrong[0].why.contains("\"c\""), "{}", wrong[0].why);
        assert_eq!(read(&config, "").unwrap().0, ["b:1"]);
        for text in ["", "# nobody\n\n"] {
            let said = read(&alone, text).unwrap_err().to_string();
            assert!(said.contains("names no shard") && said.contains(path.to_str().unwrap()), "{said}");
        }
        let many = |count: usize| (0..count).map(|number| format!("shard-{number}:1\n")).collect::<String>();
        // Each is counted once.
        assert_eq!(read(&alone, &many(4096).repeat(2)).unwrap().0.len(), 4096);
        let said = read(&alone, &many(4097)).unwrap_err();
        assert!(!said.shared_scans() && said.to_string().contains("4097"), "{said}");
        let long = read(&alone, &"x".repeat(10_000)).unwrap().1;
        assert!(long[0].why.len() < 1000);
    }
}
