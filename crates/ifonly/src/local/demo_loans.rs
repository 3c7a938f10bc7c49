//! Random loan applications with a transparent decision rule, for the demo.
//!
//! A lender computes a score for an application and accepts it from a threshold on. The bundle of
//! the demo holds the accepted applications. The user of the demo is an applicant who was rejected.
//! A seed determines all applications.

use ifonly_algebra::random::{RandomSource, SeededRandom};
use ifonly_values::schema::{Feature, FeatureKind, Scale, ScaleError, Schema, SchemaError};

/// The decision rule in words.
pub(crate) const RULE: &str = "0.6·income + 0.3·savings − 0.45·debt − 0.9·amount (all in thousands) + 1.5·years employed − 9·late payments, +8 for owners: accepted from 20";

/// The highest income.
const MAX_INCOME: u64 = 120_000;
/// The highest savings and the highest debt.
const MAX_SAVINGS: u64 = 100_000;

/// A loan application.
#[derive(Clone, Debug)]
pub(crate) struct Application {
    age: u64,
    income: u64,
    savings: u64,
    debt: u64,
    amount: u64,
    years_employed: u64,
    late_payments: u64,
    owner: bool,
}

impl Application {
    /// A random application with plausible values.
    pub(crate) fn draw(random: &mut SeededRandom) -> Application {
        let age = 18 + random.below(53);
        let years_employed = random.below(age - 16).min(random.below(age - 16) + 2);
        // The limits are those of the scales in `schema`: no shown value is outside its scale.
        let income =
            14_000 + 100 * (random.below(250) + years_employed * random.below(25) + random.below(60) * random.below(8));
        let income = income.min(MAX_INCOME);
        let savings = income * random.below(101) / 100 * (age - 15) / 60 / 100 * 100;
        let savings = savings.min(MAX_SAVINGS);
        let debt = income * random.below(90) / 100 / 100 * 100;
        let debt = debt.min(MAX_SAVINGS);
        let amount = 1_000 + 500 * random.below(70);
        let late_payments = random.below(9).min(random.below(9)).min(random.below(9));
        let owner = random.below(100) < age.saturating_sub(15);
        Application { age, income, savings, debt, amount, years_employed, late_payments, owner }
    }

    /// The score times 10,000, so that the rule is exact in integers.
    fn score(&self) -> i64 {
        let part = |factor: i64, value: u64| factor * value as i64;
        part(6, self.income) + part(3, self.savings) - part(9, self.debt) / 2 - part(9, self.amount)
            + part(15_000, self.years_employed)
            - part(90_000, self.late_payments)
            + if self.owner { 80_000 } else { 0 }
    }

    /// Whether the lender accepts the application.
    pub(crate) fn accepted(&self) -> bool {
        self.score() >= 200_000
    }

    /// Whether the application is rejected with a score close to the threshold.
    pub(crate) fn narrowly_rejected(&self) -> bool {
        (0..150_000).contains(&self.score()) && !self.owner && self.late_payments > 0
    }

    /// The values by column, as in a table.
    pub(crate) fn texts(&self) -> Vec<String> {
        let housing = if self.owner { "own" } else { "rent" };
        let numbers =
            [self.age, self.income, self.savings, self.debt, self.amount, self.years_employed, self.late_payments];
        numbers.iter().map(u64::to_string).chain([housing.to_owned()]).collect()
    }
}

/// The schema of the columns.
pub(crate) fn schema() -> Result<Schema, SchemaError> {
    let feature = |name: &str, unit: &str, scale: Result<Scale, ScaleError>| {
        let invalid = |error: ScaleError| SchemaError::Invalid { feature: name.into(), reason: error.to_string() };
        Ok(Feature { unit: Some(unit.into()), ..Feature::new(name, scale.map_err(invalid)?.into()) })
    };
    let described = |feature: Feature, text: &str| Feature { description: Some(text.into()), ..feature };
    let years = |name: &str, unit: &str, max: i64| feature(name, unit, Scale::whole_numbers(0, max));
    let euros = |name: &str, unit: &str, max: f64| feature(name, unit, Scale::equal_steps(0.0, max, 250));
    let housing = FeatureKind::Categorical { categories: vec!["rent".into(), "own".into()], range: 50 };
    Schema::new(vec![
        Feature { suggest_immutable: true, ..years("age", "years", 80)? },
        described(euros("income", "€ a year", MAX_INCOME as f64)?, "Before tax, work and pensions"),
        described(euros("savings", "€", MAX_SAVINGS as f64)?, "All accounts together"),
        described(euros("debt", "€", MAX_SAVINGS as f64)?, "What you still owe elsewhere"),
        described(euros("amount", "€", 40_000.0)?, "The sum you asked for"),
        described(years("years_employed", "years", 60)?, "In your present job"),
        described(years("late_payments", "in two years", 10)?, "More than 30 days late"),
        Feature::new("housing", housing),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_applications_include_accepted_and_narrowly_rejected_ones() {
        let mut random = SeededRandom::new(1);
        let drawn: Vec<Application> = (0..2000).map(|_| Application::draw(&mut random)).collect();
        let accepted = drawn.iter().filter(|application| application.accepted()).count();
        assert!((400..1600).contains(&accepted), "{accepted} of 2000");
        assert!(drawn.iter().filter(|application| application.narrowly_rejected()).count() > 20);
        let schema = schema().unwrap();
        for application in &drawn {
            let texts = application.texts();
            assert_eq!(texts.len(), schema.columns().len());
            for (column, text) in schema.columns().iter().zip(&texts) {
                let mut levels = vec![];
                schema.encode_column(column, &text.as_str().into(), &mut levels).unwrap();
                assert!(levels.iter().all(|encoded| !encoded.clamped), "{} {text}", column.name);
            }
        }
    }
}
