//! Collecting records with sealed searches: a search returns one record, whatever the client sends.
//!
//! A sealed search returns the row with the smallest sum of costs under the client's table, and any
//! three shares are shares of some table. So a client can only choose the table. An honest client
//! searches near profiles. A cheating client raises the cost of the levels of rows that it already
//! has, so that nearly every search returns a new row. Both run through the real protocol:
//! messages, circuit evaluation by three parties, answers.
//!
//! After n searches a client has at most n records, so collecting M rows takes at least M searches.
//! With a `top_limit` of k a search may return k records, and at least M/k searches are needed. A
//! budget counts a sealed search as one search, whatever the number of its records.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ifonly_algebra::keys::RootKey;
use ifonly_algebra::random::{RandomSource, SeededRandom};
use ifonly_core::params::Params;
use ifonly_core::scheme::instance::SchemeInstance;
use ifonly_core::scheme::sealed::{SCHEME, SealedScheme};
use ifonly_core::search::HeaderContext;
use ifonly_core::secret_query::SecretQuery;
use ifonly_core::server_protocol::ServerProtocol;
use ifonly_core::transcript::Message;
use ifonly_sealed::{Circuit, Party, PartyRandomness, SealedSearch, simulate};

use super::UniformDatabase;
use crate::LabError;
use crate::engine::record_of;
use crate::plot::{AxisScale, Curve, Plot};
use crate::progress::ProgressSink;
use crate::report::{ReportItem, percent};

/// How the client chooses its cost tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttackClient {
    /// Searches for the row nearest to a uniform profile.
    Honest,
    /// Shares a cost table that no profile has.
    Cheating,
}

/// The three servers of sealed searches, in one thread.
struct Servers {
    sealed: Arc<SealedScheme>,
    circuit: Arc<Circuit>,
    rows: Vec<Vec<u16>>,
    protocols: Vec<ServerProtocol>,
    records: Vec<Vec<u8>>,
    header_context: HeaderContext,
    random: SeededRandom,
}

fn fault(error: impl ToString) -> LabError {
    LabError::Protocol { scheme: SCHEME.name.into(), reason: error.to_string() }
}

impl Servers {
    fn new(params: Params, rows: Vec<Vec<u16>>, seed: u64) -> Result<Servers, LabError> {
        let records: Vec<Vec<u8>> = rows.iter().map(|row| record_of(row)).collect();
        let record_length = records.first().map_or(0, Vec::len);
        let sealed = Arc::new(SealedScheme::new(params).map_err(fault)?);
        let mut random = SeededRandom::new(seed);
        let (digest, key) = ([0; 32], RootKey::generate(1, &mut random));
        let protocol = |index| {
            let protocol = ServerProtocol::new(index, digest, None::<SchemeInstance>, vec![key.clone()], record_length);
            protocol.with_sealed(Some(sealed.clone()))
        };
        let protocols: Vec<ServerProtocol> = (1..=3).map(protocol).collect();
        let records = protocols[0].encode_records(&key, records.iter().map(Vec::as_slice));
        let circuit = Arc::new(Circuit::new(&ifonly_sealed::params_for(&sealed, 1, record_length).map_err(fault)?));
        let header_context = HeaderContext { digest, epoch: 1, record_length, signer: None };
        Ok(Servers { sealed, circuit, rows, protocols, records, header_context, random })
    }

    /// The record of one search, if a row matches.
    fn search(&mut self, secret: SecretQuery) -> Result<Option<Vec<u8>>, LabError> {
        let random = &mut self.random;
        let mut search = SealedSearch::new(self.sealed.clone(), secret, self.header_context, 1).map_err(fault)?;
        let outgoing = search.next(random).ok_or_else(|| fault("the search has no messages"))?;
        let (mut parties, mut checks) = (vec![], vec![]);
        for (number, (protocol, message)) in (1..).zip(self.protocols.iter().zip(&outgoing.messages)) {
            let request = protocol.check_sealed(&Message::decode(message).map_err(fault)?).map_err(fault)?;
            let max_levels = &self.sealed.params().max_levels;
            let value = |row: usize| {
                let mut start = 0;
                let mut entry = |(&level, &range): (&u16, &u32)| {
                    let index = start + usize::from(level);
                    start += range as usize + 1;
                    request.share[index]
                };
                self.rows[row].iter().zip(max_levels).fold(0u64, |sum, pair| sum.wrapping_add(entry(pair)))
            };
            parties.push(Party::new(&self.circuit, number, PartyRandomness::Drawn, value, random).map_err(fault)?);
            checks.push(request.keys.check_value());
        }
        let mut parties: [Party; 3] = parties.try_into().map_err(|_| fault("there are not three servers"))?;
        for result in simulate::run(&mut parties, random, |frame| vec![frame]) {
            result.map_err(fault)?;
        }
        let mut responses = vec![];
        for (party, check) in parties.into_iter().zip(checks) {
            let selection = party.selection(0).map_err(fault)?;
            let mut sum = vec![0; self.records[0].len()];
            for (_, record) in (0..).zip(&self.records).filter(|(row, _)| selection[row / 8] >> (row % 8) & 1 == 1) {
                sum.iter_mut().zip(record).for_each(|(sum, byte)| *sum ^= byte);
            }
            responses.push(Some([&check[..], &party.answer(&[sum]).map_err(fault)?].concat()));
        }
        search.receive(responses);
        let outcome = search.finish().map_err(fault)?;
        Ok(outcome.found.into_iter().next().map(|found| found.record))
    }
}

