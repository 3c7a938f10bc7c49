//! The scheme `sealed` as client and servers both know it: three servers find the nearest row on
//! shares, by multi-party computation (docs/sealed.md).
//!
//! Cost and gate are one table: `T_k[v] = cost_k[v] + 2^c·gate_k[v]`. c bits hold the largest cost,
//! and k bits hold the sum over all features. Tables are shared additively mod 2^k, so every
//! message of the right length is a valid share. The computation between the servers is in
//! `ifonly-sealed`.

use crate::aont;
use crate::http_api::CHECK_LENGTH;
use crate::params::Params;
use crate::scheme::instance::{CommunicationCost, SchemeInstanceError};
use crate::scheme::{ConstraintKind, CostModel, Origin, Scheme};
use crate::search::HeaderContext;
use crate::secret_query::{SecretQuery, SecretQueryError};
use crate::transcript::{Header, MessageKind, SearchRef, before_payload};
use crate::wire::{self, WireError};
use zeroize::Zeroizing;

/// Number of servers of a sealed search.
pub const SERVERS: usize = 3;
/// The largest number of bits of a row value.
pub const MAX_BITS: u32 = 63;
/// The largest number of rows that one search finds.
pub const MAX_TOP: usize = 64;

/// Name, supported costs and constraints, and what the user learns. The scheme has no phases,
/// because the client decodes no scan.
pub const SCHEME: &Scheme = &Scheme {
    name: "sealed",
    origin: Origin::Ours,
    learns: "the nearest record and its cost, or that no row matches",
    cost_model: CostModel::Table,
    constraint: ConstraintKind::Table,
    bound: |params| params.table_bound(),
    phases: &[],
};

/// The scheme `sealed` with parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedScheme {
    params: Params,
    cost_bits: u32,
    bits: u32,
    floor: usize,
}

impl SealedScheme {
    /// The scheme with these parameters, which must be T = 1, S = B = 0 and unverified.
    pub fn new(params: Params) -> Result<SealedScheme, SchemeInstanceError> {
        params.check()?;
        if params.threshold != 1 || params.silent != 0 || params.lying != 0 || params.verified {
            return Err(SchemeInstanceError::OnlyPlain { scheme: SCHEME.name });
        }
        let cost_bits = bits_of(params.table_bound());
        let bits = cost_bits + bits_of(params.features() as u128);
        if bits > MAX_BITS {
            return Err(SchemeInstanceError::TooManyBits { scheme: SCHEME.name, bits, most: MAX_BITS });
        }
        Ok(SealedScheme { params, cost_bits, bits, floor: 1 })
    }

    /// The scheme with a floor: if fewer rows match, a search finds no row.
    pub fn with_floor(self, floor: usize) -> SealedScheme {
        SealedScheme { floor, ..self }
    }

    /// The floor; 1 if there is none.
    pub fn floor(&self) -> usize {
        self.floor
    }

    /// The parameters.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// c, the bits of a cost.
    pub fn cost_bits(&self) -> usize {
        self.cost_bits as usize
    }

    /// k, the bits of a row value.
    pub fn bits(&self) -> usize {
        self.bits as usize
    }

    /// Whether one search may find `top` rows. The manifest may set a lower limit.
    pub fn supports_top(&self, top: usize) -> bool {
        (1..=MAX_TOP).contains(&top)
    }

    /// The tables of all features, concatenated: the cost, with a violation above it. It is an
    /// error if the secret query does not fit the database.
    pub fn table(&self, secret: &SecretQuery) -> Result<Zeroizing<Vec<u64>>, SecretQueryError> {
        secret.check(SCHEME, &self.params)?;
        let mut table = Zeroizing::new(Vec::with_capacity(self.params.levels()));
        for (feature, &range) in self.params.max_levels.iter().enumerate() {
            let (costs, gate) = secret.tables(feature, range);
            table.extend(
                costs.iter().zip(gate.iter()).map(|(&cost, &violates)| cost | u64::from(violates) << self.cost_bits),
            );
        }
        Ok(table)
    }

    /// The header of the only message.
    pub fn header(&self, header_context: &HeaderContext) -> Header {
        Header {
            scheme: SCHEME.name.into(),
            kind: MessageKind::Phase(0),
            epoch: header_context.epoch,
            digest: header_context.digest,
            responders: (1..=SERVERS as u8).collect(),
            parent: SearchRef::default(),
        }
    }

    /// The payload of a message: the number of rows to find, then the share of the tables.
    pub fn payload(&self, top: usize, share: &[u64]) -> Vec<u8> {
        let mut payload = Vec::with_capacity(self.payload_length());
        // `MAX_TOP` fits into a byte.
        payload.push(top as u8);
        payload.extend(wire::pack_numbers(self.bits, share.iter().copied()));
        payload
    }

