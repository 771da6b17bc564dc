// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Names the interface that a shared library has, for the loader: programs ask for it, not for the file.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libarq.so.0");
    }
}
