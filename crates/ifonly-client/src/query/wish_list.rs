//! The wish list: the user's wishes as plain data, for the command line, Python and the web page.

use crate::answer::AnswerNote;
use crate::error::ClientError;
use crate::search::ways::WaysBy;
use ifonly_core::secret_query::SecretQueryError;
use ifonly_values::coded;
use ifonly_values::message::{CodeEntry, Coded, CodedMessage};
use ifonly_values::schema::{Schema, SchemaError, Value};
use ifonly_values::wishes::{Metric, WishError, WishNote, Wishes};
use std::collections::BTreeMap;

/// The tolerance of a feature without one of its own, as a share of its value range.
const DEFAULT_TOLERANCE: f64 = 0.005;
/// The name that stands for all features without a tolerance of their own.
const OTHERS: &str = "*";

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
    pub metrics: BTreeMap<String, Metric>,
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
    /// How far a number may be from the user's and still count as unchanged: a number, or a
    /// percentage of the value range such as "2%". The name `*` stands for all other features.
    pub tolerance: BTreeMap<String, Value>,
    /// The number of records to fetch. Visible to the servers.
    pub top: usize,
    /// The number of different ways to search for, one search each. Visible to the servers.
    pub ways: usize,
    /// What a further way holds, in addition to the way before.
    pub ways_by: WaysBy,
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
            metrics: BTreeMap::new(),
            costs: BTreeMap::new(),
            ranges: BTreeMap::new(),
            permits: BTreeMap::new(),
            only_up: vec![],
            only_down: vec![],
            metric: Metric::default(),
            max_changes: None,
            tolerance: BTreeMap::new(),
            top: 1,
            ways: 1,
            ways_by: WaysBy::default(),
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
    /// The number of searches, one for each way. It depends only on what the servers see.
    pub fn searches(&self) -> Result<usize, ClientError> {
        const MAX_WAYS: usize = 10;
        match self.ways {
            2.. if self.top > 1 => Err(ClientError::TopAndWays),
            1..=MAX_WAYS => Ok(self.ways),
            requested => Err(ClientError::Ways { requested, limit: MAX_WAYS }),
        }
    }

    /// Checks that no two wishes set the same part of the cost of a feature.
    pub fn check_costs(&self) -> Result<(), WishError> {
        let refuse = |feature: &String, first, second| WishError::TwoCosts { feature: feature.clone(), first, second };
        if let Some(name) = self.weights.keys().find(|&name| self.asymmetric.contains_key(name)) {
            return Err(refuse(name, "a weight", "separate weights for up and down"));
        }
        if let Some(name) = self.metrics.keys().find(|&name| self.costs.contains_key(name)) {
            return Err(refuse(name, "a metric", "a cost table"));
        }
        Ok(())
    }

    /// Resolves the names against a schema.
    pub fn for_schema(&self, schema: &Schema) -> Result<Wishes, WishError> {
        self.check_costs()?;
        let mut wishes = Wishes::new(schema);
        wishes.set_metric_of_all(self.metric);
        let others = self.tolerance.get(OTHERS);
        wishes.tolerance_of_all(others.map_or(Ok(DEFAULT_TOLERANCE), share)?);
        for (name, tolerance) in self.tolerance.iter().filter(|(name, _)| *name != OTHERS) {
            wishes.tolerance(name, tolerance)?;
        }
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
        for (name, &metric) in &self.metrics {
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
        if self.ways > 1 {
            wishes.several_ways();
        }
        Ok(wishes)
    }

    /// The wishes that decide which rows match, as messages for the user.
    pub fn described(&self) -> Vec<CodedMessage> {
        use DescribedWish as Described;
        let each =
            |names: &[String], wish: fn(String) -> Described| names.iter().cloned().map(wish).collect::<Vec<_>>();
        let mut wishes = each(&self.immutable, |feature| Described::Immutable { feature });
        if !self.features_to_vary.is_empty() {
            wishes.push(Described::FeaturesToVary { features: self.features_to_vary.clone() });
        }
        if self.suggested_immutable {
            wishes.push(Described::SuggestedImmutable);
        }
        wishes.extend(each(&self.only_up, |feature| Described::OnlyUp { feature }));
        wishes.extend(each(&self.only_down, |feature| Described::OnlyDown { feature }));
        for (feature, (low, high)) in &self.ranges {
            wishes.push(Described::Range { feature: feature.clone(), low: low.clone(), high: high.clone() });
        }
        for (feature, values) in &self.permits {
            wishes.push(Described::Permit { feature: feature.clone(), values: values.clone() });
        }
        for (feature, tolerance) in self.tolerance.iter().filter(|(name, _)| *name != OTHERS) {
            wishes.push(Described::Tolerance { feature: feature.clone(), tolerance: tolerance.clone() });
        }
        wishes.extend(self.max_changes.map(|most| Described::MaxChanges { most }));
        wishes.iter().map(Coded::coded).collect()
    }
}

/// The percentage of a tolerance for all features, as a share.
fn share(tolerance: &Value) -> Result<f64, WishError> {
    let text = tolerance.to_string();
    let percent = text.strip_suffix('%').unwrap_or(if text == "0" { &text } else { "" });
    let share = percent.trim().parse().map(|percent: f64| percent / 100.0).ok();
    share
        .filter(|share| (0.0..=0.5).contains(share))
        .ok_or_else(|| WishError::Tolerance { feature: OTHERS.into(), value: text.clone() })
}

