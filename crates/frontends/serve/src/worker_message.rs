//! The messages between the server and the process of a model: JSON after its length, then the elements of tensors.

use crate::executor::Interface;
use crate::raw_data;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind as IoErrorKind, Read, Write};
use std::path::PathBuf;
use tenon::{DataType, Dimension, Error, ErrorKind, Signature, Tensor, TensorType};

/// What the server sends.
#[derive(Debug, Serialize, Deserialize)]
pub enum WorkerRequest {
    /// The first message: load a model.
    Load {
        /// Its file.
        path: PathBuf,
        /// The most threads of one execution.
        threads: Option<usize>,
        /// Concurrent executions.
        instances: usize,
    },
    /// Execute some runs, joined; the elements of their inputs follow.
    Run {
        /// The id of the execution.
        id: u64,
        /// The inputs of each run.
        runs: Vec<Vec<TensorHead>>,
    },
    /// Give an execution up.
    Cancel {
        /// The id of the execution.
        id: u64,
    },
}

/// What the worker sends.
#[derive(Debug, Serialize, Deserialize)]
pub enum WorkerAnswer {
    /// The model is loaded.
    Loaded {
        /// What it needs and makes.
        interface: InterfaceText,
        /// The size of its package.
        bytes: u64,
    },
    /// The outputs of an execution; their elements follow.
    Done {
        /// The id of the execution.
        id: u64,
        /// The outputs of each run.
        runs: Vec<Vec<TensorHead>>,
    },
    /// An execution failed, or with id 0 the model was not loaded.
    Failed {
        /// The id of the execution.
        id: u64,
        /// Why: kinds and sentences.
        problems: Vec<(String, String)>,
    },
}

/// A tensor whose elements follow.
#[derive(Debug, Serialize, Deserialize)]
pub struct TensorHead {
    /// The type, as in `f32[2, 3]`.
    ty: String,
    /// The bytes of its elements.
    bytes: u64,
}

/// An [`Interface`] as text.
#[derive(Debug, Serialize, Deserialize)]
pub struct InterfaceText {
    inputs: Vec<SignatureText>,
    outputs: Vec<SignatureText>,
    batch: Option<String>,
    metadata: std::collections::BTreeMap<String, String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct SignatureText {
    name: String,
    /// With the smallest sizes.
    ty: String,
    /// Of symbolic dimensions the expression and the bounds.
    symbols: Vec<Option<(String, u64, u64)>>,
}

/// The most bytes of JSON in a message.
const MAX_JSON: u64 = 64 << 20;

/// Writes a message and the elements of tensors.
///
/// # Errors
/// The other process has ended.
pub fn send<M: Serialize>(to: &mut impl Write, message: &M, tensors: &[&Tensor]) -> io::Result<()> {
    let json = serde_json::to_vec(message)?;
    to.write_all(&(json.len() as u64).to_le_bytes())?;
    to.write_all(&json)?;
    for tensor in tensors {
        match tensor.dtype() {
            DataType::String => {
                let mut bytes = Vec::new();
                raw_data::write(tensor, &mut bytes);
                to.write_all(&bytes)?;
            }
            _ => to.write_all(tensor.bytes())?,
        }
    }
    to.flush()
}

/// Reads a message, after which [`receive_tensors`] reads the tensors that it names.
///
/// # Errors
/// The other process has ended, or sends something else.
pub fn receive<M: DeserializeOwned>(from: &mut impl Read) -> io::Result<M> {
    let mut length = [0; 8];
    from.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    if length > MAX_JSON {
        return Err(IoErrorKind::InvalidData.into());
    }
    Ok(serde_json::from_slice(&exactly(from, length)?)?)
}

/// Reads the tensors of these heads.
///
/// # Errors
/// The other process has ended, or sends something else.
pub fn receive_tensors(
    from: &mut impl Read,
    runs: &[Vec<TensorHead>],
) -> io::Result<Vec<Vec<Tensor>>> {
    let tensor = |head: &TensorHead| {
        let invalid = |_| io::Error::from(IoErrorKind::InvalidData);
        let ty: TensorType = head.ty.parse().map_err(invalid)?;
        let bytes = exactly(from, head.bytes)?;
        let read = raw_data::read(&bytes, ty);
        read.map_err(|refusal| io::Error::new(IoErrorKind::InvalidData, refusal.text))
    };
    let mut tensor = tensor;
    let run = |heads: &Vec<TensorHead>| heads.iter().map(&mut tensor).collect();
    runs.iter().map(run).collect()
}

/// This many bytes. Memory is allocated as they come, so that a wrong length takes none.
fn exactly(from: &mut impl Read, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(length).read_to_end(&mut bytes)?;
    match bytes.len() as u64 == length {
        true => Ok(bytes),
        false => Err(IoErrorKind::UnexpectedEof.into()),
    }
}

impl TensorHead {
    /// The heads of tensors.
    pub fn of(tensors: &[Tensor]) -> Vec<Self> {
        let head = |tensor: &Tensor| Self {
            ty: tensor.ty().to_string(),
            bytes: match tensor.strings() {
                None => tensor.bytes().len() as u64,
                Some(texts) => texts.map(|text| 4 + text.len() as u64).sum(),
            },
        };
        tensors.iter().map(head).collect()
    }
}

/// An error as kinds and sentences.
pub fn problems(error: &Error) -> Vec<(String, String)> {
    let of = |problem: &Error| {
        let text = problem.single().to_string();
        (problem.kind().description().to_owned(), text)
    };
    error.all().map(of).collect()
}

/// The error of [`problems`].
pub fn error_of(problems: Vec<(String, String)>) -> Error {
    let errors = problems.into_iter().map(|(kind, text)| {
        let known = ErrorKind::ALL.iter().find(|it| it.description() == kind);
        Error::new(*known.unwrap_or(&ErrorKind::Internal), text)
    });
    let unknown = || Error::new(ErrorKind::Internal, "the worker process gives no reason");
    Error::from_all(errors).unwrap_or_else(unknown)
}

impl From<&Interface> for InterfaceText {
    fn from(interface: &Interface) -> Self {
        let texts = |signatures: &[Signature]| signatures.iter().map(SignatureText::of).collect();
        Self {
            inputs: texts(&interface.inputs),
            outputs: texts(&interface.outputs),
            batch: interface.batch.clone(),
            metadata: interface.metadata.clone(),
        }
    }
}

impl InterfaceText {
    /// The interface.
    ///
    /// # Errors
    /// A type that is none.
    pub fn interface(self) -> tenon::Result<Interface> {
        let signatures = |texts: Vec<SignatureText>| {
            let signatures = texts.into_iter().map(SignatureText::signature);
            signatures.collect::<tenon::Result<Vec<Signature>>>()
        };
        Ok(Interface {
            inputs: signatures(self.inputs)?,
            outputs: signatures(self.outputs)?,
            batch: self.batch,
            metadata: self.metadata,
        })
    }
}

impl SignatureText {
    fn of(signature: &Signature) -> Self {
        let symbol = |dimension: &Dimension| match dimension {
            Dimension::Fixed(_) => None,
            Dimension::Symbolic {
                expression,
                min,
                max,
            } => Some((expression.clone(), *min, *max)),
        };
        Self {
            name: signature.name.clone(),
            ty: signature.ty.to_string(),
            symbols: signature.shape.iter().map(symbol).collect(),
        }
    }

