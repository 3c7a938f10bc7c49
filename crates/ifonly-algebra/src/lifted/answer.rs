//! The tables of one server and the reference evaluator.

use crate::field::FieldElement;
use crate::lifted::{LiftedDraw, LiftedFormat};
use crate::row_function::{RowRandomness, Rows};
use zeroize::{Zeroize, ZeroizeOnDrop};

/// What one server adds up for each row: for every feature one [joined](LiftedFormat::join) entry
/// per level. Server 2, whose α is −1, has negated all entries. Wiped on drop and never printed.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct LiftedTables {
    #[zeroize(skip)]
    format: LiftedFormat,
    #[zeroize(skip)]
    lengths: Vec<usize>,
    entries: Vec<u32>,
}

impl std::fmt::Debug for LiftedTables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LiftedTables(..)")
    }
}

/// Which of the two servers has the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiftedSide {
    /// Server 1, α = 1.
    First,
    /// Server 2, α = −1.
    Second,
}

impl LiftedTables {
    /// Joins the tables of one server's shares: `cost` and `gate` have one entry for each level of
    /// each feature, in the order of the features, and feature k has `lengths[k]` levels.
    ///
    /// # Panics
    /// If the numbers of entries differ from the sum of the lengths.
    pub fn new(
        format: &LiftedFormat,
        side: LiftedSide,
        lengths: Vec<usize>,
        cost: &[FieldElement],
        gate: &[FieldElement],
    ) -> LiftedTables {
        let count = lengths.iter().sum::<usize>();
        assert!(cost.len() == count && gate.len() == count, "every level needs one cost and one gate");
        let (q, p) = (format.cost_field(), format.gate_field());
        let entries = cost.iter().zip(gate).map(|(&cost, &gate)| match side {
            LiftedSide::First => format.join(cost, gate),
            LiftedSide::Second => format.join(q.neg(cost), p.neg(gate)),
        });
        LiftedTables { format: format.clone(), lengths, entries: entries.collect() }
    }

    /// Tables with these joined entries; `None` if an entry is not below q·p or their number is
    /// wrong. A shard receives its tables in this form.
    pub fn from_entries(format: &LiftedFormat, lengths: Vec<usize>, entries: Vec<u32>) -> Option<LiftedTables> {
        let tables = LiftedTables { format: format.clone(), lengths, entries };
        let reduced = tables.entries.iter().all(|&entry| entry < format.product());
        (reduced && tables.entries.len() == tables.lengths.iter().sum::<usize>()).then_some(tables)
    }

    /// The format.
    pub fn format(&self) -> &LiftedFormat {
        &self.format
    }

    /// The number of levels of each feature.
    pub fn lengths(&self) -> &[usize] {
        &self.lengths
    }

    /// All entries, feature after feature.
    pub fn entries(&self) -> &[u32] {
        &self.entries
    }

    /// The sum of the entries of one row modulo q·p. Levels beyond the end of a table count as 0;
    /// rows are checked against their max levels when they are loaded.
    pub fn sum(&self, row: &[u16]) -> u32 {
        let mut rest = self.entries.as_slice();
        let mut sum = 0;
        for (&level, &length) in row.iter().zip(&self.lengths) {
            let (table, tail) = rest.split_at(length);
            sum += u64::from(table.get(usize::from(level)).copied().unwrap_or_default());
            rest = tail;
        }
        (sum % u64::from(self.format.product())) as u32
    }
}

/// The gate and the cost that a server answers for a row whose entries have this sum.
pub fn evaluate(format: &LiftedFormat, sum: u32, draw: &LiftedDraw) -> (FieldElement, FieldElement) {
    let (q, p) = (format.cost_field(), format.gate_field());
    let (cost, gate) = format.separate(sum);
    // p < q, so the representative of the gate is reduced modulo q.
    let lifted = q.reduce(gate.value());
    let cost = q.add(q.mul_add(draw.sigma, lifted, cost), draw.cost_pad);
    (p.mul_add(draw.rho, gate, draw.gate_pad), cost)
}

/// The answer word of a row whose entries have this sum.
pub fn answer_word(format: &LiftedFormat, sum: u32, draw: &LiftedDraw) -> u32 {
    let (gate, cost) = evaluate(format, sum, draw);
    format.word(cost, gate)
}

/// The answer of one server: one word per position. `order[p]` is the stored row at position p;
/// `None` for the stored order. This slow evaluator is the definition; every other scan must return
/// the same words.
pub fn answer(tables: &LiftedTables, rows: &Rows, draws: &impl RowRandomness, order: Option<&[u32]>) -> Vec<u32> {
    let word = |position: usize| {
        let row = order.map_or(position, |order| order[position] as usize);
        answer_word(tables.format(), tables.sum(rows.row(row)), &LiftedDraw::of(draws, row))
    };
    (0..rows.iter().len()).map(word).collect()
}
