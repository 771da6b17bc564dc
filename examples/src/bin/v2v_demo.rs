// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Vehicles that talk over a lossy radio: `arq/` beside a stock link, on a page in your browser.

fn main() -> std::process::ExitCode {
    arq_examples::v2v::demo::main()
}
