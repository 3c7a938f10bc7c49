//! The notation of a column: how its numbers, dates or times are written.
//!
//! Records and profiles are parsed with the same notation. Dates count as days and times as seconds
//! since 1970-01-01.

/// A notation of numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Notation {
    /// Digits with an optional sign, decimal point and exponent.
    #[default]
    Plain,
    /// With a currency, a percent sign, thousands separators or a decimal comma. Plain numbers are
    /// accepted too.
    Formatted {
        /// Text before the number, such as `$`.
        prefix: String,
        /// Text after the number, such as `%`.
        suffix: String,
        /// Thousands separator.
        thousands: Option<char>,
        /// Decimal separator.
        decimal: char,
    },
    /// A date such as `2026-11-16`, as days since 1970-01-01.
    Date,
    /// A time such as `2026-11-16 10:30:00`, as seconds since 1970-01-01. No zone, or `Z`.
    Timestamp,
}

const SECONDS_PER_DAY: f64 = 86_400.0;

impl Notation {
    /// Parses a text; `None` if it is not in this notation.
    pub fn read(&self, text: &str) -> Option<f64> {
        let text = text.trim();
        match self {
            Notation::Plain => plain(text),
            Notation::Formatted { prefix, suffix, thousands, decimal } => {
                let is_clear = |_: &f64| self.two_readings(text).is_none();
                formatted(text, prefix, suffix, *thousands, *decimal).or_else(|| plain(text).filter(is_clear))
            }
            Notation::Date => days(text),
            Notation::Timestamp => seconds(text),
        }
    }

    /// The two readings of a plain number to which the separators of the column would give another
    /// value: that of the column first. Such a text is refused.
    pub(crate) fn two_readings(&self, text: &str) -> Option<[f64; 2]> {
        let Notation::Formatted { thousands, decimal, .. } = self else { return None };
        let text = text.trim();
        let (separated, plain) = (formatted(text, "", "", *thousands, *decimal)?, plain(text)?);
        (separated != plain).then_some([separated, plain])
    }

    /// Writes a number.
    pub fn write(&self, number: f64) -> String {
        match self {
            Notation::Plain => rounded(number),
            Notation::Formatted { prefix, suffix, thousands, decimal } => {
                let text = rounded(number);
                let (sign, digits) = text.strip_prefix('-').map_or(("", text.as_str()), |rest| ("-", rest));
                let (integer, fraction) = digits.split_once('.').unwrap_or((digits, ""));
                let integer = thousands.map_or_else(|| integer.to_owned(), |separator| grouped(integer, separator));
                let fraction = if fraction.is_empty() { String::new() } else { format!("{decimal}{fraction}") };
                format!("{sign}{prefix}{integer}{fraction}{suffix}")
            }
            Notation::Date => date(number).unwrap_or_else(|| rounded(number)),
            Notation::Timestamp => {
                let day = (number / SECONDS_PER_DAY).floor();
                let rest = (number - day * SECONDS_PER_DAY).floor() as u32;
                let time = format!("{:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60);
                date(day).map_or_else(|| rounded(number), |date| format!("{date} {time}"))
            }
        }
    }

    /// What a text in this notation is, for error messages.
    pub(crate) fn example(&self) -> &'static str {
        match self {
            Notation::Plain | Notation::Formatted { .. } => "a number",
            Notation::Date => "a date such as 2026-11-16",
            Notation::Timestamp => "a date and time such as 2026-11-16 10:30:00",
        }
    }
}

/// A finite number; −0 is 0.
fn plain(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite()).map(|number| number + 0.0)
}

/// The number with 12 significant digits, which hides rounding errors of doubles.
fn rounded(number: f64) -> String {
    let rounded: f64 = format!("{number:.11e}").parse().unwrap_or(number);
    format!("{}", rounded + 0.0)
}

fn grouped(digits: &str, separator: char) -> String {
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(separator);
        }
        text.push(digit);
    }
    text
}

fn formatted(text: &str, prefix: &str, suffix: &str, thousands: Option<char>, decimal: char) -> Option<f64> {
    // The sign may be before or after a currency: -$5 and $-5. In accounting, (5) means -5.
    let (negative, text) = match text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        Some(inner) => (true, inner),
        None => text.strip_prefix('-').map_or((false, text), |rest| (true, rest)),
    };
    let text = text.strip_prefix(prefix)?.trim_start();
    let text = text.strip_suffix(suffix)?.trim_end();
    let (inner_sign, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    if negative && inner_sign {
        return None;
    }
    let (integer, fraction) = text.split_once(decimal).unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let integer = match thousands {
        Some(separator) if integer.contains(separator) => {
            let groups: Vec<&str> = integer.split(separator).collect();
            let (first, rest) = groups.split_first()?;
            let valid = (1..=3).contains(&first.len()) && rest.iter().all(|group| group.len() == 3);
            valid.then(|| groups.concat())?
        }
        _ => integer.to_owned(),
    };
    if integer.is_empty() && fraction.is_empty() || !digits(&integer) || !digits(fraction) {
        return None;
    }
    let number: f64 = format!("0{integer}.{fraction}0").parse().ok()?;
    Some(if negative || inner_sign { 0.0 - number } else { number } + 0.0)
}

