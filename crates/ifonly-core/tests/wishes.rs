//! Wishes in people's words: the private answer equals a plain filter-and-sort over the rows, and what cannot be is refused.

mod common;

use common::{chance, play};
use ifonly_core::candidates::Price;
use ifonly_core::deployment::Deployment;
use ifonly_core::form::Rows;
use ifonly_core::params::Params;
use ifonly_core::prime::FieldRule;
use ifonly_core::random::{Random, SeededRandom};
use ifonly_core::schema::{Feature, Kind, OneHot, Quantiser, Schema, Value};
use ifonly_core::scheme::{self, Scheme};
use ifonly_core::wishes::{Pricing, WishError, Wishes};

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|&word| word.to_owned()).collect()
}

fn schema() -> Schema {
    let numeric = |name: &str, levels, mad| {
        let kind = Kind::Numeric { min: 0.0, max: f64::from(levels), levels, quantiser: Quantiser::Round };
        Feature { mad: Some(mad), ..Feature::new(name, kind) }
    };
    let one_hot = |category: &str| {
        let kind = Kind::Categorical { categories: words(&["no", "yes"]), range: 3 };
        let part = OneHot { column: "region".into(), category: category.into() };
        Feature { one_hot: Some(part), ..Feature::new(format!("region={category}"), kind) }
    };
    let categorical =
        |name: &str, list: &[&str], range| Feature::new(name, Kind::Categorical { categories: words(list), range });
    Schema::new(vec![
        numeric("age", 9, 2.0),
        numeric("income", 12, 0.5),
        Feature::new("grade", Kind::Ordinal { ranks: words(&["low", "middle", "high"]) }),
        categorical("sex", &["f", "m"], 4),
        categorical("job", &["none", "part", "full"], 5),
        one_hot("north"),
        one_hot("south"),
    ])
    .unwrap()
}

/// A random value of the whole row, as levels.
fn row(random: &mut SeededRandom) -> Vec<u16> {
    let mut row = vec![random.below(10), random.below(13), random.below(3), 4 * random.below(2), random.below(3)];
    let north = random.below(2);
    row.extend([3 * north, 3 * (1 - north)]);
    row.into_iter().map(|level| level as u16).collect()
}

/// Own level, row's level: whether the row goes.
type Rule = Box<dyn Fn(i64, i64) -> bool>;

/// The same wishes a second time, as plainly as possible.
#[derive(Default)]
struct Plain {
    rules: Vec<(usize, Rule)>,
    weights: Vec<(i64, i64)>,
    pricing: Vec<Pricing>,
    few: bool,
}

impl Plain {
    fn cost(&self, schema: &Schema, x: &[i64], y: &[i64]) -> Option<(i64, i64)> {
        if self.rules.iter().any(|(k, forbids)| forbids(x[*k], y[*k])) {
            return None;
        }
        let mut total = 0;
        for (k, feature) in schema.features().iter().enumerate() {
            // Region is one column in two features; only squared distances see both.
            if feature.one_hot.is_some() && self.pricing[k] != Pricing::L2 && x[k] == 0 {
                continue;
            }
            let gap = match feature.kind {
                Kind::Categorical { range, .. } if x[k] != y[k] => i64::from(range),
                _ => (x[k] - y[k]).abs(),
            };
            let price = match self.pricing[k] {
                Pricing::L2 => gap * gap,
                Pricing::L1 => gap,
                Pricing::Mad if feature.is_categorical() => i64::from(gap != 0) * 100,
                Pricing::Mad => (100.0 * gap as f64 / feature.mad.unwrap()).round() as i64,
                Pricing::Count => i64::from(gap != 0),
                Pricing::Step(free) if gap > i64::from(free) => i64::from(feature.full_range()),
                Pricing::Step(_) => 0,
            };
            total += price * if y[k] >= x[k] { self.weights[k].0 } else { self.weights[k].1 };
        }
        let columns = [0..1, 1..2, 2..3, 3..4, 4..5, 5..7];
        let changed = columns.into_iter().filter(|column| x[column.clone()] != y[column.clone()]).count();
        Some((if self.few { changed as i64 } else { 0 }, total))
    }
}

