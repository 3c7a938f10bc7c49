//! Errors as Python exceptions, one class per category. The classes are in `ifonly/errors.py`.

use ifonly::ErrorCategory;
use ifonly::values::message::CodedMessage;
use pyo3::prelude::*;
use pyo3::types::PyType;

/// The exception for an error of this category.
pub(crate) fn exception(category: ErrorCategory, message: impl ToString) -> PyErr {
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
            // Only if the package is incomplete.
            Err(error) => error,
        }
    })
}

/// The exception for a coded message: as [`exception`], with `code` and `arguments`.
pub(crate) fn coded_exception((category, message): &(ErrorCategory, CodedMessage)) -> PyErr {
    let error = exception(*category, &message.message);
    Python::attach(|py| {
        let arguments = json(&message.arguments)?;
        let arguments = py.import("json")?.call_method1("loads", (arguments,))?;
        error.value(py).setattr("code", message.code)?;
        error.value(py).setattr("arguments", arguments)
    })
    .err()
    .unwrap_or(error)
}

/// Replaces command-line flags in a message by the keyword arguments of the same name.
fn keywords(message: &str) -> String {
    let mut parts = message.split("--");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !(c.is_ascii_lowercase() || c == '-')).unwrap_or(part.len());
        let (flag, rest) = part.split_at(end);
        if flag.is_empty() {
            text += "--"
        } else {
            text += &format!("`{}`", flag.replace('-', "_"))
        }
        text += rest;
    }
    text
}

/// An error in the caller's input.
pub(crate) fn input(message: impl ToString) -> PyErr {
    exception(ErrorCategory::Input, message)
}

/// An error of this machine.
pub(crate) fn machine(message: impl ToString) -> PyErr {
    exception(ErrorCategory::Machine, message)
}

/// Parses the JSON that the Python files write.
pub(crate) fn parse<T: serde::de::DeserializeOwned>(json: &str) -> PyResult<T> {
    // The user does not see the JSON text, so line and column would not help.
    serde_json::from_str(json).map_err(|error| {
        let text = error.to_string();
        input(text.rsplit_once(" at line ").map_or(text.as_str(), |(reason, _)| reason))
    })
}

/// The JSON text that the command line prints.
pub(crate) fn json(value: &impl serde::Serialize) -> PyResult<String> {
    ifonly::cli::sanitize::json(value).map_err(machine)
}
