//! Line plots with labelled axes and a legend.
//!
//! The colours are those of Okabe and Ito, which colour-blind readers can distinguish. Every curve
//! also has its own marker and dash pattern, so a plot is readable without colours.

use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;
use serde::Serialize;

use crate::figure::Drawn;

pub(crate) const SIZE: (u32, u32) = (880, 480);
const LEGEND_WIDTH: i32 = 250;
pub(crate) const FONT: &str = "sans-serif";
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(0, 0, 0),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(110, 110, 110),
];
/// (dash, gap) in pixels; gap 0 means a solid line.
const DASHES: [(u32, u32); 4] = [(1, 0), (9, 4), (3, 3), (14, 5)];

/// The scale of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum AxisScale {
    /// Linear.
    Linear,
    /// Logarithmic, base 10.
    Logarithmic,
}

/// A curve.
#[derive(Debug, Clone, Serialize)]
pub struct Curve {
    /// The name in the legend.
    pub name: String,
    /// The points.
    pub points: Vec<(f64, f64)>,
    /// One standard error per point; empty if unknown. The bars are four standard errors
    /// long, up and down.
    pub errors: Vec<f64>,
}

/// A line plot.
#[derive(Debug, Clone, Serialize)]
pub struct Plot {
    /// The title.
    pub title: String,
    /// The label of the horizontal axis.
    pub x: String,
    /// The label of the vertical axis.
    pub y: String,
    /// The scale of the horizontal axis.
    pub x_scale: AxisScale,
    /// The range of the vertical axis; by default that of the data.
    pub y_range: Option<(f64, f64)>,
    /// The curves.
    pub curves: Vec<Curve>,
}

