//! The `ts` dialect: shapes of tensors (bef 4.3).

use crate::host::{PartialShape, TensorShape, failed};
use std::sync::Arc;
use tenon_base::Result;
use tenon_executor::{Attr, Chain, Host, KernelDef, Opaque, kernel};

impl Opaque for TensorShape {
    const TYPE: &'static str = "!ts.shape";
}

impl Opaque for PartialShape {
    const TYPE: &'static str = "!ts.partial_shape";
}

/// A shape of known rank.
struct FixedRankShape<const RANK: usize>(TensorShape);

macro_rules! fixed_rank {
    ($($rank:literal)*) => {
        $(
            impl Opaque for FixedRankShape<$rank> {
                const TYPE: &'static str = concat!("!ts.fixed_rank_shape.", $rank);
            }
        )*

        fn fixed_rank() -> Vec<KernelDef> {
            vec![$(
                kernel(
                    concat!("ts.as_fixed_rank_shape.", $rank),
                    |shape: &TensorShape| -> Result<FixedRankShape<$rank>> {
                        if shape.rank() != $rank {
                            return Err(failed(format!("shape {} has the wrong rank", shape))
                                .expected($rank)
                                .found(shape.rank()));
                        }
                        Ok(FixedRankShape(shape.clone()))
                    },
                )
                .doc("The shape, which must be of this rank."),
                kernel(
                    concat!("ts.print_fixed_rank_shape.", $rank),
                    |shape: &FixedRankShape<$rank>, _: Chain, host: &Host| {
                        host.print(format_args!("fixed_rank_shape = {}\n", shape.0));
                        Chain
                    },
                )
                .doc("Prints the shape."),
            )*]
        }
    };
}

fixed_rank! { 1 2 3 }

/// Its kernels.
pub fn library() -> Vec<KernelDef> {
    let families = [known(), partial(), fixed_rank()];
    families.into_iter().flatten().collect()
}

fn known() -> Vec<KernelDef> {
    vec![
        kernel("ts.build_shape", |value: Attr<Arc<[i64]>>| {
            TensorShape::new(&*value.0)
        })
        .doc("The shape of the attribute `value`."),
        kernel(
            "ts.print_shape",
            |shape: &TensorShape, _: Chain, host: &Host| {
                host.print(format_args!("shape = {shape}\n"));
                Chain
            },
        )
        .doc("Prints the shape."),
        kernel("ts.equal_shape", |a: &TensorShape, b: &TensorShape| a == b)
            .doc("Whether both have the same dimensions."),
        kernel("ts.get_num_elements", |shape: &TensorShape| {
            shape.elements()
        })
        .doc("The product of the dimensions."),
        kernel("ts.get_dimension", |shape: &TensorShape, index: i32| {
            shape.dimension(index)
        })
        .doc("One dimension; the outermost is 0."),
    ]
}

fn partial() -> Vec<KernelDef> {
    vec![
        kernel("ts.build_partial_shape", |value: Attr<Arc<[i64]>>| {
            PartialShape::new(&*value.0)
        })
        .doc("The shape of the attribute `value`; -1 is an unknown dimension."),
        kernel("ts.build_unranked_partial_shape", || PartialShape::UNRANKED)
            .doc("The shape of unknown rank."),
        kernel(
            "ts.print_partial_shape",
            |shape: &PartialShape, _: Chain, host: &Host| {
                host.print(format_args!("partial_tensor_shape = {shape}\n"));
                Chain
            },
        )
        .doc("Prints the shape."),
        kernel("ts.to_shape", |shape: &PartialShape| shape.known())
            .doc("The shape; an error when a dimension is unknown."),
        kernel("ts.to_partial_shape", |shape: &TensorShape| {
            PartialShape::from(shape)
        })
        .doc("The shape as a partial shape."),
    ]
}
