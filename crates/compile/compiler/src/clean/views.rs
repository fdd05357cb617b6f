//! Views become Reshape, and chains of Reshape and Transpose the shortest equivalent chain.

use crate::rewrite::{Outcome, Rewriter, perm_attributes, reshape_attributes};
use tenon_base::Result;
use tenon_graph::operator::OperatorClass;
use tenon_graph::{Node, Tensor, ValueId};

/// The maximum length of a chain.
const MAX_CHAIN: usize = 8;

/// Every view becomes a Reshape, or is removed when it changes nothing.
pub(crate) fn as_reshape(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    if node.op.class != OperatorClass::View {
        return Ok(Outcome::Keep);
    }
    let (Some(input), Some(output)) = (rewriter.input(node, 0), node.outputs[0]) else {
        return Ok(Outcome::Keep);
    };
    let shape = rewriter.shape(output)?.clone();
    if rewriter.same_type(input, output)? {
        return Ok(Outcome::Forward(vec![Some(input)]));
    }
    // A view of another element type.
    if node.op.name == "BitCast" {
        return Ok(Outcome::Keep);
    }
    if let Some(tensor) = rewriter.constant(Some(input)) {
        let tensor = tensor.reshaped(shape)?;
        let constant = rewriter.add_constant(&node.name, tensor);
        return Ok(Outcome::Forward(vec![Some(constant)]));
    }
    // Explicit extents make equal views equal nodes.
    let extents = rewriter
        .known(rewriter.input(node, 1))
        .and_then(Tensor::to_i64s);
    let written = extents.is_some_and(|extents| {
        extents.len() == shape.len()
            && extents
                .iter()
                .zip(&*shape)
                .all(|(&a, &b)| usize::try_from(a) == Ok(b))
    });
    let attributes = reshape_attributes(&shape, rewriter.extents(output));
    if node.op.name == "Reshape" && written && node.attributes == attributes {
        return Ok(Outcome::Keep);
    }
    rewriter
        .reshaped_node(node, input, &shape)
        .map(Outcome::Replace)
}

/// Shortens the chain that ends in a Reshape or Transpose.
pub(crate) fn chain(rewriter: &mut Rewriter<'_>, node: &Node) -> Result<Outcome> {
    if !is_link(node) {
        return Ok(Outcome::Keep);
    }
    let Some(output) = node.outputs[0] else {
        return Ok(Outcome::Keep);
    };
    let shape = rewriter.shape(output)?.to_vec();
    if shape.contains(&0) {
        return Ok(Outcome::Keep);
    }
    // From the last node backwards; `owned` while the chain is the only user of its inner values.
    let mut links = vec![node.clone()];
    let mut owned = true;
    let mut best = None;
    loop {
        let first = &links[links.len() - 1];
        let Some(source) = rewriter.input(first, 0) else {
            break;
        };
        if let Some(shorter) = shorten(rewriter, &links, source, owned)? {
            best = Some((source, shorter));
        }
        let Some(before) = rewriter.producer(source).filter(|before| is_link(before)) else {
            break;
        };
        owned &= rewriter.uses(source) == 1;
        links.push(before.clone());
        if links.len() > MAX_CHAIN {
            break;
        }
    }
    match best {
        None => Ok(Outcome::Keep),
        Some((source, Shorter::View)) if rewriter.shape(source)?.to_vec() == shape => {
            Ok(Outcome::Forward(vec![Some(source)]))
        }
        Some((source, Shorter::View)) => rewriter
            .reshaped_node(node, source, &shape)
            .map(Outcome::Replace),
        Some((source, Shorter::Transpose { dims, perm })) => {
            let moved: Vec<usize> = perm.iter().map(|&axis| dims[axis]).collect();
            let mut value = source;
            if rewriter.shape(value)?.to_vec() != dims {
                value = rewriter.reshape(&node.name, value, &dims)?;
            }
            if moved == shape {
                return Ok(Outcome::Replace(transpose_node(
                    rewriter, node, value, &perm,
                )?));
            }
            let value = rewriter.transpose(&node.name, value, &perm)?;
            rewriter
                .reshaped_node(node, value, &shape)
                .map(Outcome::Replace)
        }
    }
}

