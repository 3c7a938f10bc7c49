//! The replay attack: two different queries under one pad cancel it.
//!
//! Against servers whose pads do not depend on the query (a model that exists only here), one
//! server suffices: it answers `‖y − Q‖² + α·Z'`, and the answers to Q and to 0 differ by `−2⟨y, Q⟩
//! + ‖Q‖²` in F_q. With `−2Q_k = (R+1)^j` the digits of that number are features, as many per
//! replay as fit below q. ifonly's servers derive the pads from the commitments to the whole query:
//! another query means another pad, and the old commitments do not open to another query.

use ifonly_algebra::field::FieldElement;
use ifonly_algebra::keys::RootKey;
use ifonly_algebra::random::SeededRandom;
use ifonly_algebra::row_function::{Rows, ScanJob};
use ifonly_algebra::share::SlotVectors;
use ifonly_algebra::{row_function, wire};
use ifonly_core::params::Params;
use ifonly_core::scheme::CostModel as Cost;
use ifonly_core::transcript::{MessageKind, SearchRef, Tau, messages};

use super::{RecoveredFraction, UniformDatabase};
use crate::LabError;
use crate::engine::{Engine, record_of};
use crate::leakage::{Decoded, LeakageScheme};
use crate::plot::{AxisScale, Curve, Plot};
use crate::report::{ReportItem, cells, percent};

/// One server that the attacker can send any share to.
pub trait AttackedServer {
    /// Its answer to this share, one symbol per row.
    fn answer(&mut self, share: &[FieldElement]) -> Result<Vec<FieldElement>, LabError>;
}

/// A server whose pads are the same for every query: the mistake.
#[derive(Debug)]
pub struct Unbound<'a> {
    engine: &'a Engine,
    rows: Rows,
    key: RootKey,
}

impl<'a> Unbound<'a> {
    /// Server 1 of this deployment, if it did not bind its pads.
    pub fn new(engine: &'a Engine, world: &UniformDatabase, seed: u64) -> Result<Self, LabError> {
        let ranges = &engine.instance().params().ranges;
        let rows = Rows::new(ranges, levels(world)).map_err(|error| engine.fault(error.to_string()))?;
        Ok(Unbound { engine, rows, key: RootKey::generate(1, &mut SeededRandom::new(seed)) })
    }
}

impl AttackedServer for Unbound<'_> {
    fn answer(&mut self, share: &[FieldElement]) -> Result<Vec<FieldElement>, LabError> {
        let instance = self.engine.instance();
        let program = instance.program(0, &SlotVectors::new(vec![share.to_vec()]));
        let (field, kappa) = (instance.field(), instance.kappa(0));
        let alpha = instance.points()[0];
        let job = ScanJob { field, alpha, kappa, program: &program, order: None };
        // The transcript is left out: this is the whole difference.
        let pads = self.key.transcript(&Tau::default()).rows(field, 1, kappa, 1);
        Ok(row_function::answer(&job, &self.rows, &pads))
    }
}

/// Server 1 of the real engine, asked with well-formed messages.
pub struct Bound<'a> {
    engine: &'a Engine,
    random: SeededRandom,
}

impl<'a> Bound<'a> {
    /// Server 1 of this deployment.
    pub fn new(engine: &'a Engine, seed: u64) -> Self {
        Bound { engine, random: SeededRandom::new(seed) }
    }

    /// Whether the server refuses a payload under the commitments to another one.
    pub fn refuses_other_payload(&mut self, committed: &[FieldElement], sent: &[FieldElement]) -> bool {
        let field = self.engine.instance().field();
        let mut message = self.message(committed);
        message.payload = wire::pack(field, sent);
        self.engine.respond(1, &message.encode()).is_err()
    }

    fn message(&mut self, share: &[FieldElement]) -> ifonly_core::transcript::Message {
        let instance = self.engine.instance();
        let payload = wire::pack(instance.field(), share);
        let header = self.engine.header(MessageKind::Phase(0), instance.responders(0), SearchRef::default());
        // The attacker never sends the other servers' messages, but has to commit to something.
        messages(&header, vec![payload; instance.responders(0)], &mut self.random).swap_remove(0)
    }
}

impl AttackedServer for Bound<'_> {
    fn answer(&mut self, share: &[FieldElement]) -> Result<Vec<FieldElement>, LabError> {
        let message = self.message(share).encode();
        let response = self.engine.respond(1, &message)?;
        let instance = self.engine.instance();
        let body = response.get(MessageKind::Phase(0).lead()..).unwrap_or_default();
        wire::unpack(instance.field(), body, instance.answer_length(0))
            .map_err(|error| self.engine.fault(error.to_string()))
    }
}

