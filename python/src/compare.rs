//! `tenon.compare`: two backends in lock step.

use crate::call::Call;
use crate::error::{Failure, invalid};
use crate::inputs::{read_inputs, tensors};
use crate::model::report_of;
use crate::package::PyPackage;
use pyo3::prelude::*;
use tenon::compare::{CompareOptions, Tolerance, compare_backends};
use tenon::{BackendId, LoadOptions, Model};

/// Runs a package and compares each node on two backends.
#[pyfunction]
#[pyo3(signature = (package, inputs, backends, relative, absolute, steps, timeout))]
pub fn compare_package<'py>(
    py: Python<'py>,
    package: &Bound<'py, PyPackage>,
    inputs: &Bound<'py, PyAny>,
    backends: (String, String),
    relative: Option<f64>,
    absolute: Option<f64>,
    steps: Option<u32>,
    timeout: Option<f64>,
) -> PyResult<Bound<'py, PyAny>> {
    let given = [relative, absolute];
    if given
        .into_iter()
        .flatten()
        .any(|bound| bound.is_nan() || bound < 0.0)
    {
        return Err(Failure::from(invalid("a tolerance is negative or no number")).into());
    }
    let package = package.get().package();
    let call = Call::new(timeout, None)?;
    let signatures = py.detach(|| {
        let model = package.load(&LoadOptions::new())?;
        Ok::<_, tenon::Error>(Model::inputs(&model).to_vec())
    });
    let signatures = signatures.map_err(|error| PyErr::from(Failure::from(error)))?;
    let inputs = read_inputs(&signatures, inputs)?;
    let json = call.run(py, move |control| {
        let (first, second) = (BackendId::from(backends.0), BackendId::from(backends.1));
        let options = CompareOptions::new(first, second)
            .tolerance(Tolerance {
                relative,
                absolute,
                steps,
            })
            .fused_nodes(package.fused_nodes())
            .load(LoadOptions::new().control(control.clone()));
        let comparison = compare_backends(&package.to_neff()?, &tensors(&inputs)?, &options)?;
        Ok(comparison.json())
    })?;
    report_of(py, "Comparison", &json)
}
