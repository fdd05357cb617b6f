//! Outputs for people and programs: the classes with the highest scores, and elements as text or
//! JSON that keeps their value.
//!
//! ```
//! use tenon::Tensor;
//! use tenon::outputs::{elements, top_classes};
//!
//! let scores = Tensor::from_slice([1, 3], &[0.1f32, 0.7, 0.2])?;
//! let labels = ["cat".to_owned(), "dog".to_owned(), "fox".to_owned()];
//! let top = top_classes(&scores, Some(&labels), 1)?.expect("a vector of floats");
//! assert_eq!((top[0].label.as_str(), top[0].value.to_string()), ("dog", "0.7".into()));
//! assert_eq!(elements(&scores, 2)?.len(), 2);
//! # Ok::<(), tenon::Error>(())
//! ```

mod classes;
mod element;
mod maps;

pub use classes::{Class, LABELS, class_labels, is_classification, top_classes};
pub use element::{Decimal, Element, elements};
pub use maps::maps;
