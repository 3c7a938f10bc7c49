//! Complete private searches over a bundle that was built from CSV, compared with brute force over
//! its rows.

mod common;

use common::*;
use ifonly_algebra::keys::RootKey;
use ifonly_algebra::random::SeededRandom;
use ifonly_algebra::row_function::Rows;
use ifonly_bundle::{Bundle, DeploymentOptions};
use ifonly_core::candidates::DecodedCost;
use ifonly_core::cost_check::confirm;
use ifonly_core::search::Search;
use ifonly_core::server_protocol::ServerProtocol;
use ifonly_values::record::Record;
use ifonly_values::schema::Value;
use ifonly_values::wishes::Wishes;

const PEOPLE: &str = "\
age,income,job,city,ok
23,1200,baker,Rome,1
31,2100,pilot,Oslo,0
45,2400,pilot,Rome,1
52,1800,nurse,Oslo,1
38,2600,nurse,Rome,1
60,900,baker,Oslo,0
29,2000,nurse,Oslo,1
";

/// Builds a bundle that offers these schemes.
fn build(schema: &str, schemes: &[&str]) -> Bundle {
    let dir = TestDir::new();
    let mut options = dir.csv(PEOPLE, schema);
    (options.target, options.accept) = (Some("ok".into()), vec!["1".into()]);
    options.deployment = DeploymentOptions {
        servers: Some(4),
        schemes: schemes.iter().map(|&name| name.into()).collect(),
        ..DeploymentOptions::default()
    };
    build_quietly(&options).unwrap();
    Bundle::open(&options.output).unwrap()
}

/// Searches the nearest row for one profile with every scheme, and checks cost and record.
fn search_with_every_scheme(bundle: &Bundle) -> Vec<&'static str> {
    let manifest = bundle.manifest();
    let schema = manifest.schema();
    let profile = |column: &str| match column {
        "age" => Some(Value::from(31.0)),
        "income" => Some(Value::from("2100")),
        "job" => Some(Value::from("pilot")),
        _ => Some(Value::from("Oslo")),
    };
    let own = schema.encode(profile).unwrap();
    let rows = Rows::new(&schema.max_levels(), bundle.rows().levels()).unwrap();
    let key = RootKey::new(manifest.header_context().epoch, [7; 32]);
    let mut random = SeededRandom::new(5);
    let search = |instance: &std::sync::Arc<ifonly_core::scheme::instance::SchemeInstance>| {
        let scheme = instance.scheme();
        let servers: Vec<ServerProtocol> = (1..=instance.servers() as u8)
            .map(|index| {
                let deployments = manifest.instances().cloned();
                ServerProtocol::new(index, manifest.digest(), deployments, vec![key.clone()], manifest.record_length())
            })
            .collect();
        let encoded = servers[0].encode_records(&key, bundle.records());
        let secret = || Wishes::new(schema).compile(&own, scheme, instance.params()).unwrap().secret;
        let search = Search::new(instance.clone(), secret(), manifest.header_context()).unwrap();
        let respond = |server: usize, message: &[u8]| servers[server - 1].respond(message, &rows, &encoded).ok();
        let outcome = search.run(&mut random, respond).unwrap();
        let costs = rows.iter().filter_map(|row| secret().plain_cost(scheme, instance.params(), row));
        // The scheme `dot` finds the largest value, all others the smallest.
        let best = if scheme.name == "dot" { costs.max() } else { costs.min() }.unwrap();
        let found = &outcome.found[0];
        if let DecodedCost::Exactly(cost) = found.cost {
            assert_eq!(cost, best, "{}", scheme.name);
        }
        let levels = Record::of(manifest, &found.record).unwrap().levels(schema).unwrap();
        confirm(instance, &secret(), found, &levels).unwrap();
        assert_eq!(secret().plain_cost(scheme, instance.params(), &levels), Some(best), "{}", scheme.name);
        scheme.name
    };
    manifest.instances().map(search).collect()
}

#[test]
fn every_scheme_finds_the_nearest_row_and_its_record() {
    let all: Vec<&str> = ifonly_core::scheme::ALL.iter().map(|scheme| scheme.name).collect();
    assert_eq!(search_with_every_scheme(&build("one_hot = true\n", &all)), all);
}

#[test]
fn table_schemes_search_nominal_features() {
    assert_eq!(
        search_with_every_scheme(&build("", &["table", "gated-costs", "gated-tables"])),
        ["table", "gated-costs", "gated-tables"]
    );
}

#[test]
fn grouped_bundles_are_searched_with_every_scheme_and_with_verified_answers() {
    let job = |n: u32| ["baker", "pilot", "nurse"][(n * n % 5 % 3) as usize];
    let city = |n: u32| ["Rome", "Oslo"][(n / 3 % 2) as usize];
    let row = |n: u32| {
        format!(
            "{},{},{},{},{}\n",
            20 + n * 7 % 50,
            900 + n * 37 % 2000,
            job(n),
            city(n),
            u32::from(!n.is_multiple_of(4))
        )
    };
    let csv = "age,income,job,city,ok\n".to_owned() + &(0..160).map(row).collect::<String>();
    let built = |schema: &str, schemes: &[&str], verified: bool| {
        let dir = TestDir::new();
        let mut options = dir.csv(&csv, schema);
        (options.target, options.accept, options.group) = (Some("ok".into()), vec!["1".into()], Some(5));
        options.deployment.servers = Some(4);
        options.deployment.schemes = schemes.iter().map(|&name| name.into()).collect();
        if verified {
            options.deployment.terms.verified = Some(true);
        }
        build_quietly(&options).unwrap_or_else(|error| panic!("{error}"));
        let bundle = Bundle::open(&options.output).unwrap();
        assert_eq!(bundle.manifest().fields().dataset.groups.as_ref().map(|groups| groups.k), Some(5));
        bundle
    };
    let all: Vec<&str> = ifonly_core::scheme::ALL.iter().map(|scheme| scheme.name).collect();
    assert_eq!(search_with_every_scheme(&built("one_hot = true\nkeep = ['city']\n", &all, false)), all);
    let verified = search_with_every_scheme(&built("", &[], true));
    assert!(verified.contains(&"gated-tables"), "{verified:?}");
}
