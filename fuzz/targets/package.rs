//! Packages: opens them, prints their programs, loads them and chooses the sizes of their symbols.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tenon::neff::Limits;
use tenon::neff::Package;
use tenon::{Control, LoadOptions, Model};
use tenon_tensor::BufferMut;

fuzz_target!(|bytes: &[u8]| {
    let Ok(buffer) = BufferMut::copy_of(bytes) else {
        return;
    };
    let limits = Limits::of_bytes(1 << 24);
    if let Ok(package) = Package::from_buffer(buffer.freeze(), &limits, &Control::new()) {
        let _ = tenon::inspect::program_text(&package);
        if let Ok(model) = Model::from_package(&package, &LoadOptions::default()) {
            let sizes: Vec<_> = model
                .symbols()
                .iter()
                .map(|(_, symbol)| (symbol.name.as_str(), symbol.min.max(symbol.max.min(3))))
                .collect();
            let _ = model.at(&sizes);
        }
    }
});
