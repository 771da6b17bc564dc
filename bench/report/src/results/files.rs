// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How is a small file replaced so that the old or the new one is there, never half of one?

use std::fs::{remove_file, rename, File};
use std::io::{self, Write};
use std::path::Path;

/// Writes a file beside it, then puts it in its place.
pub(crate) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let beside = path.with_extension("new");
    let written = File::create(&beside).and_then(|mut file| {
        file.write_all(content)?;
        file.sync_all()
    });
    // What is left is of no use, and the disk may be full.
    written.and_then(|()| rename(&beside, path)).inspect_err(|_| drop(remove_file(&beside)))
}
