//! The radix attack: a cheating client reads several features from one field element, and
//! recognises the row by the features that it already knows.
//!
//! The client chooses the coefficient of every level in the decoded value of a row (module
//! `cheat`):
//!
//! * Features that it requests get the place values of digits: `1, R+1, (R+1)(R'+1), …`.
//! * Features that it knows get random coefficients. Their sum is a tag of the row. The client
//!   computes the tag, subtracts it, and reads the digits.
//!
//! The attack does not use positions, so a shuffle does not prevent it. A wrong guess explains one
//! of the M field elements with probability about `v·M/q`, where v is the number of values of the
//! digits. The client keeps all guesses (module `tracks`) and tests them in every later search.
//! Schemes that always add `Σ y^p` reveal that sum in a first search; it is part of the tag from
//! then on.
//!
//! Every search runs through the real protocol. The result is a lower bound: the attack keeps a
//! limited number of guesses, requests only sums of levels, and does not use which values are
//! likely.

use std::collections::HashSet;

use ifonly_algebra::field::FieldElement;
use ifonly_algebra::random::SeededRandom;
use ifonly_core::params::Params;
use ifonly_core::scheme::{self, DecodeRule, Scheme};
use rayon::prelude::*;

use super::tracks::{ObservedElements, Track, conclude};
use super::{RecoveredFraction, UniformDatabase, cheat};
use crate::LabError;
use crate::engine::Engine;
use crate::plot::{AxisScale, Curve, Plot};
use crate::progress::ProgressSink;
use crate::report::{ReportItem, percent};

/// The number of guesses that the attacker keeps, or four per row if that is more.
const GUESS_LIMIT: usize = 1 << 18;
/// The number of searches after which the attacker stops.
const SEARCH_LIMIT: usize = 16;
/// With more rows the attack takes hours.
const ROW_LIMIT: usize = 100_000;

/// A database under attack.
#[derive(Debug)]
pub struct Target {
    /// The name in the report.
    pub name: String,
    /// The parameters of the deployment.
    pub params: Params,
    /// The rows.
    pub rows: Vec<Vec<u16>>,
    /// The schemes to attack.
    pub schemes: Vec<&'static Scheme>,
}

impl Target {
    /// Shuffled uniform rows with every scheme, weights up to 10, and cost tables that can contain
    /// every weighted square.
    pub fn uniform(r: u32, d: usize, m: usize, seed: u64) -> Target {
        let rows = UniformDatabase::uniform(r, d, m, seed).rows;
        let params = Params {
            weight_limit: 10,
            exponent: 4,
            cost_limit: 10 * u64::from(r).pow(2),
            shuffle: true,
            ..Params::new(vec![r; d], m)
        };
        Target {
            name: format!("uniform rows, R={r}, d={d}, M={m}"),
            params,
            rows: rows.into_iter().map(|row| row.into_iter().map(|level| level as u16).collect()).collect(),
            schemes: scheme::ALL.to_vec(),
        }
    }
}

/// The attack on one scheme.
struct Attack<'a> {
    target: &'a Target,
    engine: Engine,
    random: SeededRandom,
    /// The exponent p if every decoded value contains Σ y^p.
    power: Option<u32>,
    /// The features requested so far, in the order of the requests.
    requested: Vec<usize>,
    tracks: Vec<Track>,
    searches: Vec<ObservedElements>,
}

