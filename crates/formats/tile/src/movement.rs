//! Tensor movements (TMs): how an op's operand is made of the tiles of a stored tensor (netlist 4.1).
//!
//! A kernel's attribute carries them as text. The text is canonical: every [`TensorMovement`] has
//! exactly one, and a text that differs from it in any character is an error.

use std::fmt;
use std::str::FromStr;

/// One movement of whole tiles. Sizes count tiles, or slices of tiles.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TensorMovement {
    /// The rows, repeated `n` times.
    BroadcastRows(u32),
    /// The columns, repeated `n` times.
    BroadcastColumns(u32),
    /// The slices, repeated `n` times.
    BroadcastSlices(u32),
    /// Rows and columns exchanged, of the tensor and inside each tile.
    Transpose,
    /// The columns split into `n` slices.
    Hslice(u32),
    /// The rows split into `n` slices.
    Vslice(u32),
    /// `n` slices concatenated along the columns; 0 means all slices.
    Hstack(u32),
    /// `n` slices concatenated along the rows; 0 means all slices.
    Vstack(u32),
    /// The last rows and columns removed.
    Unpad {
        /// Rows of tiles.
        rows: u32,
        /// Columns of tiles.
        columns: u32,
    },
    /// Rows and columns appended.
    Pad {
        /// Rows of tiles.
        rows: u32,
        /// Columns of tiles.
        columns: u32,
        /// The value of each appended element.
        value: f32,
    },
}

impl TensorMovement {
    /// The names of all movements, for messages and documentation.
    pub const NAMES: [&'static str; 10] = [
        "broadcast_r",
        "broadcast_c",
        "broadcast_z",
        "transpose",
        "hslice",
        "vslice",
        "hstack",
        "vstack",
        "unpad",
        "pad",
    ];
}

impl fmt::Display for TensorMovement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use TensorMovement::*;
        match self {
            BroadcastRows(n) => write!(f, "broadcast_r {n}"),
            BroadcastColumns(n) => write!(f, "broadcast_c {n}"),
            BroadcastSlices(n) => write!(f, "broadcast_z {n}"),
            Transpose => f.write_str("transpose"),
            Hslice(n) => write!(f, "hslice {n}"),
            Vslice(n) => write!(f, "vslice {n}"),
            Hstack(n) => write!(f, "hstack {n}"),
            Vstack(n) => write!(f, "vstack {n}"),
            Unpad { rows, columns } => write!(f, "unpad {rows} {columns}"),
            Pad {
                rows,
                columns,
                value,
            } => write!(f, "pad {rows} {columns} {value}"),
        }
    }
}

impl FromStr for TensorMovement {
    type Err = ParseMovementError;

    fn from_str(text: &str) -> Result<Self, ParseMovementError> {
        use TensorMovement::*;
        let mut arguments = Arguments::new(text);
        let movement = match arguments.name {
            "broadcast_r" => BroadcastRows(arguments.size()?),
            "broadcast_c" => BroadcastColumns(arguments.size()?),
            "broadcast_z" => BroadcastSlices(arguments.size()?),
            "transpose" => Transpose,
            "hslice" => Hslice(arguments.size()?),
            "vslice" => Vslice(arguments.size()?),
            "hstack" => Hstack(arguments.size()?),
            "vstack" => Vstack(arguments.size()?),
            "unpad" => Unpad {
                rows: arguments.size()?,
                columns: arguments.size()?,
            },
            "pad" => Pad {
                rows: arguments.size()?,
                columns: arguments.size()?,
                value: arguments.value()?,
            },
            _ => return Err(arguments.error(MovementProblem::UnknownName)),
        };
        // Leading zeros, a plus sign and every argument too many are lost in the value.
        if movement.to_string() != text {
            return Err(arguments.error(MovementProblem::NotCanonical));
        }
        Ok(movement)
    }
}

/// The name of a movement and its arguments, separated by one space each.
struct Arguments<'t> {
    text: &'t str,
    name: &'t str,
    rest: std::str::Split<'t, char>,
}

impl<'t> Arguments<'t> {
    fn new(text: &'t str) -> Self {
        let mut rest = text.split(' ');
        Self {
            text,
            name: rest.next().unwrap_or(""),
            rest,
        }
    }

    fn size(&mut self) -> Result<u32, ParseMovementError> {
        let argument = self.next()?;
        let size = argument.parse();
        size.map_err(|_| self.error(MovementProblem::WrongArgument))
    }

    fn value(&mut self) -> Result<f32, ParseMovementError> {
        let argument = self.next()?;
        let value = argument.parse();
        value.map_err(|_| self.error(MovementProblem::WrongArgument))
    }

    fn next(&mut self) -> Result<&'t str, ParseMovementError> {
        let missing = || self.error(MovementProblem::MissingArgument);
        self.rest.clone().next().ok_or_else(missing)?;
        Ok(self.rest.next().unwrap_or(""))
    }

    fn error(&self, problem: MovementProblem) -> ParseMovementError {
        ParseMovementError {
            text: self.text.to_owned(),
            problem,
        }
    }
}

/// Movements, applied in order. Its text separates them with `; `; the empty list is empty text.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MovementList(Vec<TensorMovement>);

