// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! `arq-bench qlog`: a picture of what one side of a link did.

use std::path::PathBuf;

use arq_report::report::qlog;
use clap::Args;

use super::CliError;

/// `arq-bench qlog`
#[derive(Debug, Args)]
pub(super) struct QlogArgs {
    /// A file of the folder that QLOGDIR named.
    #[arg(value_name = "FILE.sqlog")]
    file: PathBuf,
    /// Where the picture goes [default: beside the file, as .svg].
    #[arg(short, long, value_name = "FILE.svg")]
    out: Option<PathBuf>,
}

/// Draws the file.
pub(super) fn run(args: &QlogArgs) -> Result<(), CliError> {
    let name = args.file.display();
    let failed = |error: &dyn std::fmt::Display| CliError::Qlog(format!("{name}: {error}"));
    let text = std::fs::read_to_string(&args.file).map_err(|error| failed(&error))?;
    let picture = qlog::draw(&text, &name.to_string()).map_err(|error| failed(&error))?;
    let out = args.out.clone().unwrap_or_else(|| args.file.with_extension("svg"));
    std::fs::write(&out, picture)
        .map_err(|error| CliError::Qlog(format!("{}: {error}", out.display())))?;
    println!("picture: {}", out.display());
    Ok(())
}
