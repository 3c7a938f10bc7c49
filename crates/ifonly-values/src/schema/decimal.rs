//! Exact decimals, which manifests use for the edges of levels.
//!
//! A decimal is `mantissa · 10^exponent`. It has exactly one text ("0.25", "-3", "12000"), so that
//! equal scales have equal manifests. Comparisons use IEEE doubles: a decimal counts as the nearest
//! double, like the text of a value.

/// A decimal number. Its mantissa does not end in 0, unless it is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Decimal {
    mantissa: i64,
    exponent: i32,
}

impl Decimal {
    /// Maximum absolute exponent. Larger numbers do not occur in real data.
    const MAX_EXPONENT: i32 = 300;

    /// `mantissa · 10^exponent`.
    pub fn new(mut mantissa: i64, mut exponent: i32) -> Decimal {
        if mantissa == 0 {
            return Decimal { mantissa: 0, exponent: 0 };
        }
        while mantissa % 10 == 0 {
            (mantissa, exponent) = (mantissa / 10, exponent + 1);
        }
        Decimal { mantissa, exponent }
    }

    /// Parses digits with an optional sign and an optional decimal point. `None` for other texts
    /// and for more than 18 significant digits.
    pub fn parse(text: &str) -> Option<Decimal> {
        let (sign, digits) = match text.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, text.strip_prefix('+').unwrap_or(text)),
        };
        let (integer, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let fraction = fraction.trim_end_matches('0');
        let all: String = [integer, fraction].concat();
        if !digits.bytes().any(|byte| byte.is_ascii_digit()) || !all.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let significant = all.trim_start_matches('0');
        if significant.len() > 18 || fraction.len() > Self::MAX_EXPONENT as usize {
            return None;
        }
        let mantissa: i64 = if significant.is_empty() { 0 } else { significant.parse().ok()? };
        Some(Decimal::new(sign * mantissa, -(fraction.len() as i32)))
    }

    /// The shortest decimal that parses to this double. `None` if it is not finite or its exponent
    /// is too large.
    pub fn of(number: f64) -> Option<Decimal> {
        if !number.is_finite() {
            return None;
        }
        let text = format!("{number:e}");
        let (digits, exponent) = text.split_once('e')?;
        let decimal = Decimal::parse(digits)?;
        let exponent = decimal.exponent.checked_add(exponent.parse().ok()?)?;
        (exponent.abs() <= Self::MAX_EXPONENT).then(|| Decimal::new(decimal.mantissa, exponent))
    }

    /// The nearest double.
    pub(crate) fn number(self) -> f64 {
        // An integer with an exponent is always a valid text of a double.
        format!("{}e{}", self.mantissa, self.exponent).parse().unwrap_or(f64::NAN)
    }

    /// The power of ten of the last digit.
    pub fn exponent(self) -> i32 {
        self.exponent
    }

    /// This number as a multiple of `10^exponent`. `None` if it is not a multiple or on overflow.
    pub fn units(self, exponent: i32) -> Option<i128> {
        if self.mantissa == 0 {
            return Some(0);
        }
        let shift = u32::try_from(self.exponent.checked_sub(exponent)?).ok()?;
        i128::from(self.mantissa).checked_mul(10i128.checked_pow(shift)?)
    }

    /// The decimal `units · 10^exponent`. `None` if the mantissa overflows.
    pub fn from_units(units: i128, exponent: i32) -> Option<Decimal> {
        let (mut units, mut exponent) = (units, exponent);
        while units != 0 && units % 10 == 0 {
            (units, exponent) = (units / 10, exponent + 1);
        }
        Some(Decimal::new(i64::try_from(units).ok()?, exponent))
    }
}

impl std::fmt::Display for Decimal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = if self.mantissa < 0 { "-" } else { "" };
        let digits = self.mantissa.unsigned_abs().to_string();
        if self.exponent >= 0 {
            return write!(f, "{sign}{digits}{}", "0".repeat(self.exponent as usize));
        }
        let decimals = self.exponent.unsigned_abs() as usize;
        let padded = format!("{digits:0>width$}", width = decimals + 1);
        let (integer, fraction) = padded.split_at(padded.len() - decimals);
        write!(f, "{sign}{integer}.{fraction}")
    }
}

impl TryFrom<String> for Decimal {
    type Error = String;

    fn try_from(text: String) -> Result<Decimal, String> {
        let shown = || text.chars().take(40).collect::<String>();
        // `Decimal::parse` refuses large integers that end in zeros. No valid text is longer than
        // 400 bytes.
        let decimal = if text.len() <= 400 { Decimal::parse(&text).or_else(|| parse_large(&text)) } else { None };
        let decimal =
            decimal.ok_or_else(|| format!("{:?} is not a decimal number of at most 18 significant digits", shown()))?;
        if decimal.to_string() == text {
            Ok(decimal)
        } else {
            Err(format!("{:?} is not in canonical form; write {decimal}", shown()))
        }
    }
}

/// Parses an integer of many digits that ends in zeros.
fn parse_large(text: &str) -> Option<Decimal> {
    let digits = text.trim_end_matches('0');
    let exponent = i32::try_from(text.len() - digits.len()).ok()?;
    let decimal = Decimal::parse(digits).filter(|decimal| decimal.exponent >= 0)?;
    Some(Decimal::new(decimal.mantissa, decimal.exponent + exponent))
}

impl From<Decimal> for String {
    fn from(decimal: Decimal) -> String {
        decimal.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_decimal_has_one_text_that_round_trips() {
        for (text, shown) in [
            ("0", "0"),
            ("-0.0", "0"),
            ("12.50", "12.5"),
            (".5", "0.5"),
            ("5.", "5"),
            ("+3", "3"),
            ("-0.001", "-0.001"),
            ("1200", "1200"),
            ("007", "7"),
        ] {
            let decimal = Decimal::parse(text).unwrap();
            assert_eq!(decimal.to_string(), shown);
            assert_eq!(decimal.number(), text.parse::<f64>().unwrap());
            assert_eq!(Decimal::try_from(shown.to_owned()), Ok(decimal));
        }
        for text in ["", ".", "-", "1e3", "1,5", "a", "1234567890123456789", "0.1234567890123456789"] {
            assert_eq!(Decimal::parse(text), None, "{text}");
        }
        for text in ["1.0", "01", "+1", "-0", "x", "1e3"] {
            assert!(Decimal::try_from(text.to_owned()).is_err(), "{text}");
        }
        let large = Decimal::new(12, 40);
        assert_eq!(Decimal::try_from(large.to_string()), Ok(large));
    }

    #[test]
    fn doubles_become_the_shortest_decimals() {
        for number in [0.1, 0.3, 1e21, 1e-7, 123456.789, -2.5, 0.0, 9.53333333333333] {
            assert_eq!(Decimal::of(number).unwrap().number(), number);
        }
        assert_eq!(Decimal::of(0.1).unwrap().to_string(), "0.1");
        assert_eq!((Decimal::of(f64::NAN), Decimal::of(f64::INFINITY), Decimal::of(1e-310)), (None, None, None));
    }

    #[test]
    fn units_are_exact_multiples() {
        assert_eq!(Decimal::parse("1.25").unwrap().units(-3), Some(1250));
        assert_eq!(Decimal::parse("1.25").unwrap().units(-1), None);
        assert_eq!(Decimal::from_units(1250, -3), Decimal::parse("1.25"));
        assert_eq!(Decimal::new(1, 300).units(-300), None);
    }
}
