//! String tensors.

use crate::host::{StringHostTensor, TensorShape};
use std::sync::Arc;
use tenon_base::Result;
use tenon_bef::Name;
use tenon_executor::{Attr, KernelDef, kernel};

pub(super) fn kernels() -> Vec<KernelDef> {
    vec![
        kernel("tfrt_sht.create_tensor", create).doc(
            "A tensor of the attributes `shape` and `values`; their number must match the shape.",
        ),
    ]
}

fn create(shape: Attr<Arc<[i64]>>, values: Attr<Arc<[Name]>>) -> Result<StringHostTensor> {
    StringHostTensor::new(
        TensorShape::new(&*shape.0)?,
        values.0.iter().map(|text| text.to_string()).collect(),
    )
}
