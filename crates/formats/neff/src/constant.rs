//! The data of a constant: a `.npy` member is an array, any other is raw bytes (neff 2.17).

use crate::Package;
use tenon_base::{Location, Result};
use tenon_tensor::{Buffer, Tensor, npy};

/// The data of a constant's member.
#[derive(Debug, Clone)]
pub enum Constant {
    /// An array, with its type.
    Array(Tensor),
    /// Bytes.
    Raw(Buffer),
}

impl Constant {
    /// Reads the bytes of the member `name`. Arrays in C order are not copied.
    pub fn read(name: &str, bytes: &Buffer) -> Result<Self> {
        if !name.ends_with(".npy") {
            return Ok(Constant::Raw(bytes.clone()));
        }
        let array = npy::parse(bytes).map_err(|error| error.at(Location::member(name)))?;
        Ok(Constant::Array(array))
    }

    /// Reads a required member of a package.
    pub fn of(package: &Package, member: &str) -> Result<Self> {
        Self::read(member, &package.require(member)?)
    }

    /// The bytes of the variable.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Constant::Array(array) => array.bytes(),
            Constant::Raw(bytes) => bytes,
        }
    }

    /// The array.
    pub fn array(&self) -> Option<&Tensor> {
        match self {
            Constant::Array(array) => Some(array),
            Constant::Raw(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenon_tensor::{BufferMut, DataType};

    #[test]
    fn npy_members_are_arrays_and_others_are_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npy");
        let array = Tensor::from_slice([2], &[1.0f32, 2.0]).unwrap();
        npy::write_npy(&path, &array).unwrap();
        let file = BufferMut::copy_of(&std::fs::read(&path).unwrap())
            .unwrap()
            .freeze();
        let read = Constant::read("sg00/a.npy", &file).unwrap();
        assert_eq!(read.array().unwrap().ty().dtype(), DataType::F32);
        assert_eq!(read.bytes(), array.bytes());
        let raw = Constant::read("sg00/a.bin", &file).unwrap();
        assert!(raw.array().is_none());
        assert_eq!(raw.bytes(), &file[..]);
        let error = Constant::read("b.npy", &file.slice(0..20).unwrap()).unwrap_err();
        assert!(error.to_string().starts_with("b.npy: "), "{error}");
    }
}
