//! The methods of options that set a field.

/// A method for each field: it takes the value and returns the options.
macro_rules! setters {
    ($($(#[$doc:meta])+ $field:ident: $type:ty,)+) => {
        $(
            $(#[$doc])+
            #[must_use]
            pub fn $field(mut self, $field: $type) -> Self {
                self.$field = $field;
                self
            }
        )+
    };
}
