//! Extents by matching: the shape function runs for two sets of sizes, and each output extent is the constant or
//! the input's extent that has its value in both.

use super::SymbolicNode;
use crate::infer;
use std::collections::BTreeMap;
use tenon_base::Result;
use tenon_tensor::TensorType;
use tenon_tensor::size::SizeExpr;

/// Two primes for each different extent, none a usual extent of a model.
const PRIMES: [[i64; 16]; 2] = [
    [
        101, 127, 149, 173, 197, 223, 241, 269, 293, 317, 347, 367, 389, 419, 443, 467,
    ],
    [
        109, 137, 163, 181, 211, 233, 257, 281, 311, 337, 359, 383, 409, 433, 461, 487,
    ],
];

/// For each extent its values in the two runs.
type Samples = BTreeMap<SizeExpr, [i64; 2]>;

impl SymbolicNode<'_> {
    pub(super) fn matched_extents(&self) -> Result<Vec<Vec<SizeExpr>>> {
        // An input that decides the output's shape requires a rule, unless it is a constant.
        let decides = self.inputs.iter().enumerate().any(|(index, input)| {
            let def = self.op.input(index);
            let input = input
                .as_ref()
                .filter(|_| def.is_some_and(|def| def.compile_time));
            input.is_some_and(|input| input.constant.is_none())
        });
        if decides {
            return Err(self.no_rule());
        }
        // Different expressions may have to be equal: then those with the same example are taken as one, and
        // the shape function checks them for the sizes of each execution.
        let different = self.samples(|extent| Ok(extent.clone()))?;
        let by_example = |extent: &SizeExpr| {
            let value = extent.evaluate(self.example_sizes)?;
            Ok(SizeExpr::from(value))
        };
        match self.runs(&different) {
            Ok(found) => self.matched(&different, &found),
            Err(_) => {
                let merged = self.samples(by_example)?;
                let found = self.runs(&merged)?;
                self.matched(&merged, &found)
            }
        }
    }

    /// Values for the symbolic extents of all inputs; extents with an equal key have equal values.
    fn samples(&self, key: impl Fn(&SizeExpr) -> Result<SizeExpr>) -> Result<Samples> {
        let mut classes: BTreeMap<SizeExpr, usize> = BTreeMap::new();
        let mut samples = Samples::new();
        let extents = self
            .inputs
            .iter()
            .flatten()
            .flat_map(|input| &input.extents);
        for extent in extents.filter(|extent| extent.constant().is_none()) {
            let count = classes.len();
            let class = *classes.entry(key(extent)?).or_insert(count);
            let values = PRIMES.map(|primes| primes.get(class).copied());
            let [Some(first), Some(second)] = values else {
                return Err(self.no_rule());
            };
            samples.insert(extent.clone(), [first, second]);
        }
        Ok(samples)
    }

    /// The types of the outputs in both runs.
    fn runs(&self, samples: &Samples) -> Result<[Vec<TensorType>; 2]> {
        Ok([self.run(samples, 0)?, self.run(samples, 1)?])
    }

    fn run(&self, samples: &Samples, run: usize) -> Result<Vec<TensorType>> {
        let types = self
            .inputs
            .iter()
            .map(|input| {
                let Some(input) = input else { return Ok(None) };
                let extents = input.extents.iter().map(|extent| {
                    let value = samples.get(extent).map(|values| values[run]);
                    value.or(extent.constant()).unwrap_or(0) as usize
                });
                TensorType::new(input.ty.dtype(), extents.collect::<Vec<_>>()).map(Some)
            })
            .collect::<Result<Vec<_>>>()?;
        let types: Vec<_> = types.iter().map(Option::as_ref).collect();
        let constants: Vec<_> = self
            .inputs
            .iter()
            .map(|input| input.as_ref().and_then(|input| input.constant))
            .collect();
        infer(
            self.op,
            self.attributes,
            &types,
            &constants,
            self.outputs.len(),
        )
    }

    fn matched(
        &self,
        samples: &Samples,
        found: &[Vec<TensorType>; 2],
    ) -> Result<Vec<Vec<SizeExpr>>> {
        let [first, second] = found;
        let outputs = first.iter().zip(second);
        outputs
            .map(|(first, second)| {
                if first.shape().len() != second.shape().len() {
                    return Err(self.no_rule());
                }
                let extents = first.shape().iter().zip(second.shape().iter());
                extents
                    .map(|(&first, &second)| {
                        if first == second {
                            return Ok(SizeExpr::from(first as i64));
                        }
                        let both = [first as i64, second as i64];
                        let matching = samples.iter().filter(|(_, values)| **values == both);
                        // Of extents that must be equal, the shortest expression.
                        let best = matching.map(|(extent, _)| extent);
                        best.min_by_key(|extent| {
                            (extent.symbols().len(), self.symbols.text(extent).len())
                        })
                        .cloned()
                        .ok_or_else(|| self.no_rule())
                    })
                    .collect()
            })
            .collect()
    }
}
