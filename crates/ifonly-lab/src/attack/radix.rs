//! The radix attack: a cheating client reads several features out of one symbol, and knows the row
//! again by the others.
//!
//! The client decides with which coefficients the levels enter a row's value (module `cheat`).
//! Features that it asks for get the place values of digits, `1, R+1, (R+1)(R'+1), …`; features
//! that it knows get random coefficients, so that what they add is a tag: whoever knows them
//! predicts it, takes it off, and reads the digits. Nobody need stay at their place for that, so a
//! shuffle does not help. A wrong guess explains one of the M symbols with probability about
//! `digits·M/q`; guesses are kept (module `tracks`) and tested by every later search. Schemes that
//! always tell `Σ y^p` give that away in a first search, and it is a tag from then on.
//!
//! Every search runs through the real protocol. The attack is a lower bound: it keeps a limited
//! number of guesses, asks for nothing but sums of levels, and learns nothing from what values are
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
use crate::engine::{Engine, record_of};
use crate::plot::{AxisScale, Curve, Plot};
use crate::progress::ProgressSink;
use crate::report::{ReportItem, percent};

/// Guesses that the attacker keeps, beside four for every row.
const PATIENCE: usize = 1 << 18;
/// Searches after which the attacker stops.
const SEARCHES: usize = 16;
/// More rows take hours.
const MOST_ROWS: usize = 100_000;

/// A database under attack.
#[derive(Debug)]
pub struct Target {
    /// What it is called in the report.
    pub name: String,
    /// The deployment's parameters.
    pub params: Params,
    /// The rows.
    pub rows: Vec<Vec<u16>>,
    /// The schemes that are offered.
    pub schemes: Vec<&'static Scheme>,
}

impl Target {
    /// Uniform rows under every scheme, with weights up to 10, tables that hold them, and shuffle.
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

/// The attack against one scheme.
struct Attack<'a> {
    target: &'a Target,
    engine: Engine,
    random: SeededRandom,
    /// p, where every value has Σ y^p in it.
    power: Option<u32>,
    /// The features asked for, in order.
    asked: Vec<usize>,
    tracks: Vec<Track>,
    searches: Vec<ObservedElements>,
}

/// The share of rows known after 1, 2, … searches of a scheme, and the bits of its field; none for
/// ℓ_p as published, which can be made to tell no more than its linear form.
pub fn attack(
    target: &Target,
    scheme: &'static Scheme,
    seed: u64,
) -> Result<Option<(u32, Vec<RecoveredFraction>)>, LabError> {
    if target.rows.len() > MOST_ROWS {
        return Err(LabError::flag(
            "--bundle",
            format!("this attack is for up to {MOST_ROWS} rows; build a part of them"),
        ));
    }
    let records: Vec<Vec<u8>> = target.rows.iter().map(|row| record_of(row)).collect();
    let engine = Engine::new(scheme, target.params.clone(), &target.rows, &records, seed)?;
    if !cheat::is_linear_in_levels(engine.instance()) {
        return Ok(None);
    }
    let bits = engine.instance().field().bits();
    let empty = Track { levels: Vec::new(), power: 0, explains: Vec::new(), proved: false };
    let mut attack = Attack {
        power: cheat::fixed_power(engine.instance()),
        target,
        engine,
        random: SeededRandom::new(seed),
        asked: Vec::new(),
        tracks: vec![empty],
        searches: Vec::new(),
    };
    let mut shares = Vec::new();
    while shares.len() < SEARCHES {
        attack.search()?;
        shares.push(attack.share());
        let done = attack.asked.len() == target.params.ranges.len() && attack.tracks.iter().all(|track| track.proved);
        if done {
            break;
        }
    }
    Ok(Some((bits, shares)))
}

