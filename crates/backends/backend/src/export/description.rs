//! The description of an exported backend: the data that its table points to.

use crate::marshal::{dtype_code, named_values};
use crate::{Backend, OptionScope};
use tenon_backend_abi as abi;

/// The texts of a table, and the C structs and lists that point to them.
pub(super) struct BackendDescription {
    pub description: String,
    pub target: String,
    pub capabilities: Vec<crate::Capability>,
    pub options: Vec<crate::OptionDef>,
    pub factories: Vec<crate::HandleFactory>,
    pub values: (Box<[abi::PropertyValue]>, Box<[*const abi::PropertyValue]>),
    _defaults: (Box<[abi::PropertyValue]>, Box<[*const abi::PropertyValue]>),
    _option_structs: Box<[abi::BackendOption]>,
    pub option_list: Box<[*const abi::BackendOption]>,
    _factory_structs: Box<[abi::HandleFactory]>,
    pub factory_list: Box<[*const abi::HandleFactory]>,
    _tolerance_structs: Box<[abi::Tolerance]>,
    pub tolerance_list: Box<[*const abi::Tolerance]>,
}

impl BackendDescription {
    pub fn of(backend: &dyn Backend) -> Self {
        let capabilities = backend.capabilities();
        let options = backend.options();
        let factories = backend.handle_factories();
        let values = named_values(capabilities.iter().map(|one| (&*one.name, &one.value)));
        let defaults = named_values(options.iter().map(|one| (&*one.name, &one.default)));
        let option_structs: Box<[_]> = options
            .iter()
            .zip(&defaults.1)
            .map(|(option, value)| abi::BackendOption {
                size: size_of::<abi::BackendOption>(),
                value: *value,
                scope: match option.scope {
                    OptionScope::Model => abi::scope::MODEL,
                    OptionScope::Creation => abi::scope::CREATION,
                },
                doc: abi::Text::of(&option.doc),
            })
            .collect();
        let factory_structs: Box<[_]> = factories
            .iter()
            .map(|factory| abi::HandleFactory {
                size: size_of::<abi::HandleFactory>(),
                name: abi::Text::of(&factory.id),
                import_sources: factory.import.0,
                export_sources: factory.export.0,
                map: factory.map.into(),
                padding: factory.padding.into(),
                device_type: factory.device.map_or(0, |device| device.kind),
                device_id: factory.device.map_or(0, |device| device.index),
            })
            .collect();
        let tolerances = backend.tolerances().into_iter();
        let tolerance_structs: Box<[_]> = tolerances
            .map(|tolerance| abi::Tolerance {
                size: size_of::<abi::Tolerance>(),
                dtype: dtype_code(tolerance.dtype),
                relative: tolerance.relative,
                absolute: tolerance.absolute,
            })
            .collect();
        Self {
            description: backend.description(),
            target: backend.target().unwrap_or_default(),
            option_list: option_structs.iter().map(|one| &raw const *one).collect(),
            factory_list: factory_structs.iter().map(|one| &raw const *one).collect(),
            tolerance_list: tolerance_structs
                .iter()
                .map(|one| &raw const *one)
                .collect(),
            capabilities,
            options,
            factories,
            values,
            _defaults: defaults,
            _option_structs: option_structs,
            _factory_structs: factory_structs,
            _tolerance_structs: tolerance_structs,
        }
    }
}
