//! Differences within the tolerance cost nothing and are no changes; constraints stay exact unless
//! the user names a tolerance for the feature.

mod support;

use ifonly_algebra::random::{RandomSource, SeededRandom};
use ifonly_client::WishList;
use ifonly_values::schema::{Feature, FeatureKind, Scale, Schema, Value};
use support::TestDatabase;

const MAX: f64 = 1000.0;

fn database(random: &mut SeededRandom) -> TestDatabase {
    let kind = FeatureKind::from(Scale::whole_numbers(0, MAX as i64).unwrap());
    let schema = Schema::new(["a", "b", "c"].map(|name| Feature::new(name, kind.clone())).into()).unwrap();
    let levels = (0..400).map(|_| (0..3).map(|_| 400 + random.below(200) as u16).collect()).collect();
    TestDatabase::with_levels(schema, levels, 2, |_| {})
}

/// The number of changes and the cost of a row, by the definition.
fn counted(row: &[u16], x: &[u32], tolerance: f64) -> (usize, f64) {
    let gaps = row.iter().zip(x).map(|(&y, &x)| (f64::from(y) - f64::from(x)).abs()).filter(|&gap| gap > tolerance);
    let gaps: Vec<f64> = gaps.collect();
    (gaps.len(), gaps.iter().map(|gap| (gap / MAX).powi(2)).sum())
}

fn wishes(size: Option<&str>) -> WishList {
    let tolerance = size.map(|size| ("*".to_owned(), Value::from(size))).into_iter().collect();
    WishList { tolerance, ..WishList::default() }
}

#[tokio::test]
async fn answers_are_the_nearest_when_small_differences_cost_nothing() {
    let mut random = SeededRandom::new(41);
    let database = database(&mut random);
    let client = database.connect().await;
    for (size, tolerance) in [(None, 5.0), (Some("3%"), 30.0), (Some("0"), 0.0)] {
        let mut small = 0;
        for _ in 0..12 {
            let x: Vec<u32> = (0..3).map(|_| 400 + random.below(200) as u32).collect();
            let answer = client.ask(&database.values(&x), &wishes(size)).await.unwrap();
            let costs = database.levels.iter().map(|row| counted(row, &x, tolerance).1);
            let least = costs.min_by(f64::total_cmp).unwrap();
            // The tie-break of a millionth may replace one row by another that is as near.
            assert!((answer.found[0].cost - least).abs() <= 1e-8, "{} {least}", answer.found[0].cost);
            for change in &answer.found[0].changes {
                let number = |value: &Value| value.to_string().parse::<f64>().unwrap();
                let gap = (number(&change.yours) - number(&change.theirs)).abs();
                assert_eq!(change.within_tolerance, gap <= tolerance);
                assert_eq!(change.within_tolerance, change.contribution == Some(0.0));
                small += usize::from(change.within_tolerance);
            }
            let mut few = wishes(size);
            few.max_changes = Some(1);
            let fewest = database.levels.iter().map(|row| counted(row, &x, tolerance)).filter(|(count, _)| *count <= 1);
            let fewest = fewest.min_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
            let found = client.ask(&database.values(&x), &few).await.unwrap();
            let found = found.found.first().map(|found| (found.changed, found.cost));
            assert_eq!(found.map(|found| found.0), fewest.map(|few| Some(few.0 as u64)));
            assert!(found.is_none_or(|found| (found.1 - fewest.unwrap().1).abs() <= 1e-8));
        }
        assert_eq!(small > 0, tolerance > 0.0);
    }
}

#[tokio::test]
async fn only_a_named_tolerance_loosens_constraints() {
    let mut random = SeededRandom::new(42);
    let database = database(&mut random);
    let client = database.connect().await;
    let x = [500, 500, 500];
    let matching = |wishes: WishList| {
        let (client, values) = (&client, database.values(&x));
        async move { client.ask(&values, &wishes).await.unwrap().matching_rows.unwrap() }
    };
    let rows = |permits: &dyn Fn(u16) -> bool| database.levels.iter().filter(|row| permits(row[0])).count();
    for (named, slack) in [(None, 0), (Some("*"), 0), (Some("a"), 20)] {
        let with = |change: &dyn Fn(&mut WishList)| {
            let tolerance = named.map(|name| (name.to_owned(), Value::from("2%"))).into_iter().collect();
            let mut wishes = WishList { tolerance, ..WishList::default() };
            change(&mut wishes);
            matching(wishes)
        };
        let stays = with(&|wishes| wishes.immutable = vec!["a".into()]).await;
        assert_eq!(stays, rows(&|a| a.abs_diff(500) <= slack));
        let up = with(&|wishes| wishes.only_up = vec!["a".into()]).await;
        assert_eq!(up, rows(&|a| a + slack >= 500));
        let down = with(&|wishes| wishes.only_down = vec!["a".into()]).await;
        assert_eq!(down, rows(&|a| a <= 500 + slack));
        let range = with(&|wishes| {
            wishes.ranges = [("a".to_owned(), (Some(Value::Number(450.0)), Some(Value::Number(480.0))))].into();
        });
        assert_eq!(range.await, rows(&|a| (450 - slack..=480 + slack).contains(&a)));
    }
}

#[tokio::test]
async fn invalid_tolerances_are_refused() {
    let mut random = SeededRandom::new(43);
    let database = database(&mut random);
    let client = database.connect().await;
    for (name, size) in [("a", "60%"), ("a", "-1"), ("a", "few"), ("*", "5"), ("*", "nan%"), ("d", "1%")] {
        let wishes = WishList { tolerance: [(name.to_owned(), Value::from(size))].into(), ..WishList::default() };
        assert!(client.check(&database.values(&[1, 2, 3]), &wishes).is_err(), "{name} {size}");
    }
}
