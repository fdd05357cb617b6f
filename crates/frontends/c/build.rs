//! Sets the name that programs load.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libtenon.so.1");
    println!("cargo::rerun-if-changed=build.rs");
}
