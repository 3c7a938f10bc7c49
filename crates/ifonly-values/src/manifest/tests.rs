use super::*;
use crate::schema::{Deviation, DeviationKind, EncodedValue, Feature, FeatureKind, Quantiser, Scale};
use crate::wishes::{Metric, Wishes};
use ifonly_core::signature::SigningKey;

fn numeric(name: &str) -> Feature {
    Feature::new(name, FeatureKind::from(Scale::levels(0.1, 0.7, 100, Quantiser::Round).unwrap()))
}

fn nominal(name: &str) -> Feature {
    let categories = ["red", "green", "blue"].map(String::from).to_vec();
    Feature::new(name, FeatureKind::Categorical { categories, range: 100 })
}

fn contents(servers: u8) -> ManifestFields {
    let schema = Schema::new(vec![numeric("income"), numeric("debt")]).unwrap();
    let mut contents = ManifestFields::new("loans", schema, 1000, 64, servers);
    contents.offer_all();
    contents
}

fn names(contents: &ManifestFields) -> Vec<&str> {
    contents.schemes.iter().map(|offer| offer.name.as_str()).collect()
}

#[test]
fn the_canonical_form_round_trips_and_fixes_the_digest() {
    let manifest = Manifest::new(contents(2)).unwrap();
    let again = Manifest::from_json(manifest.json().as_bytes()).unwrap();
    assert_eq!(again.fields(), manifest.fields());
    assert_eq!(again.digest(), manifest.digest());
    assert_eq!(serde_json::to_string(&manifest).unwrap(), manifest.json());
    let other = Manifest::new(ManifestFields { rows: 1001, ..contents(2) }).unwrap();
    assert_ne!(other.digest(), manifest.digest());
    assert_eq!(
        manifest.header_context(),
        HeaderContext { digest: manifest.digest(), epoch: 0, record_length: 64, signer: None }
    );
}

#[test]
fn the_fields_stand_in_their_order_all_at_the_top() {
    let json = Manifest::new(contents(2)).unwrap().json().to_owned();
    let fields = "format protocol dataset schema rows record_length signer threshold silent lying shuffle verified weight_limit \
                  immutable_limit mask exponent cost_limit top_limit schemes default_scheme epochs operators";
    let terms = "\"record_length\":64,\"signer\":null,\"threshold\":1,\"silent\":0,\"lying\":0,\"shuffle\":true,\"verified\":false,\
                 \"weight_limit\":10,\"immutable_limit\":2,\"mask\":1,\"exponent\":4,\"cost_limit\":549755813376,\"top_limit\":10,\
                 \"schemes\":[";
    assert!(json.contains(terms), "{json}");
    let places: Vec<usize> = fields
        .split_whitespace()
        .map(|field| json.find(&format!("\"{field}\":")).unwrap_or_else(|| panic!("{field}")))
        .collect();
    assert!(places.is_sorted(), "{json}");
    let object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&json).unwrap();
    assert_eq!(object.len(), places.len());
}

#[test]
fn every_flipped_byte_is_refused_or_changes_the_digest() {
    let manifest = Manifest::new(contents(2)).unwrap();
    for place in 0..manifest.json().len() {
        let mut bytes = manifest.json().as_bytes().to_vec();
        bytes[place] ^= 1;
        if let Ok(other) = Manifest::from_json(&bytes) {
            assert_ne!(other.digest(), manifest.digest(), "byte {place}");
        }
    }
}

#[test]
fn the_same_meaning_in_another_form_is_refused() {
    let manifest = Manifest::new(contents(2)).unwrap();
    for other in [
        format!("{} ", manifest.json()),
        manifest.json().replace(":0.1,", ":0.10,"),
        manifest.json().replace(":1000,", ":1000 ,"),
        manifest.json().replace(",\"mask\":", ",\"more\":1,\"mask\":"),
        serde_json::to_string_pretty(&manifest).unwrap(),
    ] {
        assert_eq!(Manifest::from_json(other.as_bytes()).unwrap_err(), ManifestError::NotCanonical);
    }
    assert!(matches!(Manifest::from_json(b"{}"), Err(ManifestError::Json(_))));
    assert!(matches!(Manifest::from_json(&vec![b' '; MAX_JSON + 1]), Err(ManifestError::TooLong { .. })));
}

#[test]
fn little_is_offered_unless_asked_for() {
    let schema = Schema::new(vec![numeric("income"), numeric("debt")]).unwrap();
    let contents = ManifestFields::new("loans", schema, 1000, 64, 4);
    assert_eq!(names(&contents), ["gated", "gated+", "gated-ranges", "gated-ranges+", "gated-costs", "gated-tables"]);
}

#[test]
fn more_operators_mean_more_schemes() {
    let (two, three, four) = (contents(2), contents(3), contents(4));
    assert!(names(&two).contains(&"gated-tables") && !names(&two).contains(&"two-phase"));
    assert!(names(&three).contains(&"two-phase") && !names(&three).contains(&"two-phase+"));
    assert_eq!(four.schemes.len(), scheme::ALL.len() + 1, "and the sealed one");
    assert!(names(&three).contains(&"sealed") && !names(&two).contains(&"sealed"));
    for contents in [two, three, four] {
        let manifest = Manifest::new(contents).unwrap();
        assert_eq!(manifest.default_scheme().scheme().name, "gated-tables");
        assert!(manifest.schemes().iter().all(|offered| offered.servers() <= manifest.operators().len()));
    }
}