/// The number of rows that a client has after 1, 2, … searches of a database of uniform rows.
pub fn attack(
    r: u32,
    d: usize,
    m: usize,
    searches: usize,
    client: AttackClient,
    seed: u64,
    progress: &dyn ProgressSink,
) -> Result<Vec<usize>, LabError> {
    let rows: Vec<Vec<u16>> = UniformDatabase::uniform(r, d, m, seed)
        .rows
        .iter()
        .map(|row| row.iter().map(|&level| level as u16).collect())
        .collect();
    let numbers: HashMap<Vec<u8>, usize> = (0..).zip(&rows).map(|(row, levels)| (record_of(levels), row)).collect();
    let limit = 1_000_000;
    let params = Params { cost_limit: limit, ..Params::new(vec![r; d], m) };
    let mut servers = Servers::new(params, rows.clone(), seed)?;
    let mut random = SeededRandom::new(seed ^ 0xC0_11EC7);
    let mut found: HashSet<usize> = HashSet::new();
    // found_levels[k][v]: how often a search returned a row with level v of feature k.
    let mut found_levels = vec![vec![0u64; r as usize + 1]; d];
    let mut after = Vec::with_capacity(searches);
    for previous in 0..searches as u64 {
        let profile: Vec<u32> = (0..d).map(|_| random.below(u64::from(r) + 1) as u32).collect();
        let secret = match client {
            AttackClient::Honest => SecretQuery::new(profile),
            AttackClient::Cheating => {
                // A random part, below one surcharge over all features together, decides among rows
                // with the same surcharges.
                let surcharge = (limit / (previous + 1)).max(1);
                let mut cost =
                    |&found: &u64| (found * surcharge + random.below((surcharge / d as u64).max(1))).min(limit);
                SecretQuery::new(profile)
                    .cost_tables(found_levels.iter().map(|levels| levels.iter().map(&mut cost).collect()).collect())
            }
        };
        let record = servers.search(secret)?.ok_or_else(|| fault("a search without constraints returned no record"))?;
        let row = *numbers.get(&record).ok_or_else(|| fault("the returned record is not a row of the database"))?;
        found.insert(row);
        // A row that is returned again is counted again, which raises its cost further.
        found_levels.iter_mut().zip(&rows[row]).for_each(|(levels, &level)| levels[usize::from(level)] += 1);
        after.push(found.len());
        progress.advance(1);
    }
    Ok(after)
}

/// The report item for both clients.
pub fn run(r: u32, d: usize, m: usize, seed: u64, progress: &dyn ProgressSink) -> Result<ReportItem, LabError> {
    progress.start("collecting with sealed searches", 2 * m as u64);
    let clients = [("honest", AttackClient::Honest), ("cheating", AttackClient::Cheating)];
    let mut all = Vec::new();
    for (name, client) in clients {
        all.push((name, attack(r, d, m, m, client, seed, progress)?));
    }
    progress.finish();
    let shown = [1, 10, m / 10, m / 4, m / 2, m];
    let share = |rows: usize| percent(rows as f64 / m as f64);
    let row = |(name, after): &(&str, Vec<usize>)| {
        let known = shown.iter().map(|&searches| share(after[searches - 1]));
        [(*name).to_string()].into_iter().chain(known).collect()
    };
    let bound = ["upper bound".to_string()].into_iter().chain(shown.iter().map(|&searches| share(searches)));
    let curve = |(name, after): &(&str, Vec<usize>)| Curve {
        name: (*name).to_string(),
        points: (1..).zip(after).map(|(n, &rows)| (f64::from(n), 100.0 * rows as f64 / m as f64)).collect(),
        errors: Vec::new(),
    };
    let columns = ["client".to_string()].into_iter().chain(shown.iter().map(|n| format!("after {n}")));
    Ok(ReportItem {
        name: "collecting",
        title: format!("Collecting records with sealed searches: uniform rows, R={r}, d={d}, M={m}"),
        text: "Rows that the client has, by the number of searches. Whatever table a client shares, a sealed search \
               returns one record: the row with the smallest cost. It reveals nothing about other rows. The cheating \
               client raises the cost of the levels of rows that it already has, so nearly every search returns a new \
               row. Every search ran through the real protocol with three servers."
            .into(),
        columns: columns.collect(),
        rows: all.iter().map(row).chain([bound.collect()]).collect(),
        figure: Some(
            Plot {
                title: "Collecting records with sealed searches".into(),
                x: "searches".into(),
                y: "rows known (%)".into(),
                x_scale: AxisScale::Linear,
                y_range: Some((0.0, 105.0)),
                curves: all.iter().map(curve).collect(),
            }
            .into(),
        ),
    })
}