/// The bits of the field, and the recovered fraction after 1, 2, … searches. `None` for the ℓ_p
/// scheme of the paper, which reveals no more than linear-lp.
pub fn attack(
    target: &Target,
    scheme: &'static Scheme,
    seed: u64,
) -> Result<Option<(u32, Vec<RecoveredFraction>)>, LabError> {
    if target.rows.len() > ROW_LIMIT {
        return Err(LabError::parameter(
            "rows",
            format!(
                "the radix attack is limited to {ROW_LIMIT} rows, but the database has {}; attack a database with \
                 fewer rows",
                target.rows.len()
            ),
        ));
    }
    let engine = Engine::new(scheme, target.params.clone(), &target.rows, seed)?;
    if !cheat::is_linear_in_levels(engine.instance()) {
        return Ok(None);
    }
    let bits = engine.instance().field().bits();
    let start = Track { levels: Vec::new(), power: 0, explains: Vec::new(), proved: false };
    let mut attack = Attack {
        power: cheat::fixed_power(engine.instance()),
        target,
        engine,
        random: SeededRandom::new(seed),
        requested: Vec::new(),
        tracks: vec![start],
        searches: Vec::new(),
    };
    let mut fractions = Vec::new();
    while fractions.len() < SEARCH_LIMIT {
        attack.search()?;
        fractions.push(attack.recovered());
        let done =
            attack.requested.len() == target.params.max_levels.len() && attack.tracks.iter().all(|track| track.proved);
        if done {
            break;
        }
    }
    Ok(Some((bits, fractions)))
}

