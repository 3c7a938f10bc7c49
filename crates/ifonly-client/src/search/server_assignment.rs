//! Assigns an index to each server. The index decides which secret share the server receives.
//!
//! 1. If the manifest lists an operator's address, the server at that address has the operator's
//!    index. TLS authenticates the address.
//! 2. Every other server has the index that it claims in its manifest response. The claim is not
//!    authenticated.
//! 3. If two servers claim the same index, connecting fails. If the deployment tolerates lying
//!    servers, it does not fail: the server at that position of the user's list gets the index, or
//!    else the first of the two. The other server receives no queries, because it may be the same
//!    server under another name, and no server may receive two shares.

use crate::error::{ClientError, ServerFailure};
use crate::transport::{Transport, TransportError};
use ifonly_algebra::fingerprint::KeyFingerprint;
use ifonly_values::manifest::Manifest;
use std::sync::Arc;

/// A server that serves the manifest.
#[derive(Clone)]
pub(crate) struct RespondingServer {
    pub(crate) server: Arc<dyn Transport>,
    /// The index that it claims.
    pub(crate) index: u8,
    /// That of its current root key, if it publishes one.
    pub(crate) fingerprint: Option<KeyFingerprint>,
}

type AssignedServers = Vec<Option<RespondingServer>>;

/// Returns the assigned servers, the one with index n at position n − 1, and the servers that
/// have no index or another than they claimed, and the indices of the latter. `servers` are in the
/// order of the user's list.
pub(crate) fn assign_servers(
    servers: Vec<RespondingServer>,
    manifest: &Manifest,
) -> Result<(AssignedServers, Vec<ServerFailure>, Vec<usize>), ClientError> {
    let operators = manifest.operators();
    let mut assigned: AssignedServers = vec![None; operators.len()];
    let (mut server_failures, mut misnumbered) = (vec![], vec![]);
    let mut failure = |server: &RespondingServer, reason: String| {
        server_failures.push(ServerFailure { server: server.server.name(), error: TransportError::Manifest(reason) });
    };
    // (position in the user's list, claimed position, server)
    let mut unassigned: Vec<(usize, Option<usize>, RespondingServer)> = vec![];
    for (order, server) in servers.into_iter().enumerate() {
        let index = server.index;
        let claimed = usize::from(index).checked_sub(1).filter(|&position| position < operators.len());
        let listed = |position: usize| operators[position].url.as_deref();
        let address = server.server.address();
        let by_address = address.as_ref().and_then(|address| {
            (0..operators.len()).find(|&position| listed(position).is_some_and(|url| same_address(url, address)))
        });
        if claimed.is_none() && by_address.is_none() {
            failure(
                &server,
                format!("it claims index {index}, but the deployment has servers 1 to {}", operators.len()),
            );
        }
        match (by_address, claimed, address) {
            (Some(position), _, _) if assigned[position].is_none() => {
                if claimed != Some(position) {
                    misnumbered.push(position + 1);
                    failure(
                        &server,
                        format!(
                            "it claims index {index}, but the manifest lists its address for server {}",
                            position + 1
                        ),
                    );
                }
                assigned[position] = Some(server);
            }
            (None, Some(position), Some(address)) if listed(position).is_some() => {
                let listed = listed(position).unwrap_or_default().to_owned();
                return Err(ClientError::OtherAddress { index, address, listed });
            }
            _ => unassigned.push((order, claimed, server)),
        }
    }
    for (position, assigned_server) in assigned.iter_mut().enumerate() {
        let (mut claimers, others): (Vec<_>, Vec<_>) =
            unassigned.into_iter().partition(|(_, claimed, _)| *claimed == Some(position));
        unassigned = others;
        if let Some(own) = claimers.iter().position(|(order, _, _)| *order == position) {
            claimers.swap(0, own);
        }
        for (_, _, server) in claimers {
            match assigned_server {
                None => *assigned_server = Some(server),
                Some(first) if manifest.fields().params.lying == 0 => {
                    let (index, first, second) = (position as u8 + 1, first.server.name(), server.server.name());
                    return Err(ClientError::SameIndex { index, first, second });
                }
                Some(_) => failure(
                    &server,
                    format!("it claims index {}, as another server does; it receives no queries", position + 1),
                ),
            }
        }
    }
    Ok((assigned, server_failures, misnumbered))
}

/// Whether two addresses are equal. The case of scheme and host, a default port and a trailing
/// slash make no difference.
fn same_address(one: &str, other: &str) -> bool {
    let normalized = |address: &str| {
        let address = address.trim_end_matches('/');
        let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (scheme, host) = (scheme.to_ascii_lowercase(), host.to_ascii_lowercase());
        let port = if scheme == "https" { ":443" } else { ":80" };
        format!("{scheme}://{}/{path}", host.strip_suffix(port).unwrap_or(&host))
    };
    normalized(one) == normalized(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_default_port_and_trailing_slash_make_no_difference() {
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
