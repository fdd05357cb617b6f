//! Access to attributes of files without AttributeTypes (bef 1.8), by callers that know the
//! types, as TFRT's kernels do.

use super::File;
use super::attribute_reader::read_attribute;
use super::section::SectionId;
use crate::attribute::code;
use crate::{Attribute, AttributeCode, FunctionId};
use std::sync::atomic::Ordering;
use tenon_base::Result;

impl File<'_> {
    /// Offsets of the attributes of each kernel of a function, in the order of their names.
    ///
    /// # Errors
    /// A malformed function, or none of this id with a body.
    pub fn attribute_offsets(&self, id: FunctionId) -> Result<Vec<Vec<u32>>> {
        let mut table = Vec::new();
        let body = self.body_of(id, &mut table)?;
        let records = table.iter().skip(1).map(|row| body.record(row));
        records
            .map(|record| Ok(record?.attributes().collect()))
            .collect()
    }

    /// Decodes the attribute at `offset` as type `code`.
    ///
    /// # Errors
    /// The bytes at `offset` are not a valid attribute of this type.
    ///
    /// ```
    /// # use tenon_bef::*;
    /// # let mut main = FunctionBuilder::new("main", FunctionKind::Sync);
    /// # let one = main.kernel("tfrt.constant.i32").attribute("value", 1i32).result("i32");
    /// # let options = EncodeOptions { optional_sections: false };
    /// # let bytes = encode(&Module::from(main.returns([one])), &options)?;
    /// let file = File::open(&bytes)?;
    /// assert!(!file.has_attribute_types());
    /// let offset = file.attribute_offsets(FunctionId(0))?[0][0];
    /// let i32_code = AttributeCode::number(DType::I32);
    /// assert_eq!(file.attribute(offset, i32_code)?, Attribute::I32(1));
    /// # Ok::<(), tenon_base::Error>(())
    /// ```
    pub fn attribute(&self, offset: u32, expected: AttributeCode) -> Result<Attribute> {
        let section = self.reader(SectionId::Attributes);
        let at = section.at(offset.into())?;
        // An empty list is stored as an empty array; an aggregate never has alignment 0.
        let is_empty = expected == AttributeCode::AGGREGATE && at.ahead().first() == Some(&0);
        let expected = if is_empty {
            code::EMPTY_ARRAY
        } else {
            expected.0
        };
        let left = self.budget_left.load(Ordering::Relaxed);
        let mut budget = self.budget(left);
        let value = read_attribute(at, expected, &mut budget)?;
        self.spend(left.saturating_sub(budget.left()));
        match value.problem() {
            None => Ok(value),
            Some(problem) => Err(at.error(problem)),
        }
    }
}
