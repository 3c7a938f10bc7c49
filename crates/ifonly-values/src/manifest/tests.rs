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

fn fields(servers: u8) -> ManifestFields {
    let schema = Schema::new(vec![numeric("income"), numeric("debt")]).unwrap();
    let mut fields = ManifestFields::new("loans", schema, 1000, 64, servers);
    fields.offer_all();
    fields
}

fn names(fields: &ManifestFields) -> Vec<&str> {
    fields.schemes.iter().map(|entry| entry.name.as_str()).collect()
}

fn entry<'a>(fields: &'a mut ManifestFields, name: &str) -> &'a mut SchemeEntry {
    fields.schemes.iter_mut().find(|entry| entry.name == name).unwrap()
}

#[test]
fn the_canonical_form_round_trips_and_fixes_the_digest() {
    let manifest = Manifest::new(fields(2)).unwrap();
    let again = Manifest::from_json(manifest.json().as_bytes()).unwrap();
    assert_eq!(again.fields(), manifest.fields());
    assert_eq!(again.digest(), manifest.digest());
    assert_eq!(serde_json::to_string(&manifest).unwrap(), manifest.json());
    let other = Manifest::new(ManifestFields { rows: 1001, ..fields(2) }).unwrap();
    assert_ne!(other.digest(), manifest.digest());
    assert_eq!(
        manifest.header_context(),
        HeaderContext { digest: manifest.digest(), epoch: 0, record_length: 64, signer: None }
    );
}

#[test]
fn the_canonical_form_lists_all_fields_in_order_at_the_top_level() {
    let json = Manifest::new(fields(2)).unwrap().json().to_owned();
    let names = "format protocol dataset bundle_id schema rows record_length signer threshold silent lying shuffle verified weight_limit \
                  immutable_limit d_min exponent cost_limit top_limit schemes default_scheme key_epochs operators";
    let params = "\"record_length\":64,\"signer\":null,\"threshold\":1,\"silent\":0,\"lying\":0,\"shuffle\":true,\"verified\":false,\
                 \"weight_limit\":10,\"immutable_limit\":2,\"d_min\":1,\"exponent\":4,\"cost_limit\":134217699,\"top_limit\":10,\
                 \"schemes\":[";
    assert!(json.contains(params), "{json}");
    let offsets: Vec<usize> = names
        .split_whitespace()
        .map(|name| json.find(&format!("\"{name}\":")).unwrap_or_else(|| panic!("{name} is missing")))
        .collect();
    assert!(offsets.is_sorted(), "{json}");
    let object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&json).unwrap();
    assert_eq!(object.len(), offsets.len());
}

#[test]
fn every_flipped_byte_is_refused_or_changes_the_digest() {
    let manifest = Manifest::new(fields(2)).unwrap();
    for index in 0..manifest.json().len() {
        let mut bytes = manifest.json().as_bytes().to_vec();
        bytes[index] ^= 1;
        if let Ok(other) = Manifest::from_json(&bytes) {
            assert_ne!(other.digest(), manifest.digest(), "byte {index}");
        }
    }
}

#[test]
fn other_forms_of_the_same_fields_are_refused() {
    let manifest = Manifest::new(fields(2)).unwrap();
    for other in [
        format!("{} ", manifest.json()),
        manifest.json().replace(":0.1,", ":0.10,"),
        manifest.json().replace(":1000,", ":1000 ,"),
        manifest.json().replace(",\"d_min\":", ",\"more\":1,\"d_min\":"),
        serde_json::to_string_pretty(&manifest).unwrap(),
    ] {
        assert_eq!(Manifest::from_json(other.as_bytes()).unwrap_err(), ManifestError::NotCanonical);
    }
    assert!(matches!(Manifest::from_json(b"{}"), Err(ManifestError::Json(_))));
    assert!(matches!(Manifest::from_json(&vec![b' '; MAX_JSON + 1]), Err(ManifestError::TooLong { .. })));
}

#[test]
fn only_gated_schemes_are_offered_by_default() {
    let schema = Schema::new(vec![numeric("income"), numeric("debt")]).unwrap();
    let fields = ManifestFields::new("loans", schema, 1000, 64, 4);
    assert_eq!(names(&fields), ["gated", "gated+", "gated-ranges", "gated-ranges+", "gated-costs", "gated-tables"]);
}

#[test]
fn more_operators_allow_more_schemes() {
    let (two, three, four) = (fields(2), fields(3), fields(4));
    assert!(names(&two).contains(&"gated-tables") && !names(&two).contains(&"two-phase"));
    assert!(names(&three).contains(&"two-phase") && !names(&three).contains(&"two-phase+"));
    assert_eq!(four.schemes.len(), scheme::ALL.len() + 1, "all schemes and the sealed search");
    assert!(names(&three).contains(&"sealed") && !names(&two).contains(&"sealed"));
    for fields in [two, three, four] {
        let manifest = Manifest::new(fields).unwrap();
        assert_eq!(manifest.default_scheme().scheme().name, "gated-tables");
        assert!(manifest.schemes().iter().all(|offered| offered.servers() <= manifest.operators().len()));
    }
}