impl MovementList {
    /// The movements in the order in which they are applied.
    pub fn iter(&self) -> std::slice::Iter<'_, TensorMovement> {
        self.0.iter()
    }

    /// Whether the tensor is used as it is stored.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether each tile is transposed: an odd number of transposes.
    pub fn transposes_tiles(&self) -> bool {
        let is_transpose = |movement: &&_| matches!(movement, TensorMovement::Transpose);
        self.iter().filter(is_transpose).count() % 2 == 1
    }

    /// Whether tiles are appended that the stored tensor does not have.
    pub fn pads(&self) -> bool {
        let is_pad = |movement: &_| matches!(movement, TensorMovement::Pad { .. });
        self.iter().any(is_pad)
    }
}

impl FromIterator<TensorMovement> for MovementList {
    fn from_iter<I: IntoIterator<Item = TensorMovement>>(movements: I) -> Self {
        Self(movements.into_iter().collect())
    }
}

impl Extend<TensorMovement> for MovementList {
    fn extend<I: IntoIterator<Item = TensorMovement>>(&mut self, movements: I) {
        self.0.extend(movements);
    }
}

impl IntoIterator for MovementList {
    type Item = TensorMovement;
    type IntoIter = std::vec::IntoIter<TensorMovement>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl fmt::Display for MovementList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, movement) in self.iter().enumerate() {
            f.write_str(if index > 0 { "; " } else { "" })?;
            write!(f, "{movement}")?;
        }
        Ok(())
    }
}

/// The list has at most one movement for each separator of the text, plus one.
impl FromStr for MovementList {
    type Err = ParseMovementError;

    fn from_str(text: &str) -> Result<Self, ParseMovementError> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        text.split("; ").map(str::parse).collect()
    }
}

/// A text that is not a movement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseMovementError {
    text: String,
    problem: MovementProblem,
}

/// The rule that a text breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MovementProblem {
    /// The name is none of [`TensorMovement::NAMES`].
    UnknownName,
    /// There are fewer arguments than the movement takes.
    MissingArgument,
    /// A size does not fit 32 bits, or a value is not a number.
    WrongArgument,
    /// The text differs from the text of the movement that it denotes.
    NotCanonical,
}

impl ParseMovementError {
    /// The text of the movement.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The rule that it breaks.
    pub fn problem(&self) -> MovementProblem {
        self.problem
    }
}

impl fmt::Display for ParseMovementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.text;
        match self.problem {
            MovementProblem::UnknownName => write!(
                f,
                "unknown tensor movement '{text}', expected one of {}",
                TensorMovement::NAMES.join(", ")
            ),
            MovementProblem::MissingArgument => {
                write!(f, "tensor movement '{text}' has too few arguments")
            }
            MovementProblem::WrongArgument => write!(
                f,
                "tensor movement '{text}' has an argument that is not a 32-bit size or value"
            ),
            MovementProblem::NotCanonical => {
                write!(f, "tensor movement '{text}' is not in canonical form")
            }
        }
    }
}

impl std::error::Error for ParseMovementError {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn movement() -> impl Strategy<Value = TensorMovement> {
        use TensorMovement::*;
        let size = any::<u32>;
        // Every bit pattern: infinities and NaN are values too.
        let value = any::<u32>().prop_map(f32::from_bits);
        prop_oneof![
            size().prop_map(BroadcastRows),
            size().prop_map(BroadcastColumns),
            size().prop_map(BroadcastSlices),
            Just(Transpose),
            size().prop_map(Hslice),
            size().prop_map(Vslice),
            size().prop_map(Hstack),
            size().prop_map(Vstack),
            (size(), size()).prop_map(|(rows, columns)| Unpad { rows, columns }),
            (size(), size(), value).prop_map(|(rows, columns, value)| Pad {
                rows,
                columns,
                value,
            }),
        ]
    }

    proptest! {
        #[test]
        fn text_to_movements_to_text_is_the_identity(
            movements in prop::collection::vec(movement(), 0..6)
        ) {
            let text = movements.into_iter().collect::<MovementList>().to_string();
            let parsed: MovementList = text.parse().unwrap();
            prop_assert_eq!(parsed.to_string(), text);
        }

        /// Near misses: a name with random arguments and separators.
        #[test]
        fn a_text_that_parses_is_the_text_of_its_movements(
            text in "(hslice|pad|unpad|transpose|broadcast_r)?[ ;+0-9.-]{0,8}(; transpose)?[ 0-9]{0,4}"
        ) {
            if let Ok(parsed) = text.parse::<MovementList>() {
                prop_assert_eq!(parsed.to_string(), text);
            }
        }
    }

    #[test]
    fn errors_name_the_rule() {
        use MovementProblem::*;
        for (text, problem) in [
            ("rotate", UnknownName),
            ("", UnknownName),
            ("hslice", MissingArgument),
            ("pad 1 2", MissingArgument),
            ("hslice 4294967296", WrongArgument),
            ("hslice -1", WrongArgument),
            ("pad 1 2 x", WrongArgument),
            ("hslice 04", NotCanonical),
            ("hslice +4", NotCanonical),
            ("transpose 1", NotCanonical),
        ] {
            let error = text.parse::<TensorMovement>().unwrap_err();
            assert_eq!(error.problem(), problem, "{text}");
            assert_eq!(error.text(), text);
        }
        assert!("transpose;hslice 4".parse::<MovementList>().is_err());
    }

    #[test]
    fn every_name_starts_a_movement() {
        for name in TensorMovement::NAMES {
            let parsed = name.parse::<TensorMovement>();
            let problem = parsed.map_err(|error| error.problem());
            assert_ne!(problem, Err(MovementProblem::UnknownName), "{name}");
        }
    }
}