impl Attack<'_> {
    fn q(&self) -> u64 {
        self.engine.instance().field().q()
    }

    /// By how much a mask may move a value.
    fn slack(&self) -> u64 {
        let masked = |phase: &scheme::Phase| matches!(phase.decode_rule, DecodeRule::Masked);
        let masked = self.engine.instance().scheme().phases.iter().any(masked);
        if masked { self.target.params.d_min - 1 } else { 0 }
    }

    fn levels(&self, feature: usize) -> u64 {
        u64::from(self.target.params.ranges[feature]) + 1
    }

    /// The features to ask for: as many as leave a bearable number of wrong guesses, wide ones
    /// first.
    fn choose(&self) -> Vec<usize> {
        if self.power.is_some() && self.searches.is_empty() {
            return Vec::new();
        }
        let limit = PATIENCE.max(4 * self.target.rows.len()) as f64;
        let rate = self.tracks.len() as f64 * self.target.rows.len() as f64 / self.q() as f64;
        let unit = (2 * self.slack() + 1) as f64;
        let mut rest: Vec<usize> = (0..self.target.params.ranges.len()).filter(|k| !self.asked.contains(k)).collect();
        rest.sort_by_key(|&k| std::cmp::Reverse(self.levels(k)));
        let (mut chosen, mut digits) = (Vec::new(), 1.0);
        for feature in rest {
            let more = digits * self.levels(feature) as f64;
            if rate * more * unit <= limit {
                chosen.push(feature);
                digits = more;
            }
        }
        chosen
    }

    /// One search, and what follows from it.
    fn search(&mut self) -> Result<(), LabError> {
        let new = self.choose();
        let (field, unit) = (self.engine.instance().field(), 2 * self.slack() + 1);
        let mut coefficients = vec![FieldElement::ZERO; self.target.params.ranges.len()];
        for &feature in &self.asked {
            coefficients[feature] = field.sample_nonzero(&mut self.random);
        }
        let mut places: u128 = 1;
        for &feature in &new {
            // Place values beyond q are no loss: what they cannot tell apart is kept as several
            // guesses.
            coefficients[feature] = field.reduce((places * u128::from(unit) % u128::from(field.q())) as u64);
            places *= u128::from(self.levels(feature));
        }
        let seen = self.ask(&coefficients)?;
        self.tracks = if self.power.is_some() && self.searches.is_empty() {
            let told = |(&power, element)| Track { levels: Vec::new(), power, explains: vec![element], proved: false };
            seen.elements.iter().zip(0..).map(told).collect()
        } else {
            let tags: Vec<u64> = self.asked.iter().map(|&feature| coefficients[feature].value()).collect();
            let digits = Digits { places, unit, radixes: new.iter().map(|&feature| self.levels(feature)).collect() };
            self.tracks.par_iter().flat_map_iter(|track| self.extend(track, &tags, &digits, &seen)).collect()
        };
        self.searches.push(seen);
        self.asked.extend(new);
        self.weigh();
        conclude(&mut self.tracks, &self.searches);
        Ok(())
    }

    /// The symbols of a search with these coefficients.
    fn ask(&mut self, coefficients: &[FieldElement]) -> Result<ObservedElements, LabError> {
        let (instance, random) = (self.engine.instance(), &mut self.random);
        let (mut values, record) = self.engine.cheat(|phase| cheat::vectors(instance, phase, coefficients), random)?;
        let last = instance.scheme().phases.last().map(|phase| phase.decode_rule);
        if let Some(DecodeRule::Difference) = last {
            // The record at the first position says where the differences start.
            let field = instance.field();
            let mut value = record.iter().zip(coefficients).fold(FieldElement::ZERO, |sum, (&y, &c)| {
                let y = field.reduce(y.into());
                let power = self.power.map_or(FieldElement::ZERO, |p| field.pow(y, p.into()));
                field.add(sum, field.mul_add(c, y, power))
            });
            for place in &mut values {
                value = field.sub(value, std::mem::replace(place, value));
            }
            values.push(value);
        }
        Ok(ObservedElements::new(values.into_iter().map(FieldElement::value).collect()))
    }

    /// The track with all digits that explain a symbol of this search.
    fn extend(&self, track: &Track, tags: &[u64], digits: &Digits, seen: &ObservedElements) -> Vec<Track> {
        let q = u128::from(self.q());
        let products = tags.iter().zip(&track.levels).map(|(&c, &y)| u128::from(c) * u128::from(y));
        let tag = products.fold(u128::from(track.power), |sum, product| (sum + product) % q);
        let low = ((tag + q - u128::from(self.slack())) % q) as u64;
        let span = digits.places * u128::from(digits.unit);
        let (start, elements) = (seen.elements.partition_point(|&element| element < low), seen.elements.len());
        let mut found = Vec::new();
        // Upwards from where the digits are 0, and on from the smallest symbol.
        for place in (start..elements).chain(0..start) {
            let above = (u128::from(seen.elements[place]) + q - u128::from(low)) % q;
            if above >= span {
                break;
            }
            let numbers = (0..).map(|turn| (above + turn * q) / u128::from(digits.unit));
            for number in numbers.take_while(|&number| number < digits.places) {
                let levels = track.levels.iter().copied().chain(digits.read(number)).collect();
                let explains = track.explains.iter().copied().chain([place as u32]).collect();
                found.push(Track { levels, explains, power: track.power, proved: false });
            }
        }
        found
    }

    /// Where Σ y^p is known it bounds every guess, and tells the last feature by itself.
    fn weigh(&mut self) {
        let Some(p) = self.power else { return };
        let slack = self.slack();
        let powers = |levels: &[u16]| levels.iter().map(|&y| u64::from(y).pow(p)).sum::<u64>();
        self.tracks.retain(|track| powers(&track.levels) <= track.power);
        let mut rest = (0..self.target.params.ranges.len()).filter(|k| !self.asked.contains(k));
        let last = rest.next();
        if rest.next().is_some() {
            return;
        }
        if let Some(feature) = last {
            let range = self.target.params.ranges[feature] as u16;
            let with = |track: &Track| {
                let left = track.power - powers(&track.levels);
                let fits = move |&y: &u16| left.checked_sub(u64::from(y).pow(p)).is_some_and(|rest| rest <= slack);
                let track = track.clone();
                (0..=range).filter(fits).map(move |y| {
                    let levels = track.levels.iter().copied().chain([y]).collect();
                    Track { levels, ..track.clone() }
                })
            };
            self.tracks = self.tracks.iter().flat_map(with).collect();
            self.asked.push(feature);
        }
        self.tracks.retain(|track| track.power - powers(&track.levels) <= slack);
    }

    /// How much of the database is proved.
    fn share(&self) -> RecoveredFraction {
        let proved: HashSet<&[u16]> =
            self.tracks.iter().filter(|track| track.proved).map(|track| track.levels.as_slice()).collect();
        let known = |row: &&Vec<u16>| {
            let levels: Vec<u16> = self.asked.iter().map(|&feature| row[feature]).collect();
            proved.contains(levels.as_slice())
        };
        let share = self.target.rows.iter().filter(known).count() as f64 / self.target.rows.len().max(1) as f64;
        let part = self.asked.len() as f64 / self.target.params.ranges.len() as f64;
        RecoveredFraction { rows: if part == 1.0 { share } else { 0.0 }, values: share * part }
    }
}