fn random_wishes(schema: &Schema, random: &mut SeededRandom) -> (Wishes, Plain) {
    let mut wishes = Wishes::new(schema);
    let d = schema.features().len();
    let mut plain = Plain { weights: vec![(1, 1); d], pricing: vec![Pricing::L2; d], ..Plain::default() };
    let names = ["age", "income", "grade", "sex", "job", "region"];
    let places = |name: &str| schema.named(name).unwrap();
    for name in names {
        if chance(random, 20) {
            wishes.immutable(name).unwrap();
            places(name).for_each(|k| plain.rules.push((k, Box::new(|x, y| x != y))));
        }
        if chance(random, 25) {
            let weight = 1 + random.below(4);
            wishes.weight(name, weight).unwrap();
            places(name).for_each(|k| plain.weights[k] = (weight as i64, weight as i64));
        }
    }
    if chance(random, 25) {
        wishes.only_up("age").unwrap();
        plain.rules.push((0, Box::new(|x, y| y < x)));
    }
    if chance(random, 25) {
        wishes.only_down("grade").unwrap();
        plain.rules.push((2, Box::new(|x, y| y > x)));
    }
    if chance(random, 30) {
        let (low, high) = (random.below(7) as i64, 6 + random.below(7) as i64);
        wishes.permitted_range("income", Some(&(low as f64).into()), Some(&(high as f64).into())).unwrap();
        plain.rules.push((1, Box::new(move |_, y| y < low || y > high)));
    }
    if chance(random, 20) {
        wishes.permitted_values("job", &["part".into(), "full".into()]).unwrap();
        plain.rules.push((4, Box::new(|_, y| y == 0)));
    }
    if chance(random, 15) {
        wishes.permitted_values("region", &["north".into()]).unwrap();
        plain.rules.push((5, Box::new(|_, y| y != 3)));
    }
    if chance(random, 20) {
        wishes.asymmetric("income", 3, 1).unwrap();
        plain.weights[1] = (3, 1);
    }
    if chance(random, 40) {
        for name in ["age", "income"] {
            let pricing =
                [Pricing::L1, Pricing::L2, Pricing::Mad, Pricing::Count, Pricing::Step(2)][random.below(5) as usize];
            wishes.price(name, pricing).unwrap();
            places(name).for_each(|k| plain.pricing[k] = pricing);
        }
    }
    if chance(random, 20) {
        let pricing = if chance(random, 50) { Pricing::L1 } else { Pricing::Count };
        wishes.price_all(pricing);
        plain.pricing.fill(pricing);
    }
    if chance(random, 20) {
        wishes.few_changes(3);
        plain.few = true;
    }
    (wishes, plain)
}