impl Plot {
    pub(crate) fn draw<DB: DrawingBackend>(&self, root: &DrawingArea<DB, Shift>) -> Drawn {
        let (chart, legend) = root.split_horizontally(SIZE.0 as i32 - LEGEND_WIDTH);
        let xs = || self.curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.0));
        let ys = || self.curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.1));
        let (left, right) = range(xs());
        let (bottom, top) = self.y_range.unwrap_or_else(|| {
            let (low, high) = range(ys());
            let low = if low > 0.0 && low < 0.5 * high { 0.0 } else { low };
            let margin = 0.06 * (high - low);
            (if low == 0.0 { 0.0 } else { low - margin }, high + margin)
        });
        match self.x_scale {
            AxisScale::Linear => {
                let margin = 0.03 * (right - left);
                self.draw_chart(&chart, left - margin..right + margin, bottom..top)
            }
            AxisScale::Logarithmic => self.draw_chart(&chart, (left / 1.2..right * 1.2).log_scale(), bottom..top),
        }?;
        self.draw_legend(&legend)
    }

    fn draw_chart<DB: DrawingBackend, X>(
        &self,
        area: &DrawingArea<DB, Shift>,
        x_range: X,
        y_range: std::ops::Range<f64>,
    ) -> Drawn
    where
        X: AsRangedCoord<Value = f64>,
        X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, (FONT, 17).into_font())
            .margin(14)
            .x_label_area_size(48)
            .y_label_area_size(64)
            .build_cartesian_2d(x_range, y_range)
            .map_err(|error| error.to_string())?;
        chart
            .configure_mesh()
            .x_desc(&self.x)
            .y_desc(&self.y)
            .axis_desc_style((FONT, 15))
            .label_style((FONT, 13))
            .x_labels(self.ticks())
            .x_label_formatter(&|value| format_number(*value))
            .y_label_formatter(&|value| format_number(*value))
            .light_line_style(TRANSPARENT)
            .bold_line_style(RGBColor(225, 225, 225))
            .draw()
            .map_err(|error| error.to_string())?;
        for (number, curve) in self.curves.iter().enumerate() {
            let style = COLOURS[number % COLOURS.len()].stroke_width(2);
            let points = curve.points.iter().copied();
            match DASHES[number % DASHES.len()] {
                (_, 0) => chart.draw_series(LineSeries::new(points, style)).map(|_| ()),
                (dash, gap) => chart.draw_series(DashedLineSeries::new(points, dash, gap, style)).map(|_| ()),
            }
            .map_err(|error| error.to_string())?;
            for (&(x, y), error) in curve.points.iter().zip(&curve.errors) {
                let bar = PathElement::new(vec![(x, y - 4.0 * error), (x, y + 4.0 * error)], style.stroke_width(1));
                chart.draw_series([bar]).map_err(|error| error.to_string())?;
            }
            let plotting = chart.plotting_area();
            for (&(x, y), error) in curve.points.iter().zip(&curve.errors) {
                let inside = plotting.strip_coord_spec();
                let corner = inside.get_base_pixel();
                for end in [y - 4.0 * error, y + 4.0 * error] {
                    let at = plotting.map_coordinate(&(x, end));
                    let (x, y) = (at.0 - corner.0, at.1 - corner.1);
                    let cap = PathElement::new(vec![(x - 5, y), (x + 5, y)], style.stroke_width(1));
                    inside.draw(&cap).map_err(|error| error.to_string())?;
                }
            }
            for &point in &curve.points {
                let at = plotting.map_coordinate(&point);
                let inside = plotting.strip_coord_spec();
                let corner = inside.get_base_pixel();
                draw_marker(&inside, number, (at.0 - corner.0, at.1 - corner.1))?;
            }
        }
        Ok(())
    }

    /// The number of labels of the horizontal axis. If all points are at a few whole numbers, only
    /// these get a label.
    fn ticks(&self) -> usize {
        let xs = || self.curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.0));
        let (left, right) = range(xs());
        let is_short_integer_range = xs().all(|x| x.fract() == 0.0) && right - left <= 10.0;
        if is_short_integer_range { (right - left) as usize + 1 } else { 10 }
    }

    fn draw_legend<DB: DrawingBackend>(&self, area: &DrawingArea<DB, Shift>) -> Drawn {
        for (number, curve) in self.curves.iter().enumerate() {
            let y = 62 + 26 * number as i32;
            let style = COLOURS[number % COLOURS.len()].stroke_width(2);
            let (dash, gap) = DASHES[number % DASHES.len()];
            let mut x = 0;
            while x < 40 {
                let end = if gap == 0 { 40 } else { (x + dash as i32).min(40) };
                area.draw(&PathElement::new(vec![(x, y), (end, y)], style)).map_err(|error| error.to_string())?;
                x = end + gap as i32;
            }
            draw_marker(area, number, (20, y))?;
            let label = Text::new(curve.name.clone(), (50, y - 7), (FONT, 14));
            area.draw(&label).map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

/// Draws the marker of a curve at a pixel.
fn draw_marker<DB: DrawingBackend>(area: &DrawingArea<DB, Shift>, number: usize, (x, y): (i32, i32)) -> Drawn {
    let style = COLOURS[number % COLOURS.len()].filled();
    let thick = COLOURS[number % COLOURS.len()].stroke_width(2);
    let polygon =
        |points: &[(i32, i32)]| Polygon::new(points.iter().map(|p| (x + p.0, y + p.1)).collect::<Vec<_>>(), style);
    let line = |from: (i32, i32), to: (i32, i32)| {
        PathElement::new(vec![(x + from.0, y + from.1), (x + to.0, y + to.1)], thick)
    };
    match number % 7 {
        0 => area.draw(&Circle::new((x, y), 4, style)),
        1 => area.draw(&polygon(&[(-4, -4), (4, -4), (4, 4), (-4, 4)])),
        2 => area.draw(&polygon(&[(0, -5), (5, 4), (-5, 4)])),
        3 => area.draw(&polygon(&[(0, -6), (5, 0), (0, 6), (-5, 0)])),
        4 => area.draw(&line((-4, -4), (4, 4))).and_then(|()| area.draw(&line((-4, 4), (4, -4)))),
        5 => area.draw(&line((-5, 0), (5, 0))).and_then(|()| area.draw(&line((0, -5), (0, 5)))),
        _ => area.draw(&polygon(&[(0, 5), (5, -4), (-5, -4)])),
    }
    .map_err(|error| error.to_string())
}

fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
    match (low.is_finite() && high.is_finite(), low < high) {
        (true, true) => (low, high),
        (true, false) => (low - 1.0, high + 1.0),
        _ => (0.0, 1.0),
    }
}

/// A number with at most three decimals, without trailing zeros.
fn format_number(value: f64) -> String {
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".into() } else { text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Figure;

    #[test]
    fn a_plot_names_its_axes_and_all_its_curves() {
        let curve =
            |name: &str| Curve { name: name.into(), points: vec![(1.0, 2.0), (10.0, 3.0)], errors: vec![0.1, 0.1] };
        for x_scale in [AxisScale::Linear, AxisScale::Logarithmic] {
            let plot = Plot {
                title: "title".into(),
                x: "across".into(),
                y: "upwards".into(),
                x_scale,
                y_range: None,
                curves: vec![curve("first"), curve("second")],
            };
            let figure = Figure::from(plot);
            assert!(figure.png().unwrap().starts_with(b"\x89PNG"));
            let svg = figure.svg().unwrap();
            for word in ["<svg", "title", "across", "upwards", "first", "second", "</svg>"] {
                assert!(svg.contains(word), "{word} is missing");
            }
        }
    }

    #[test]
    fn an_empty_plot_is_drawn_without_a_panic() {
        let plot = Plot {
            title: String::new(),
            x: String::new(),
            y: String::new(),
            x_scale: AxisScale::Linear,
            y_range: None,
            curves: Vec::new(),
        };
        assert!(Figure::from(plot).svg().is_ok());
    }
}