    /// Reads a payload: the number of rows to find, and the share.
    pub fn decode_payload(&self, payload: &[u8]) -> Result<(usize, Zeroizing<Vec<u64>>), WireError> {
        let need = self.payload_length();
        if payload.len() != need {
            return Err(WireError::Length { what: "the sealed query", have: payload.len(), need });
        }
        let top = usize::from(payload[0]);
        if !self.supports_top(top) {
            return Err(WireError::Value { what: "the number of rows to find" });
        }
        let share = wire::unpack_numbers(self.bits, &payload[1..], self.params.levels())?;
        Ok((top, Zeroizing::new(share)))
    }

    pub(crate) fn payload_length(&self) -> usize {
        1 + wire::numbers_length(self.bits, self.params.levels())
    }

    /// Bytes of a message.
    pub(crate) fn message_length(&self) -> usize {
        before_payload(SCHEME.name, SERVERS, 0, 0) + self.payload_length()
    }

    /// Bytes of an encoded record whose record has `record_length` bytes.
    pub const fn encoded_record_length(record_length: usize) -> usize {
        record_length + aont::OVERHEAD
    }

    /// Bytes of a response: the key-check value, then a word and an encoded record for each row
    /// found.
    pub fn response_length(&self, top: usize, record_length: usize) -> usize {
        CHECK_LENGTH + top * (8 + SealedScheme::encoded_record_length(record_length))
    }

    /// Bytes of all messages and responses of a search, without HTTP and TLS.
    pub fn traffic(&self, top: usize, record_length: usize) -> CommunicationCost {
        let all = |bytes: usize| (SERVERS * bytes) as u128;
        CommunicationCost { up: all(self.message_length()), down: all(self.response_length(top, record_length)) }
    }
}

/// The bits that hold every number up to `most`.
fn bits_of(most: u128) -> u32 {
    u128::BITS - most.leading_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(max_levels: Vec<u32>, cost_limit: u64) -> SealedScheme {
        SealedScheme::new(Params { cost_limit, ..Params::new(max_levels, 9) }).unwrap()
    }

    #[test]
    fn bits_hold_every_cost_and_every_violation() {
        let sealed = sealed(vec![3, 1, 2], 100);
        // The cost 300 needs 9 bits, three violations need 2.
        assert_eq!((sealed.cost_bits(), sealed.bits()), (9, 11));
        let secret = SecretQuery::new(vec![0, 0, 0])
            .cost_tables(vec![vec![0, 1, 2, 100], vec![0, 100], vec![0, 5, 100]])
            .gate_tables(vec![vec![false, false, false, true], vec![false, true], vec![false, false, true]]);
        let table = sealed.table(&secret).unwrap();
        assert_eq!(table[3] + table[5] + table[8], 300 + (3 << 9));
        assert_eq!(table[..3], [0, 1, 2]);
    }

    #[test]
    fn payloads_round_trip_and_other_bytes_are_refused() {
        let sealed = sealed(vec![3, 1, 2], 100);
        let share: Vec<u64> = (0..9).map(|i| i * 227 % (1 << 11)).collect();
        let payload = sealed.payload(3, &share);
        let (top, read) = sealed.decode_payload(&payload).unwrap();
        assert_eq!((top, &*read), (3, &share));
        assert!(sealed.decode_payload(&payload[..payload.len() - 1]).is_err());
        assert!(sealed.decode_payload(&[&payload[..], &[0]].concat()).is_err());
        for top in [0, 65, 255] {
            let mut altered = payload.clone();
            altered[0] = top;
            assert!(sealed.decode_payload(&altered).is_err(), "{top}");
        }
        // 9 entries of 11 bits leave five unused bits in the last byte.
        let mut altered = payload.clone();
        *altered.last_mut().unwrap() |= 0x80;
        assert_eq!(sealed.decode_payload(&altered), Err(WireError::Padding));
    }

    #[test]
    fn other_thresholds_and_verified_answers_are_refused() {
        let params = Params::new(vec![1], 2);
        for params in [
            Params { threshold: 2, ..params.clone() },
            Params { silent: 1, ..params.clone() },
            Params { lying: 1, ..params.clone() },
            Params { verified: true, ..params.clone() },
        ] {
            assert_eq!(SealedScheme::new(params), Err(SchemeInstanceError::OnlyPlain { scheme: "sealed" }));
        }
        let wide = Params { cost_limit: u64::MAX / 2, ..params };
        assert!(matches!(SealedScheme::new(wide), Err(SchemeInstanceError::TooManyBits { .. })));
    }
}
