//! The cores that a process requests by its environment.

use std::fmt;
use std::ops::Range;
use tenon_base::{Error, ErrorKind, Result};

/// The cores of the machine that a process requests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum CoreSelection {
    /// Every core.
    #[default]
    All,
    /// A number of consecutive cores, wherever they are free.
    Count(u32),
    /// A fixed range of cores.
    Range(Range<u32>),
}

impl CoreSelection {
    /// The selection by `NEURON_RT_VISIBLE_CORES` and `NEURON_RT_NUM_CORES`; the first takes
    /// precedence (nrt 1.8).
    pub fn from_environment() -> Result<Self> {
        let variable = |name: &str| std::env::var(name).ok();
        Self::from_variables(
            variable("NEURON_RT_VISIBLE_CORES").as_deref(),
            variable("NEURON_RT_NUM_CORES").as_deref(),
        )
    }

    /// The selection by the values of the two variables.
    pub fn from_variables(visible: Option<&str>, count: Option<&str>) -> Result<Self> {
        match (visible, count) {
            (Some(list), _) => Ok(Self::Range(range(list)?)),
            (None, Some(count)) => match count.trim().parse() {
                Ok(count) if count > 0 => Ok(Self::Count(count)),
                _ => Err(Error::new(
                    ErrorKind::InvalidArgument,
                    "NEURON_RT_NUM_CORES is not a number of cores",
                )
                .expected("a positive integer")
                .found(format_args!("'{count}'"))),
            },
            (None, None) => Ok(Self::All),
        }
    }

    /// The number of cores, on a machine with `total`.
    pub fn count(&self, total: u32) -> u32 {
        match self {
            Self::All => total,
            Self::Count(count) => *count,
            Self::Range(range) => range.end - range.start,
        }
    }
}

impl fmt::Display for CoreSelection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("every core"),
            Self::Count(1) => f.write_str("1 core"),
            Self::Count(count) => write!(f, "{count} cores"),
            Self::Range(range) if range.end - range.start == 1 => write!(f, "core {}", range.start),
            Self::Range(range) => write!(f, "cores {} to {}", range.start, range.end - 1),
        }
    }
}

/// `3`, `3,4,5`, `3-5` or `3-5,6`: increasing, without a gap.
fn range(list: &str) -> Result<Range<u32>> {
    let wrong = |what: String| {
        Error::new(
            ErrorKind::InvalidArgument,
            format!("NEURON_RT_VISIBLE_CORES: {what}"),
        )
        .expected("consecutive increasing core numbers such as 0, 2-3 or 3-5,6")
        .found(format_args!("'{list}'"))
    };
    let number = |text: &str| {
        text.trim()
            .parse::<u32>()
            .ok()
            .filter(|&number| number < u32::MAX)
            .ok_or_else(|| wrong(format!("'{}' is not a core number", text.trim())))
    };
    let mut whole: Option<Range<u32>> = None;
    for item in list.split(',') {
        let (first, last) = match item.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(item)?, number(item)?),
        };
        if last < first {
            return Err(wrong(format!("{first}-{last} is decreasing")));
        }
        let start = match &whole {
            None => first,
            Some(before) if before.end == first => before.start,
            Some(before) => {
                return Err(wrong(format!("{first} follows {}", before.end - 1)));
            }
        };
        whole = Some(start..last + 1);
    }
    whole.ok_or_else(|| wrong("the list is empty".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn these(list: &str) -> Result<CoreSelection> {
        CoreSelection::from_variables(Some(list), Some("7"))
    }

    #[test]
    fn lists_and_ranges_parse_to_one_range() {
        for (list, range) in [
            ("3", 3..4),
            ("3,4,5,6", 3..7),
            ("3-6", 3..7),
            ("3-5,6", 3..7),
            (" 0 - 1 , 2", 0..3),
        ] {
            assert_eq!(these(list).unwrap(), CoreSelection::Range(range), "{list}");
        }
    }

    #[test]
    fn invalid_lists_are_rejected() {
        for (list, says) in [
            ("3,5,6", "5 follows 3"),
            ("4,3", "3 follows 4"),
            ("3,3", "3 follows 3"),
            ("5-3", "5-3 is decreasing"),
            ("", "'' is not a core number"),
            ("a", "'a' is not a core number"),
            ("-1", "'' is not a core number"),
            ("4294967295", "'4294967295' is not a core number"),
        ] {
            let error = these(list).unwrap_err();
            assert!(
                error.message() == format!("NEURON_RT_VISIBLE_CORES: {says}"),
                "{error}"
            );
        }
    }

    #[test]
    fn the_count_is_used_without_a_list() {
        let count = |text| CoreSelection::from_variables(None, Some(text));
        assert_eq!(count("2").unwrap(), CoreSelection::Count(2));
        for text in ["0", "-1", "two", ""] {
            assert!(count(text).is_err());
        }
        let none = CoreSelection::from_variables(None, None).unwrap();
        assert_eq!((&none, none.count(6)), (&CoreSelection::All, 6));
    }
}
