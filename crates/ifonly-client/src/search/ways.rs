//! One question: a search for the nearest rows, or k searches for k different ways.
//!
//! In a dense database the k nearest rows are practically one answer. Different ways therefore come
//! from k searches. Each search keeps the wishes of the one before and also holds features at the
//! user's values: the feature that contributed most to the cost of the answer before
//! ([`WaysBy::Feature`]), or all features that it changed ([`WaysBy::Set`]).
//!
//! The servers see k. All k searches run whatever is found: if there is no further way, if a search
//! fails or if the input is invalid, the others are dummy searches. Before every search the client
//! compiles tables once, and [`super::pacing`] hides how long the work between two searches
//! takes.

use crate::answer::explanation::Explanation;
use crate::answer::{Answer, AnswerNote};
use crate::client::{Client, PrepareFailure, PreparedSearch, compile};
use crate::error::{ClientError, ServerFailure};
use crate::query::profile::ProfileValues;
use crate::query::wish_list::WishList;
use crate::search::pacing::{self, Pace};
use crate::search::run::{NewSearch, SearchReport, Traffic};
use ifonly_algebra::random::OsRandom;
use ifonly_values::manifest::OfferedScheme;
use ifonly_values::message::Coded;

/// What a further way holds at the user's values, in addition to the way before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaysBy {
    /// The feature that contributed most to the cost of the way before.
    #[default]
    Feature,
    /// All features that the way before changed.
    Set,
}

/// The name of what a further way holds is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be one of {}", WaysBy::NAMED.map(|(name, _)| name).join(", "))]
pub struct UnknownWaysBy;

