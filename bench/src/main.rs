// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! The program `arq-bench`.

fn main() -> std::process::ExitCode {
    arq_bench::cli::main()
}
