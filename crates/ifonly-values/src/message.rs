//! Messages for users: a code with arguments, which a page translates, and the English text.
//!
//! Errors and notes implement [`Coded`] with the macro [`coded!`](crate::coded!), so a new variant
//! without a code does not compile. `CODES` lists the codes with the names of their arguments. A
//! test compares the lists with the texts of the page.

use crate::schema::{LevelText, Value};
use std::collections::BTreeMap;

/// A message for the user.
#[derive(Clone, PartialEq, Eq, serde::Serialize)]
pub struct CodedMessage {
    /// The code of the message.
    pub code: &'static str,
    /// The arguments of the message by name.
    pub arguments: BTreeMap<&'static str, MessageArgument>,
    /// The message in English.
    pub message: String,
}

// Messages may contain values and wishes: `Debug` does not print them.
impl std::fmt::Debug for CodedMessage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CodedMessage(..)")
    }
}

impl std::fmt::Display for CodedMessage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl CodedMessage {
    /// A message without arguments.
    pub fn new(code: &'static str, message: impl Into<String>) -> CodedMessage {
        CodedMessage { code, arguments: BTreeMap::new(), message: message.into() }
    }

    /// The features that the message names in the arguments `feature` and `features`.
    pub fn features(&self) -> Vec<String> {
        match (self.arguments.get("feature"), self.arguments.get("features")) {
            (Some(MessageArgument::Text(feature)), _) => vec![feature.clone()],
            (_, Some(MessageArgument::List(features))) => features.iter().filter_map(MessageArgument::text).collect(),
            _ => vec![],
        }
    }
}

/// An argument of a message.
#[derive(Clone, PartialEq, Eq, serde::Serialize)]
#[serde(untagged)]
pub enum MessageArgument {
    /// Absent; null in JSON.
    Absent,
    /// A number.
    Number(u64),
    /// A name, a value or another text that is not translated.
    Text(String),
    /// A level: a value or a range.
    Level(LevelText),
    /// A list.
    List(Vec<MessageArgument>),
}

impl std::fmt::Debug for MessageArgument {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MessageArgument(..)")
    }
}

impl MessageArgument {
    fn text(&self) -> Option<String> {
        match self {
            MessageArgument::Text(text) => Some(text.clone()),
            _ => None,
        }
    }
}

/// What can be an argument of a message.
pub trait ToArgument {
    /// The argument.
    fn to_argument(&self) -> MessageArgument;
}

impl<T: ToArgument + ?Sized> ToArgument for &T {
    fn to_argument(&self) -> MessageArgument {
        (**self).to_argument()
    }
}

impl ToArgument for str {
    fn to_argument(&self) -> MessageArgument {
        MessageArgument::Text(self.into())
    }
}

impl ToArgument for String {
    fn to_argument(&self) -> MessageArgument {
        MessageArgument::Text(self.clone())
    }
}

impl ToArgument for u8 {
    fn to_argument(&self) -> MessageArgument {
        MessageArgument::Number((*self).into())
    }
}

impl ToArgument for u64 {
    fn to_argument(&self) -> MessageArgument {
        MessageArgument::Number(*self)
    }
}

impl ToArgument for usize {
    fn to_argument(&self) -> MessageArgument {
        MessageArgument::Number(*self as u64)
    }
}

impl ToArgument for LevelText {
    fn to_argument(&self) -> MessageArgument {
        MessageArgument::Level(self.clone())
    }
}

impl ToArgument for Value {
    fn to_argument(&self) -> MessageArgument {
        MessageArgument::Text(self.to_string())
    }
}

impl<T: ToArgument> ToArgument for Option<T> {
    fn to_argument(&self) -> MessageArgument {
        self.as_ref().map_or(MessageArgument::Absent, T::to_argument)
    }
}

impl<T: ToArgument> ToArgument for Vec<T> {
    fn to_argument(&self) -> MessageArgument {
        MessageArgument::List(self.iter().map(T::to_argument).collect())
    }
}

/// A code and the names of its arguments.
pub type CodeEntry = (&'static str, &'static [&'static str]);

/// An error or a note with a code. The English text is its `Display`.
pub trait Coded: std::fmt::Display {
    /// The codes of the type, without those of errors that it wraps.
    const CODES: &'static [CodeEntry];

    /// The code and the arguments.
    fn code_and_arguments(&self) -> (&'static str, BTreeMap<&'static str, MessageArgument>);

    /// The message for the user.
    fn coded(&self) -> CodedMessage {
        let (code, arguments) = self.code_and_arguments();
        CodedMessage { code, arguments, message: self.to_string() }
    }
}

/// Implements [`Coded`](crate::message::Coded): `PATTERN => CODE { ARGUMENT, … },` for each
/// variant, after `@wraps PATTERN => ERROR;` for variants with an inner error that has its own
/// codes. An argument is a variable of the pattern, or `NAME = EXPRESSION`.
#[macro_export]
macro_rules! coded {
    (@value $argument:ident) => { $crate::message::ToArgument::to_argument(&$argument) };
    (@value $argument:ident = $value:expr) => { $crate::message::ToArgument::to_argument(&$value) };
    ($type:ty {
        $(@wraps $outer:pat => $inner:expr;)*
        $($pattern:pat => $code:literal { $($argument:ident $(= $value:expr)?),* },)*
    }) => {
        impl $crate::message::Coded for $type {
            const CODES: &'static [$crate::message::CodeEntry] =
                &[$(($code, &[$(stringify!($argument)),*])),*];

            #[allow(unused_variables)]
            fn code_and_arguments(
                &self,
            ) -> (&'static str, ::std::collections::BTreeMap<&'static str, $crate::message::MessageArgument>) {
                match self {
                    $($outer => $crate::message::Coded::code_and_arguments($inner),)*
                    $($pattern => ($code, ::std::collections::BTreeMap::from([
                        $((stringify!($argument), $crate::coded!(@value $argument $(= $value)?))),*
                    ])),)*
                }
            }
        }
    };
}
