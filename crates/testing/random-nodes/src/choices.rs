//! Decisions that follow from bytes.

/// Bytes that are read as choices; zeros follow their end.
#[derive(Debug, Clone)]
pub struct Choices<'a>(&'a [u8]);

impl<'a> Choices<'a> {
    /// The choices of these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((&first, rest)) => {
                self.0 = rest;
                first
            }
            None => 0,
        }
    }

    /// An integer below `limit`, which is 1 to 65536.
    pub fn below(&mut self, limit: usize) -> usize {
        let value = if limit > 256 {
            usize::from(self.byte()) << 8 | usize::from(self.byte())
        } else {
            usize::from(self.byte())
        };
        value % limit
    }

    /// True once in `count` times.
    pub fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == count - 1
    }

    /// One of `list`, which is not empty.
    pub fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }
}
