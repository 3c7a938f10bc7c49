//! Meeting the servers: who is who, and do they all offer the same?
//!
//! A client asks all servers at once for their manifest. Those who say something else than the most are left out if the
//! deployment bears so many silent and lying servers; otherwise nobody can say who is right, and nothing is asked.

use crate::error::{ClientError, Trouble};
use crate::exchange::Policy;
use crate::transport::{Greeting, Transport, TransportError};
use bytes::Bytes;
use futures_util::future::join_all;
use ifonly_core::manifest::Manifest;
use ifonly_core::vote::Plurality;
use std::sync::Arc;

/// Servers that agree about what they offer.
pub struct Meeting {
    pub(crate) manifest: Manifest,
    /// Server n at place n − 1; empty where nobody answered.
    pub(crate) seats: Vec<Option<Arc<dyn Transport>>>,
    pub(crate) policy: Policy,
    pub(crate) troubles: Vec<Trouble>,
}

impl std::fmt::Debug for Meeting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Meeting({:?}, {:?})", self.manifest.contents().dataset, self.troubles)
    }
}

impl Meeting {
    /// Asks everybody, in any order.
    pub async fn of(servers: Vec<Arc<dyn Transport>>, policy: Policy) -> Result<Meeting, ClientError> {
        let greetings = join_all(servers.iter().map(|server| policy.exchange(|| server.greet()))).await;
        let mut present: Vec<(Arc<dyn Transport>, Greeting)> = vec![];
        let mut troubles = vec![];
        for (server, greeting) in servers.into_iter().zip(greetings) {
            match greeting {
                Ok(greeting) => present.push((server, greeting)),
                Err(error) => troubles.push(Trouble { server: server.name(), error }),
            }
        }
        let offers: Vec<&Bytes> = present.iter().map(|(_, greeting)| &greeting.manifest).collect();
        let Some(vote) = Plurality::of(&offers) else { return Err(ClientError::NobodyThere(troubles)) };
        let agreed = offers[vote.first].clone();
        let manifest = Manifest::from_json(&agreed)?;
        let terms = &manifest.contents().terms;
        if let Some(second) = vote.too_odd(terms.silent + terms.lying) {
            let [first, second] = [vote.first, second].map(|place| present[place].0.name());
            return Err(ClientError::ManifestsDiffer { first, second });
        }
        let (agreeing, odd): (Vec<_>, Vec<_>) = present.into_iter().partition(|(_, other)| other.manifest == agreed);
        troubles.extend(odd.iter().map(|(server, _)| Trouble {
            server: server.name(),
            error: TransportError::Manifest("another manifest than the other servers".into()),
        }));
        let mut seats: Vec<Option<Arc<dyn Transport>>> = vec![None; manifest.operators().len()];
        for (server, Greeting { index, .. }) in agreeing {
            match usize::from(index).checked_sub(1).and_then(|place| seats.get_mut(place)) {
                None => {
                    let error = TransportError::Manifest(format!("it says it is server {index}, which there is not"));
                    troubles.push(Trouble { server: server.name(), error });
                }
                Some(Some(first)) => {
                    let (first, second) = (first.name(), server.name());
                    return Err(ClientError::SameIndex { index, first, second });
                }
                Some(seat) => *seat = Some(server),
            }
        }
        Ok(Meeting { manifest, seats, policy, troubles })
    }

    /// What they offer.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Who could not be met, and why.
    pub fn troubles(&self) -> &[Trouble] {
        &self.troubles
    }

    /// How many servers were met.
    pub fn servers(&self) -> usize {
        self.seats.iter().flatten().count()
    }
}
