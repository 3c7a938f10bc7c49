//! A template of a profile: a TOML file with one entry and an explanation for every column.

use ifonly_values::manifest::Manifest;
use ifonly_values::schema::{Feature, FeatureKind, Notation};

/// A TOML text with an empty value and a comment for every column.
pub fn template(manifest: &Manifest) -> String {
    let dataset = &manifest.fields().dataset;
    let mut text = format!(
        "# Your values for {}, version {}. They stay on this machine; each server gets a random share.\n\
         # Write each value between the quotes. An empty value counts as missing.\n",
        one_line(&dataset.name),
        one_line(&dataset.version)
    );
    let schema = manifest.schema();
    for column in schema.columns() {
        let features = &schema.features()[column.features.clone()];
        let first = &features[0];
        text += "\n";
        if let Some(description) = &first.description {
            text += &format!("# {}\n", one_line(description.in_language("en")));
        }
        text += &format!("# {}\n", one_line(&describe_values(features)));
        if let Some(default) = &first.default {
            text += &format!("# The default is {}.\n", one_line(default));
        }
        if first.suggest_immutable {
            text += "# The institution marks this as hard to change (wish `suggested_immutable`).\n";
        }
        // A JSON string is also a valid TOML key.
        text += &format!("{} = \"\"\n", serde_json::Value::from(column.name));
    }
    text
}

/// Describes the valid values of a column, given its features.
pub fn describe_values(features: &[Feature]) -> String {
    let first = &features[0];
    let unit = first.unit.as_ref().map(|unit| format!(" ({})", unit.in_language("en"))).unwrap_or_default();
    if let [_, _, ..] = features {
        let categories = features.iter().filter_map(|feature| Some(&feature.one_hot.as_ref()?.category));
        return format!("one of {}{unit}", listed(categories));
    }
    match &first.kind {
        FeatureKind::Numeric { scale, notation } => {
            let (min, max) = scale.bounds();
            let what = match notation {
                Notation::Plain | Notation::Formatted { .. } => "a number",
                Notation::Date => "a date",
                Notation::Timestamp => "a date and time",
            };
            format!("{what} from {} to {}{unit}", notation.write(min), notation.write(max))
        }
        FeatureKind::Ordinal { ranks } => format!("from low to high: {}{unit}", listed(ranks)),
        FeatureKind::Categorical { categories, .. } => format!("one of {}{unit}", listed(categories)),
    }
}

/// Words separated by commas. Words that contain a comma or a quote are quoted as in CSV.
fn listed<'a>(words: impl IntoIterator<Item = &'a String>) -> String {
    let quoted = |word: &String| {
        if word.contains([',', '"']) { format!("\"{}\"", word.replace('"', "\"\"")) } else { word.clone() }
    };
    words.into_iter().map(quoted).collect::<Vec<_>>().join(", ")
}

/// Replaces line breaks and other control characters, which would end a comment.
fn one_line(text: &str) -> String {
    text.split(|c: char| c.is_control()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::profile::ProfileValues;
    use ifonly_values::manifest::ManifestFields;
    use ifonly_values::schema::{Scale, Schema};

    #[test]
    fn a_filled_template_is_a_profile_for_any_column_names() {
        let age = Feature {
            unit: Some("years".into()),
            description: Some("How old\nyou are".into()),
            suggest_immutable: true,
            ..Feature::new("age", Scale::whole_numbers(18, 90).unwrap().into())
        };
        let categories = vec!["A, north".into(), "B".into()];
        let city = Feature {
            default: Some("B".into()),
            ..Feature::new("city, \"district\".x", FeatureKind::Categorical { categories, range: 1 })
        };
        let schema = Schema::new(vec![age, city]).unwrap();
        let manifest = Manifest::new(ManifestFields::new("people", schema, 3, 64, 2)).unwrap();
        let text = template(&manifest);
        for line in [
            "# How old you are",
            "# a number from 18 to 90 (years)",
            "(wish `suggested_immutable`)",
            "# one of \"A, north\", B",
        ] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
        let values = ProfileValues::from_toml(&text.replace("age\" = \"\"", "age\" = \"41\"")).unwrap();
        assert!(values.unknown(manifest.schema()).is_empty() && values.missing(manifest.schema()).is_empty());
    }
}
