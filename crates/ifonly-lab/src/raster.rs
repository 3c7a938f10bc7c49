//! Figures as PNG: a drawing backend of plotters that sets pixels, with a bitmap font.

use std::convert::Infallible;

use font8x8::{BASIC_FONTS, GREEK_FONTS, LATIN_FONTS, UnicodeFonts};
use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{BackendColor, BackendCoord, BackendTextStyle, DrawingBackend, DrawingErrorKind};

type Drawn = Result<(), DrawingErrorKind<Infallible>>;

/// An image in memory, three bytes per pixel.
#[derive(Debug)]
pub(crate) struct RasterImage {
    size: (u32, u32),
    pixels: Vec<u8>,
}

impl RasterImage {
    /// A white image.
    pub(crate) fn new(size: (u32, u32)) -> RasterImage {
        RasterImage { size, pixels: vec![255; 3 * size.0 as usize * size.1 as usize] }
    }

    /// The image as a PNG file.
    pub(crate) fn png(&self) -> Result<Vec<u8>, png::EncodingError> {
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, self.size.0, self.size.1);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_compression(png::Compression::High);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&self.pixels)?;
        writer.finish()?;
        Ok(file)
    }
}

/// Draws into an image.
pub(crate) struct RasterBackend<'a>(pub(crate) &'a mut RasterImage);

impl DrawingBackend for RasterBackend<'_> {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        self.0.size
    }

    fn ensure_prepared(&mut self) -> Drawn {
        Ok(())
    }

    fn present(&mut self) -> Drawn {
        Ok(())
    }

    fn draw_pixel(&mut self, (x, y): BackendCoord, color: BackendColor) -> Drawn {
        let (Ok(x), Ok(y)) = (u32::try_from(x), u32::try_from(y)) else { return Ok(()) };
        if x < self.0.size.0 && y < self.0.size.1 {
            let start = 3 * (y as usize * self.0.size.0 as usize + x as usize);
            let (red, green, blue) = color.rgb;
            for (pixel, new) in self.0.pixels[start..start + 3].iter_mut().zip([red, green, blue]) {
                *pixel = (color.alpha * f64::from(new) + (1.0 - color.alpha) * f64::from(*pixel)).round() as u8;
            }
        }
        Ok(())
    }

    fn draw_text<TStyle: BackendTextStyle>(&mut self, text: &str, style: &TStyle, pos: BackendCoord) -> Drawn {
        let (width, height) = cell(style);
        let length = width * text.chars().count() as i32;
        let anchor = style.anchor();
        let left = match anchor.h_pos {
            HPos::Left => 0,
            HPos::Right => -length,
            HPos::Center => -length / 2,
        };
        let top = match anchor.v_pos {
            VPos::Top => 0,
            VPos::Center => -height / 2,
            VPos::Bottom => -height,
        };
        for (number, letter) in (0..).zip(text.chars()) {
            let glyph = glyph(letter);
            for (row, column) in (0..height).flat_map(|row| (0..width).map(move |column| (row, column))) {
                if glyph[(8 * row / height) as usize] >> (8 * column / width) & 1 == 1 {
                    let (x, y) = style.transform().transform(left + number * width + column, top + row);
                    self.draw_pixel((pos.0 + x, pos.1 + y), style.color())?;
                }
            }
        }
        Ok(())
    }

    fn estimate_text_size<TStyle: BackendTextStyle>(
        &self,
        text: &str,
        style: &TStyle,
    ) -> Result<(u32, u32), DrawingErrorKind<Infallible>> {
        let (width, height) = cell(style);
        Ok((width as u32 * text.chars().count() as u32, height as u32))
    }
}

/// Width and height of a letter.
fn cell(style: &impl BackendTextStyle) -> (i32, i32) {
    let height = style.size().round().max(8.0) as i32;
    ((3 * height / 5).max(7), height)
}

/// The rows of a letter from the top; the lowest bit is the leftmost pixel.
fn glyph(letter: char) -> [u8; 8] {
    // The font lacks these.
    let letter = match letter {
        '–' | '—' | '−' => '-',
        '…' => '.',
        'ℓ' => 'l',
        other => other,
    };
    let find = || BASIC_FONTS.get(letter).or_else(|| LATIN_FONTS.get(letter)).or_else(|| GREEK_FONTS.get(letter));
    find().or_else(|| BASIC_FONTS.get('?')).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use plotters::prelude::*;

    #[test]
    fn text_and_lines_set_pixels_and_nothing_outside_the_image_panics() {
        let mut image = RasterImage::new((60, 40));
        {
            let root = RasterBackend(&mut image).into_drawing_area();
            root.draw(&Text::new("μ = 10²", (2, 2), ("sans-serif", 13))).unwrap();
            root.draw(&Text::new("outside", (50, 35), ("sans-serif", 13))).unwrap();
            root.draw(&PathElement::new(vec![(-5, -5), (100, 70)], BLACK.stroke_width(2))).unwrap();
        }
        let dark = image.pixels.iter().filter(|&&byte| byte == 0).count();
        assert!(dark > 100 && dark < image.pixels.len() / 2, "{dark}");
        let file = image.png().unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(&file)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut pixels).unwrap();
        assert_eq!(pixels, image.pixels);
    }
}
