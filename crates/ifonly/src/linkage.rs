//! The linkage attack on a bundle and on groups of several sizes of the same table.

use ifonly_bundle::{BuildError, BuildOptions, Bundle, GroupTrial, MissingPolicy, TrialRecord};
use ifonly_lab::LabError;
use ifonly_lab::attack::linkage::{LinkageTarget, LinkageValue, PEOPLE, run};
use ifonly_lab::report::ReportItem;
use std::path::Path;

/// The sizes of groups that are attacked.
const SIZES: [usize; 4] = [1, 5, 10, 20];

/// The report of the linkage attack on a bundle, which was built from this data, and on groups of
/// 1, 5, 10 and 20 of every second accepted row; the other rows are the control.
pub fn report(bundle: &Bundle, data: &Path, seed: u64) -> Result<Result<ReportItem, LabError>, BuildError> {
    let trial = GroupTrial::new(&options(bundle, data)?)?;
    let columns = trial.columns();
    let value = |(code, (_, positions)): (Option<u16>, &(String, Option<Vec<f64>>))| match (positions, code) {
        (Some(positions), Some(code)) => LinkageValue::Position(positions[usize::from(code)]),
        (_, code) => LinkageValue::Word(code),
    };
    let row = |codes: &Vec<u16>| -> Vec<LinkageValue> {
        codes.iter().map(|&code| Some(code)).zip(&columns).map(value).collect()
    };
    let records = |records: Vec<TrialRecord>| -> Vec<Vec<LinkageValue>> {
        records.into_iter().map(|(codes, _)| codes.into_iter().zip(&columns).map(value).collect()).collect()
    };
    let (accepted, rejected) = (trial.accepted(), trial.rejected());
    let people = |rows: &[usize]| -> Vec<Vec<LinkageValue>> {
        let step = rows.len().div_ceil(PEOPLE).max(1);
        rows.iter().step_by(step).map(|&index| row(&accepted[index])).collect()
    };
    let all: Vec<usize> = (0..accepted.len()).collect();
    let (inside, outside): (Vec<usize>, Vec<usize>) = all.iter().partition(|index| *index % 2 == 0);
    let k = bundle.manifest().fields().dataset.groups.as_ref().map_or(1, |groups| groups.k as usize);
    let mut targets = vec![LinkageTarget {
        name: format!("this bundle, k = {k}"),
        k,
        records: records(trial.records_of(bundle)?),
        people: people(&all),
        control: vec![],
    }];
    for k in SIZES.into_iter().filter(|k| *k <= inside.len()) {
        let (people, control) = (people(&inside), people(&outside));
        let records = records(trial.records(&inside, k)?);
        targets.push(LinkageTarget { name: format!("half of the table, k = {k}"), k, records, people, control });
    }
    let table: Vec<(Vec<LinkageValue>, bool)> = accepted
        .iter()
        .map(|codes| (row(codes), true))
        .chain(rejected.iter().map(|codes| (row(codes), false)))
        .collect();
    Ok(run(&targets, &table, seed))
}

/// The options of a build with the columns and the accept rule of the bundle.
fn options(bundle: &Bundle, data: &Path) -> Result<BuildOptions, BuildError> {
    let definition = bundle.manifest().fields().dataset.accepted.clone().unwrap_or_default();
    let (target, accept) = match definition.split_once(" is ") {
        Some((target, accept)) => (Some(target.to_owned()), accept.split(" or ").map(str::to_owned).collect()),
        None if definition == "every row of the data" => (None, vec![]),
        None => {
            let reason = format!(
                "the bundle says that accepted means {definition:?}, which is no condition on a column; the linkage \
                 attack needs a bundle built with --target"
            );
            return Err(BuildError::Settings(reason));
        }
    };
    // Temporary files are beside the output, which is not written.
    let output = std::env::temp_dir().join(format!("ifonly-linkage-{}.bundle", std::process::id()));
    let missing = Some(MissingPolicy::Median);
    Ok(BuildOptions { data: vec![data.into()], output, target, accept, missing, ..BuildOptions::default() })
}
