//! Interval arithmetic: the values that an expression can take.

/// All integers from `min` to `max`; `None` is unbounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizeRange {
    /// The smallest value.
    pub min: Option<i128>,
    /// The greatest value.
    pub max: Option<i128>,
}

/// Bounds beyond this count as unbounded, so that no operation on two of them overflows.
const LIMIT: i128 = 1 << 62;

impl SizeRange {
    /// The values from `min` to `max`.
    pub fn new(min: i128, max: i128) -> Self {
        let bound = |value: i128| Some(value).filter(|value| value.abs() < LIMIT);
        Self {
            min: bound(min),
            max: bound(max),
        }
    }

    /// One value.
    pub(crate) fn of(value: i64) -> Self {
        Self::new(value.into(), value.into())
    }

    /// Whether every value is at least `least`.
    pub fn is_at_least(&self, least: i128) -> bool {
        self.min.is_some_and(|min| min >= least)
    }

    /// Whether every value is at most `greatest`.
    pub fn is_at_most(&self, greatest: i128) -> bool {
        self.max.is_some_and(|max| max <= greatest)
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        let sum = |a: Option<i128>, b: Option<i128>| Self::bounded(a? + b?);
        Self {
            min: sum(self.min, other.min),
            max: sum(self.max, other.max),
        }
    }

    pub(crate) fn times(self, other: Self) -> Self {
        if let (Some(a), Some(b), Some(c), Some(d)) = (self.min, self.max, other.min, other.max) {
            let products = [a * c, a * d, b * c, b * d];
            return Self {
                min: products.into_iter().min().and_then(Self::bounded),
                max: products.into_iter().max().and_then(Self::bounded),
            };
        }
        let (left, right) = (self.min.unwrap_or(-1), other.min.unwrap_or(-1));
        let min = (left >= 0 && right >= 0).then_some(left.max(0) * right.max(0));
        Self {
            min: min.and_then(Self::bounded),
            max: None,
        }
    }

    /// The floored quotients by positive divisors.
    pub(crate) fn floor_div(self, divisor: Self) -> Self {
        let least = divisor.min.unwrap_or(1).max(1);
        let quotient = |value: i128, towards_zero: Option<i128>| match towards_zero {
            Some(by) => value.div_euclid(by.max(1)),
            None if value < 0 => -1,
            None => 0,
        };
        // A large divisor brings the quotient close to zero, a small one away from it.
        let min = self.min.map(|min| {
            let by = if min < 0 { Some(least) } else { divisor.max };
            quotient(min, by)
        });
        let max = self.max.map(|max| {
            let by = if max < 0 { divisor.max } else { Some(least) };
            quotient(max, by)
        });
        Self { min, max }
    }

    pub(crate) fn least(self, other: Self) -> Self {
        let max = match (self.max, other.max) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let min = self.min.zip(other.min).map(|(a, b)| a.min(b));
        Self { min, max }
    }

    pub(crate) fn greatest(self, other: Self) -> Self {
        let min = match (self.min, other.min) {
            (Some(a), Some(b)) => Some(a.max(b)),
            (a, b) => a.or(b),
        };
        let max = self.max.zip(other.max).map(|(a, b)| a.max(b));
        Self { min, max }
    }

    fn bounded(value: i128) -> Option<i128> {
        Some(value).filter(|value| value.abs() < LIMIT)
    }
}