/// How new features stand in a symbol.
struct Digits {
    /// The product of the radixes.
    places: u128,
    /// What one step of the lowest digit adds.
    unit: u64,
    radixes: Vec<u64>,
}

impl Digits {
    fn read(&self, mut number: u128) -> Vec<u16> {
        let digit = |&radix: &u64| {
            let digit = (number % u128::from(radix)) as u16;
            number /= u128::from(radix);
            digit
        };
        self.radixes.iter().map(digit).collect()
    }
}

/// The table over all schemes of a target.
pub fn run(target: &Target, seed: u64, progress: &dyn ProgressSink) -> Result<ReportItem, LabError> {
    progress.start("radix attack", target.schemes.len() as u64);
    let mut found = Vec::new();
    for &scheme in &target.schemes {
        found.extend(attack(target, scheme, seed)?.map(|(bits, shares)| (scheme.name, bits, shares)));
        progress.advance(1);
    }
    progress.finish();
    let most = found.iter().map(|(_, _, shares)| shares.len()).max().unwrap_or(0);
    let cell = |share: Option<&RecoveredFraction>| match share {
        None => String::new(),
        Some(share) if share.rows == 1.0 => "all".into(),
        Some(share) if share.rows == 0.0 => "–".into(),
        Some(share) => percent(share.rows),
    };
    let row = |(name, bits, shares): &(&str, u32, Vec<RecoveredFraction>)| {
        let after = (0..most).map(|search| cell(shares.get(search)));
        [name.to_string(), bits.to_string()].into_iter().chain(after).collect()
    };
    let curve = |(name, bits, shares): &(&str, u32, Vec<RecoveredFraction>)| Curve {
        name: format!("{name} ({bits} bits)"),
        points: shares.iter().zip(1..).map(|(share, n)| (f64::from(n), 100.0 * share.values)).collect(),
        errors: Vec::new(),
    };
    let columns =
        ["scheme".to_string(), "bits of q".to_string()].into_iter().chain((1..=most).map(|n| format!("after {n}")));
    Ok(ReportItem {
        name: "radix",
        title: format!("Radix attack of a cheating client: {}", target.name),
        text: format!(
            "Rows that are known whole, by the number of searches; single columns of all rows are known from the first. The client \
             shares vectors that are no profile: new features become digits of a row's symbol, known ones a tag by which it is \
             recognised, so a fresh order for every search is no hindrance. Every search ran through the real protocol{}. What \
             decides is the bits of q less those that number the rows. A cleverer client may need fewer searches; `lp` is left \
             out, because `linear-lp` can be made to tell whatever it can. Every search also hands over one record.",
            if target.params.shuffle {
                ", with rows shuffled"
            } else {
                ", with rows in order, which this attack does not use"
            },
        ),
        columns: columns.collect(),
        rows: found.iter().map(row).collect(),
        plot: Some(Plot {
            title: "A cheating client's searches".into(),
            x: "searches".into(),
            y: "values known (%)".into(),
            x_scale: AxisScale::Linear,
            y_range: Some((0.0, 105.0)),
            curves: found.iter().map(curve).collect(),
        }),
    })
}
