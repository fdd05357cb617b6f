//! Rotary position embedding (Su et al., 2021).

use crate::attention::HeadRows;
use crate::kernel::{BuildError, BuildKernel, Kernel, Node, floats, position};
use crate::number::Number;
use tenon_base::Result;

pub(crate) static KERNELS: &[(&str, BuildKernel)] = &[("RotaryEmbedding", rotary)];

/// Rotates pairs of features by the angle of their position; features beyond
/// `rotary_embedding_dim` are copied.
fn rotary(node: &Node<'_>) -> Result<Kernel, BuildError> {
    let rows = HeadRows::new(node, 0, "num_heads")?;
    let batches = node.shape(0)?[0];
    let rotated = match node.attributes.int("rotary_embedding_dim", 0)? {
        0 => rows.width,
        given => (given.max(0) as usize).min(rows.width),
    };
    let half = rotated / 2;
    let interleaved = node.attributes.flag("interleaved", false)?;
    let positions = node.shape(1)?[0];
    floats!(node.dtype(0)?, 0, T => Ok(Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let from = inputs.slice::<T>(0)?;
        let (cos, sin) = (inputs.slice::<T>(1)?, inputs.slice::<T>(2)?);
        let at_position = inputs.optional::<i64>(3)?;
        let to = outputs.slice::<T>(0)?;
        to.copy_from_slice(from);
        for row in 0..batches * rows.heads * rows.steps {
            let (lead, step) = (row / rows.steps, row % rows.steps);
            let (batch, head) = (lead / rows.heads, lead % rows.heads);
            let start = rows.at(batch, head, step);
            let angle = batch * rows.steps + step;
            let angle = match at_position {
                Some(all) => position(all[angle], positions)?,
                None => angle,
            };
            for at in 0..half {
                let (a, b) = if interleaved { (2 * at, 2 * at + 1) } else { (at, at + half) };
                let (x, y) = (from[start + a].to_f64(), from[start + b].to_f64());
                let (cos, sin) = (cos[angle * half + at].to_f64(), sin[angle * half + at].to_f64());
                to[start + a] = T::of_f64(cos * x - sin * y);
                to[start + b] = T::of_f64(sin * x + cos * y);
            }
        }
        Ok(())
    })))
}
