//! Gives the library the name that clients look for (facts, neuron.md 1.6).

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libnrt.so.1");
    println!("cargo::rerun-if-changed=build.rs");
}
