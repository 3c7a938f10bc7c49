//! The wish list: the user's wishes as plain data, for the command line, Python and the web page.

use ifonly_values::schema::{Schema, Value};
use ifonly_values::wishes::{Metric, WishError, Wishes};
use std::collections::BTreeMap;

/// Wishes by column name, the number of records and the scheme. All fields are optional. By default
/// every feature may change, and the metric is l2.
#[derive(Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WishList {
    /// Features that do not change.
    pub immutable: Vec<String>,
    /// If not empty, only these features may change.
    pub features_to_vary: Vec<String>,
    /// Whether the features that the institution marks as hard to change do not change.
    pub suggested_immutable: bool,
    /// Weights of features, 0.01 to 1,000.
    pub weights: BTreeMap<String, f64>,
    /// Separate weights for an increase and a decrease.
    pub asymmetric: BTreeMap<String, (f64, f64)>,
    /// Metrics of single features, if they differ from `metric`.
    pub prices: BTreeMap<String, Metric>,
    /// The cost of each target value: one entry per word, or points of a number.
    pub costs: BTreeMap<String, Vec<(Value, f64)>>,
    /// Permitted range of a feature, inclusive. `None` leaves an end open.
    pub ranges: BTreeMap<String, (Option<Value>, Option<Value>)>,
    /// Permitted values of a feature.
    pub permits: BTreeMap<String, Vec<Value>>,
    /// Features that may only increase.
    pub only_up: Vec<String>,
    /// Features that may only decrease.
    pub only_down: Vec<String>,
    /// The metric.
    pub metric: Metric,
    /// If set, the answer contains only rows that change at most this many features, and fewer
    /// changes are preferred.
    pub max_changes: Option<u64>,
    /// The number of records to fetch. Visible to the servers.
    pub top: usize,
    /// The scheme; by default that of the manifest. Visible to the servers.
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
    /// Resolves the names against a schema.
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
        for (name, &metric) in &self.prices {
            wishes.set_metric(name, metric)?;
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

    /// The wishes that decide which rows match, in words.
    pub fn in_words(&self) -> Vec<String> {
        let stays = self.immutable.iter().map(|name| format!("{name} stays as it is"));
        let vary = (!self.features_to_vary.is_empty())
            .then(|| format!("only {} may change", self.features_to_vary.join(", ")));
        let suggested_immutable =
            self.suggested_immutable.then(|| "features marked as hard to change stay as they are".to_owned());
        let up = self.only_up.iter().map(|name| format!("{name} does not fall"));
        let down = self.only_down.iter().map(|name| format!("{name} does not rise"));
        let ranges = self.ranges.iter().map(|(name, range)| match range {
            (Some(low), Some(high)) => format!("{name} is {low} to {high}"),
            (Some(low), None) => format!("{name} is {low} or more"),
            (None, Some(high)) => format!("{name} is {high} or less"),
            (None, None) => format!("{name} has any value"),
        });
        let permits = self.permits.iter().map(|(name, values)| {
            let values: Vec<String> = values.iter().map(ToString::to_string).collect();
            format!("{name} is one of {}", values.join(", "))
        });
        let few = self.max_changes.map(|most| match most {
            1 => "at most 1 feature changes".to_owned(),
            _ => format!("at most {most} features change"),
        });
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
    fn a_wish_list_can_be_serialised_and_refuses_unknown_fields() {
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
