// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Tells the program by which profile it is built. cargo itself says no more than `release` or `debug`.

use std::path::Path;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // <target>/[<triple>/]<profile>/build/<package>/out
    let out = std::env::var("OUT_DIR").unwrap_or_default();
    let folder = Path::new(&out).ancestors().nth(3).and_then(Path::file_name);
    let profile = folder.map_or_else(|| "unknown".into(), |name| name.to_string_lossy());
    println!("cargo:rustc-env=ARQ_PROFILE={profile}");
}