    fn signature(self) -> tenon::Result<Signature> {
        let ty: TensorType = self.ty.parse()?;
        let mut signature = Signature::fixed(self.name, ty);
        for (dimension, symbol) in signature.shape.iter_mut().zip(self.symbols) {
            if let Some((expression, min, max)) = symbol {
                *dimension = Dimension::Symbolic {
                    expression,
                    min,
                    max,
                };
            }
        }
        Ok(signature)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_arrive_as_they_were() {
        let sent = vec![
            Tensor::from_slice([2, 2], &[1.5f32, f32::NAN, -0.0, 4.0]).unwrap(),
            Tensor::from_strings([2], &["", "é"]).unwrap(),
            Tensor::from_bools([1], &[true]).unwrap(),
            Tensor::zeroed("f16[3]".parse().unwrap()).unwrap(),
            Tensor::zeroed("i64[0, 5]".parse().unwrap()).unwrap(),
        ];
        let message = WorkerRequest::Run {
            id: 7,
            runs: vec![TensorHead::of(&sent), Vec::new()],
        };
        let mut bytes = Vec::new();
        send(&mut bytes, &message, &sent.iter().collect::<Vec<_>>()).unwrap();
        let mut rest = &bytes[..];
        let WorkerRequest::Run { id: 7, runs } = receive(&mut rest).unwrap() else {
            panic!("another message");
        };
        let received = receive_tensors(&mut rest, &runs).unwrap();
        assert!(rest.is_empty());
        assert_eq!(received.len(), 2);
        for (sent, received) in sent.iter().zip(&received[0]) {
            assert_eq!(sent.ty(), received.ty());
            assert!(sent.strings().is_some() || sent.bytes() == received.bytes());
        }
        let texts: Vec<&str> = received[0][1].strings().unwrap().collect();
        assert_eq!(texts, ["", "é"]);
    }

    #[test]
    fn wrong_lengths_allocate_nothing() {
        let huge = [u64::MAX.to_le_bytes().as_slice(), b"{}"].concat();
        assert!(receive::<WorkerAnswer>(&mut &huge[..]).is_err());
        let heads = |ty: &str, bytes| {
            vec![vec![TensorHead {
                ty: ty.into(),
                bytes,
            }]]
        };
        assert!(receive_tensors(&mut &[0u8; 8][..], &heads("f32[2]", 1 << 60)).is_err());
        assert!(receive_tensors(&mut &[0u8; 8][..], &heads("f32[3]", 8)).is_err());
        assert!(receive_tensors(&mut &[0u8; 8][..], &heads("none", 8)).is_err());
        assert!(receive_tensors(&mut &[0u8; 8][..], &heads("f32[2]", 8)).is_ok());
    }

    #[test]
    fn errors_keep_their_kinds() {
        let kinds = [ErrorKind::BadInput, ErrorKind::Cancelled];
        let error = Error::from_all(kinds.map(|kind| Error::new(kind, "x"))).unwrap();
        let copy = error_of(problems(&error));
        let found: Vec<ErrorKind> = copy.all().map(Error::kind).collect();
        assert_eq!(found, kinds);
        assert_eq!(error_of(Vec::new()).kind(), ErrorKind::Internal);
    }

    #[test]
    fn interfaces_keep_symbols() {
        let dimension = Dimension::Symbolic {
            expression: "N".into(),
            min: 1,
            max: 9,
        };
        let mut input = Signature::fixed("x".into(), "f32[1, 3]".parse().unwrap());
        input.shape[0] = dimension;
        let interface = Interface {
            inputs: vec![input],
            outputs: Vec::new(),
            batch: Some("N".into()),
            metadata: [("a".to_owned(), "b".to_owned())].into(),
        };
        let text = serde_json::to_string(&InterfaceText::from(&interface)).unwrap();
        let copy: InterfaceText = serde_json::from_str(&text).unwrap();
        assert_eq!(copy.interface().unwrap(), interface);
    }
}
