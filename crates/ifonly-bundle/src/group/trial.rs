//! Groups of a table without a bundle, for the attacks of the lab.

use super::table::{GroupColumnKind, GroupTable};
use super::{GroupRequest, group};
use crate::build::parts::PartFiles;
use crate::build::run::{Build, BuildInputs};
use crate::error::BuildError;
use crate::format::open::Bundle;
use crate::options::BuildOptions;
use ifonly_values::record::Record;
use ifonly_values::schema::{Schema, Value};
use std::ops::ControlFlow;

/// The encoded rows of a table, which can be grouped in several ways.
pub struct GroupTrial {
    schema: Schema,
    table: GroupTable,
}

impl std::fmt::Debug for GroupTrial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Rows are private data and must not appear in a log.
        write!(f, "GroupTrial({} rows)", self.table.rows())
    }
}

/// A record as codes, `None` for "mixed", and the number of people that it stands for.
pub type TrialRecord = (Vec<Option<u16>>, usize);

impl GroupTrial {
    /// Makes both passes over the data of a build. Writes only temporary files beside the output.
    pub fn new(options: &BuildOptions) -> Result<GroupTrial, BuildError> {
        let watch = &mut |_| ControlFlow::Continue(());
        let build = Build::new(options.clone(), BuildInputs::default(), watch)?;
        let (task, all) = (build.task(), build.task().all_rows());
        let plan = build.plan(&task.collect_stats(&all, watch)?)?;
        let scratch = build.scratch_dir()?;
        let counts = task.encode(&plan, &all, &PartFiles::new(scratch.directory(), 0), watch)?;
        let table = GroupTable::read(&plan.schema, None, &[counts], scratch.directory())?;
        Ok(GroupTrial { schema: plan.schema, table })
    }

    /// For each column: its name, and the positions of its codes if they have an order.
    pub fn columns(&self) -> Vec<(String, Option<Vec<f64>>)> {
        let column = |column: &super::table::GroupColumn| match &column.kind {
            GroupColumnKind::Ordered { positions, .. } => (column.name.clone(), Some(positions.clone())),
            GroupColumnKind::Words { .. } => (column.name.clone(), None),
        };
        self.table.columns().iter().map(column).collect()
    }

    /// The accepted rows as codes.
    pub fn accepted(&self) -> Vec<Vec<u16>> {
        (0..self.table.accepted()).map(|row| self.table.row(row).to_vec()).collect()
    }

    /// The rejected rows as codes.
    pub fn rejected(&self) -> Vec<Vec<u16>> {
        (self.table.accepted()..self.table.rows()).map(|row| self.table.row(row).to_vec()).collect()
    }

    /// The records of groups of k of these accepted rows; with k = 1 the rows themselves.
    pub fn records(&self, rows: &[usize], k: usize) -> Result<Vec<TrialRecord>, BuildError> {
        let sample = self.table.sample(rows, &[]);
        if k == 1 {
            let row = |row| (sample.row(row).iter().map(|&code| Some(code)).collect(), 1);
            return Ok((0..sample.accepted()).map(row).collect());
        }
        let grouping = group(&sample, &GroupRequest { k, ..GroupRequest::default() }, None)?;
        Ok(grouping.representatives.into_iter().map(|one| (one.codes, one.rows.len())).collect())
    }

    /// The records of a bundle in the codes of this table. A value that the table does not have
    /// counts as mixed.
    pub fn records_of(&self, bundle: &Bundle) -> Result<Vec<TrialRecord>, BuildError> {
        let columns = self.schema.columns();
        let record = |text: &[u8]| {
            let record =
                Record::of(bundle.manifest(), text).map_err(|error| BuildError::Settings(error.to_string()))?;
            let code = |(index, column): (usize, &ifonly_values::schema::Column<'_>)| {
                let mut levels = vec![];
                let value = Value::from(record.value(column.name)?);
                self.schema.encode_column(column, &value, &mut levels).ok()?;
                let levels: Vec<u16> = levels.iter().map(|encoded| encoded.level as u16).collect();
                Some(self.table.code_of(index, &levels))
            };
            let codes = columns.iter().enumerate().map(code).collect();
            Ok((codes, record.group().map_or(1, |group| group.at_least as usize)))
        };
        bundle.texts().map(record).collect()
    }
}