fn days(text: &str) -> Option<f64> {
    let mut parts = text.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    let digits = |text: &str, length| text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit());
    if parts.next().is_some() || !digits(year, 4) || !digits(month, 2) || !digits(day, 2) {
        return None;
    }
    let month = time::Month::try_from(month.parse::<u8>().ok()?).ok()?;
    let date = time::Date::from_calendar_date(year.parse().ok()?, month, day.parse().ok()?).ok()?;
    Some(f64::from(date.to_julian_day() - epoch()))
}

fn seconds(text: &str) -> Option<f64> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (date, clock) = text.split_once(['T', ' ']).unwrap_or((text, "00:00:00"));
    let mut parts = clock.splitn(3, ':');
    let (hours, minutes) = (parts.next()?, parts.next()?);
    let (seconds, fraction) = parts.next().map_or(("00", ""), |text| text.split_once('.').unwrap_or((text, "")));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let number = |text: &str| (text.len() == 2 && digits(text)).then(|| text.parse::<u8>().ok())?;
    if !digits(fraction) {
        return None;
    }
    let time = time::Time::from_hms(number(hours)?, number(minutes)?, number(seconds)?).ok()?;
    let (hours, minutes, seconds) = time.as_hms();
    let time_of_day = u32::from(hours) * 3600 + u32::from(minutes) * 60 + u32::from(seconds);
    let fraction: f64 = format!("0.{fraction}0").parse().ok()?;
    Some(days(date)? * SECONDS_PER_DAY + f64::from(time_of_day) + fraction)
}

fn date(days: f64) -> Option<String> {
    let julian = epoch().checked_add(i32::try_from(days.floor() as i64).ok()?)?;
    let date = time::Date::from_julian_day(julian).ok().filter(|date| (0..=9999).contains(&date.year()))?;
    Some(format!("{:04}-{:02}-{:02}", date.year(), u8::from(date.month()), date.day()))
}

/// 1970-01-01 as a Julian day.
fn epoch() -> i32 {
    2_440_588
}

#[cfg(test)]
mod tests {
    use super::*;

    fn money() -> Notation {
        Notation::Formatted { prefix: "$".into(), suffix: String::new(), thousands: Some(','), decimal: '.' }
    }

    #[test]
    fn money_percentages_and_decimal_commas_are_parsed_and_written() {
        for (text, number) in [
            ("$1,234.50", Some(1234.5)),
            ("$ 12", Some(12.0)),
            ("-$5", Some(-5.0)),
            ("$-5", Some(-5.0)),
            ("($1,000)", Some(-1000.0)),
            ("1234.5", Some(1234.5)),
            ("$1,23", None),
            ("$12,3456", None),
            ("-$-5", None),
            ("$", None),
            ("$1.2.3", None),
            ("€5", None),
        ] {
            assert_eq!(money().read(text), number, "{text}");
        }
        assert_eq!((money().write(1234567.5), money().write(-20.0)), ("$1,234,567.5".into(), "-$20".into()));
        let percent = Notation::Formatted { prefix: String::new(), suffix: "%".into(), thousands: None, decimal: '.' };
        assert_eq!(
            (percent.read("12.5 %"), percent.read("12.5"), percent.write(3.0)),
            (Some(12.5), Some(12.5), "3%".into())
        );
        let german =
            Notation::Formatted { prefix: String::new(), suffix: "€".into(), thousands: Some('.'), decimal: ',' };
        // 1.5 or 1500: both readings are possible.
        assert_eq!((german.two_readings("1.500"), german.two_readings("1.5")), (Some([1500.0, 1.5]), None));
        assert_eq!((german.read("1.500"), german.read("1.5"), german.read("1500")), (None, Some(1.5), Some(1500.0)));
        assert_eq!((german.read("1.234,5 €"), german.write(1234.5)), (Some(1234.5), "1.234,5€".into()));
        assert_eq!((Notation::Plain.read("1,5"), Notation::Plain.write(0.1 + 0.2)), (None, "0.3".into()));
        assert!(Notation::Plain.read("-0").is_some_and(f64::is_sign_positive));
    }

    #[test]
    fn dates_are_days_and_times_are_seconds() {
        for (text, number) in [
            ("1970-01-01", Some(0.0)),
            ("1969-12-31", Some(-1.0)),
            ("2024-02-29", Some(19_782.0)),
            ("2023-02-29", None),
            ("2024-2-29", None),
            ("24-02-29", None),
            ("2024-02-29-01", None),
            ("20240229", None),
        ] {
            assert_eq!(Notation::Date.read(text), number, "{text}");
        }
        assert_eq!(Notation::Date.write(19_782.0), "2024-02-29");
        assert_eq!(Notation::Date.write(1e15), "1000000000000000");
        for (text, number) in [
            ("1970-01-02 00:00:01", Some(86_401.0)),
            ("1970-01-02T01:00:00Z", Some(90_000.0)),
            ("1970-01-01 10:30", Some(37_800.0)),
            ("1970-01-01T00:00:00.5", Some(0.5)),
            ("1970-01-02", Some(86_400.0)),
            ("1970-01-02 25:00:00", None),
            ("1970-01-02 1:00", None),
            ("1970-01-02 +1:+0:00", None),
            ("x", None),
        ] {
            assert_eq!(Notation::Timestamp.read(text), number, "{text}");
        }
        assert_eq!(Notation::Timestamp.write(90_061.0), "1970-01-02 01:01:01");
        assert_eq!(Notation::Timestamp.write(-1.0), "1969-12-31 23:59:59");
    }
}