impl Attack<'_> {
    fn q(&self) -> u64 {
        self.engine.instance().field().q()
    }

    /// The largest mask.
    fn slack(&self) -> u64 {
        let masked = |phase: &scheme::Phase| matches!(phase.decode_rule, DecodeRule::Masked);
        let masked = self.engine.instance().scheme().phases.iter().any(masked);
        if masked { self.target.params.d_min - 1 } else { 0 }
    }

    fn levels(&self, feature: usize) -> u64 {
        u64::from(self.target.params.max_levels[feature]) + 1
    }

    /// The features to request: as many as keep the expected number of wrong guesses below the
    /// limit, features with many levels first.
    fn choose_features(&self) -> Vec<usize> {
        if self.power.is_some() && self.searches.is_empty() {
            return Vec::new();
        }
        let limit = GUESS_LIMIT.max(4 * self.target.rows.len()) as f64;
        let rate = self.tracks.len() as f64 * self.target.rows.len() as f64 / self.q() as f64;
        let unit = (2 * self.slack() + 1) as f64;
        let mut rest: Vec<usize> =
            (0..self.target.params.max_levels.len()).filter(|k| !self.requested.contains(k)).collect();
        rest.sort_by_key(|&k| std::cmp::Reverse(self.levels(k)));
        let (mut chosen, mut values) = (Vec::new(), 1.0);
        for feature in rest {
            let with_feature = values * self.levels(feature) as f64;
            if rate * with_feature * unit <= limit {
                chosen.push(feature);
                values = with_feature;
            }
        }
        chosen
    }

    /// Runs one search and updates the tracks.
    fn search(&mut self) -> Result<(), LabError> {
        let new = self.choose_features();
        let (field, unit) = (self.engine.instance().field(), 2 * self.slack() + 1);
        let mut coefficients = vec![FieldElement::ZERO; self.target.params.max_levels.len()];
        for &feature in &self.requested {
            coefficients[feature] = field.sample_nonzero(&mut self.random);
        }
        let mut values: u128 = 1;
        for &feature in &new {
            // A place value may exceed q. Levels that are then indistinguishable become several
            // guesses.
            coefficients[feature] = field.reduce((values * u128::from(unit) % u128::from(field.q())) as u64);
            values *= u128::from(self.levels(feature));
        }
        let observed = self.observe(&coefficients)?;
        self.tracks = if self.power.is_some() && self.searches.is_empty() {
            let track = |(&power, element)| Track { levels: Vec::new(), power, explains: vec![element], proved: false };
            observed.elements.iter().zip(0..).map(track).collect()
        } else {
            let tags: Vec<u64> = self.requested.iter().map(|&feature| coefficients[feature].value()).collect();
            let digits = Digits { values, unit, radixes: new.iter().map(|&feature| self.levels(feature)).collect() };
            self.tracks.par_iter().flat_map_iter(|track| self.extend(track, &tags, &digits, &observed)).collect()
        };
        self.searches.push(observed);
        self.requested.extend(new);
        self.apply_power_sum();
        conclude(&mut self.tracks, &self.searches);
        Ok(())
    }

    /// The field elements of a search with these coefficients.
    fn observe(&mut self, coefficients: &[FieldElement]) -> Result<ObservedElements, LabError> {
        let (instance, random) = (self.engine.instance(), &mut self.random);
        let (mut values, record) = self.engine.cheat(|phase| cheat::vectors(instance, phase, coefficients), random)?;
        let last = instance.scheme().phases.last().map(|phase| phase.decode_rule);
        if let Some(DecodeRule::Difference) = last {
            // The record at the first position gives the value from which the differences start.
            let field = instance.field();
            let mut value = record.iter().zip(coefficients).fold(FieldElement::ZERO, |sum, (&y, &c)| {
                let y = field.reduce(y.into());
                let power = self.power.map_or(FieldElement::ZERO, |p| field.pow(y, p.into()));
                field.add(sum, field.mul_add(c, y, power))
            });
            for difference in &mut values {
                value = field.sub(value, std::mem::replace(difference, value));
            }
            values.push(value);
        }
        Ok(ObservedElements::new(values.into_iter().map(FieldElement::value).collect()))
    }

    /// The track, extended by all digits for which it explains a field element of this search.
    fn extend(&self, track: &Track, tags: &[u64], digits: &Digits, observed: &ObservedElements) -> Vec<Track> {
        let q = u128::from(self.q());
        let products = tags.iter().zip(&track.levels).map(|(&c, &y)| u128::from(c) * u128::from(y));
        let tag = products.fold(u128::from(track.power), |sum, product| (sum + product) % q);
        let low = ((tag + q - u128::from(self.slack())) % q) as u64;
        let span = digits.values * u128::from(digits.unit);
        let (start, elements) = (observed.elements.partition_point(|&element| element < low), observed.elements.len());
        let mut found = Vec::new();
        // Upwards from the element with all digits 0; after the largest element follows the
        // smallest.
        for index in (start..elements).chain(0..start) {
            let above = (u128::from(observed.elements[index]) + q - u128::from(low)) % q;
            if above >= span {
                break;
            }
            let numbers = (0..).map(|multiple| (above + multiple * q) / u128::from(digits.unit));
            for number in numbers.take_while(|&number| number < digits.values) {
                let levels = track.levels.iter().copied().chain(digits.decode(number)).collect();
                let explains = track.explains.iter().copied().chain([index as u32]).collect();
                found.push(Track { levels, explains, power: track.power, proved: false });
            }
        }
        found
    }

    /// Removes guesses that contradict Σ y^p, if it is known. It also gives the last feature.
    fn apply_power_sum(&mut self) {
        let Some(p) = self.power else { return };
        let slack = self.slack();
        let powers = |levels: &[u16]| levels.iter().map(|&y| u64::from(y).pow(p)).sum::<u64>();
        self.tracks.retain(|track| powers(&track.levels) <= track.power);
        let mut rest = (0..self.target.params.max_levels.len()).filter(|k| !self.requested.contains(k));
        let last = rest.next();
        if rest.next().is_some() {
            return;
        }
        if let Some(feature) = last {
            let range = self.target.params.max_levels[feature] as u16;
            let extended = |track: &Track| {
                let left = track.power - powers(&track.levels);
                let fits = move |&y: &u16| left.checked_sub(u64::from(y).pow(p)).is_some_and(|rest| rest <= slack);
                let track = track.clone();
                (0..=range).filter(fits).map(move |y| {
                    let levels = track.levels.iter().copied().chain([y]).collect();
                    Track { levels, ..track.clone() }
                })
            };
            self.tracks = self.tracks.iter().flat_map(extended).collect();
            self.requested.push(feature);
        }
        self.tracks.retain(|track| track.power - powers(&track.levels) <= slack);
    }

    /// The fraction of the database that is proved.
    fn recovered(&self) -> RecoveredFraction {
        let proved: HashSet<&[u16]> =
            self.tracks.iter().filter(|track| track.proved).map(|track| track.levels.as_slice()).collect();
        let known = |row: &&Vec<u16>| {
            let levels: Vec<u16> = self.requested.iter().map(|&feature| row[feature]).collect();
            proved.contains(levels.as_slice())
        };
        let rows = self.target.rows.iter().filter(known).count() as f64 / self.target.rows.len().max(1) as f64;
        let features = self.requested.len() as f64 / self.target.params.max_levels.len() as f64;
        RecoveredFraction { rows: if features == 1.0 { rows } else { 0.0 }, values: rows * features }
    }
}

