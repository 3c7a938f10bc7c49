//! The figures of a report: plots, and drawings of boxes and arrows. Both are drawn as SVG and PNG.

use plotters::coord::Shift;
use plotters::prelude::*;
use serde::Serialize;

use crate::LabError;
use crate::plot::{FONT, Plot, SIZE};
use crate::raster::{RasterBackend, RasterImage};

/// The outcome of drawing; the text says what failed.
pub(crate) type Drawn = Result<(), String>;

/// A figure.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// A line plot.
    Plot(Plot),
    /// Boxes and arrows.
    Diagram(Diagram),
}

/// A point of a picture: right and down from the left upper corner.
pub type Point = (i32, i32);

/// Boxes and arrows. Coordinates are pixels in a picture of 880 by 480.
#[derive(Debug, Clone, Serialize)]
pub struct Diagram {
    /// The title.
    pub title: String,
    /// The boxes: left, top, right, bottom, and the lines of text inside.
    pub boxes: Vec<(Point, Point, Vec<String>)>,
    /// The arrows: from, to, and a label.
    pub arrows: Vec<(Point, Point, String)>,
}

impl From<Plot> for Figure {
    fn from(plot: Plot) -> Figure {
        Figure::Plot(plot)
    }
}

impl Figure {
    /// The figure as SVG.
    pub fn svg(&self) -> Result<String, LabError> {
        let mut svg = String::new();
        let drawn = self.draw(&SVGBackend::with_string(&mut svg, SIZE).into_drawing_area());
        drawn.map_err(|reason| self.fault(reason))?;
        Ok(svg)
    }

    /// The figure as a PNG file.
    pub fn png(&self) -> Result<Vec<u8>, LabError> {
        let mut image = RasterImage::new(SIZE);
        let drawn = self.draw(&RasterBackend(&mut image).into_drawing_area());
        drawn.and_then(|()| image.png().map_err(|error| error.to_string())).map_err(|reason| self.fault(reason))
    }

    fn fault(&self, reason: String) -> LabError {
        let name = match self {
            Figure::Plot(plot) => plot.title.clone(),
            Figure::Diagram(diagram) => diagram.title.clone(),
        };
        LabError::Plot { name, reason }
    }

    fn draw<DB: DrawingBackend>(&self, root: &DrawingArea<DB, Shift>) -> Drawn {
        root.fill(&WHITE).map_err(|error| error.to_string())?;
        match self {
            Figure::Plot(plot) => plot.draw(root)?,
            Figure::Diagram(diagram) => diagram.draw(root)?,
        }
        root.present().map_err(|error| error.to_string())
    }
}

impl Diagram {
    fn draw<DB: DrawingBackend>(&self, root: &DrawingArea<DB, Shift>) -> Drawn {
        let text = |text: &str, at: (i32, i32), size: i32| {
            root.draw(&Text::new(text.to_owned(), at, (FONT, size))).map_err(|error| error.to_string())
        };
        text(&self.title, (20, 14), 17)?;
        for (from, to, label) in &self.arrows {
            let line = |points: Vec<(i32, i32)>| {
                root.draw(&PathElement::new(points, BLACK.stroke_width(1))).map_err(|error| error.to_string())
            };
            line(vec![*from, *to])?;
            // The head: two strokes at an angle of about 25 degrees.
            let (dx, dy) = (f64::from(to.0 - from.0), f64::from(to.1 - from.1));
            let length = dx.hypot(dy).max(1.0);
            let (ux, uy) = (dx / length * 9.0, dy / length * 9.0);
            for side in [0.45, -0.45] {
                line(vec![*to, (to.0 - (ux - side * uy) as i32, to.1 - (uy + side * ux) as i32)])?;
            }
            text(label, ((from.0 + to.0) / 2 + 6, (from.1 + to.1) / 2 - 16), 13)?;
        }
        for (corner, opposite, lines) in &self.boxes {
            let frame = Rectangle::new([*corner, *opposite], BLACK.stroke_width(1));
            root.draw(&Rectangle::new([*corner, *opposite], WHITE.filled())).map_err(|error| error.to_string())?;
            root.draw(&frame).map_err(|error| error.to_string())?;
            for (number, one) in (0..).zip(lines) {
                text(one, (corner.0 + 8, corner.1 + 8 + 18 * number), 13)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diagram_has_its_boxes_and_labels() {
        let diagram = Figure::Diagram(Diagram {
            title: "title".into(),
            boxes: vec![((10, 50), (100, 90), vec!["inside".into()])],
            arrows: vec![((100, 70), (200, 70), "label".into())],
        });
        let svg = diagram.svg().unwrap();
        for word in ["title", "inside", "label"] {
            assert!(svg.contains(word), "{word} is missing");
        }
        assert!(diagram.png().unwrap().starts_with(b"\x89PNG"));
    }
}
