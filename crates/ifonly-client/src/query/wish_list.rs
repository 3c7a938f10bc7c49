//! A person's wishes as plain data: what a command line, a Python call or a page's form fills in.

use ifonly_values::schema::{Schema, Value};
use ifonly_values::wishes::{Metric, WishError, Wishes};
use std::collections::BTreeMap;

/// Wishes by column name, and how to ask. Everything is optional; the default would change anything
/// at squared distance.
#[derive(Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WishList {
    /// Features that must stay as they are.
    pub immutable: Vec<String>,
    /// Only these features may change, if any are named.
    pub features_to_vary: Vec<String>,
    /// Whether what the institution suggests as immutable stays too.
    pub suggested_immutable: bool,
    /// How much a change of a feature counts: 0.01 to 1,000.
    pub weights: BTreeMap<String, f64>,
    /// How much growing and shrinking count, where they differ.
    pub asymmetric: BTreeMap<String, (f64, f64)>,
    /// How changes of a feature are priced, where it is not the metric of all.
    pub prices: BTreeMap<String, Metric>,
    /// What ending at a value costs, instead of a price: one entry per word, or points of a number.
    pub costs: BTreeMap<String, Vec<(Value, f64)>>,
    /// Where a feature must end, both ends included; either may be left open.
    pub ranges: BTreeMap<String, (Option<Value>, Option<Value>)>,
    /// At which values a feature must end.
    pub permits: BTreeMap<String, Vec<Value>>,
    /// Features that may only grow.
    pub only_up: Vec<String>,
    /// Features that may only shrink.
    pub only_down: Vec<String>,
    /// How changes are priced.
    pub metric: Metric,
    /// Prefer rows that change few features; rows that change more than this many do not count.
    pub max_changes: Option<u64>,
    /// How many of the nearest to fetch. Servers see it.
    pub top: usize,
    /// Which scheme to ask with. Servers see it; the default is the manifest's.
    pub scheme: Option<String>,
}

impl Default for WishList {
    fn default() -> WishList {
        WishList {
            immutable: vec![],
            features_to_vary: vec![],
            suggested_immutable: false,
            weights: BTreeMap::new(),
            asymmetric: BTreeMap::new(),
            prices: BTreeMap::new(),
            costs: BTreeMap::new(),
            ranges: BTreeMap::new(),
            permits: BTreeMap::new(),
            only_up: vec![],
            only_down: vec![],
            metric: Metric::default(),
            max_changes: None,
            top: 1,
            scheme: None,
        }
    }
}

// Wishes are as secret as the profile.
impl std::fmt::Debug for WishList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WishList(..)")
    }
}

impl WishList {
    /// The same as wishes about the features of a schema.
    pub fn for_schema(&self, schema: &Schema) -> Result<Wishes, WishError> {
        let mut wishes = Wishes::new(schema);
        wishes.set_metric_of_all(self.metric);
        if !self.features_to_vary.is_empty() {
            wishes.features_to_vary(&self.features_to_vary.iter().map(String::as_str).collect::<Vec<_>>())?;
        }
        for name in &self.immutable {
            wishes.immutable(name)?;
        }
        for name in &self.only_up {
            wishes.only_up(name)?;
        }
        for name in &self.only_down {
            wishes.only_down(name)?;
        }
        if self.suggested_immutable {
            for column in schema.columns() {
                if schema.features()[column.features.start].suggest_immutable {
                    wishes.immutable(column.name)?;
                }
            }
        }
        for (name, &weight) in &self.weights {
            wishes.weight(name, weight)?;
        }
        for (name, &(up, down)) in &self.asymmetric {
            wishes.asymmetric(name, up, down)?;
        }
        for (name, &pricing) in &self.prices {
            wishes.set_metric(name, pricing)?;
        }
        for (name, costs) in &self.costs {
            wishes.costs(name, costs)?;
        }
        for (name, (low, high)) in &self.ranges {
            wishes.permitted_range(name, low.as_ref(), high.as_ref())?;
        }
        for (name, values) in &self.permits {
            wishes.permitted_values(name, values)?;
        }
        if let Some(most) = self.max_changes {
            wishes.max_changes(most);
        }
        Ok(wishes)
    }

    /// The wishes that decide who qualifies, in words.
    pub fn in_words(&self) -> Vec<String> {
        let stays = self.immutable.iter().map(|name| format!("{name} stays as it is"));
        let vary = (!self.features_to_vary.is_empty())
            .then(|| format!("nothing but {} changes", self.features_to_vary.join(", ")));
        let suggested_immutable =
            self.suggested_immutable.then(|| "what the institution suggests stays as it is".to_owned());
        let up = self.only_up.iter().map(|name| format!("{name} does not fall"));
        let down = self.only_down.iter().map(|name| format!("{name} does not rise"));
        let ranges = self.ranges.iter().map(|(name, range)| match range {
            (Some(low), Some(high)) => format!("{name} is {low} to {high}"),
            (Some(low), None) => format!("{name} is {low} or more"),
            (None, Some(high)) => format!("{name} is {high} or less"),
            (None, None) => format!("{name} is anything"),
        });
        let permits = self.permits.iter().map(|(name, values)| {
            let values: Vec<String> = values.iter().map(ToString::to_string).collect();
            format!("{name} is one of {}", values.join(", "))
        });
        let few = self.max_changes.map(|most| format!("at most {most} features change"));
        stays
            .chain(vary)
            .chain(suggested_immutable)
            .chain(up)
            .chain(down)
            .chain(ranges)
            .chain(permits)
            .chain(few)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_data_says_it_all_and_nothing_else() {
        let text = r#"{"immutable": ["age"], "weights": {"debt": 3}, "ranges": {"income": [null, 50000]},
            "permits": {"housing": ["own", "rent"]}, "metric": "l1", "top": 2}"#;
        let list: WishList = serde_json::from_str(text).unwrap();
        assert_eq!(list.ranges["income"], (None, Some(Value::Number(50_000.0))));
        assert_eq!((list.metric, list.top, list.weights["debt"]), (Metric::L1, 2, 3.0));
        assert_eq!(list.in_words(), ["age stays as it is", "income is 50000 or less", "housing is one of own, rent"]);
        let again: WishList = serde_json::from_str(&serde_json::to_string(&list).unwrap()).unwrap();
        assert!(again == list);
        assert!(serde_json::from_str::<WishList>("{}").unwrap() == WishList::default());
        assert!(serde_json::from_str::<WishList>(r#"{"imutable": ["age"]}"#).is_err());
        assert!(!format!("{list:?}").contains("age"));
    }
}