#[test]
fn the_private_answer_equals_a_plain_filter_and_sort() {
    let seed = std::env::var("IFONLY_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut random = SeededRandom::new(seed);
    let schema = schema();
    let mut seen = std::collections::BTreeMap::new();
    for number in 0..3_000 {
        let context = format!("seed {seed}, instance {number}");
        let rows: Vec<Vec<u16>> = (0..1 + random.below(14)).map(|_| row(&mut random)).collect();
        let x: Vec<u32> = row(&mut random).into_iter().map(u32::from).collect();
        let (wishes, plain) = random_wishes(&schema, &mut random);
        let params = Params { weight_limit: 5, cost_limit: 200_000, ..Params::new(schema.ranges(), rows.len()) };
        let scheme: &'static Scheme =
            if chance(&mut random, 50) { wishes.smallest_scheme() } else { scheme::named("gated-tables").unwrap() };
        let compiled = match wishes.compile(&x, scheme, &params) {
            Err(WishError::Impossible { .. }) => {
                // Only where the person's own place and the permitted set exclude each other.
                *seen.entry("impossible").or_insert(0) += 1;
                continue;
            }
            compiled => compiled.expect(&context),
        };
        *seen.entry(scheme.name).or_insert(0) += 1;
        let deployment = Deployment::new(scheme, params, FieldRule::Deployment).unwrap();
        let stored = Rows::new(&schema.ranges(), &rows).unwrap();
        let (candidates, _) = play(&deployment, &compiled.secret, &stored, &mut random, |_, _| {}).expect(&context);
        let own: Vec<i64> = x.iter().map(|&level| level.into()).collect();
        let mut expected: Vec<((i64, i64), usize)> = rows
            .iter()
            .enumerate()
            .filter_map(|(place, row)| {
                let row: Vec<i64> = row.iter().map(|&level| level.into()).collect();
                Some((plain.cost(&schema, &own, &row)?, place))
            })
            .collect();
        expected.sort_unstable();
        let found: Vec<((i64, i64), usize)> = candidates
            .nearest(rows.len())
            .into_iter()
            .map(|(place, price)| {
                let Price::Exactly(cost) = price else { panic!("{context}") };
                let changes = compiled.changes(cost).unwrap_or(0);
                assert_eq!(compiled.accepts(cost), !plain.few || changes <= 3);
                ((changes as i64, compiled.distance(cost) as i64), place)
            })
            .collect();
        assert_eq!(found, expected, "{}: {context}", scheme.name);
    }
    // Every form has been used.
    for name in ["gated-tables", "gated-costs", "table", "impossible"] {
        assert!(seen.contains_key(name), "{name} never came up: {seen:?}");
    }
}

#[test]
fn wishes_compile_to_the_smallest_form() {
    let numeric = |name: &str| {
        let kind = Kind::Numeric { min: 0.0, max: 9.0, levels: 9, quantiser: Quantiser::Round };
        Feature::new(name, kind)
    };
    let schema = Schema::new(vec![numeric("a"), numeric("b")]).unwrap();
    let smallest = |change: &dyn Fn(&mut Wishes)| {
        let mut wishes = Wishes::new(&schema);
        change(&mut wishes);
        wishes.smallest_scheme().name
    };
    assert_eq!(smallest(&|_| {}), "baseline");
    assert_eq!(smallest(&|w| drop(w.weight("a", 2))), "linear-baseline+");
    assert_eq!(smallest(&|w| drop(w.immutable("a"))), "gated");
    assert_eq!(smallest(&|w| drop(w.immutable("a").unwrap().weight("b", 2))), "gated+");
    assert_eq!(smallest(&|w| drop(w.only_up("a"))), "gated-ranges");
    assert_eq!(smallest(&|w| drop(w.only_up("a").unwrap().weight("b", 2))), "gated-ranges+");
    assert_eq!(smallest(&|w| drop(w.price("a", Pricing::L1))), "table");
    assert_eq!(smallest(&|w| drop(w.price("a", Pricing::L1).unwrap().immutable("b"))), "gated-costs");
    assert_eq!(smallest(&|w| drop(w.price("a", Pricing::L1).unwrap().only_down("b"))), "gated-tables");
    assert_eq!(smallest(&|w| drop(w.asymmetric("a", 1, 2))), "table");
    assert_eq!(smallest(&|w| drop(w.features_to_vary(&["b"]))), "gated");
}

#[test]
fn ranges_are_narrowed_to_levels_inside_them() {
    let kind = Kind::Numeric { min: 0.0, max: 100.0, levels: 10, quantiser: Quantiser::Round };
    let schema = Schema::new(vec![Feature::new("a", kind)]).unwrap();
    let params = Params { cost_limit: 1000, ..Params::new(vec![10], 11) };
    let scheme = scheme::named("gated-tables").unwrap();
    let rows = Rows::new(&[10], (0..=10).map(|level| [level])).unwrap();
    let deployment = Deployment::new(scheme, params.clone(), FieldRule::Deployment).unwrap();
    for (low, high, first, last) in [(24.0, 76.0, 3, 7), (20.0, 80.0, 2, 8), (-5.0, 4.0, 0, 0), (96.0, 500.0, 10, 10)] {
        let mut wishes = Wishes::new(&schema);
        wishes.permitted_range("a", Some(&Value::Number(low)), Some(&Value::Number(high))).unwrap();
        let secret = wishes.compile(&[5], scheme, &params).unwrap().secret;
        let (candidates, _) = play(&deployment, &secret, &rows, &mut SeededRandom::new(1), |_, _| {}).unwrap();
        let expected: Vec<bool> = (0..=10).map(|level| (first..=last).contains(&level)).collect();
        assert_eq!(candidates.theta(), expected, "{low}..{high}");
    }
}

#[test]
fn a_deviation_is_only_needed_for_what_may_change() {
    let schema = schema();
    let params = Params { weight_limit: 5, cost_limit: 200_000, ..Params::new(schema.ranges(), 3) };
    let mut wishes = Wishes::new(&schema);
    wishes.price_all(Pricing::Mad);
    let compile =
        |wishes: &Wishes| wishes.compile(&[5, 6, 1, 4, 1, 3, 0], scheme::named("gated-tables").unwrap(), &params);
    assert_eq!(compile(&wishes).unwrap_err(), WishError::NoMad { feature: "grade".into() });
    wishes.immutable("grade").unwrap();
    compile(&wishes).unwrap();
}

#[test]
fn impossible_wishes_are_refused_with_the_reason() {
    let schema = schema();
    let params = Params { weight_limit: 5, cost_limit: 2_000, ..Params::new(schema.ranges(), 3) };
    let x = [5, 6, 1, 4, 1, 3, 0];
    let tables = scheme::named("gated-tables").unwrap();
    let refused = |scheme: &str, change: &dyn Fn(&mut Wishes) -> Result<(), WishError>| {
        let mut wishes = Wishes::new(&schema);
        let compiled = change(&mut wishes).and_then(|()| wishes.compile(&x, scheme::named(scheme).unwrap(), &params));
        compiled.unwrap_err().to_string()
    };
    let age = |low: f64, high: f64| {
        move |w: &mut Wishes| w.permitted_range("age", Some(&Value::Number(low)), Some(&Value::Number(high))).map(drop)
    };
    assert_eq!(
        refused("gated-tables", &|w| w.immutable("incme").map(drop)),
        "there is no feature \"incme\"; did you mean \"income\"?"
    );
    assert_eq!(
        refused("gated-tables", &|w| w.weight("age", 0).map(drop)),
        "feature \"age\": weight 0 is not in 1..=5, the manifest's limit"
    );
    assert_eq!(
        refused("gated-tables", &|w| w.weight("age", 6).map(drop)),
        "feature \"age\": weight 6 is not in 1..=5, the manifest's limit"
    );
    let empty = "feature \"age\": the permitted range holds none of its levels; widen it or swap its ends";
    assert_eq!(refused("gated-tables", &age(7.0, 3.0)), empty);
    assert_eq!(refused("gated-tables", &age(20.0, 30.0)), empty);
    assert_eq!(refused("gated-tables", &age(-3.0, -1.0)), empty);
    assert_eq!(refused("gated-tables", &age(4.2, 4.8)), empty);
    assert_eq!(
        refused("gated-tables", &|w| w.permitted_values("age", &[Value::Number(500.0)]).map(drop)),
        "feature \"age\": a permitted value is outside the feature's bounds"
    );
    assert_eq!(
        refused("gated-tables", &|w| age(7.0, 9.0)(w).and_then(|()| w.only_down("age").map(drop))),
        "feature \"age\": the wishes leave no permitted value; relax one of them"
    );
    assert_eq!(
        refused("gated-tables", &|w| w.permitted_values("job", &[]).map(drop)),
        "feature \"job\": the wishes leave no permitted value; relax one of them"
    );
    assert_eq!(
        refused("gated-tables", &|w| w.only_up("job").map(drop)),
        "feature \"job\" has no order, so it has no direction; permit a set of values instead"
    );
    assert_eq!(
        refused("gated-tables", &|w| w.price("grade", Pricing::Mad).map(drop)),
        "feature \"grade\" has no MAD in the manifest, or it is 0; choose another cost for it"
    );
    assert!(
        refused("gated-tables", &|w| w.few_changes(2).price("income", Pricing::Mad).map(drop)).contains("cost limit")
    );
    assert_eq!(
        refused("gated-costs", &|w| w.only_up("age").map(drop)),
        "scheme gated-costs cannot carry permitted ranges, sets or directions; gated-tables can (the servers see which \
         scheme is asked for)"
    );
    let mut wishes = Wishes::new(&schema);
    wishes.few_changes(2).price_all(Pricing::L1);
    wishes.compile(&x, tables, &params).unwrap();
}
