//! Generated documentation of the schemes: cost formulas and the tables of `docs/schemes.md`.
//! Everything follows from the scheme descriptions.

use crate::field::ModulusRule;
use crate::params::Params;
use crate::scheme::instance::SchemeInstance;
use crate::scheme::sealed::SealedScheme;
use crate::scheme::{ALL, DecodeRule, Origin, Scheme, SlotLength, sealed};
use std::fmt::Write;

/// The communication cost as a formula in d, M, R and p, such as `6d+4M+2`.
pub(crate) fn formula(instance: &SchemeInstance) -> String {
    // Coefficients of d, (R+1)d, M and 1. If features have different numbers of levels, (R+1)d
    // means Σ(R_k+1).
    let (mut features, mut levels, mut rows, mut ones) = (0i64, 0i64, 0i64, 0i64);
    let params = instance.params();
    let copies = if params.verified { 2 } else { 1 };
    for (number, phase) in instance.scheme().phases.iter().enumerate() {
        let servers = instance.responders(number) as i64;
        for slot in phase.slots.iter().filter(|slot| !slot.carried) {
            let (counter, times) = match slot.length {
                SlotLength::One => (&mut ones, 1),
                SlotLength::Features => (&mut features, 1),
                SlotLength::Powers => (&mut features, i64::from(params.exponent) - 1),
                SlotLength::Levels => (&mut levels, 1),
                SlotLength::Rows => (&mut rows, 1),
            };
            *counter += servers * copies * times;
        }
        ones += servers * (copies - 1);
        let outputs = servers * instance.outputs(number) as i64;
        rows += outputs;
        if matches!(phase.decode_rule, DecodeRule::Difference) {
            ones -= outputs;
        }
    }
    let terms = [(features, "d"), (levels, "(R+1)d"), (rows, "M"), (ones, "")];
    let mut formula = String::new();
    for (factor, unit) in terms.into_iter().filter(|(factor, _)| *factor != 0) {
        let sign = if factor < 0 {
            "−"
        } else if formula.is_empty() {
            ""
        } else {
            "+"
        };
        // Writing to a string cannot fail.
        let _ = write!(formula, "{sign}{}{unit}", factor.abs());
    }
    formula
}

/// One row per scheme, as Markdown: servers, κ, phases, elements, bits, bytes and what the user
/// learns.
pub(crate) fn table(params: &Params) -> String {
    let mut table = String::from(
        "| scheme | source | servers N | κ | phases | elements | elements up | elements down | bits per element | bytes up | bytes down | shared vectors | the user learns |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for scheme in ALL {
        let _ = writeln!(table, "{}", row(scheme, params));
    }
    let _ = writeln!(table, "{}", sealed_row(params));
    table
}

/// Integers mod 2^k count as elements. Beside the record, each server returns one 64-bit word.
fn sealed_row(params: &Params) -> String {
    let Scheme { name, learns, .. } = sealed::SCHEME;
    match SealedScheme::new(params.clone()) {
        Err(error) => format!("| {name} | {error} |||||||||||"),
        Ok(sealed) => format!(
            "| {name} | ifonly | {servers} | – | 1 | {servers}(R+1)d | {} | 0 | {} | {} | {} | cost and gate in one table | {learns} |",
            sealed::SERVERS * params.levels(),
            sealed.bits(),
            sealed::SERVERS * sealed.payload_length(),
            sealed::SERVERS * 8,
            servers = sealed::SERVERS,
        ),
    }
}

/// Bits of an element; with a lifted gate, of a cost and of a gate.
fn bits(instance: &SchemeInstance) -> String {
    let gate = instance.lifted().map(|format| format!(" + {}", format.gate_field().bits()));
    format!("{}{}", instance.field().bits(), gate.unwrap_or_default())
}

fn row(scheme: &'static Scheme, params: &Params) -> String {
    let instance = match SchemeInstance::new(scheme, params.clone(), ModulusRule::Deployment) {
        Ok(instance) => instance,
        Err(error) => return format!("| {} | {error} |||||||||||", scheme.name),
    };
    let phases = 0..instance.phases();
    let list = |items: Vec<String>| items.join(", then ");
    let kappas = list(phases.clone().map(|phase| instance.kappa(phase).to_string()).collect());
    let servers = phases.clone().map(|phase| instance.responders(phase)).collect::<Vec<_>>();
    let servers = if servers.windows(2).all(|pair| pair[0] == pair[1]) {
        servers[0].to_string()
    } else {
        list(servers.iter().map(usize::to_string).collect())
    };
    let slots = |phase: usize| {
        let names = scheme.phases[phase].slots.iter();
        names.map(|slot| if slot.carried { format!("({})", slot.name) } else { slot.name.into() }).collect::<Vec<_>>()
    };
    let shared = list(phases.map(|phase| slots(phase).join(", ")).collect());
    let (cost, bytes) = (instance.cost(), instance.bytes());
    let origin = if scheme.origin == Origin::Paper { "paper" } else { "ifonly" };
    format!(
        "| {} | {origin} | {servers} | {kappas} | {} | {} | {} | {} | {} | {} | {} | {shared} | {} |",
        scheme.name,
        instance.phases(),
        formula(&instance),
        cost.up,
        cost.down,
        bits(&instance),
        bytes.up,
        bytes.down,
        scheme.learns,
    )
}
