//! Constants compared by value.

use super::ConstantChange;
use crate::{Constant, Contents, Package, Structure, VariableKind};
use serde::Serialize;
use std::collections::HashMap;
use std::fmt;
use tenon_tensor::{DataType, TensorType, converter};

/// Statistics of the differences of a constant's elements, computed in binary64.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Statistics {
    /// The number of elements.
    pub count: u64,
    /// The number of differing elements; NaN equals NaN.
    pub differing: u64,
    /// The largest absolute difference; NaN if an element is NaN in one package only.
    pub max_difference: f64,
    /// The root mean square of the differences.
    pub rms_difference: f64,
    /// Means in A and B.
    pub mean: (f64, f64),
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of {} differ, at most by {:e}, rms {:e}; mean {:e} -> {:e}",
            self.differing,
            self.count,
            self.max_difference,
            self.rms_difference,
            self.mean.0,
            self.mean.1
        )
    }
}

/// Elements converted at a time.
const STEP: usize = 4096;

impl Statistics {
    /// The statistics of two constants; `None` for data types that are not numeric or not a multiple
    /// of bytes wide.
    pub fn of(dtype: DataType, a: &[u8], b: &[u8]) -> Option<Self> {
        if matches!(dtype, DataType::C64 | DataType::C128) {
            return None;
        }
        let convert = converter(dtype, DataType::F64)?;
        let bytes = dtype.bytes(1)?;
        let mut total = Self {
            count: 0,
            differing: 0,
            max_difference: 0.0,
            rms_difference: 0.0,
            mean: (0.0, 0.0),
        };
        let (mut of_a, mut of_b) = (vec![0; 8 * STEP], vec![0; 8 * STEP]);
        for (a, b) in a.chunks(bytes * STEP).zip(b.chunks(bytes * STEP)) {
            convert(a, &mut of_a);
            convert(b, &mut of_b);
            let count = a.len().min(b.len()) / bytes;
            for (a, b) in of_a.chunks_exact(8).zip(of_b.chunks_exact(8)).take(count) {
                let number = |bytes: &[u8]| bytes.first_chunk().map(|&it| f64::from_le_bytes(it));
                total.add(number(a)?, number(b)?);
            }
        }
        let count = total.count.max(1) as f64;
        total.rms_difference = (total.rms_difference / count).sqrt();
        total.mean = (total.mean.0 / count, total.mean.1 / count);
        Some(total)
    }

    /// Adds a pair of elements; fields that are averages are sums until the end.
    fn add(&mut self, a: f64, b: f64) {
        self.count += 1;
        self.mean.0 += a;
        self.mean.1 += b;
        if a == b || a.is_nan() && b.is_nan() {
            return;
        }
        let difference = (a - b).abs();
        self.differing += 1;
        // f64::max would ignore a NaN.
        if difference.is_nan() || difference > self.max_difference {
            self.max_difference = difference;
        }
        self.rms_difference += difference * difference;
    }
}

/// Of each constant by variable: its member, its data, and its type where that is known.
type Constants = HashMap<String, (String, Constant, Option<TensorType>)>;

/// The constants of equal name whose bytes differ, and the members of all compared constants.
pub(super) fn compare(
    (package_a, a): (&Package, &Structure),
    (package_b, b): (&Package, &Structure),
) -> (Vec<ConstantChange>, Vec<String>) {
    let of_a = constants(package_a, a);
    let of_b = constants(package_b, b);
    let mut names: Vec<&String> = of_a
        .keys()
        .filter(|name| of_b.contains_key(*name))
        .collect();
    names.sort_unstable();
    let mut changes = Vec::new();
    let mut members = Vec::new();
    for name in names {
        let (Some((member_a, data_a, ty_a)), Some((member_b, data_b, ty_b))) =
            (of_a.get(name), of_b.get(name))
        else {
            continue;
        };
        members.extend([member_a.clone(), member_b.clone()]);
        let (bytes_a, bytes_b) = (data_a.bytes(), data_b.bytes());
        if bytes_a == bytes_b {
            continue;
        }
        let ty = ty_a.as_ref().filter(|ty| ty_b.as_ref() == Some(ty));
        let statistics = ty.and_then(|ty| Statistics::of(ty.dtype(), bytes_a, bytes_b));
        changes.push(ConstantChange {
            variable: name.clone(),
            member: member_b.clone(),
            ty: ty.map(ToString::to_string),
            statistics,
            bytes: (bytes_a.len() as u64, bytes_b.len() as u64),
        });
    }
    (changes, members)
}

/// The types of the plain constants of a package of Tenon, by id.
fn own_types(package: &Package) -> HashMap<u32, TensorType> {
    let own = package
        .header()
        .is_tenon()
        .then(|| Contents::read(package).ok())
        .flatten();
    let infos = own.iter().flat_map(|own| &own.tenon.constants);
    let plain = infos.filter(|info| info.prepared.is_none());
    plain
        .filter_map(|info| {
            Some((
                info.var_id.0,
                TensorType::new(info.dtype, &info.shape[..]).ok()?,
            ))
        })
        .collect()
}

fn constants(package: &Package, structure: &Structure) -> Constants {
    let types = own_types(package);
    let several = structure.subgraphs.len() > 1;
    let mut constants = Constants::new();
    for subgraph in &structure.subgraphs {
        for (name, stored) in subgraph.definition.var.iter() {
            let (VariableKind::File, Some(file)) = (stored.kind, &stored.file_name) else {
                continue;
            };
            let member = subgraph.file(file);
            let Some(Ok(constant)) = package
                .member(&member)
                .map(|bytes| Constant::read(&member, &bytes))
            else {
                continue;
            };
            let declared = types.get(&stored.var_id).cloned();
            let ty = constant
                .array()
                .map(|array| array.ty().clone())
                .or(declared);
            let name = if several {
                format!("{}/{name}", subgraph.name)
            } else {
                name.to_owned()
            };
            constants.insert(name, (member, constant, ty));
        }
    }
    constants
}
