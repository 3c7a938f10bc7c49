//! The replay attack: if two different queries get the same pad, the pad cancels.
//!
//! The attack needs only one server, if its pads do not depend on the query. That server answers
//! `‖y − Q‖² + α·Z'`. The answers to Q and to 0 differ by `−2⟨y, Q⟩ + ‖Q‖²` in F_q. With
//! `−2Q_k = (R+1)^j` the digits of this number are features, as many per replay as fit below q.
//!
//! Servers of ifonly derive the pads from the commitments to the whole query. Another query gets
//! another pad, and the old commitments do not open to another query. The server with fixed pads
//! ([`Unbound`]) exists only in this module.

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
use crate::engine::Engine;
use crate::leakage::{Decoded, LeakageScheme};
use crate::plot::{AxisScale, Curve, Plot};
use crate::report::{ReportItem, cells, percent};

/// A server to which the attacker can send any share.
pub trait AttackedServer {
    /// The answer to this share, one field element per row.
    fn answer(&mut self, share: &[FieldElement]) -> Result<Vec<FieldElement>, LabError>;
}

/// A server with the same pads for every query.
#[derive(Debug)]
pub struct Unbound<'a> {
    engine: &'a Engine,
    rows: Rows,
    key: RootKey,
}

impl<'a> Unbound<'a> {
    /// Server 1 of the engine, but with fixed pads.
    pub fn new(engine: &'a Engine, database: &UniformDatabase, seed: u64) -> Result<Self, LabError> {
        let max_levels = &engine.instance().params().max_levels;
        let rows = Rows::new(max_levels, levels(database)).map_err(|error| engine.fault(error.to_string()))?;
        Ok(Unbound { engine, rows, key: RootKey::generate(1, &mut SeededRandom::new(seed)) })
    }
}

impl AttackedServer for Unbound<'_> {
    fn answer(&mut self, share: &[FieldElement]) -> Result<Vec<FieldElement>, LabError> {
        let instance = self.engine.instance();
        let program = instance.program(0, &SlotVectors::new(vec![share.to_vec()]));
        let (field, kappa) = (instance.field(), instance.kappa(0));
        let alpha = instance.points()[0];
        let job = ScanJob { field, alpha, kappa, program: &program };
        // The only difference: the pads depend on a constant instead of the transcript digest.
        let pads = self.key.transcript(&Tau::default()).rows(field, 1, kappa, 1);
        Ok(row_function::answer(&job, &self.rows, &pads, None))
    }
}

/// Server 1 of the engine, which receives well-formed messages.
pub struct Bound<'a> {
    engine: &'a Engine,
    random: SeededRandom,
}

impl<'a> Bound<'a> {
    /// Server 1 of the engine.
    pub fn new(engine: &'a Engine, seed: u64) -> Self {
        Bound { engine, random: SeededRandom::new(seed) }
    }

    /// Whether the server refuses a payload with the commitments to another payload.
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
        // A message contains commitments for all servers. The attacker sends only one of the
        // messages.
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

/// An engine for Baseline and this database.
pub fn engine(database: &UniformDatabase, seed: u64) -> Result<Engine, LabError> {
    let rows = levels(database);
    let baseline = LeakageScheme::published(Cost::Squared, Decoded::Values)?;
    Engine::new(baseline.definition, Params::new(vec![database.r; database.d()], rows.len()), &rows, seed)
}

fn levels(database: &UniformDatabase) -> Vec<Vec<u16>> {
    database.rows.iter().map(|row| row.iter().map(|&level| level as u16).collect()).collect()
}

/// The recovered fraction after 0, 1, 2, … replays.
pub fn attack(
    database: &UniformDatabase,
    engine: &Engine,
    server: &mut dyn AttackedServer,
) -> Result<Vec<RecoveredFraction>, LabError> {
    let field = engine.instance().field();
    let (d, base) = (database.d(), u64::from(database.r) + 1);
    let mut digits = 1;
    while base.checked_pow(digits as u32 + 1).is_some_and(|power| power <= field.q()) {
        digits += 1;
    }
    // q is odd, so the inverse of −2 exists.
    let minus_half = field.inverse(field.reduce_signed(-2)).unwrap_or(FieldElement::ONE);
    let first = server.answer(&vec![FieldElement::ZERO; d])?;
    let mut concluded = vec![vec![None; d]; database.rows.len()];
    let mut fractions = vec![RecoveredFraction { rows: 0.0, values: 0.0 }];
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
        fractions.push(RecoveredFraction::of(&concluded, &database.rows));
    }
    Ok(fractions)
}

/// The report item: the attack on a server with fixed pads and on a server of ifonly.
pub fn run(r: u32, d: usize, m: usize, seed: u64) -> Result<ReportItem, LabError> {
    let database = UniformDatabase::uniform(r, d, m, seed);
    let engine = engine(&database, seed)?;
    let unbound = attack(&database, &engine, &mut Unbound::new(&engine, &database, seed)?)?;
    let mut server = Bound::new(&engine, seed);
    let bound = attack(&database, &engine, &mut server)?;
    let (zero, one) = (vec![FieldElement::ZERO; d], vec![FieldElement::ONE; d]);
    let refused = if server.refuses_other_payload(&zero, &one) { "refused" } else { "ACCEPTED" };
    let row = |(replays, (fixed, ours)): (usize, (&RecoveredFraction, &RecoveredFraction))| {
        let fractions = [fixed.rows, fixed.values, ours.rows, ours.values].map(percent);
        [replays.to_string()].into_iter().chain(fractions).collect()
    };
    let curve = |name: &str, fractions: &[RecoveredFraction]| Curve {
        name: name.into(),
        points: fractions
            .iter()
            .enumerate()
            .map(|(replays, fraction)| (replays as f64, 100.0 * fraction.rows))
            .collect(),
        errors: Vec::new(),
    };
    Ok(ReportItem {
        name: "replay",
        title: format!("Replay at one server, R={r}, d={d}, M={m}"),
        text: format!(
            "A client sends several different queries to one server and subtracts the answers. If all queries get the same \
             pads, the pads cancel, and a few replays give every row. The pads of ifonly depend on the commitments to the \
             whole query. The differences are then random: single values are \"recovered\" as often as by guessing, 1 in \
             {}. The server {refused} a different query with the old commitments.",
            r + 1
        ),
        columns: cells(["replays", "rows, fixed pads", "values, fixed pads", "rows, ifonly", "values, ifonly"]),
        rows: unbound.iter().zip(&bound).enumerate().map(row).collect(),
        figure: Some(
            Plot {
                title: format!("Replaying at one server (R={r}, d={d}, M={m})"),
                x: "replays".into(),
                y: "rows recovered (%)".into(),
                x_scale: AxisScale::Linear,
                y_range: Some((-2.0, 105.0)),
                curves: vec![
                    curve("fixed pads (not ifonly)", &unbound),
                    curve("ifonly: pads bound to the query", &bound),
                ],
            }
            .into(),
        ),
    })
}
