//! Tables from Python: any object with the Arrow stream interface.

use crate::errors::input;
use arrow_array::RecordBatchReader;
use arrow_array::ffi_stream::RecordBatchStreamReader;
use arrow_pyarrow::FromPyArrow;
use ifonly_bundle::{ArrowTable, BuildError};
use pyo3::exceptions::{PyException, PyKeyboardInterrupt};
use pyo3::prelude::*;

/// Reads a table; error messages call it `name`. Buffers are shared with their owner if possible.
pub(crate) fn table(data: &Bound<'_, PyAny>, name: &str) -> PyResult<ArrowTable> {
    let py = data.py();
    let refuse = |error: PyErr| {
        if error.is_instance_of::<PyKeyboardInterrupt>(py) || !error.is_instance_of::<PyException>(py) {
            return error;
        }
        let refused = input(format!("{name}: it cannot be read through the Arrow interface: {}", error.value(py)));
        refused.set_cause(py, Some(error));
        refused
    };
    let reader = RecordBatchStreamReader::from_pyarrow_bound(data).map_err(refuse)?;
    let schema = reader.schema();
    let damaged = |error| input(format!("{name}: its Arrow stream cannot be read: {error}"));
    let batches = reader.collect::<Result<Vec<_>, _>>().map_err(damaged)?;
    ArrowTable::new(name, &schema, batches).map_err(|error| build_error(&error))
}

type TextRows = (Vec<String>, Vec<bool>, Vec<Vec<String>>);

/// The names of the columns, whether each has numbers with fractions, and the rows as texts.
/// Missing values are empty texts.
#[pyfunction]
#[pyo3(signature = (data, name))]
pub(crate) fn rows(data: &Bound<'_, PyAny>, name: &str) -> PyResult<TextRows> {
    let table = table(data, name)?;
    let rows = data.py().detach(|| table.texts()).map_err(|error| build_error(&error))?;
    Ok((table.columns().to_vec(), table.fractions().to_vec(), rows))
}

/// The exception for an error of a build or of a table.
pub(crate) fn build_error(error: &BuildError) -> PyErr {
    crate::errors::exception(error.category(), error)
}