/// Baseline's engine for this world.
pub fn engine(world: &UniformDatabase, seed: u64) -> Result<Engine, LabError> {
    let rows = levels(world);
    let records: Vec<Vec<u8>> = rows.iter().map(|row| record_of(row)).collect();
    let baseline = LeakageScheme::published(Cost::Squared, Decoded::Values)?;
    Engine::new(baseline.described, Params::new(vec![world.r; world.d()], rows.len()), &rows, &records, seed)
}

fn levels(world: &UniformDatabase) -> Vec<Vec<u16>> {
    world.rows.iter().map(|row| row.iter().map(|&level| level as u16).collect()).collect()
}

/// What is recovered after 0, 1, 2, … replays.
pub fn attack(
    world: &UniformDatabase,
    engine: &Engine,
    server: &mut dyn AttackedServer,
) -> Result<Vec<RecoveredFraction>, LabError> {
    let field = engine.instance().field();
    let (d, base) = (world.d(), u64::from(world.r) + 1);
    let mut digits = 1;
    while base.checked_pow(digits as u32 + 1).is_some_and(|power| power <= field.q()) {
        digits += 1;
    }
    // −1/2 exists in every field of odd order.
    let minus_half = field.inverse(field.reduce_signed(-2)).unwrap_or(FieldElement::ONE);
    let first = server.answer(&vec![FieldElement::ZERO; d])?;
    let mut concluded = vec![vec![None; d]; world.rows.len()];
    let mut shares = vec![RecoveredFraction { rows: 0.0, values: 0.0 }];
    for start in (0..d).step_by(digits) {
        let features: Vec<usize> = (start..(start + digits).min(d)).collect();
        let mut query = vec![FieldElement::ZERO; d];
        let mut power = FieldElement::ONE;
        for &k in &features {
            query[k] = field.mul(minus_half, power);
            power = field.mul(power, field.reduce(base));
        }
        let answer = server.answer(&query)?;
        let square = field.dot(&query, &query);
        for (row, (&now, &before)) in answer.iter().zip(&first).enumerate() {
            let mut number = field.sub(field.sub(now, before), square).value();
            for &k in &features {
                concluded[row][k] = Some((number % base) as u32);
                number /= base;
            }
        }
        shares.push(RecoveredFraction::of(&concluded, &world.rows));
    }
    Ok(shares)
}

/// The attack on the model and on the engine.
pub fn run(r: u32, d: usize, m: usize, seed: u64) -> Result<ReportItem, LabError> {
    let world = UniformDatabase::uniform(r, d, m, seed);
    let engine = engine(&world, seed)?;
    let unbound = attack(&world, &engine, &mut Unbound::new(&engine, &world, seed)?)?;
    let mut server = Bound::new(&engine, seed);
    let bound = attack(&world, &engine, &mut server)?;
    let (zero, one) = (vec![FieldElement::ZERO; d], vec![FieldElement::ONE; d]);
    let refused = if server.refuses_other_payload(&zero, &one) { "refused" } else { "ACCEPTED" };
    let row = |(replays, (model, ours)): (usize, (&RecoveredFraction, &RecoveredFraction))| {
        let shares = [model.rows, model.values, ours.rows, ours.values].map(percent);
        [replays.to_string()].into_iter().chain(shares).collect()
    };
    let curve = |name: &str, shares: &[RecoveredFraction]| Curve {
        name: name.into(),
        points: shares.iter().enumerate().map(|(replays, share)| (replays as f64, 100.0 * share.rows)).collect(),
        errors: Vec::new(),
    };
    Ok(ReportItem {
        name: "replay",
        title: format!("Replay at one server, R={r}, d={d}, M={m}"),
        text: format!(
            "A user sends one server several different queries and subtracts the answers. If the pads are the same \
             for all of them, they cancel, and a handful of replays give every row. ifonly's pads depend on the \
             commitments to the whole query: the differences are noise (single values are \"recovered\" as often as \
             by guessing, 1 in {}), and a different query under the old commitments was {refused} by the server.",
            r + 1
        ),
        columns: cells(["replays", "rows, fixed pads", "values, fixed pads", "rows, ifonly", "values, ifonly"]),
        rows: unbound.iter().zip(&bound).enumerate().map(row).collect(),
        plot: Some(Plot {
            title: format!("Replaying at one server (R={r}, d={d}, M={m})"),
            x: "replays".into(),
            y: "rows recovered (%)".into(),
            x_scale: AxisScale::Linear,
            y_range: Some((-2.0, 105.0)),
            curves: vec![curve("pads fixed (a model)", &unbound), curve("pads bound to the query", &bound)],
        }),
    })
}
