//! The options of a search, each described once: its name on every surface, the type of its value,
//! its meaning, and whether servers see it.
//!
//! The command line takes names and help texts from here. The types of the npm package, the table
//! in docs/asking.md and docs/wishes.schema.json are generated. A test of the command line names
//! each surface that lacks an option (`crates/ifonly/src/cli/wish_surfaces.rs`).

/// The type of an option's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WishType {
    /// Yes or no.
    Switch,
    /// Names of features.
    Features,
    /// A number for each feature.
    Weights,
    /// Two numbers for each feature: for rising and for falling values.
    DirectionWeights,
    /// A metric for each feature.
    FeatureMetrics,
    /// Values and their costs for each feature.
    CostTables,
    /// Two bounds for each feature.
    Ranges,
    /// Values for each feature.
    ValueLists,
    /// A metric.
    Metric,
    /// A whole number.
    Count,
    /// A tolerance for each feature.
    Tolerances,
    /// What a further way holds.
    WaysBy,
    /// A whole number or nothing.
    Limit,
    /// A name or nothing.
    Name,
}

/// One option of a search.
#[derive(Clone, Copy, Debug)]
pub struct WishOption {
    /// The field of [`WishList`](crate::WishList), of its JSON form and of the TypeScript type.
    pub field: &'static str,
    /// The flag of the command line, without dashes. Two options may share a flag.
    pub flag: &'static str,
    /// The value of the flag; empty for a switch.
    pub value: &'static str,
    /// The argument in Python.
    pub python: &'static str,
    /// The type of the value.
    pub kind: WishType,
    /// The meaning, without a full stop.
    pub help: &'static str,
    /// How to write the flag, if that needs a sentence; without a full stop.
    pub syntax: &'static str,
    /// Whether the servers see the value.
    pub is_visible: bool,
}

impl WishOption {
    /// The meaning, and whether servers see the value.
    pub fn meaning(&self) -> String {
        let visible = if self.is_visible { " (visible to the servers)" } else { "" };
        format!("{}{visible}", self.help)
    }
}

/// The help text of a flag: the meaning of its options, then how to write them.
pub fn flag_help(flag: &str) -> String {
    let options = || WISH_OPTIONS.iter().filter(|option| option.flag == flag);
    let meanings = options().map(WishOption::meaning);
    let syntax = options().map(|option| option.syntax.to_owned()).filter(|syntax| !syntax.is_empty());
    meanings.chain(syntax).collect::<Vec<_>>().join(". ")
}

macro_rules! options {
    ($($name:ident = $option:expr;)*) => {
        $(#[doc = concat!("The option ", stringify!($name), ".")] pub const $name: WishOption = $option;)*
        /// All options, in the order of [`WishList`](crate::WishList).
        pub const WISH_OPTIONS: &[WishOption] = &[$($name),*];
    };
}

/// An option without value and syntax, invisible to the servers.
const fn option(
    [field, flag, python]: [&'static str; 3],
    value: &'static str,
    kind: WishType,
    help: &'static str,
) -> WishOption {
    WishOption { field, flag, value, python, kind, help, syntax: "", is_visible: false }
}

options! {
    IMMUTABLE = option(["immutable"; 3], "FEATURES", WishType::Features, "Features that must not change");
    FEATURES_TO_VARY = option(
        ["features_to_vary", "features-to-vary", "features_to_vary"],
        "FEATURES",
        WishType::Features,
        "The only features that may change; default: all",
    );
    SUGGESTED_IMMUTABLE = WishOption {
        syntax: "`ifonly profile` shows them",
        ..option(
            ["suggested_immutable", "suggested-immutable", "suggested_immutable"],
            "",
            WishType::Switch,
            "Also keep the features that the institution marks as hard to change",
        )
    };
    WEIGHTS = option(
        ["weights", "weight", "feature_weights"],
        "FEATURE=WEIGHT",
        WishType::Weights,
        "Factor for the cost of a feature, from 0.01 to 1000; default 1",
    );
    ASYMMETRIC = option(
        ["asymmetric", "cost", "cost"],
        "FEATURE=up:3,down:0.5",
        WishType::DirectionWeights,
        "One factor for rising and one for falling values of a feature",
    );
    PRICES = option(
        ["metrics", "cost", "cost"],
        "FEATURE=METRIC",
        WishType::FeatureMetrics,
        "Metric of one feature, if it differs from the metric of the others",
    );
    COSTS = WishOption {
        syntax: "The file is JSON or TOML",
        ..option(
            ["costs", "cost-table", "cost_table"],
            "FILE",
            WishType::CostTables,
            "Cost of each target value, per feature; replaces the metric",
        )
    };
    RANGES = WishOption {
        syntax: "`..` may replace the colon, for example in times",
        ..option(
            ["ranges", "range", "permitted_range"],
            "FEATURE=LOW:HIGH",
            WishType::Ranges,
            "Permitted range of a feature, inclusive; a missing bound is open",
        )
    };
    PERMITS = WishOption {
        syntax: "For a column of intervals use a range",
        ..option(
            ["permits", "permit", "permitted_values"],
            "FEATURE=A,B,…",
            WishType::ValueLists,
            "Permitted values of a feature",
        )
    };
    ONLY_UP = option(
        ["only_up", "only-up", "only_up"],
        "FEATURES",
        WishType::Features,
        "Features whose value must not fall",
    );
    ONLY_DOWN = option(
        ["only_down", "only-down", "only_down"],
        "FEATURES",
        WishType::Features,
        "Features whose value must not rise",
    );
    METRIC = WishOption {
        syntax: "l2 and l1 are relative to the value range, mad to the deviation; count is 1 per change",
        ..option(["metric"; 3], "METRIC", WishType::Metric, "Cost metric: l2 (default), l1, mad or count")
    };
    MAX_CHANGES = option(
        ["max_changes", "max-changes", "max_changes"],
        "K",
        WishType::Limit,
        "Return only rows that change at most this many features; prefer fewer changes",
    );
    TOLERANCE = WishOption {
        syntax: "Such as income=2% of the value range or income=500; `*=0` counts every difference",
        ..option(
            ["tolerance"; 3],
            "FEATURE=SIZE",
            WishType::Tolerances,
            "Differences that count as unchanged; default: half a per cent",
        )
    };
    TOP = WishOption {
        is_visible: true,
        ..option(["top", "top", "total_CFs"], "N", WishType::Count, "Number of nearest rows to fetch")
    };
    WAYS = WishOption {
        is_visible: true,
        syntax: "Each way holds more features at your values than the one before",
        ..option(
            ["ways", "ways", "diverse"],
            "K",
            WishType::Count,
            "Number of different ways, one search each",
        )
    };
    WAYS_BY = option(
        ["ways_by", "ways-by", "ways_by"],
        "WHAT",
        WishType::WaysBy,
        "What a further way holds: feature, the costliest of the way before, or set, all it changed",
    );
    SCHEME = WishOption {
        is_visible: true,
        syntax: "`ifonly inspect` lists the schemes",
        ..option(["scheme"; 3], "SCHEME", WishType::Name, "Scheme to use; default: that of the manifest")
    };
}
