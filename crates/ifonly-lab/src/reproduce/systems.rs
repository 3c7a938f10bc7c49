//! The figures "PCR system model" and "I-PCR system model" as small drawings.

use crate::figure::{Diagram, Figure};
use crate::report::ReportItem;

pub(super) fn run() -> Vec<ReportItem> {
    let item = |name, title: &str, text: &str, diagram| ReportItem {
        name,
        title: title.into(),
        text: text.into(),
        columns: Vec::new(),
        rows: Vec::new(),
        figure: Some(Figure::Diagram(diagram)),
    };
    vec![
        item(
            "system-pcr",
            "Figure 1: the system model of PCR",
            "The user was rejected with x and wants the index of the nearest accepted row. Every server has the same rows \
             and the same random numbers. To run it: `ifonly demo --scheme baseline`.",
            model(
                "PCR: the nearest of all accepted rows",
                &["rejected sample x", "learns the distances d_i(x)", "θ* = 3"],
                &["y_1: 41", "y_2: 25", "y_3: 9   nearest", "y_4: 16", "distances to x"],
            ),
        ),
        item(
            "system-i-pcr",
            "Figure 2: the system model of I-PCR",
            "Some features must not change. The nearest row among those that agree with x on the set I is the answer; x \
             and I are hidden from every server. To run it: `ifonly demo --scheme two-phase`.",
            model(
                "I-PCR: the nearest row with the immutable features of x",
                &["x, and the immutable set I", "learns Θ and distances in Θ", "θ* = 2"],
                &[
                    "y_1: 41  agrees on I",
                    "y_2: 25  agrees on I",
                    "y_3: 9   differs on I",
                    "y_4: 16  differs on I",
                    "Θ = {1, 2}",
                ],
            ),
        ),
    ]
}

/// A user and three of N servers with the same rows.
fn model(title: &str, user: &[&str], rows: &[&str]) -> Diagram {
    let lines = |heading: &str, lines: &[&str]| {
        std::iter::once(heading).chain(lines.iter().copied()).map(str::to_owned).collect::<Vec<_>>()
    };
    let mut boxes = vec![((20, 170), (270, 290), lines("user", user)), ((640, 150), (860, 310), lines("rows", rows))];
    let mut arrows = Vec::new();
    for (number, (name, top)) in [("server 1", 60), ("server 2", 200), ("server N", 340)].into_iter().enumerate() {
        boxes.push(((430, top), (560, top + 60), vec![name.into(), "rows, pads".into()]));
        let start = 195 + 35 * number as i32;
        arrows.push(((270, start), (430, top + 20), format!("Q_{}", &name[7..])));
        arrows.push(((430, top + 45), (270, start + 15), format!("A_{}", &name[7..])));
        arrows.push(((640, 200 + 30 * number as i32), (560, top + 30), String::new()));
    }
    Diagram { title: title.into(), boxes, arrows }
}
