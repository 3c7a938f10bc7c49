//! Wishes in values: the result of a private search satisfies them and equals that of a plain
//! filter and sort over the rows. Impossible wishes are refused.

use ifonly_algebra::field::ModulusRule;
use ifonly_algebra::keys::RootKey;
use ifonly_algebra::random::{RandomSource, SeededRandom};
use ifonly_algebra::row_function::Rows;
use ifonly_core::cost_check::confirm;
use ifonly_core::memory::{MemoryServer, levels};
use ifonly_core::params::Params;
use ifonly_core::scheme::instance::SchemeInstance;
use ifonly_core::scheme::{self, Scheme};
use ifonly_core::search::Search;
use ifonly_core::secret_query::SecretQuery;
use ifonly_values::schema::{
    Decimal, Deviation, DeviationKind, EdgeRun, EncodedValue, Feature, FeatureKind, OneHot, Quantiser, Scale,
    ScaleLayout, Schema, Value,
};
use ifonly_values::wishes::{CompiledWishes, Metric, WishError, Wishes};

/// With this limit, the sum of seven features fits into 40 bits.
const COST_LIMIT: u64 = (1 << 40) / 8;

fn chance(random: &mut SeededRandom, percent: u64) -> bool {
    random.below(100) < percent
}

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|&word| word.to_owned()).collect()
}

/// The scale of income: intervals of 10 up to 100, and of 100 up to 1,000.
fn income() -> Scale {
    let run = |step, count| EdgeRun { step: Decimal::new(step, 0), count };
    Scale::new(ScaleLayout::Edges { from: Decimal::new(0, 0), runs: vec![run(10, 10), run(100, 9)] }).unwrap()
}

fn schema() -> Schema {
    let numeric = |name: &str, scale: Scale, value| {
        let deviation = Some(Deviation { value, of: DeviationKind::Median });
        Feature { deviation, ..Feature::new(name, scale.into()) }
    };
    let one_hot = |category: &str| {
        let kind = FeatureKind::Categorical { categories: words(&["no", "yes"]), range: 3 };
        let part = OneHot { column: "region".into(), category: category.into() };
        Feature { one_hot: Some(part), ..Feature::new(format!("region={category}"), kind) }
    };
    let categorical = |name: &str, list: &[&str], range| {
        Feature::new(name, FeatureKind::Categorical { categories: words(list), range })
    };
    Schema::new(vec![
        numeric("age", Scale::whole_numbers(18, 68).unwrap(), 2.0),
        numeric("income", income(), 12.5),
        Feature::new("grade", FeatureKind::Ordinal { ranks: words(&["low", "middle", "high"]) }),
        categorical("sex", &["f", "m"], 4),
        categorical("job", &["none", "part", "full"], 5),
        one_hot("north"),
        one_hot("south"),
    ])
    .unwrap()
}

const COLUMNS: [&str; 6] = ["age", "income", "grade", "sex", "job", "region"];
const GRADES: [&str; 3] = ["low", "middle", "high"];
const JOBS: [&str; 3] = ["none", "part", "full"];

/// The values of a person as numbers: age, income, grade, sex, job, region.
type Person = [f64; 6];

fn person(random: &mut SeededRandom) -> Person {
    let income = random.below(1001) as f64 / if chance(random, 50) { 1.0 } else { 20.0 };
    let word = |random: &mut SeededRandom, count| random.below(count) as f64;
    [18.0 + random.below(51) as f64, income, word(random, 3), word(random, 2), word(random, 3), word(random, 2)]
}

fn encode(schema: &Schema, person: &Person) -> Vec<EncodedValue> {
    let value = |name: &str| -> Value {
        let [age, income, grade, sex, job, region] = *person;
        match name {
            "age" => age.into(),
            "income" => income.into(),
            "grade" => GRADES[grade as usize].into(),
            "sex" => ["f", "m"][sex as usize].into(),
            "job" => JOBS[job as usize].into(),
            _ => ["north", "south"][region as usize].into(),
        }
    };
    schema.encode(|name| Some(value(name))).unwrap()
}

/// Whether a row is excluded, by the own value and the value of the row.
type Rule = Box<dyn Fn(f64, f64) -> bool>;

/// The same wishes in the simplest form, in values, as the reference.
struct Reference {
    rules: Vec<(usize, Rule)>,
    weights: [(f64, f64); 6],
    metrics: [Metric; 6],
    limits_changes: bool,
}

