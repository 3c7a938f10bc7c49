//! A person's wishes as plain data: what a command line, a Python call or a page's form fills in.

use ifonly_core::schema::{Schema, Value};
use ifonly_core::wishes::{Pricing, WishError, Wishes};
use std::collections::BTreeMap;

/// Wishes by column name, and how to ask. Everything is optional; the default would change anything at squared distance.
#[derive(Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WishList {
    /// Features that must stay as they are.
    pub immutable: Vec<String>,
    /// Only these features may change, if any are named.
    pub features_to_vary: Vec<String>,
    /// How much a change of a feature counts.
    pub weights: BTreeMap<String, u64>,
    /// Where a feature must end, both ends included; either may be left open.
    pub ranges: BTreeMap<String, (Option<Value>, Option<Value>)>,
    /// At which values a feature must end.
    pub permits: BTreeMap<String, Vec<Value>>,
    /// Features that may only grow.
    pub only_up: Vec<String>,
    /// Features that may only shrink.
    pub only_down: Vec<String>,
    /// How changes are priced.
    pub metric: Pricing,
    /// Prefer rows that change few features; rows that change more than this many do not count.
    pub few_changes: Option<u64>,
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
            weights: BTreeMap::new(),
            ranges: BTreeMap::new(),
            permits: BTreeMap::new(),
            only_up: vec![],
            only_down: vec![],
            metric: Pricing::default(),
            few_changes: None,
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
        wishes.price_all(self.metric);
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
        for (name, &weight) in &self.weights {
            wishes.weight(name, weight)?;
        }
        for (name, (low, high)) in &self.ranges {
            wishes.permitted_range(name, low.as_ref(), high.as_ref())?;
        }
        for (name, values) in &self.permits {
            wishes.permitted_values(name, values)?;
        }
        if let Some(most) = self.few_changes {
            wishes.few_changes(most);
        }
        Ok(wishes)
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
        assert_eq!((list.metric, list.top, list.weights["debt"]), (Pricing::L1, 2, 3));
        let again: WishList = serde_json::from_str(&serde_json::to_string(&list).unwrap()).unwrap();
        assert!(again == list);
        assert!(serde_json::from_str::<WishList>("{}").unwrap() == WishList::default());
        assert!(serde_json::from_str::<WishList>(r#"{"imutable": ["age"]}"#).is_err());
        assert!(!format!("{list:?}").contains("age"));
    }
}
