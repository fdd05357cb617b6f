//! LiteRT models that `tests/data/make.py` wrote: compared with LiteRT's interpreter, and damaged.

mod data;
mod hostile;
mod operators;
mod structure;