impl Reference {
    fn permits(&self, own: &Person, row: &Person) -> bool {
        !self.rules.iter().any(|(column, forbids)| forbids(own[*column], row[*column]))
    }

    /// The number of changed columns, if changes are limited, and the cost. An interval of incomes
    /// counts as its middle.
    fn cost(&self, own: &Person, row: &Person) -> (u64, f64) {
        let (value_ranges, deviations) = ([50.0, 1000.0, 2.0, 1.0, 1.0, 1.0], [2.0, 12.5]);
        let interval = |income: f64| {
            // 0 has its own level.
            let step = if income < 100.0 { 10.0 } else { 100.0 };
            if income == 0.0 { 0.0 } else { (income / step).floor().min(9.0) * step + step / 2.0 }
        };
        let (mut changes, mut cost) = (0, 0.0);
        for column in 0..6 {
            let to = if column == 1 { interval(row[1]) } else { row[column] };
            let changed = match column {
                1 => interval(own[1]) != interval(row[1]),
                _ => own[column] != row[column],
            };
            changes += u64::from(changed && self.limits_changes);
            let gap = if column < 3 { (to - own[column]).abs() } else { f64::from(u8::from(changed)) };
            let share = gap / value_ranges[column];
            let distance = match self.metrics[column] {
                Metric::L2 => share * share,
                Metric::L1 => share,
                Metric::Count => f64::from(u8::from(changed)),
                Metric::Mad => deviations.get(column).map_or(share, |deviation| gap / deviation),
            };
            let (up, down) = self.weights[column];
            cost += distance * if to >= own[column] { up } else { down };
        }
        (changes, cost)
    }
}

fn random_wishes(schema: &Schema, random: &mut SeededRandom) -> (Wishes, Reference) {
    let mut wishes = Wishes::new(schema);
    let mut reference =
        Reference { rules: vec![], weights: [(1.0, 1.0); 6], metrics: [Metric::L2; 6], limits_changes: false };
    for (column, name) in COLUMNS.into_iter().enumerate() {
        if column != 1 && chance(random, 15) {
            wishes.immutable(name).unwrap();
            reference.rules.push((column, Box::new(|own, row| own != row)));
        }
        if chance(random, 25) {
            let weight = [0.01, 0.5, 2.0, 3.25, 40.0][random.below(5) as usize];
            wishes.weight(name, weight).unwrap();
            reference.weights[column] = (weight, weight);
        }
    }
    for (column, name) in ["age", "income", "grade"].into_iter().enumerate() {
        if chance(random, 15) {
            wishes.only_up(name).unwrap();
            reference.rules.push((column, Box::new(|own, row| row < own)));
        } else if chance(random, 15) {
            wishes.only_down(name).unwrap();
            reference.rules.push((column, Box::new(|own, row| row > own)));
        }
    }
    for (column, low, high) in [(0, 18.0 + random.below(20) as f64, 40.5), (1, random.below(300) as f64, 777.0)] {
        if chance(random, 25) {
            wishes.permitted_range(COLUMNS[column], Some(&low.into()), Some(&high.into())).unwrap();
            reference.rules.push((column, Box::new(move |_, row| row < low || row > high)));
        }
    }
    if chance(random, 20) {
        wishes.permitted_values("job", &["part".into(), "full".into()]).unwrap();
        reference.rules.push((4, Box::new(|_, row| row == 0.0)));
    }
    if chance(random, 15) {
        wishes.permitted_values("region", &["north".into()]).unwrap();
        reference.rules.push((5, Box::new(|_, row| row != 0.0)));
    }
    if chance(random, 10) {
        wishes.permitted_values("age", &[20.0.into(), 30.0.into(), 31.0.into()]).unwrap();
        reference.rules.push((0, Box::new(|_, row| ![20.0, 30.0, 31.0].contains(&row))));
    }
    if chance(random, 20) {
        wishes.asymmetric("income", 3.0, 0.5).unwrap();
        reference.weights[1] = (3.0, 0.5);
    }
    for column in [0, 1] {
        if chance(random, 30) {
            let metric = [Metric::L1, Metric::L2, Metric::Mad, Metric::Count][random.below(4) as usize];
            wishes.set_metric(COLUMNS[column], metric).unwrap();
            reference.metrics[column] = metric;
        }
    }
    if chance(random, 20) {
        wishes.max_changes(3);
        reference.limits_changes = true;
    }
    (wishes, reference)
}

