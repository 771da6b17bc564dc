// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How is a small file replaced so that the old or the new one is there, never half of one?

use std::fs::{rename, File};
use std::io::Write;
use std::path::Path;

use super::ResultsError;

/// Writes a file beside it, then puts it in its place.
pub(super) fn replace(path: &Path, content: &[u8]) -> Result<(), ResultsError> {
    let beside = path.with_extension("new");
    let written = File::create(&beside).and_then(|mut file| {
        file.write_all(content)?;
        file.sync_all()
    });
    if let Err(error) = written {
        // It is of no use, and the disk may be full.
        let _ = std::fs::remove_file(&beside);
        return Err(ResultsError::io(path)(error));
    }
    rename(&beside, path).map_err(ResultsError::io(path))
}
