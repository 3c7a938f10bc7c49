//! The radix attack: a cheating client asks with a vector that is no profile, and reads several features out of one
//! symbol.
//!
//! Servers cannot see x, so it may be any vector of F_q. Baseline decodes `‖y‖² − 2⟨y, x⟩ + ‖x‖²`; with `−2x_k =
//! (Δ+1)·(R+1)^j` the symbol is a number whose digits are the norm and features, as many as fit below q. Where the
//! client also chooses the coefficient of y² (linearised, table and gated schemes), it drops the norm and fits more.
//! Under a shuffle the norm has to stay: it is the mark by which a row is recognised in the next session. The field is
//! therefore chosen as small as the scheme allows.

use std::collections::HashMap;

use ifonly_core::prime::{self, FieldRule};

use super::Share;
use super::sessions::World;
use crate::LabError;
use crate::leakage::Order;
use crate::plot::{Curve, Plot, Scale};
use crate::report::{Exhibit, percent};

/// What the cheating client controls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// Only x: Baseline, Diff, Mask.
    Query,
    /// The coefficients of y and of y²: linearised, table and gated schemes.
    Coefficients,
}

/// The features read in each session, and whether the norm is among the digits.
fn plan(world: &World, q: u64, control: Control, order: Order) -> Option<Vec<(Vec<usize>, bool)>> {
    let base = u128::from(world.r) + 1;
    let digits = |below: u128| (1..=world.d() as u32).take_while(|&t| base.pow(t) <= below).count();
    let with_norm = digits(u128::from(q) / (world.scale() as u128));
    let without = digits(u128::from(q));
    let mut sessions = Vec::new();
    let mut next = 0;
    while next < world.d() {
        let norm = match (order, control) {
            (Order::Shuffled, _) => true,
            (Order::Fixed, Control::Query) => sessions.is_empty(),
            (Order::Fixed, Control::Coefficients) => false,
        };
        let count = if norm { with_norm } else { without };
        // A first session with room for the norm only is still of use when rows keep their places.
        if count == 0 && (!norm || order == Order::Shuffled) {
            return None;
        }
        let end = (next + count).min(world.d());
        sessions.push(((next..end).collect(), norm));
        next = end;
    }
    Some(sessions)
}

/// How many sessions reconstruct the rows, and the share of rows that they do; none if the field leaves no room.
pub fn attack(world: &World, q: u64, control: Control, order: Order) -> Option<(usize, Share)> {
    let plan = plan(world, q, control, order)?;
    let modulus = u128::from(q);
    let base = u128::from(world.r) + 1;
    let weight = world.scale() as u128;
    let norm_of = |row: &[u32]| row.iter().map(|&v| u128::from(v).pow(2)).sum::<u128>();
    let mut known: HashMap<u128, Vec<(usize, u32)>> = HashMap::new();
    let mut concluded = vec![vec![None; world.d()]; world.rows.len()];
    let mut norms: Vec<u128> = Vec::new();
    for (features, norm) in &plan {
        // The decoded symbol of every row, as the field computes it.
        let shift = if *norm { weight } else { 1 };
        let linear = |row: &[u32]| {
            features
                .iter()
                .enumerate()
                .fold(0, |sum, (j, &k)| (sum + shift * base.pow(j as u32) % modulus * u128::from(row[k])) % modulus)
        };
        let square = u128::from(control == Control::Query || *norm);
        let mut symbols: Vec<u128> =
            world.rows.iter().map(|row| (square * norm_of(row) + linear(row)) % modulus).collect();
        if order == Order::Shuffled {
            symbols.sort_unstable(); // Their order says nothing.
        }
        for (place, symbol) in symbols.iter().enumerate() {
            let (mark, mut digits) = match (*norm, control) {
                (true, _) => (symbol % weight, symbol / weight),
                (false, Control::Query) => (0, (symbol + modulus - norms[place] % modulus) % modulus),
                (false, Control::Coefficients) => (0, *symbol),
            };
            if *norm && order == Order::Fixed {
                norms.push(mark);
            }
            for &k in features {
                let value = (digits % base) as u32;
                digits /= base;
                match order {
                    Order::Fixed => concluded[place][k] = Some(value),
                    Order::Shuffled => known.entry(mark).or_default().push((k, value)),
                }
            }
        }
    }
    if order == Order::Shuffled {
        for (row, values) in world.rows.iter().zip(&mut concluded) {
            let found = known.get(&norm_of(row)).map_or(&[][..], Vec::as_slice);
            // Rows that share their norm cannot be told apart: they would show more than d values.
            if found.len() == world.d() {
                found.iter().for_each(|&(k, value)| values[k] = Some(value));
            }
        }
    }
    Some((plan.len(), Share::of(&concluded, &world.rows)))
}

/// The table over field sizes.
pub fn run(r: u32, d: usize, m: usize, seed: u64) -> Result<Exhibit, LabError> {
    let world = World::uniform(r, d, m, seed);
    let smallest = u64::BITS - (world.scale() as u64 - 1).leading_zeros();
    let attacks = [
        ("x only, rows in order", Control::Query, Order::Fixed),
        ("coefficients, rows in order", Control::Coefficients, Order::Fixed),
        ("either, rows shuffled", Control::Query, Order::Shuffled),
    ];
    let (mut rows, mut points) = (Vec::new(), vec![Vec::new(); attacks.len()]);
    for bits in smallest..=62 {
        let Some(q) = prime::choose(1 << (bits - 1), FieldRule::Deployment) else { continue };
        let mut row = vec![bits.to_string(), q.to_string()];
        for (column, &(_, control, order)) in attacks.iter().enumerate() {
            match attack(&world, q, control, order) {
                Some((sessions, share)) => {
                    row.push(format!("{sessions} ({})", percent(share.rows)));
                    points[column].push((f64::from(bits), sessions as f64));
                }
                None => row.push("—".into()),
            }
        }
        if bits == smallest || bits == 62 || bits % 4 == 0 {
            rows.push(row);
        }
    }
    let mut columns = vec!["bits of q".to_string(), "q".to_string()];
    columns.extend(attacks.iter().map(|(name, ..)| format!("sessions (rows recovered): {name}")));
    Ok(Exhibit {
        name: "radix",
        title: format!("Radix attack of a cheating client, R={r}, d={d}, M={m}"),
        text: format!(
            "A client that shares a vector which is no profile packs several features into one symbol. The larger the \
             field, the fewer sessions it needs; {smallest} bits are what Baseline needs here, and with them even a \
             cheat gets no more per session than an honest-looking user does by trilateration. Shuffled rows are \
             recognised by their norm, which takes room in the symbol: below {} bits nothing is left for a feature. \
             Rows that share their norm stay unknown under the shuffle.",
            smallest + u64::BITS - u64::from(r + 1).leading_zeros()
        ),
        columns,
        rows,
        plot: Some(Plot {
            title: format!("A cheating client's sessions to the whole database (R={r}, d={d})"),
            x: "bits of the field's q".into(),
            y: "sessions".into(),
            x_scale: Scale::Linear,
            y_range: None,
            curves: attacks
                .iter()
                .zip(points)
                .map(|(&(name, ..), points)| Curve { name: name.into(), points, errors: Vec::new() })
                .collect(),
        }),
    })
}
