// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Does a run go on without what this machine lacks, and say so?
#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod support;

use std::fs::{read_to_string, write};
use std::process::{Command, Output};

use arq_report::results::ResultSet;
use tempfile::tempdir;

use support::{moment, network_or_skip};

const LINK: &str = r#"
[[link]]
name = "tcp-nonesuch"
about = "tcp/ with a congestion control that no kernel has"
endpoint = "tcp/{host}:{port}"
tcp_congestion_control = "nonesuch"

[[link]]
name = "tcp-tuned"
about = "tcp/ with a kernel parameter that no kernel has, behind one that each has"
endpoint = "tcp/{host}:{port}"
sysctl = { "net.ipv4.tcp_sack" = "0", "net.ipv4.tcp_nonesuch" = "1" }
"#;

/// What the bench says, the links that it measured, and its report, empty where there is none.
fn run(links: &str) -> (Output, Vec<String>, String) {
    let folder = tempdir().unwrap();
    let (file, out) = (folder.path().join("moment.toml"), folder.path().join("results"));
    write(&file, moment(links, 2) + LINK).unwrap();
    let mut bench = Command::new(env!("CARGO_BIN_EXE_arq-bench"));
    let said = bench.arg("run").arg(&file).arg("--out").arg(&out).output().unwrap();
    let results = ResultSet::read(&out).unwrap();
    let measured = results.records.into_iter().map(|record| record.cell.link).collect();
    let report = read_to_string(out.join("report/index.html")).unwrap_or_default();
    (said, measured, report)
}

#[test]
fn a_congestion_control_that_the_kernel_lacks_is_told_once_and_the_others_are_measured() {
    let Some(network) = network_or_skip("a_congestion_control_that_the_kernel_lacks", 2) else {
        return;
    };
    drop(network);
    let (said, measured, report) = run(r#"["tcp-nonesuch", "udp"]"#);
    let errors = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "{errors}");
    assert_eq!(measured, ["udp", "udp"]);
    assert_eq!(errors.matches("SKIPPED").count(), 1, "{errors}");
    assert!(errors.contains("`nonesuch` (it has ") && errors.contains("modprobe tcp_nonesuch"));
    assert!(report.contains("Without a run, and so in no comparison: tcp-nonesuch."));
}

#[test]
fn a_kernel_parameter_that_the_kernel_lacks_is_told_once_and_the_others_are_measured() {
    let Some(network) = network_or_skip("a_kernel_parameter_that_the_kernel_lacks", 2) else {
        return;
    };
    drop(network);
    let (said, measured, report) = run(r#"["tcp-tuned", "udp"]"#);
    let errors = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "{errors}");
    assert_eq!(measured, ["udp", "udp"]);
    assert_eq!(errors.matches("SKIPPED").count(), 1, "{errors}");
    let why = "no parameter `net.ipv4.tcp_nonesuch`, which the link `tcp-tuned` sets";
    assert!(errors.contains(why), "{errors}");
    assert!(report.contains("Without a run, and so in no comparison: tcp-tuned."));
}

#[test]
fn nothing_measured_is_a_failure() {
    let Some(network) = network_or_skip("nothing_measured_is_a_failure", 2) else { return };
    drop(network);
    let (said, measured, report) = run(r#"["tcp-nonesuch"]"#);
    let errors = String::from_utf8_lossy(&said.stderr);
    assert!(!said.status.success() && errors.contains("SKIPPED"), "{errors}");
    assert!(errors.contains("not one run could be measured"), "{errors}");
    assert!(measured.is_empty() && report.is_empty(), "{measured:?}");
}
