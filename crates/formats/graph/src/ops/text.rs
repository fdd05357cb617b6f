//! Vectors of texts.

use super::rows::*;
use super::shapes::{Inferred, choice, invalid, one, rank};
use crate::geometry::NgramPool;
use crate::{DataType, Inference};

operators! { "text"
    /// The n-grams of each row of X, [C] or [B, C], counted in columns: the n-grams of a pool, from `min_gram_length` to
    /// `max_gram_length` items long, with up to `max_skip_count` items left out between neighbours. TF: the counts;
    /// IDF: the weight of the n-gram where the count is not 0; TFIDF: the counts times the weights. The host program
    /// computes it on strings.
    Compute "TfIdfVectorizer" (required("X", INDICES)) -> (required("Y", F32))
        [
            must(int("max_gram_length", "the greatest length")),
            must(int("max_skip_count", "the most items left out")),
            must(int("min_gram_length", "the least length")),
            must(string("mode", "TF, IDF or TFIDF")),
            must(ints("ngram_counts", "where the n-grams of each length start in the pool")),
            must(ints("ngram_indexes", "the column of each n-gram")),
            ints("pool_int64s", "the items of all n-grams, when X is of integers"),
            strings("pool_strings", "the items of all n-grams, when X is of strings"),
            floats("weights", "the weight of each n-gram of the pool, in its order; default 1"),
        ] tf_idf;
}

fn tf_idf(node: &Inference<'_>) -> Inferred {
    let x = node.input(0)?;
    rank(x, "X", 0..=2)?;
    choice(node, "mode", "", &["TF", "IDF", "TFIDF"])?;
    let items = if x.dtype() == DataType::String {
        node.attributes
            .strings("pool_strings")?
            .map(<[String]>::len)
    } else {
        node.attributes.ints("pool_int64s")?.map(<[i64]>::len)
    };
    let items = items.ok_or_else(|| {
        let name = match x.dtype() {
            DataType::String => "pool_strings",
            _ => "pool_int64s",
        };
        invalid(format!("attribute '{name}' is missing"))
    })?;
    let pool = NgramPool::new(node.attributes, items)?;
    if let Some(weights) = node.attributes.floats("weights")?
        && weights.len() < pool.ngrams()
    {
        return Err(
            invalid("attribute 'weights' does not have a weight for each n-gram")
                .expected(pool.ngrams())
                .found(weights.len()),
        );
    }
    let mut shape = x.shape().to_vec();
    shape.pop();
    shape.push(pool.columns);
    one(DataType::F32, shape)
}
