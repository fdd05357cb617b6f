//! Attention: every query's mean of values, weighed by how well their keys match.

use crate::kernel::{Build, Kernel, Node, Stop, floats, scratch};
use crate::nest::broadcast;
use crate::number::{Number, Wide};
use tenon_base::Result;

pub(crate) static KERNELS: &[(&str, Build)] = &[("tenon.Attention", fused)];

/// softmax of `scores` in place; nothing at all where every score is minus infinity.
fn softmax(scores: &mut [f64]) {
    let max = scores
        .iter()
        .fold(f64::NEG_INFINITY, |max, &score| max.greatest(score));
    let shift = if max == f64::NEG_INFINITY { 0.0 } else { max };
    let mut sum = 0.0;
    for score in scores.iter_mut() {
        *score = (*score - shift).exp();
        sum += *score;
    }
    let sum = if sum == 0.0 { 1.0 } else { sum };
    scores.iter_mut().for_each(|score| *score /= sum);
}

/// Q [B, S, H, D], K [B, T, H, D], V [B, T, H, Dv], mask to [B, H, S, T]; Y [B, S, H, Dv].
fn fused(node: &Node<'_>) -> Result<Kernel, Stop> {
    let [batches, queries, heads, depth] = **node.shape(0)? else {
        return Err(crate::kernel::invalid("Q must have four dimensions").into());
    };
    let keys = node.shape(1)?[1];
    let width = node.shape(2)?[3];
    let scale = f64::from(node.attributes.float("scale", 1.0)?);
    let steps = match node.optional(3) {
        Some(mask) => broadcast(mask.shape(), &[batches, heads, queries, keys])?,
        None => vec![0; 4],
    };
    let mask_at = move |at: [usize; 4]| -> usize {
        at.iter()
            .zip(&steps)
            .map(|(at, &step)| at * step as usize)
            .sum()
    };
    floats!(node.dtype(0)?, 0, T => Kernel::new(move |operands| {
        let (inputs, mut outputs) = operands.split();
        let (q, k, v) = (inputs.slice::<T>(0)?, inputs.slice::<T>(1)?, inputs.slice::<T>(2)?);
        let mask = inputs.optional::<T>(3)?;
        let to = outputs.slice::<T>(0)?;
        let (scores, sums) = scratch::<f64>(&mut outputs, keys + width)?.split_at_mut(keys);
        for nth in 0..batches * queries * heads {
            let (batch, query, head) = (nth / heads / queries, nth / heads % queries, nth % heads);
            let q = &q[nth * depth..(nth + 1) * depth];
            for (key, score) in scores.iter_mut().enumerate() {
                let at = (batch * keys + key) * heads + head;
                let mask = mask.map_or(0.0, |mask| mask[mask_at([batch, head, query, key])].to_f64());
                *score = scale * crate::matmul::dot(q, &k[at * depth..(at + 1) * depth]) + mask;
            }
            softmax(scores);
            sums.fill(0.0);
            for (key, &weight) in scores.iter().enumerate() {
                let at = (batch * keys + key) * heads + head;
                let v = &v[at * width..(at + 1) * width];
                sums.iter_mut().zip(v).for_each(|(sum, v)| *sum += weight * v.to_f64());
            }
            let to = &mut to[nth * width..(nth + 1) * width];
            to.iter_mut().zip(&*sums).for_each(|(to, &sum)| *to = T::from_f64(sum));
        }
        Ok(())
    })
    .with_scratch(keys + width))
}