fn transpose_node(
    rewriter: &Rewriter<'_>,
    node: &Node,
    value: ValueId,
    perm: &[usize],
) -> Result<Node> {
    rewriter.node_like(node, "Transpose", perm_attributes(perm), vec![Some(value)])
}

fn is_link(node: &Node) -> bool {
    matches!(node.op.name, "Reshape" | "Transpose")
}

/// A shorter equivalent of a chain.
enum Shorter {
    /// One reshape.
    View,
    /// One transpose of the source reshaped to `dims`.
    Transpose { dims: Vec<usize>, perm: Vec<usize> },
}

/// The equivalent of `links`, from the last to the first, which reads `source`; `owned` when the chain
/// is the only user of the values between.
fn shorten(
    rewriter: &Rewriter<'_>,
    links: &[Node],
    source: ValueId,
    owned: bool,
) -> Result<Option<Shorter>> {
    let mut axes = Axes::of(rewriter.shape(source)?);
    let mut transposes = 0;
    for link in links.iter().rev() {
        let Some(output) = link.outputs[0] else {
            return Ok(None);
        };
        let fits = if link.op.name == "Transpose" {
            transposes += 1;
            axes.permute(&perm_of(rewriter, link)?)
        } else {
            axes.regroup(rewriter.shape(output)?)
        };
        if !fits {
            return Ok(None);
        }
    }
    if axes.is_identity() {
        // A single Reshape is a view already.
        let shorter = links.len() > 1 || transposes > 0;
        return Ok(shorter.then_some(Shorter::View));
    }
    if !owned || transposes < 2 {
        return Ok(None);
    }
    let (dims, perm) = match transposes == links.len() {
        // Patterns, such as attention, are found by the dimensions of the model.
        true => (rewriter.shape(source)?.to_vec(), composed(rewriter, links)?),
        false => axes.blocks(),
    };
    Ok(Some(Shorter::Transpose { dims, perm }))
}

/// The permutation of several Transposes, from the last to the first.
fn composed(rewriter: &Rewriter<'_>, links: &[Node]) -> Result<Vec<usize>> {
    let mut perms = links.iter().map(|link| perm_of(rewriter, link));
    let last = perms.next().transpose()?.unwrap_or_default();
    perms.try_fold(last, |after, before| {
        let before = before?;
        Ok(after.iter().map(|&axis| before[axis]).collect())
    })
}

/// The permutation of a Transpose.
pub(crate) fn perm_of(rewriter: &Rewriter<'_>, node: &Node) -> Result<Vec<usize>> {
    let rank = match rewriter.input(node, 0) {
        Some(input) => rewriter.shape(input)?.len(),
        None => 0,
    };
    Ok(match node.attributes.ints("perm")? {
        Some(perm) => {
            let wrap = |&axis: &i64| if axis < 0 { axis + rank as i64 } else { axis };
            perm.iter().map(|axis| wrap(axis) as usize).collect()
        }
        None => (0..rank).rev().collect(),
    })
}

/// A factorisation of the axes of a tensor into atoms, in which both reshapes and permutations are
/// exact. Axes of extent 1 have no atoms.
struct Axes {
    /// Extents of atoms.
    extents: Vec<usize>,
    /// Atoms in the source's order.
    source: Vec<usize>,
    /// Atoms of each axis now.
    groups: Vec<Vec<usize>>,
}

impl Axes {
    fn of(shape: &[usize]) -> Self {
        let mut axes = Self {
            extents: Vec::new(),
            source: Vec::new(),
            groups: Vec::new(),
        };
        for &extent in shape {
            let mut group = Vec::new();
            if extent != 1 {
                group.push(axes.extents.len());
                axes.source.push(axes.extents.len());
                axes.extents.push(extent);
            }
            axes.groups.push(group);
        }
        axes
    }