#[test]
fn more_than_two_categories_need_cost_tables() {
    let schema = Schema::new(vec![numeric("income"), nominal("colour")]).unwrap();
    let mut fields = ManifestFields::new("loans", schema, 10, 64, 4);
    assert_eq!(names(&fields), ["gated-costs", "gated-tables"]);
    fields.offer_all();
    assert_eq!(names(&fields), ["table", "gated-costs", "gated-tables", "sealed"]);
    assert!(Manifest::new(fields.clone()).is_ok());
    fields.schemes.push(SchemeEntry { name: "baseline".into(), q: 32_749, p: None, alphas: vec![1, -1] });
    assert!(matches!(Manifest::new(fields), Err(ManifestError::NeedsTables { scheme: "baseline", .. })));
}

#[test]
fn errors_name_what_is_wrong() {
    let refused = |change: &dyn Fn(&mut ManifestFields)| {
        let mut changed = fields(2);
        change(&mut changed);
        Manifest::new(changed).unwrap_err().to_string()
    };
    let says = |change: &dyn Fn(&mut ManifestFields), part: &str| {
        let error = refused(change);
        assert!(error.contains(part), "{error}");
    };
    says(&|c| c.format = 9, "format 9");
    says(&|c| c.protocol = 9, "protocol 9");
    says(&|c| c.rows = 0, "rows = 0");
    says(&|c| c.rows = usize::MAX, "rows");
    says(&|c| c.record_length = 0, "record_length = 0");
    says(&|c| c.record_length = usize::MAX, "record_length");
    says(&|c| c.record_length = MAX_RECORD + 1, "must be in 1..=1048576");
    says(&|c| c.signer = Some(SigningKey::new(&[1; 32]).public()), "no room for the text");
    says(&|c| c.params.top_limit = 0, "top_limit");
    says(&|c| c.params.exponent = 3, "exponent = 3");
    says(&|c| c.key_epochs.clear(), "key_epochs = 0 numbers");
    says(&|c| c.key_epochs = vec![1, 1], "key_epochs = 2 numbers: must be 1 to 16 different numbers");
    says(&|c| c.operators.clear(), "operators");
    says(&|c| c.operators[1].index = 3, "operators");
    says(&|c| c.operators[1].name.clear(), "text of dataset or operators");
    says(&|c| c.dataset.name = "x".repeat(5000), "must have 1 to 4096 bytes");
    says(&|c| c.default_scheme = "gated-table".into(), "did you mean \"gated-tables\"");
    says(&|c| c.schemes[0].name = "basline".into(), "did you mean \"baseline\"");
    says(&|c| c.schemes[0].q = 65_521, "the deployment rule gives");
    says(&|c| c.schemes[0].q = 32_750, "baseline");
    says(&|c| c.schemes[0].q = 251, "must exceed");
    says(&|c| c.schemes[0].p = Some(13), "p = 13: must be absent for baseline");
    says(&|c| entry(c, "gated-tables").p = None, "p = absent: must be 13 for gated-tables");
    says(&|c| entry(c, "gated-ranges").p = Some(31), "p = 31: must be 13 for gated-ranges");
    says(&|c| c.schemes[0].alphas = vec![1, 1], "same α");
    says(&|c| c.schemes[0].alphas = vec![1, 0], "α = 0");
    says(&|c| c.schemes[0].alphas = vec![1], "needs 2 servers");
    says(&|c| c.schemes[1] = c.schemes[0].clone(), "twice");
    says(&|c| (*c, c.params.verified) = (fields(4), true), "cannot be verified");
    says(&|c| c.params.floor = 0, "floor = 0: must be in 1..=");
    says(&|c| c.params.floor = c.rows + 1, "the rows");
    says(&|c| c.params.floor = 2, "needs sealed as the only scheme, not baseline");
    says(&|c| drop(c.operators.pop()), "needs 2 servers, but the number of servers is 1");
}

#[test]
fn the_default_cost_limit_suffices_for_weights_deviations_and_counted_changes() {
    let deviation = Some(Deviation { value: 0.003, of: DeviationKind::Median });
    let schema = Schema::new(vec![numeric("income"), Feature { deviation, ..numeric("debt") }]).unwrap();
    let manifest = Manifest::new(ManifestFields::new("loans", schema.clone(), 10, 64, 2)).unwrap();
    let instance = manifest.default_scheme().scans().unwrap();
    assert_eq!((instance.field().bits(), instance.output_field(0).q()), (28, 13));
    let own: Vec<EncodedValue> =
        schema.features().iter().zip([0, 100]).map(|(feature, level)| feature.at_level(level)).collect();
    for metric in [Metric::L1, Metric::L2, Metric::Mad, Metric::Count] {
        for weight in [0.01, 1.0, 1000.0] {
            let mut wishes = Wishes::new(&schema);
            wishes.set_metric("debt", metric).unwrap().weight("debt", weight).unwrap().max_changes(1);
            wishes.compile(&own, instance.scheme(), instance.params()).unwrap();
        }
    }
}