impl WaysBy {
    /// All variants with their names.
    pub const NAMED: [(&'static str, WaysBy); 2] = [("feature", WaysBy::Feature), ("set", WaysBy::Set)];
}

impl std::str::FromStr for WaysBy {
    type Err = UnknownWaysBy;

    fn from_str(name: &str) -> Result<WaysBy, UnknownWaysBy> {
        let named = WaysBy::NAMED.into_iter().find(|(known, _)| *known == name);
        named.map(|(_, by)| by).ok_or(UnknownWaysBy)
    }
}

/// What the searches of one question have found.
#[derive(Default)]
struct Findings {
    found: Vec<Explanation>,
    traffic: Traffic,
    matching_rows: Option<usize>,
    lying_servers: Vec<usize>,
    server_failures: Vec<ServerFailure>,
    is_doubtful: bool,
}

impl Client {
    /// Searches for the nearest rows that satisfy the wishes, or for several ways.
    ///
    /// If the profile or a wish is invalid, the client runs [dummy searches](Client::dummy_search)
    /// and then returns the error. The servers have already been contacted, and a client that
    /// stops here would reveal that the input is invalid.
    pub async fn ask(&self, values: &ProfileValues, wishes: &WishList) -> Result<Answer, ClientError> {
        let ways = wishes.searches()?;
        let prepared = match self.prepare(values, wishes) {
            Ok(prepared) => prepared,
            Err(PrepareFailure { error, is_compiled }) => {
                if !is_compiled {
                    self.compile_dummy(self.offered_or_default(wishes));
                }
                self.send_dummies(wishes).await;
                return Err(self.with_alternative(*error, values, wishes));
            }
        };
        let offered = prepared.offered;
        let search = match self.new_search(offered, prepared.compiled.secret.clone(), wishes.top) {
            Ok(search) => search,
            Err(error) => {
                // All other errors depend on public data only.
                if matches!(error, ClientError::Secret(_)) {
                    self.send_dummies(wishes).await;
                }
                return Err(error);
            }
        };
        let notes = self.notes(values, &prepared.profile, &prepared.compiled.notes);
        let mut findings = self.find_ways(prepared, search, wishes, ways).await?;
        let mut notes = notes;
        if findings.is_doubtful {
            if ways == 1 {
                findings.found.sort_by_key(|explanation: &Explanation| explanation.decoded);
            }
            notes.push(AnswerNote::MayNotBeNearest.coded());
        }
        if let Some(groups) = self.manifest().fields().dataset.groups.as_ref().filter(|_| !findings.found.is_empty()) {
            notes.push(AnswerNote::StandsFor { k: groups.k.into() }.coded());
        }
        findings.lying_servers.extend(&self.misnumbered);
        findings.lying_servers.sort_unstable();
        findings.lying_servers.dedup();
        Ok(Answer {
            found: findings.found,
            requested: wishes.top,
            requested_ways: ways,
            scheme: offered.scheme().name,
            servers: offered.servers(),
            traffic: findings.traffic,
            matching_rows: findings.matching_rows,
            rows: self.manifest.rows(),
            dataset: self.manifest.fields().dataset.clone(),
            lying_servers: findings.lying_servers,
            server_failures: findings.server_failures,
            wishes: wishes.described(),
            notes,
        })
    }

    /// Runs the searches without a target of one question. Servers cannot distinguish them from any
    /// other question with the same scheme and the same numbers of records and ways.
    pub async fn dummy_search(&self, wishes: &WishList) {
        self.compile_dummy(self.offered_or_default(wishes));
        self.send_dummies(wishes).await;
    }

    async fn send_dummies(&self, wishes: &WishList) {
        // A number of ways that is not permitted is refused before any search.
        let Ok(ways) = wishes.searches() else { return };
        let offered = self.offered_or_default(wishes);
        let mut pace = self.pace(offered, wishes.top, ways);
        for way in 0..ways {
            if way > 0 {
                self.compile_dummy(offered);
            }
            let Ok(search) = self.new_dummy(offered, wishes.top) else { return };
            // The caller reports its own error, so the result does not matter.
            let _ = self.run(search, &mut pace, &mut OsRandom::default()).await;
        }
    }

    fn new_dummy(&self, offered: &OfferedScheme, top: usize) -> Result<NewSearch, ClientError> {
        self.new_search(offered, pacing::dummy_query(offered.scheme(), offered.params()), top)
    }

    /// The departure of the requests of one question.
    pub(crate) fn pace(&self, offered: &OfferedScheme, top: usize, ways: usize) -> Pace {
        let Some(clock) = self.clock.as_deref() else { return Pace::default() };
        let between = (ways > 1).then(|| {
            let started = clock.now();
            self.compile_dummy(offered);
            std::hint::black_box(self.new_dummy(offered, top).is_ok());
            clock.now().saturating_sub(started)
        });
        // A sealed search has one step.
        let steps = offered.scans().map(|instance| {
            let header_context = self.manifest.header_context();
            pacing::interval(instance, header_context, top, clock)
        });
        Pace::new(steps.unwrap_or_default(), between)
    }

    /// Runs all searches. The first error is returned after the last search.
    async fn find_ways(
        &self,
        first: PreparedSearch<'_>,
        mut search: NewSearch,
        wishes: &WishList,
        ways: usize,
    ) -> Result<Findings, ClientError> {
        let offered = first.offered;
        let mut pace = self.pace(offered, wishes.top, ways);
        let mut findings = Findings { server_failures: self.server_failures.clone(), ..Findings::default() };
        let (mut prepared, mut held, mut failed) = (Some(first), vec![], None);
        for way in 1..=ways {
            let report = self.run(search, &mut pace, &mut OsRandom::default()).await;
            let found = report.and_then(|report| findings.add(self, prepared.as_ref(), report, &held));
            let found = found.unwrap_or_else(|error| {
                failed.get_or_insert(error);
                None
            });
            if way == ways {
                break;
            }
            let next = prepared
                .take()
                .zip(found)
                .map(|(prepared, index)| self.next_way(prepared, &findings.found[index], wishes.ways_by));
            let next = next.unwrap_or_else(|| {
                self.compile_dummy(offered);
                None
            });
            search = match next {
                Some((next, also_held)) => {
                    let search = self.new_search(offered, next.compiled.secret.clone(), wishes.top);
                    held.extend(also_held);
                    prepared = search.is_ok().then_some(next);
                    search.or_else(|_| self.new_dummy(offered, wishes.top))?
                }
                None => self.new_dummy(offered, wishes.top)?,
            };
        }
        match failed {
            None => Ok(findings),
            Some(error) => Err(error),
        }
    }

    /// The next way and the columns that it holds in addition; `None` if no changed column can be
    /// held. Tables are compiled exactly once.
    fn next_way<'a>(
        &self,
        before: PreparedSearch<'a>,
        found: &Explanation,
        by: WaysBy,
    ) -> Option<(PreparedSearch<'a>, Vec<String>)> {
        let PreparedSearch { offered, profile, mut wishes, .. } = before;
        let can_stay = |name: &&String| wishes.can_stay(name, profile.encoded());
        let limit = if by == WaysBy::Feature { 1 } else { usize::MAX };
        let held: Vec<String> = found.by_cost.iter().filter(can_stay).take(limit).cloned().collect();
        if held.is_empty() {
            self.compile_dummy(offered);
            return None;
        }
        for name in &held {
            // The schema has these columns, so this does not fail.
            let _ = wishes.hold(name);
        }
        let compiled = compile(&wishes, profile.encoded(), offered).ok()?;
        Some((PreparedSearch { offered, profile, wishes, compiled }, held))
    }
}

impl Findings {
    /// Adds the result of one search. Returns the index of the row nearest to the user.
    fn add(
        &mut self,
        client: &Client,
        prepared: Option<&PreparedSearch<'_>>,
        report: SearchReport,
        held: &[String],
    ) -> Result<Option<usize>, ClientError> {
        let SearchReport { outcome, traffic, server_failures } = report;
        self.traffic.up += traffic.up;
        self.traffic.down += traffic.down;
        for failure in server_failures {
            if !self.server_failures.contains(&failure) {
                self.server_failures.push(failure);
            }
        }
        self.lying_servers.extend(outcome.lying_servers);
        // A dummy search finds nothing.
        let Some(prepared) = prepared else { return Ok(None) };
        self.is_doubtful |= outcome.is_doubtful;
        let first = self.found.len();
        for near in &outcome.found {
            let explanation = Explanation::new(&client.manifest, prepared, near)?;
            self.is_doubtful |= explanation.as_ref().is_none_or(|explanation| !explanation.confirmed);
            // Servers cannot filter by the number of changes, so the client does.
            let explanation = explanation.filter(|explanation| prepared.compiled.accepts(explanation.decoded));
            self.found.extend(explanation.map(|explanation| Explanation { held: held.to_vec(), ..explanation }));
        }
        if held.is_empty() {
            self.matching_rows = outcome.matching_rows;
        }
        Ok((self.found.len() > first).then_some(first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_those_of_json() {
        for (name, by) in WaysBy::NAMED {
            assert_eq!(serde_json::to_value(by).unwrap(), name);
            assert_eq!(name.parse(), Ok(by));
        }
        assert_eq!("features".parse::<WaysBy>(), Err(UnknownWaysBy));
    }
}