    fn permute(&mut self, perm: &[usize]) -> bool {
        let groups: Option<Vec<_>> = perm
            .iter()
            .map(|&axis| self.groups.get(axis).cloned())
            .collect();
        match groups {
            Some(groups) if perm.len() == self.groups.len() => {
                self.groups = groups;
                true
            }
            _ => false,
        }
    }

    /// Regroups the atoms to the axes of `shape`; an atom across a boundary is split.
    fn regroup(&mut self, shape: &[usize]) -> bool {
        let mut rest: Vec<usize> = self.groups.concat();
        rest.reverse();
        let mut groups = Vec::with_capacity(shape.len());
        for &extent in shape {
            let mut missing = extent;
            let mut group = Vec::new();
            while missing > 1 {
                let Some(atom) = rest.pop() else { return false };
                let has = self.extents[atom];
                if missing.is_multiple_of(has) {
                    missing /= has;
                    group.push(atom);
                } else if has.is_multiple_of(missing) {
                    // The outer part is in this axis, the inner part in the next.
                    rest.push(self.split(atom, missing));
                    group.push(atom);
                    missing = 1;
                } else {
                    return false;
                }
            }
            groups.push(group);
        }
        self.groups = groups;
        rest.is_empty()
    }

    /// Splits `atom` into an outer part of `extent`, which keeps its index, and the returned inner part.
    fn split(&mut self, atom: usize, extent: usize) -> usize {
        let inner = self.extents.len();
        self.extents.push(self.extents[atom] / extent);
        self.extents[atom] = extent;
        let position = self
            .source
            .iter()
            .position(|&other| other == atom)
            .unwrap_or(0);
        self.source.insert(position + 1, inner);
        inner
    }

    fn is_identity(&self) -> bool {
        self.groups.concat() == self.source
    }

    /// The axes of the source with adjacent atoms merged, and their permutation.
    fn blocks(&self) -> (Vec<usize>, Vec<usize>) {
        let now = self.groups.concat();
        let place = |atom: usize| now.iter().position(|&other| other == atom).unwrap_or(0);
        let mut dims: Vec<usize> = Vec::new();
        let mut starts: Vec<usize> = Vec::new();
        for (index, &atom) in self.source.iter().enumerate() {
            let joined = index > 0 && place(atom) == place(self.source[index - 1]) + 1;
            match dims.last_mut() {
                Some(last) if joined => *last *= self.extents[atom],
                _ => {
                    dims.push(self.extents[atom]);
                    starts.push(place(atom));
                }
            }
        }
        let mut perm: Vec<usize> = (0..dims.len()).collect();
        perm.sort_by_key(|&block| starts[block]);
        (dims, perm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_split_and_joined_are_a_view() {
        let mut axes = Axes::of(&[1, 6, 8]);
        assert!(axes.regroup(&[1, 6, 2, 4]) && axes.permute(&[0, 2, 1, 3]));
        assert!(!axes.is_identity());
        assert_eq!(axes.blocks(), (vec![6, 2, 4], vec![1, 0, 2]));
        assert!(axes.permute(&[0, 2, 1, 3]) && axes.regroup(&[6, 8]));
        assert!(axes.is_identity());
    }

    #[test]
    fn a_merged_plane_moves_as_one() {
        // NHWC to NCHW, plane merged, channels last again: nothing moved.
        let mut axes = Axes::of(&[1, 14, 14, 768]);
        assert!(axes.permute(&[0, 3, 1, 2]) && axes.regroup(&[1, 768, 196]));
        assert_eq!(axes.blocks(), (vec![196, 768], vec![1, 0]));
        assert!(axes.permute(&[0, 2, 1]));
        assert!(axes.is_identity());
    }

    #[test]
    fn a_boundary_inside_an_axis_splits_it() {
        let mut axes = Axes::of(&[6, 5]);
        assert!(axes.regroup(&[2, 15]));
        assert!(axes.permute(&[1, 0]));
        assert_eq!(axes.blocks(), (vec![2, 15], vec![1, 0]));
        let mut odd = Axes::of(&[4, 9]);
        assert!(!odd.regroup(&[6, 6]));
    }
}
