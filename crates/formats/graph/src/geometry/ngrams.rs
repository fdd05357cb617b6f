//! The n-grams that TfIdfVectorizer counts.

use crate::Attributes;
use crate::ops::shapes::invalid;
use std::ops::{Range, RangeInclusive};
use tenon_base::Result;

/// A pool of n-grams by their length, and the columns of the output in which they are counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NgramPool {
    /// The columns of the output.
    pub columns: usize,
    /// The lengths of n-grams that are counted.
    pub lengths: RangeInclusive<usize>,
    /// The most items left out between two items of an n-gram.
    pub skips: usize,
    /// The n-grams of each length, in the order of the pool.
    pub groups: Vec<NgramGroup>,
}

/// The n-grams of one length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NgramGroup {
    /// Items of an n-gram.
    pub length: usize,
    /// The items of the n-grams in the pool.
    pub items: Range<usize>,
    /// The column of each n-gram.
    pub columns: Vec<usize>,
}

impl NgramPool {
    /// The number of n-grams.
    pub fn ngrams(&self) -> usize {
        self.groups.iter().map(|group| group.columns.len()).sum()
    }

    /// The pool of a TfIdfVectorizer with a number of items.
    pub fn new(attributes: &Attributes, items: usize) -> Result<Self> {
        let size = |name: &str, least: i64| -> Result<usize> {
            let found = attributes.int(name, least - 1)?;
            let size = usize::try_from(found).ok().filter(|_| found >= least);
            size.ok_or_else(|| {
                invalid(format!("attribute '{name}' is out of range"))
                    .expected(format_args!("at least {least}"))
                    .found(found)
            })
        };
        let lengths = size("min_gram_length", 1)?..=size("max_gram_length", 1)?;
        if lengths.is_empty() {
            return Err(invalid(
                "attribute 'max_gram_length' is less than 'min_gram_length'",
            ));
        }
        let starts = attributes.ints("ngram_counts")?.unwrap_or_default();
        let columns = attributes.ints("ngram_indexes")?.unwrap_or_default();
        let to_size = |&number: &i64| usize::try_from(number).ok();
        let starts: Option<Vec<usize>> = starts.iter().map(to_size).collect();
        let starts =
            starts.ok_or_else(|| invalid("a negative element of attribute 'ngram_counts'"))?;
        let columns: Option<Vec<usize>> = columns.iter().map(to_size).collect();
        let columns =
            columns.ok_or_else(|| invalid("a negative element of attribute 'ngram_indexes'"))?;
        let mut left = columns.as_slice();
        let mut groups = Vec::new();
        for (at, &start) in starts.iter().enumerate() {
            let (length, end) = (at + 1, starts.get(at + 1).copied().unwrap_or(items));
            if start > end || end > items || (end - start) % length != 0 {
                let text = format!(
                    "attribute 'ngram_counts' does not divide the pool into n-grams of {length}"
                );
                return Err(invalid(text)
                    .expected(format_args!("starts in ascending order, at most {items}"))
                    .found(format_args!("{start} to {end}")));
            }
            let Some((of_group, rest)) = left.split_at_checked((end - start) / length) else {
                return Err(invalid(
                    "attribute 'ngram_indexes' has fewer elements than the pool n-grams",
                )
                .found(columns.len()));
            };
            left = rest;
            groups.push(NgramGroup {
                length,
                items: start..end,
                columns: of_group.to_vec(),
            });
        }
        let last = columns.iter().max();
        let last = last.ok_or_else(|| invalid("attribute 'ngram_indexes' is empty"))?;
        Ok(Self {
            columns: last + 1,
            lengths,
            skips: size("max_skip_count", 0)?,
            groups,
        })
    }
}