#[test]
fn wishes_hold_in_values_and_the_order_is_that_of_a_plain_filter_and_sort() {
    let seed = std::env::var("IFONLY_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut random = SeededRandom::new(seed);
    let schema = schema();
    let scheme = scheme::DEFAULT;
    let (mut impossible, mut searches, mut matches) = (0, 0, 0);
    for number in 0..2_000 {
        let context = format!("seed {seed}, instance {number}");
        let people: Vec<Person> = (0..1 + random.below(14)).map(|_| person(&mut random)).collect();
        let own = person(&mut random);
        let (wishes, reference) = random_wishes(&schema, &mut random);
        let params = Params { cost_limit: COST_LIMIT, ..Params::new(schema.max_levels(), people.len()) };
        let compiled = match wishes.compile(&encode(&schema, &own), scheme, &params) {
            Err(WishError::Impossible { .. }) => {
                impossible += 1;
                continue;
            }
            compiled => compiled.expect(&context),
        };
        searches += 1;
        let rows: Vec<Vec<u16>> = people
            .iter()
            .map(|person| encode(&schema, person).iter().map(|encoded| encoded.level as u16).collect())
            .collect();
        let instance = SchemeInstance::new(scheme, params, ModulusRule::Deployment).unwrap();
        let found = plain_search(&instance, &compiled.secret, &rows);
        // Only every tenth instance runs a complete search, to save time. Tests of ifonly-core
        // prove that searches equal reference costs.
        if number % 10 == 0 {
            assert_eq!(private_search(&instance, &compiled.secret, &rows, &mut random), found, "{context}");
        }
        matches += found.len();
        // Every found row satisfies the wishes in values. If every level is a single value, no row
        // that satisfies them is missing.
        assert!(found.iter().all(|(row, _)| reference.permits(&own, &people[*row])), "{context}");
        if !reference.rules.iter().any(|(column, _)| *column == 1) {
            let matching_rows = people.iter().filter(|row| reference.permits(&own, row)).count();
            assert_eq!(found.len(), matching_rows, "{context}");
        }
        check_order(&reference, &own, &people, &found, &compiled, &context);
    }
    assert!(impossible > 50 && searches > 500 && matches > 2_000, "{impossible} {searches} {matches}");
}

/// The indices and costs of the matching rows, nearest first, by plain computation.
fn plain_search(instance: &SchemeInstance, secret: &SecretQuery, rows: &[Vec<u16>]) -> Vec<(usize, u64)> {
    let cost = |row| secret.plain_cost(instance.scheme(), instance.params(), row);
    let mut found: Vec<(usize, u64)> =
        rows.iter().enumerate().filter_map(|(index, row)| Some((index, cost(row)?))).collect();
    found.sort_by_key(|&(index, cost)| (cost, index));
    found
}

/// The same by a private search, which fetches and confirms every record.
fn private_search(
    instance: &SchemeInstance,
    secret: &SecretQuery,
    rows: &[Vec<u16>],
    random: &mut SeededRandom,
) -> Vec<(usize, u64)> {
    let stored = Rows::new(&instance.params().max_levels, rows).unwrap();
    let key = RootKey::generate(1, random);
    let servers: Vec<MemoryServer> =
        (1..=instance.servers() as u8).map(|index| MemoryServer::new(index, instance, &key, &stored)).collect();
    let search = Search::nearest(instance.clone(), secret.clone(), servers[0].header_context(), rows.len()).unwrap();
    let outcome = search.run(random, |server, message| servers[server - 1].respond(message).ok()).unwrap();
    let found = outcome.found.iter().map(|found| {
        let row = levels(&found.record);
        assert_eq!(row, rows[found.position.unwrap()]);
        (found.position.unwrap(), confirm(instance, secret, found, &row).unwrap())
    });
    found.collect()
}

/// Checks that rows whose costs differ by more than 0.1% are in the right order, and that decoded
/// costs equal the reference costs.
fn check_order(
    reference: &Reference,
    own: &Person,
    people: &[Person],
    found: &[(usize, u64)],
    compiled: &CompiledWishes,
    context: &str,
) {
    let costs: Vec<(u64, f64)> = found.iter().map(|(row, _)| reference.cost(own, &people[*row])).collect();
    for pair in costs.windows(2) {
        let in_order = pair[0].0 < pair[1].0 || pair[0].0 == pair[1].0 && pair[0].1 <= pair[1].1 * 1.001 + 1e-9;
        assert!(in_order, "{pair:?}, {context}");
    }
    for ((changes, cost), (_, decoded)) in costs.iter().zip(found) {
        assert_eq!(compiled.changes(*decoded).unwrap_or(0), *changes, "{context}");
        assert!((compiled.distance(*decoded) - cost).abs() <= 1e-9 + 1e-6 * cost, "{context}");
        assert_eq!(compiled.accepts(*decoded), !reference.limits_changes || *changes <= 3);
    }
}

#[test]
fn contributions_are_costs_of_exact_values() {
    let schema = schema();
    let mut wishes = Wishes::new(&schema);
    wishes.weight("income", 4.0).unwrap().set_metric("grade", Metric::L1).unwrap();
    let own = encode(&schema, &[20.0, 95.0, 0.0, 0.0, 0.0, 0.0]);
    let other = encode(&schema, &[30.0, 91.0, 1.0, 1.0, 0.0, 1.0]);
    let shares = wishes.contributions(&own, &other).unwrap();
    let expected = [0.04, 4.0 * 0.004 * 0.004, 0.5, 1.0, 0.0, 1.0, 0.0];
    assert!(shares.iter().zip(expected).all(|(share, expected)| (share - expected).abs() < 1e-12), "{shares:?}");
}

#[test]
fn notes_name_partly_permitted_levels_and_the_levels_of_immutable_features() {
    let schema = schema();
    let params = Params { cost_limit: COST_LIMIT, ..Params::new(schema.max_levels(), 3) };
    let own = encode(&schema, &[20.0, 95.0, 0.0, 0.0, 0.0, 0.0]);
    let notes = |change: &dyn Fn(&mut Wishes)| {
        let mut wishes = Wishes::new(&schema);
        change(&mut wishes);
        let compiled = wishes.compile(&own, scheme::DEFAULT, &params).unwrap();
        compiled.notes.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let income = |low: f64, high: f64| {
        move |w: &mut Wishes| drop(w.permitted_range("income", Some(&low.into()), Some(&high.into())))
    };
    assert_eq!(
        notes(&income(55.0, 777.0)),
        ["income 55 to 777: levels 50 to 60 and 700 to 800 are only partly within the limit and were excluded"]
    );
    assert_eq!(
        notes(&income(50.0, 700.0)),
        ["income 50 to 700: level 700 to 800 is only partly within the limit and was excluded"]
    );
    assert_eq!(
        notes(&|w| drop(w.only_up("income").unwrap().only_down("age"))),
        ["income only up: level 90 to 100 is only partly within the limit and was excluded"]
    );
    assert_eq!(
        notes(&|w| drop(w.immutable("income").unwrap().immutable("age"))),
        ["income stays as it is: within 90 to 100"]
    );
    assert!(notes(&|w| drop(w.permitted_range("age", Some(&20.0.into()), None))).is_empty());
}

#[test]
fn a_cost_table_replaces_the_metric() {
    let schema = schema();
    let own = encode(&schema, &[20.0, 95.0, 0.0, 0.0, 0.0, 0.0]);
    let mut wishes = Wishes::new(&schema);
    wishes.costs("job", &[("none".into(), 0.0), ("part".into(), 2.5), ("full".into(), 1.0)]).unwrap();
    wishes.costs("age", &[(20.0.into(), 0.0), (40.0.into(), 1.0)]).unwrap();
    let cost = |age: f64, job: f64| {
        wishes.contributions(&own, &encode(&schema, &[age, 95.0, 0.0, 0.0, job, 0.0])).unwrap().iter().sum::<f64>()
    };
    assert_eq!([cost(20.0, 0.0), cost(30.0, 1.0), cost(60.0, 2.0), cost(18.0, 0.0)], [0.0, 3.0, 2.0, 0.0]);
    let refused =
        |name: &str, table: &[(Value, f64)]| Wishes::new(&schema).costs(name, table).map(drop).unwrap_err().to_string();
    assert!(refused("job", &[("none".into(), 0.0), ("part".into(), 1.0)]).contains("\"full\" has none"));
    assert!(refused("job", &[("none".into(), -1.0)]).contains("-1"));
    assert!(refused("age", &[(20.0.into(), 1.0), (20.0.into(), 1.0)]).contains("twice"));
    assert!(refused("age", &[]).contains("empty"));
    assert!(refused("region", &[("north".into(), 1.0)]).contains("one-hot"));
}

#[test]
fn the_smallest_scheme_is_the_cheapest_that_supports_the_wishes() {
    let numeric = |name: &str| Feature::new(name, Scale::whole_numbers(0, 9).unwrap().into());
    let schema = Schema::new(vec![numeric("a"), numeric("b")]).unwrap();
    let smallest = |change: &dyn Fn(&mut Wishes)| {
        let mut wishes = Wishes::new(&schema);
        change(&mut wishes);
        let needs = wishes.needs();
        scheme::smallest(needs.cost_model, needs.constraint).name
    };
    assert_eq!(smallest(&|_| {}), "baseline");
    assert_eq!(smallest(&|w| drop(w.weight("a", 2.0))), "linear-baseline+");
    assert_eq!(smallest(&|w| drop(w.weight("a", 2.5))), "table");
    assert_eq!(smallest(&|w| drop(w.immutable("a"))), "gated");
    assert_eq!(smallest(&|w| drop(w.immutable("a").unwrap().weight("b", 2.0))), "gated+");
    assert_eq!(smallest(&|w| drop(w.only_up("a"))), "gated-ranges");
    assert_eq!(smallest(&|w| drop(w.only_up("a").unwrap().weight("b", 2.0))), "gated-ranges+");
    assert_eq!(smallest(&|w| drop(w.set_metric("a", Metric::L1))), "table");
    assert_eq!(smallest(&|w| drop(w.set_metric("a", Metric::L1).unwrap().immutable("b"))), "gated-costs");
    assert_eq!(smallest(&|w| drop(w.set_metric("a", Metric::L1).unwrap().only_down("b"))), "gated-tables");
    assert_eq!(smallest(&|w| drop(w.asymmetric("a", 1.0, 2.0))), "table");
    assert_eq!(smallest(&|w| drop(w.features_to_vary(&["b"]))), "gated");
}

#[test]
fn schemes_of_the_paper_use_distances_in_levels() {
    let scale = Scale::levels(0.0, 100.0, 10, Quantiser::Round).unwrap();
    let schema = Schema::new(vec![Feature::new("a", scale.clone().into()), Feature::new("b", scale.into())]).unwrap();
    let own: Vec<EncodedValue> =
        [14.0, 98.0].iter().zip(schema.features()).map(|(v, f)| f.encode(&Value::Number(*v)).unwrap()).collect();
    let params = Params { weight_limit: 5, ..Params::new(schema.max_levels(), 3) };
    for (name, weight, cost) in [("baseline", 1.0, 9 + 49), ("baseline+", 5.0, 45 + 49)] {
        let scheme: &'static Scheme = scheme::named(name).unwrap();
        let mut wishes = Wishes::new(&schema);
        wishes.weight("a", weight).unwrap();
        let compiled = wishes.compile(&own, scheme, &params).unwrap();
        assert_eq!(compiled.secret.plain_cost(scheme, &params, &[4, 3]), Some(cost));
        assert_eq!(compiled.distance(cost), cost as f64);
    }
    let mut wishes = Wishes::new(&schema);
    wishes.weight("a", 6.0).unwrap();
    let refused = wishes.compile(&own, scheme::named("baseline+").unwrap(), &params).unwrap_err().to_string();
    assert!(refused.contains("weight 6 is not an integer from 1 to 5"), "{refused}");
}

#[test]
fn impossible_wishes_are_refused_with_the_reason() {
    let schema = schema();
    let params = Params { weight_limit: 5, cost_limit: COST_LIMIT, ..Params::new(schema.max_levels(), 3) };
    let own = encode(&schema, &[25.0, 95.0, 1.0, 0.0, 1.0, 0.0]);
    let refused = |scheme: &str, change: &dyn Fn(&mut Wishes) -> Result<(), WishError>| {
        let mut wishes = Wishes::new(&schema);
        let compiled = change(&mut wishes).and_then(|()| wishes.compile(&own, scheme::named(scheme).unwrap(), &params));
        compiled.unwrap_err().to_string()
    };
    let range = |name: &'static str, low: f64, high: f64| {
        move |w: &mut Wishes| w.permitted_range(name, Some(&Value::Number(low)), Some(&Value::Number(high))).map(drop)
    };
    assert_eq!(
        refused("gated-tables", &|w| w.immutable("incme").map(drop)),
        "there is no feature \"incme\"; did you mean \"income\"?"
    );
    for weight in [0.0, 0.009, 1000.5, f64::NAN] {
        let text = refused("gated-tables", &|w| w.weight("age", weight).map(drop));
        assert_eq!(text, format!("feature \"age\": weight {weight} is not in the range 0.01 to 1,000"));
    }
    for (low, high) in [(27.0, 23.0), (120.0, 130.0), (-3.0, -1.0), (24.2, 24.8)] {
        assert!(refused("gated-tables", &range("age", low, high)).contains("no level lies wholly within"), "{low}");
    }
    assert!(
        refused("gated-tables", &range("income", 710.0, 790.0))
            .ends_with("The nearest levels are 600 to 700, 700 to 800, 800 to 900")
    );
    assert_eq!(
        refused("gated-tables", &|w| w.permitted_range("age", Some(&"x".into()), None).map(drop)),
        "feature \"age\": \"x\" is not a number; the values of this feature are 18 to 68"
    );
    assert_eq!(
        refused("gated-tables", &|w| w.permitted_values("age", &[Value::Number(500.0)]).map(drop)),
        "feature \"age\": the permitted value 500 is not one of its values"
    );
    assert!(
        refused("gated-tables", &|w| w.permitted_values("income", &[95.0.into()]).map(drop))
            .contains("give a range instead")
    );
    assert_eq!(
        refused("gated-tables", &|w| range("age", 30.0, 40.0)(w).and_then(|()| w.only_down("age").map(drop))),
        "feature \"age\": no value satisfies all wishes; relax one of them"
    );
    assert_eq!(
        refused("gated-tables", &|w| w.permitted_values("job", &[]).map(drop)),
        "feature \"job\": no value satisfies all wishes; relax one of them"
    );
    assert_eq!(
        refused("gated-tables", &|w| w.only_up("job").map(drop)),
        "the values of feature \"job\" have no order, so it cannot have a direction; list the permitted values instead"
    );
    assert_eq!(
        refused("gated-tables", &|w| w.set_metric("grade", Metric::Mad).map(drop)),
        "the manifest has no deviation of feature \"grade\", which the metric mad needs; choose another metric for it"
    );
    assert_eq!(
        refused("gated-costs", &|w| w.only_up("age").map(drop)),
        "scheme gated-costs does not support permitted ranges, permitted values or directions; choose a scheme that \
         does, such as gated-tables (the servers see which scheme is used)"
    );
}

#[test]
fn metrics_have_the_same_names_in_data_and_on_the_command_line() {
    for (name, metric) in Metric::NAMED {
        assert_eq!(serde_json::to_value(metric).unwrap(), name);
        assert_eq!(name.parse(), Ok(metric));
    }
    assert_eq!("l3".parse::<Metric>().unwrap_err().to_string(), "must be one of l2, l1, mad, count");
}

#[test]
fn a_mixed_word_satisfies_no_wish_and_no_person_has_it() {
    let kind = FeatureKind::Categorical { categories: words(&["baker", "pilot", "mixed"]), range: 5 };
    let job = Feature { mixed: true, ..Feature::new("job", kind) };
    let schema = Schema::new(vec![Feature::new("age", Scale::whole_numbers(18, 68).unwrap().into()), job]).unwrap();
    let own = |word: &str| schema.encode(|name| Some(if name == "age" { 30.0.into() } else { word.into() })).unwrap();
    let forbidden = |wish: &dyn Fn(&mut Wishes)| {
        let mut wishes = Wishes::new(&schema);
        wish(&mut wishes);
        let params = Params { cost_limit: COST_LIMIT, ..Params::new(schema.max_levels(), 9) };
        let compiled = wishes.compile(&own("baker"), scheme::DEFAULT, &params).unwrap();
        compiled.secret.plain_cost(scheme::DEFAULT, &params, &[12, 2]).is_none()
    };
    assert!(!forbidden(&|_| {}));
    assert!(!forbidden(&|wishes| {
        wishes.weight("job", 3.0).unwrap();
    }));
    assert!(forbidden(&|wishes| {
        wishes.immutable("job").unwrap();
    }));
    for other in ["pilot", "mixed"] {
        // Even a person who asks for it does not get it.
        assert!(forbidden(&|wishes| {
            wishes.permitted_values("job", &["baker".into(), other.into()]).unwrap();
        }));
    }
    // A table of costs has one entry per word that a person can have.
    assert!(!forbidden(&|wishes| {
        wishes.costs("job", &[("baker".into(), 0.0), ("pilot".into(), 2.0)]).unwrap();
    }));
    assert!(schema.refuse_mixed(&own("pilot")).is_ok());
    let error = schema.refuse_mixed(&own("mixed")).unwrap_err().to_string();
    assert_eq!(error, r#"feature "job": "mixed" is not permitted; use one of "baker", "pilot""#);
}
