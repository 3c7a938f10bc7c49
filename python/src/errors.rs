//! Faults as Python's exceptions, by who has to do something about them. The classes are in
//! `ifonly/errors.py`.

use ifonly::ErrorCategory;
use pyo3::prelude::*;
use pyo3::types::PyType;

/// The exception for a fault.
pub(crate) fn blamed(category: ErrorCategory, message: impl ToString) -> PyErr {
    let class = match category {
        ErrorCategory::Machine => "MachineError",
        ErrorCategory::Input => "InputError",
        ErrorCategory::Servers => "ServersError",
        ErrorCategory::Integrity => "IntegrityError",
    };
    Python::attach(|py| {
        let found = py.import("ifonly.errors").and_then(|module| module.getattr(class));
        match found.and_then(|class| Ok(class.cast_into::<PyType>()?)) {
            Ok(class) => PyErr::from_type(class, (keywords(&message.to_string()),)),
            // Only where the package is broken.
            Err(error) => error,
        }
    })
}

/// The crates advise in flags of the command line; here they are keyword arguments.
fn keywords(message: &str) -> String {
    let mut parts = message.split("--");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !(c.is_ascii_lowercase() || c == '-')).unwrap_or(part.len());
        let (flag, rest) = part.split_at(end);
        match flag.is_empty() {
            true => text += "--",
            false => text += &format!("`{}`", flag.replace('-', "_")),
        }
        text += rest;
    }
    text
}

/// The caller's fault.
pub(crate) fn input(message: impl ToString) -> PyErr {
    blamed(ErrorCategory::Input, message)
}

/// This machine's fault.
pub(crate) fn machine(message: impl ToString) -> PyErr {
    blamed(ErrorCategory::Machine, message)
}

/// Reads options that the Python files wrote.
pub(crate) fn options<T: serde::de::DeserializeOwned>(json: &str) -> PyResult<T> {
    // Line and column of a text that nobody sees help nobody.
    serde_json::from_str(json).map_err(|error| {
        let text = error.to_string();
        input(text.rsplit_once(" at line ").map_or(text.as_str(), |(reason, _)| reason))
    })
}

/// An answer as the text that the command line prints.
pub(crate) fn json(value: &impl serde::Serialize) -> PyResult<String> {
    ifonly::cli::sanitize::json(value).map_err(machine)
}
