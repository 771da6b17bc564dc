// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How is a network tool called, and what does its failure tell the user to do?

use std::io::{self, Write};
use std::process::{Command, Stdio};

/// Why a lab could not be built or changed.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The kernel refused to make namespaces.
    #[error(
        "the kernel refuses a network namespace ({0}).\n\
         As root this works as it is. Without root, user namespaces must be allowed: \
         `sysctl kernel.unprivileged_userns_clone=1` (Debian), \
         `sysctl kernel.apparmor_restrict_unprivileged_userns=0` (Ubuntu 24.04), \
         `sysctl user.max_user_namespaces=10000`. \
         In a container start it with `docker run --security-opt seccomp=unconfined \
         --security-opt systempaths=unconfined --security-opt apparmor=unconfined`, or with `--privileged`."
    )]
    NotPermitted(#[source] io::Error),
    /// A program is not installed.
    #[error("`{program}` is not installed: `apt-get install {package}` (or your system's package of that tool)")]
    MissingTool {
        /// The program that was looked for.
        program: String,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// A program ran and failed.
    #[error("`{command}` failed: {reason}")]
    Command {
        /// The command line.
        command: String,
        /// What it said.
        reason: String,
    },
    /// A probability that is none.
    #[error("a loss probability of {0} is impossible: 0 to 1")]
    Probability(f64),
    /// Too few or too many hosts.
    #[error("a network of {asked} hosts is impossible: 2 to {most}")]
    HostCount {
        /// How many were asked for.
        asked: u8,
        /// How many there can be.
        most: u8,
    },
    /// Too many interfaces, or one for a host that does not exist.
    #[error(
        "{second} second radios for {hosts} hosts are impossible: {most} radios at most in all, two for a host"
    )]
    PortCount {
        /// How many hosts there are.
        hosts: u8,
        /// How many second interfaces were asked for.
        second: usize,
        /// How many interfaces there can be.
        most: u8,
    },
    /// A socket inside a host could not be made, bound or connected.
    #[error("no socket in a host of the network: {0}")]
    Socket(#[source] io::Error),
    /// The segmentation offload could not be turned off.
    #[error(
        "the segmentation offload of a host's interface cannot be turned off ({0}); packets would cross the network \
         in pieces of 64 KB, so nothing is measured. Is this kernel older than 2.6.39, or is the ioctl filtered?"
    )]
    Offload(#[source] io::Error),
}

impl LabError {
    pub(super) fn not_permitted(error: io::Error) -> Self {
        Self::NotPermitted(error)
    }
}

/// Runs a tool to its end with `input` on its standard input; its output, or an error that says what to do.
pub(crate) fn run(command: &mut Command, input: &str) -> Result<String, LabError> {
    // Users without root often have no sbin in their path, where these tools live.
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let outcome = command.spawn().and_then(|mut child| {
        let fed = child.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(input.as_bytes()));
        let output = child.wait_with_output()?;
        // A tool that failed early did not read its input: its own words explain that better.
        if output.status.success() {
            fed?;
        }
        Ok(output)
    });
    match outcome {
        Ok(output) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Ok(output) => Err(failed(command, String::from_utf8_lossy(&output.stderr).trim())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Err(missing(command)),
        Err(e) => Err(failed(command, &e.to_string())),
    }
}

fn failed(command: &Command, reason: &str) -> LabError {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    LabError::Command { command: words.join(" "), reason: reason.to_owned() }
}

fn missing(command: &Command) -> LabError {
    let program = command.get_program().to_string_lossy().into_owned();
    let package = match program.as_str() {
        "ip" | "tc" => "iproute2",
        name if name.starts_with("ip") => "iptables",
        _ => "coreutils",
    };
    LabError::MissingTool { program, package }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tool_names_its_package() {
        let error = run(&mut Command::new("iptables-restore-of-another-world"), "").unwrap_err();
        assert!(error.to_string().contains("apt-get install iptables"), "{error}");
    }

    #[test]
    fn a_failing_tool_is_quoted() {
        let error =
            run(Command::new("sh").args(["-c", "echo broken >&2; exit 3"]), "").unwrap_err();
        assert!(error.to_string().ends_with("failed: broken"), "{error}");
    }

    #[test]
    fn input_reaches_the_tool_and_a_tool_that_ignores_it_is_no_success() {
        assert_eq!(run(&mut Command::new("cat"), "hello").expect("cat"), "hello");
        let long = "x".repeat(1 << 20);
        let error = run(&mut Command::new("true"), &long).unwrap_err();
        assert!(error.to_string().contains("Broken pipe"), "{error}");
    }
}