#[test]
fn labels_are_compared_by_tables_only() {
    let schema = Schema::new(vec![numeric("income"), nominal("colour")]).unwrap();
    let mut contents = ManifestFields::new("loans", schema, 10, 64, 4);
    assert_eq!(names(&contents), ["gated-costs", "gated-tables"]);
    contents.offer_all();
    assert_eq!(names(&contents), ["table", "gated-costs", "gated-tables", "sealed"]);
    assert!(Manifest::new(contents.clone()).is_ok());
    contents.schemes.push(SchemeEntry { name: "baseline".into(), q: 32_749, alphas: vec![1, -1] });
    assert!(matches!(Manifest::new(contents), Err(ManifestError::NeedsTables { scheme: "baseline", .. })));
}

#[test]
fn what_is_wrong_is_named() {
    let refused = |bend: &dyn Fn(&mut ManifestFields)| {
        let mut bent = contents(2);
        bend(&mut bent);
        Manifest::new(bent).unwrap_err().to_string()
    };
    let says = |bend: &dyn Fn(&mut ManifestFields), part: &str| {
        let error = refused(bend);
        assert!(error.contains(part), "{error}");
    };
    says(&|c| c.format = 9, "format 9");
    says(&|c| c.protocol = 9, "protocol 9");
    says(&|c| c.rows = 0, "rows = 0");
    says(&|c| c.rows = usize::MAX, "rows");
    says(&|c| c.record_length = 0, "record_length = 0");
    says(&|c| c.record_length = usize::MAX, "record_length");
    says(&|c| c.record_length = MAX_RECORD + 1, "must be in 1..=1048576");
    says(&|c| c.signer = Some(SigningKey::new(&[1; 32]).public()), "no room for a text");
    says(&|c| c.terms.top_limit = 0, "top_limit");
    says(&|c| c.terms.exponent = 3, "exponent = 3");
    says(&|c| c.key_epochs.clear(), "epochs");
    says(&|c| c.key_epochs = vec![1, 1], "epochs");
    says(&|c| c.operators.clear(), "operators");
    says(&|c| c.operators[1].index = 3, "operators");
    says(&|c| c.operators[1].name.clear(), "names");
    says(&|c| c.dataset.name = "x".repeat(5000), "names");
    says(&|c| c.default_scheme = "gated-table".into(), "did you mean \"gated-tables\"");
    says(&|c| c.schemes[0].name = "basline".into(), "did you mean \"baseline\"");
    says(&|c| c.schemes[0].q = 65_521, "the rule gives");
    says(&|c| c.schemes[0].q = 32_750, "baseline");
    says(&|c| c.schemes[0].q = 251, "must exceed");
    says(&|c| c.schemes[0].alphas = vec![1, 1], "same α");
    says(&|c| c.schemes[0].alphas = vec![1, 0], "α = 0");
    says(&|c| c.schemes[0].alphas = vec![1], "needs 2 servers");
    says(&|c| c.schemes[1] = c.schemes[0].clone(), "twice");
    says(&|c| (*c, c.terms.verified) = (contents(4), true), "cannot be verified");
    says(&|c| drop(c.operators.pop()), "needs 2 servers, but there are 1");
}

#[test]
fn the_usual_cost_limit_carries_weights_deviations_and_counted_changes() {
    let deviation = Some(Deviation { value: 0.003, of: DeviationKind::Median });
    let schema = Schema::new(vec![numeric("income"), Feature { deviation, ..numeric("debt") }]).unwrap();
    let manifest = Manifest::new(ManifestFields::new("loans", schema.clone(), 10, 64, 2)).unwrap();
    let instance = manifest.default_scheme().scans().unwrap();
    assert_eq!(instance.field().bits(), 40);
    let own: Vec<EncodedValue> =
        schema.features().iter().zip([0, 100]).map(|(feature, level)| feature.at_level(level)).collect();
    for pricing in [Metric::L1, Metric::L2, Metric::Mad, Metric::Count] {
        for weight in [0.01, 1.0, 1000.0] {
            let mut wishes = Wishes::new(&schema);
            wishes.set_metric("debt", pricing).unwrap().weight("debt", weight).unwrap().max_changes(1);
            wishes.compile(&own, instance.scheme(), instance.params()).unwrap();
        }
    }
}

#[test]
fn verified_deployments_offer_what_can_be_verified() {
    let mut contents = contents(4);
    contents.terms.verified = true;
    contents.offer_all();
    assert!(names(&contents).contains(&"gated-tables") && !names(&contents).contains(&"two-phase"));
    assert!(!names(&contents).iter().any(|name| name.contains("mask")), "r = 0 would take the mask off");
    assert!(Manifest::new(contents.clone()).is_ok());
    // A server that offers one all the same is refused by every client.
    contents.schemes = vec![SchemeEntry { name: "mask".into(), q: 32_749, alphas: vec![1, -1] }];
    assert!(Manifest::new(contents).unwrap_err().to_string().contains("r = 0"));
}

#[test]
fn too_many_levels_are_refused_before_any_table_is_made() {
    let wide = |k: usize| {
        Feature::new(format!("f{k}"), FeatureKind::from(Scale::levels(0.0, 1.0, 65_535, Quantiser::Round).unwrap()))
    };
    let schema = Schema::new((0..65).map(wide).collect()).unwrap();
    let error = Manifest::new(ManifestFields::new("wide", schema, 10, 64, 2)).unwrap_err();
    assert!(error.to_string().contains("at most 4194304"), "{error}");
}
