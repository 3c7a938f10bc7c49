//! Who is which server: each gets its own share of a question, so it matters.
//!
//! A server says its number in a header that anybody can write. Where the manifest lists an
//! operator's address, the address decides instead: TLS has shown who is there. Among the rest a
//! number that one server alone claims is taken. Two that claim the same one end the meeting,
//! unless the deployment bears lying servers: then the one whose place in the person's list it is
//! gets the seat, or the first, and the other is not asked. It may be the same server under another
//! name, and nobody may get two shares.

use crate::error::{ClientError, ServerFailure};
use crate::transport::{ManifestResponse, Transport, TransportError};
use ifonly_values::manifest::Manifest;
use std::sync::Arc;

type AssignedServers = Vec<Option<Arc<dyn Transport>>>;

/// Server n at place n − 1, and who got no seat or another than it claimed. The servers come in the
/// person's order.
pub(crate) fn assign_servers(
    servers: Vec<(Arc<dyn Transport>, ManifestResponse)>,
    manifest: &Manifest,
) -> Result<(AssignedServers, Vec<ServerFailure>), ClientError> {
    let operators = manifest.operators();
    let mut assigned: AssignedServers = vec![None; operators.len()];
    let mut server_failures = vec![];
    let mut failure = |server: &Arc<dyn Transport>, reason: String| {
        server_failures.push(ServerFailure { server: server.name(), error: TransportError::Manifest(reason) });
    };
    // (place in the person's order, claimed place, server)
    let mut rest: Vec<(usize, Option<usize>, Arc<dyn Transport>)> = vec![];
    for (order, (server, ManifestResponse { index, .. })) in servers.into_iter().enumerate() {
        let claimed = usize::from(index).checked_sub(1).filter(|&place| place < operators.len());
        if claimed.is_none() {
            failure(&server, format!("it says it is server {index}, which there is not"));
        }
        let listed = |place: usize| operators[place].url.as_deref();
        let address = server.address();
        let by_address = address.as_ref().and_then(|address| {
            (0..operators.len()).find(|&place| listed(place).is_some_and(|url| same_address(url, address)))
        });
        match (by_address, claimed, address) {
            (Some(place), _, _) if assigned[place].is_none() => {
                if claimed != Some(place) {
                    failure(
                        &server,
                        format!("it says it is server {index}, but has the address of server {}", place + 1),
                    );
                }
                assigned[place] = Some(server);
            }
            (None, Some(place), Some(address)) if listed(place).is_some() => {
                let listed = listed(place).unwrap_or_default().to_owned();
                return Err(ClientError::OtherAddress { index, address, listed });
            }
            _ => rest.push((order, claimed, server)),
        }
    }
    for (place, assigned_server) in assigned.iter_mut().enumerate() {
        let (mut claimers, others): (Vec<_>, Vec<_>) =
            rest.into_iter().partition(|(_, claimed, _)| *claimed == Some(place));
        rest = others;
        if let Some(own) = claimers.iter().position(|(order, _, _)| *order == place) {
            claimers.swap(0, own);
        }
        for (_, _, server) in claimers {
            match assigned_server {
                None => *assigned_server = Some(server),
                Some(first) if manifest.fields().terms.lying == 0 => {
                    let (index, first, second) = (place as u8 + 1, first.name(), server.name());
                    return Err(ClientError::SameIndex { index, first, second });
                }
                Some(_) => {
                    failure(&server, format!("it says it is server {}, as another does, and is not asked", place + 1))
                }
            }
        }
    }
    Ok((assigned, server_failures))
}

/// Whether two addresses are one: letters of scheme and host do not matter, nor the usual port or a
/// last slash.
fn same_address(one: &str, other: &str) -> bool {
    let plain = |address: &str| {
        let address = address.trim_end_matches('/');
        let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (scheme, host) = (scheme.to_ascii_lowercase(), host.to_ascii_lowercase());
        let port = if scheme == "https" { ":443" } else { ":80" };
        format!("{scheme}://{}/{path}", host.strip_suffix(port).unwrap_or(&host))
    };
    plain(one) == plain(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_be_written_in_several_ways() {
        for (one, other) in [
            ("https://a.example", "https://A.example:443/"),
            ("https://a.example/x", "HTTPS://a.example/x/"),
            ("http://[::1]:80", "http://[::1]"),
        ] {
            assert!(same_address(one, other), "{one} {other}");
        }
        for (one, other) in [
            ("https://a.example", "http://a.example"),
            ("https://a.example", "https://b.example"),
            ("https://a.example:8443", "https://a.example"),
            ("https://a.example/x", "https://a.example/X"),
        ] {
            assert!(!same_address(one, other), "{one} {other}");
        }
    }
}