/// The requested features as digits of a field element.
struct Digits {
    /// The number of values of all digits: the product of the radixes.
    values: u128,
    /// The place value of the lowest digit.
    unit: u64,
    radixes: Vec<u64>,
}

impl Digits {
    fn decode(&self, mut number: u128) -> Vec<u16> {
        let digit = |&radix: &u64| {
            let digit = (number % u128::from(radix)) as u16;
            number /= u128::from(radix);
            digit
        };
        self.radixes.iter().map(digit).collect()
    }
}

/// The report item for all schemes of a target.
pub fn run(target: &Target, seed: u64, progress: &dyn ProgressSink) -> Result<ReportItem, LabError> {
    progress.start("radix attack", target.schemes.len() as u64);
    let mut found = Vec::new();
    for &scheme in &target.schemes {
        found.extend(attack(target, scheme, seed)?.map(|(bits, fractions)| (scheme.name, bits, fractions)));
        progress.advance(1);
    }
    progress.finish();
    let searches = found.iter().map(|(_, _, fractions)| fractions.len()).max().unwrap_or(0);
    let cell = |fraction: Option<&RecoveredFraction>| match fraction {
        None => String::new(),
        Some(fraction) if fraction.rows == 1.0 => "all".into(),
        Some(fraction) if fraction.rows == 0.0 => "–".into(),
        Some(fraction) => percent(fraction.rows),
    };
    let row = |(name, bits, fractions): &(&str, u32, Vec<RecoveredFraction>)| {
        let after = (0..searches).map(|search| cell(fractions.get(search)));
        [name.to_string(), bits.to_string()].into_iter().chain(after).collect()
    };
    let curve = |(name, bits, fractions): &(&str, u32, Vec<RecoveredFraction>)| Curve {
        name: format!("{name} ({bits} bits)"),
        points: fractions.iter().zip(1..).map(|(fraction, n)| (f64::from(n), 100.0 * fraction.values)).collect(),
        errors: Vec::new(),
    };
    let columns =
        ["scheme".to_string(), "bits of q".to_string()].into_iter().chain((1..=searches).map(|n| format!("after {n}")));
    Ok(ReportItem {
        name: "radix",
        title: format!("Radix attack of a cheating client: {}", target.name),
        text: format!(
            "Rows that are known completely, by the number of searches. Single features of all rows are known after the \
             first searches. The client shares vectors that do not belong to a profile: new features become digits of \
             the row's field element, and known features become a tag that identifies the row, in any row order. Every \
             search ran through the real protocol, {}. One search gives the client at most the bits of q, minus the bits \
             that number the rows. A better attack may need fewer searches. `lp` is omitted, because it reveals no more \
             than `linear-lp`. The records that the searches return are not counted.",
            if target.params.shuffle {
                "with shuffled rows"
            } else {
                "with a fixed row order, which this attack does not use"
            },
        ),
        columns: columns.collect(),
        rows: found.iter().map(row).collect(),
        figure: Some(
            Plot {
                title: "Radix attack of a cheating client".into(),
                x: "searches".into(),
                y: "values known (%)".into(),
                x_scale: AxisScale::Linear,
                y_range: Some((0.0, 105.0)),
                curves: found.iter().map(curve).collect(),
            }
            .into(),
        ),
    })
}
