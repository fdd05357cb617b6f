//! `tenon.HostProgram`: a host program, as MLIR text or BEF bytes.

use crate::call::Call;
use crate::error::{Failure, OrRaise};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tenon::host_program::{
    Diagnostic, Direction, ExecOptions, Kernels, Log, ProgramInput, TranslateOptions, execute,
    kernels, translate,
};
use tenon::{Error, ErrorKind};

/// A host program.
#[pyclass(frozen, module = "tenon", name = "HostProgram", weakref)]
pub struct PyHostProgram {
    input: ProgramInput,
}

/// The output of a program.
#[derive(Clone, Default)]
struct Output(Arc<Mutex<Vec<u8>>>);

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut output = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        output.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The errors that diagnostics report, as one.
fn failed(diagnostics: &[Diagnostic]) -> Error {
    let errors = diagnostics
        .iter()
        .map(|diagnostic| Error::new(ErrorKind::InvalidProgram, diagnostic.to_string()));
    let none = || Error::new(ErrorKind::InvalidProgram, "the program failed");
    Error::from_all(errors).unwrap_or_else(none)
}

impl PyHostProgram {
    fn translated(&self, direction: Direction) -> PyResult<Vec<u8>> {
        let done = translate(&self.input, &TranslateOptions::new(direction));
        match done.succeeded {
            true => Ok(done.output),
            false => Err(Failure::from(failed(&done.diagnostics)).into()),
        }
    }

    fn text(&self) -> PyResult<String> {
        let bytes = match self.input.is_bef() {
            true => self.translated(Direction::BefToMlir)?,
            false => self.input.bytes().to_vec(),
        };
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

#[pymethods]
impl PyHostProgram {
    /// The program of a file, MLIR text or BEF.
    #[new]
    fn new(path: PathBuf) -> PyResult<Self> {
        let input = ProgramInput::open(path).or_raise()?;
        Ok(Self { input })
    }

    /// The program of MLIR text (`str`) or of BEF (`bytes`); messages have `name` in place of a file.
    #[staticmethod]
    #[pyo3(signature = (program, name = "program"))]
    fn parse(program: &Bound<'_, PyAny>, name: &str) -> PyResult<Self> {
        let bytes = match program.cast::<PyString>() {
            Ok(text) => text.to_str()?.as_bytes().to_vec(),
            Err(_) => program.cast::<PyBytes>()?.as_bytes().to_vec(),
        };
        Ok(Self {
            input: ProgramInput::new(name, bytes),
        })
    }

    /// Runs functions without arguments, all by default, and returns what they print.
    #[pyo3(signature = (functions = None, *, threads = None, timeout = None))]
    fn run(
        &self,
        py: Python<'_>,
        functions: Option<Vec<String>>,
        threads: Option<usize>,
        timeout: Option<f64>,
    ) -> PyResult<String> {
        let call = Call::new(timeout, None)?;
        let queue = threads.map_or("s".to_owned(), |threads| format!("mstd:{threads}"));
        let input = &self.input;
        let output = Output::default();
        let out = output.clone();
        call.run(py, move |control| {
            let options = ExecOptions::new()
                .functions(functions.unwrap_or_default())
                .work_queue(queue)
                .control(control.clone());
            let done = execute(
                input,
                &kernels(Kernels::All)?,
                &options,
                out,
                Log::standard_error(),
            )?;
            match done.succeeded {
                true => Ok(()),
                false => Err(failed(&done.diagnostics)),
            }
        })?;
        let bytes = output.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = match self.input.is_bef() {
            true => self.input.bytes().to_vec(),
            false => self.translated(Direction::MlirToBef)?,
        };
        Ok(PyBytes::new(py, &bytes))
    }

    /// The program as MLIR text.
    fn __str__(&self) -> PyResult<String> {
        self.text()
    }

    fn __repr__(&self) -> String {
        format!("<tenon.HostProgram {}>", self.input.name())
    }
}
