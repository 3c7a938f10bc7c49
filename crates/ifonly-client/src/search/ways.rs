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
use crate::client::{Client, PrepareFailure, PreparedQuestion, PublicPart, compile};
use crate::error::{ClientError, ServerFailure};
use crate::query::profile::ProfileValues;
use crate::query::wish_list::WishList;
use crate::search::pacing::{self, Pace};
use crate::search::run::{PreparedSearch, SearchReport, Traffic};
use ifonly_core::secret_query::SecretQueryError;
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
        let public = &self.public_part(wishes)?;
        let (question, search) = match self.prepare(public, values, wishes) {
            Ok(prepared) => prepared,
            Err(PrepareFailure { error, is_compiled }) => {
                if !is_compiled {
                    self.compile_dummy(public.offered);
                }
                self.send_dummies(public).await;
                return Err(*error);
            }
        };
        let mut notes = self.notes(values, &question.profile, &question.compiled.notes);
        let mut findings = self.search_ways(public, question, search, wishes.ways_by).await?;
        if findings.is_doubtful {
            if public.ways == 1 {
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
            requested: public.top,
            requested_ways: public.ways,
            scheme: public.offered.scheme().name,
            servers: public.offered.servers(),
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
        // What is refused for its public part is refused before any search.
        let Ok(public) = self.public_part(wishes) else { return };
        self.compile_dummy(public.offered);
        self.send_dummies(&public).await;
    }

    async fn send_dummies(&self, public: &PublicPart<'_>) {
        let mut pace = self.pace(public);
        for way in 0..public.ways {
            if way > 0 {
                self.compile_dummy(public.offered);
            }
            // A dummy query is within every limit, so this does not fail.
            let Ok(search) = self.new_dummy(public) else { return };
            // The caller reports its own error, so the result does not matter.
            let _ = self.search_once(search, &mut pace).await;
        }
    }

    fn new_dummy(&self, public: &PublicPart<'_>) -> Result<PreparedSearch, SecretQueryError> {
        let offered = public.offered;
        self.new_search(offered, pacing::dummy_query(offered.scheme(), offered.params()), public.top)
    }

    /// The departure of the requests of one question.
    pub(crate) fn pace(&self, public: &PublicPart<'_>) -> Pace {
        let Some(clock) = self.clock.as_deref() else { return Pace::default() };
        let started = clock.now();
        self.compile_dummy(public.offered);
        std::hint::black_box(self.new_dummy(public).is_ok());
        let preparation = clock.now().saturating_sub(started);
        // A sealed search has one step.
        let steps = public.offered.scans().map(|instance| {
            let header_context = self.manifest.header_context();
            pacing::interval(instance, header_context, public.top, clock)
        });
        Pace::new(self.arrived, steps.unwrap_or_default(), preparation)
    }

    /// Runs all searches. The first error is returned after the last search.
    async fn search_ways(
        &self,
        public: &PublicPart<'_>,
        first: PreparedQuestion<'_>,
        mut search: PreparedSearch,
        ways_by: WaysBy,
    ) -> Result<Findings, ClientError> {
        let mut pace = self.pace(public);
        let mut findings = Findings { server_failures: self.server_failures.clone(), ..Findings::default() };
        let (mut question, mut held, mut failed) = (Some(first), vec![], None);
        for way in 1..=public.ways {
            let report = self.search_once(search, &mut pace).await;
            let found = report.and_then(|report| findings.add(self, question.as_ref(), report, &held));
            let found = found.unwrap_or_else(|error| {
                failed.get_or_insert(error);
                None
            });
            if way == public.ways {
                break;
            }
            let before = question.take().zip(found.map(|index| &findings.found[index]));
            let next = self.next_way(public, before, ways_by, &mut held);
            // Tables have been compiled once, whether there is a further way or not.
            (question, search) = match next {
                Some((question, search)) => (Some(question), search),
                None => (None, self.new_dummy(public)?),
            };
        }
        match failed {
            None => Ok(findings),
            Some(error) => Err(error),
        }
    }

    /// The question and the search of the next way; `None` if no changed column can be held. Adds
    /// the columns that it holds to `held`. Tables are compiled exactly once.
    fn next_way<'a>(
        &self,
        public: &PublicPart<'_>,
        before: Option<(PreparedQuestion<'a>, &Explanation)>,
        by: WaysBy,
        held: &mut Vec<String>,
    ) -> Option<(PreparedQuestion<'a>, PreparedSearch)> {
        let also_held: Vec<String> = before
            .iter()
            .flat_map(|(question, found)| {
                let can_stay = |name: &&String| question.wishes.can_stay(name, question.profile.encoded());
                let limit = if by == WaysBy::Feature { 1 } else { usize::MAX };
                found.by_cost.iter().filter(can_stay).take(limit).cloned()
            })
            .collect();
        let Some((mut question, _)) = before.filter(|_| !also_held.is_empty()) else {
            self.compile_dummy(public.offered);
            return None;
        };
        for name in &also_held {
            // The schema has these columns, so this does not fail.
            let _ = question.wishes.hold(name);
        }
        question.compiled = compile(&question.wishes, question.profile.encoded(), public.offered).ok()?;
        let search = self.new_search(public.offered, question.compiled.secret.clone(), public.top).ok()?;
        held.extend(also_held);
        Some((question, search))
    }
}

impl Findings {
    /// Adds the result of one search. Returns the index of the row nearest to the user.
    fn add(
        &mut self,
        client: &Client,
        question: Option<&PreparedQuestion<'_>>,
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
        let Some(question) = question else { return Ok(None) };
        self.is_doubtful |= outcome.is_doubtful;
        let first = self.found.len();
        for near in &outcome.found {
            let explanation = Explanation::new(&client.manifest, question, near)?;
            self.is_doubtful |= explanation.as_ref().is_none_or(|explanation| !explanation.confirmed);
            // Servers cannot filter by the number of changes, so the client does.
            let explanation = explanation.filter(|explanation| question.compiled.accepts(explanation.decoded));
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