#[test]
fn weights_that_make_rounding_matter_are_noted() {
    let mut fields = fields(2);
    fields.params.cost_limit = 100_000;
    fields.offer_all();
    let manifest = Manifest::new(fields).unwrap();
    let instance = manifest.instance("gated-tables").unwrap();
    let schema = manifest.schema();
    for (weight, noted) in [(1.0, false), (100.0, false), (1000.0, true)] {
        let mut wishes = Wishes::new(schema);
        wishes.weight("debt", weight).unwrap();
        let compiled = wishes.compile(&schema.lowest_levels(), instance.scheme(), instance.params()).unwrap();
        let mut texts = compiled.notes.iter().map(ToString::to_string);
        assert_eq!(texts.any(|text| text.starts_with("costs of income are so small")), noted, "{weight}");
    }
}

#[test]
fn verified_deployments_offer_only_schemes_that_can_be_verified() {
    let mut fields = fields(4);
    fields.params.verified = true;
    fields.offer_all();
    assert!(names(&fields).contains(&"gated-tables") && !names(&fields).contains(&"two-phase"));
    assert!(!names(&fields).iter().any(|name| name.contains("mask")), "r = 0 would remove the mask");
    assert!(Manifest::new(fields.clone()).is_ok());
    // Clients refuse a manifest that offers such a scheme nevertheless.
    fields.schemes = vec![SchemeEntry { name: "mask".into(), q: 32_749, p: None, alphas: vec![1, -1] }];
    assert!(Manifest::new(fields).unwrap_err().to_string().contains("r = 0"));
}

#[test]
fn too_many_levels_are_refused() {
    let wide = |k: usize| {
        Feature::new(format!("f{k}"), FeatureKind::from(Scale::levels(0.0, 1.0, 65_535, Quantiser::Round).unwrap()))
    };
    let schema = Schema::new((0..65).map(wide).collect()).unwrap();
    let error = Manifest::new(ManifestFields::new("wide", schema, 10, 64, 2)).unwrap_err();
    assert!(error.to_string().contains("at most 4194304"), "{error}");
}

/// The digest depends on the text of doubles, which serde_json writes (docs/protocol.md 3.1 rule
/// 2).
#[test]
fn doubles_have_the_text_of_the_canonical_form() {
    let numbers = [18.0, 0.1, 1e15, 1e16, 123_456_789_012_345_680.0, 1e-5, 1e-7, 2.5e-10, 5e-324];
    let text = "[18.0,0.1,1000000000000000.0,1e+16,1.2345678901234568e+17,0.00001,1e-7,2.5e-10,5e-324]";
    assert_eq!(serde_json::to_string(&numbers).unwrap(), text);
}

#[test]
fn groups_are_optional_and_checked() {
    let terms = GroupTerms {
        method: GROUP_METHOD.into(),
        k: 10,
        keep: vec!["income".into()],
        sensitive: vec!["debt".into()],
        l: 2,
        left_out: 30,
    };
    let with = |change: &dyn Fn(&mut GroupTerms)| {
        let mut fields = fields(2);
        let mut terms = terms.clone();
        change(&mut terms);
        fields.dataset.groups = Some(terms);
        Manifest::new(fields).map(|manifest| manifest.json().to_owned())
    };
    let json = with(&|_| {}).unwrap();
    assert!(
        json.contains(
            r#""groups":{"method":"cuts-mdav","k":10,"keep":["income"],"sensitive":["debt"],"l":2,"left_out":30}}"#
        ),
        "{json}"
    );
    assert_eq!(Manifest::from_json(json.as_bytes()).unwrap().json(), json);
    assert!(!Manifest::new(fields(2)).unwrap().json().contains("groups"));
    let refused = |change: &dyn Fn(&mut GroupTerms)| with(change).unwrap_err().to_string();
    assert!(refused(&|terms| terms.method = "mean".into()).contains("groups.method"));
    assert!(refused(&|terms| terms.k = 1).contains("groups.k"));
    assert!(refused(&|terms| terms.l = 11).contains("groups.l"));
    assert!(refused(&|terms| terms.sensitive.clear()).contains("groups.l"));
    assert!(refused(&|terms| terms.left_out = 3).contains("multiple of k"));
    assert!(refused(&|terms| terms.keep = vec!["age".into()]).contains("no such column"));
}