/// A wish that decides which rows match.
enum DescribedWish {
    Immutable { feature: String },
    FeaturesToVary { features: Vec<String> },
    SuggestedImmutable,
    OnlyUp { feature: String },
    OnlyDown { feature: String },
    Range { feature: String, low: Option<Value>, high: Option<Value> },
    Permit { feature: String, values: Vec<Value> },
    Tolerance { feature: String, tolerance: Value },
    MaxChanges { most: u64 },
}

coded! { DescribedWish {
    DescribedWish::Immutable { feature } => "wish-immutable" { feature },
    DescribedWish::FeaturesToVary { features } => "wish-features-to-vary" { features },
    DescribedWish::SuggestedImmutable => "wish-suggested-immutable" {},
    DescribedWish::OnlyUp { feature } => "wish-only-up" { feature },
    DescribedWish::OnlyDown { feature } => "wish-only-down" { feature },
    DescribedWish::Range { feature, low, high } => "wish-range" { feature, low, high },
    DescribedWish::Permit { feature, values } => "wish-permit" { feature, values },
    DescribedWish::Tolerance { feature, tolerance } => "wish-tolerance" { feature, tolerance },
    DescribedWish::MaxChanges { most } => "wish-max-changes" { most },
} }

impl std::fmt::Display for DescribedWish {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DescribedWish::Immutable { feature } => write!(f, "{feature} stays as it is"),
            DescribedWish::FeaturesToVary { features } => write!(f, "only {} may change", features.join(", ")),
            DescribedWish::SuggestedImmutable => f.write_str("features marked as hard to change stay as they are"),
            DescribedWish::OnlyUp { feature } => write!(f, "{feature} does not fall"),
            DescribedWish::OnlyDown { feature } => write!(f, "{feature} does not rise"),
            DescribedWish::Range { feature, low: Some(low), high: Some(high) } => {
                write!(f, "{feature} is {low} to {high}")
            }
            DescribedWish::Range { feature, low: Some(low), high: None } => write!(f, "{feature} is {low} or more"),
            DescribedWish::Range { feature, low: None, high: Some(high) } => write!(f, "{feature} is {high} or less"),
            DescribedWish::Range { feature, low: None, high: None } => write!(f, "{feature} has any value"),
            DescribedWish::Permit { feature, values } => {
                let values: Vec<String> = values.iter().map(ToString::to_string).collect();
                write!(f, "{feature} is one of {}", values.join(", "))
            }
            DescribedWish::Tolerance { feature, tolerance } => {
                write!(f, "{feature} counts as unchanged within {tolerance}")
            }
            DescribedWish::MaxChanges { most: 1 } => f.write_str("at most 1 feature changes"),
            DescribedWish::MaxChanges { most } => write!(f, "at most {most} features change"),
        }
    }
}

/// The codes of all messages that a search can return: notes, wishes and errors, without those of
/// [failed servers](crate::TransportError::code).
pub fn message_codes() -> Vec<CodeEntry> {
    [
        WishNote::CODES,
        AnswerNote::CODES,
        DescribedWish::CODES,
        ClientError::CODES,
        WishError::CODES,
        SchemaError::CODES,
        SecretQueryError::CODES,
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_wishes_for_the_same_cost_are_refused() {
        let check = |text: &str| serde_json::from_str::<WishList>(text).unwrap().check_costs();
        for text in [
            r#"{"weights": {"debt": 3}, "asymmetric": {"debt": [2, 1]}}"#,
            r#"{"metrics": {"debt": "l1"}, "costs": {"debt": [["1", 2], ["2", 3]]}}"#,
        ] {
            assert!(matches!(check(text), Err(WishError::TwoCosts { feature, .. }) if feature == "debt"), "{text}");
        }
        // A weight multiplies a metric or a cost table, so both count.
        assert_eq!(check(r#"{"weights": {"debt": 3}, "metrics": {"debt": "l1"}}"#), Ok(()));
        assert_eq!(check(r#"{"weights": {"debt": 3}, "asymmetric": {"age": [2, 1]}}"#), Ok(()));
    }

    #[test]
    fn a_wish_list_can_be_serialised_and_refuses_unknown_fields() {
        let text = r#"{"immutable": ["age"], "weights": {"debt": 3}, "ranges": {"income": [null, 50000]},
            "permits": {"housing": ["own", "rent"]}, "metric": "l1", "top": 2}"#;
        let list: WishList = serde_json::from_str(text).unwrap();
        assert_eq!(list.ranges["income"], (None, Some(Value::Number(50_000.0))));
        assert_eq!((list.metric, list.top, list.weights["debt"]), (Metric::L1, 2, 3.0));
        let words: Vec<String> = list.described().iter().map(ToString::to_string).collect();
        assert_eq!(words, ["age stays as it is", "income is 50000 or less", "housing is one of own, rent"]);
        let again: WishList = serde_json::from_str(&serde_json::to_string(&list).unwrap()).unwrap();
        assert!(again == list);
        assert!(serde_json::from_str::<WishList>("{}").unwrap() == WishList::default());
        assert!(serde_json::from_str::<WishList>(r#"{"imutable": ["age"]}"#).is_err());
        assert!(!format!("{list:?}").contains("age"));
    }
}
