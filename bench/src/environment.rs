// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! On what was it measured?
//!
//! A few lines of `/proc` are all that is asked; the crates that know more of a machine want a newer compiler.

use std::fs::{read, read_to_string};
use std::hash::Hasher;
use std::sync::OnceLock;

use arq_report::record::{Environment, SocketBuffers};
use nix::unistd::Uid;

/// The machine as it is now; `zenoh` is zenoh's version, `command` what was typed, `seed` that of the whole run.
pub fn environment(zenoh: &str, command: &str, seed: u64) -> Environment {
    Environment {
        version: program(),
        zenoh: zenoh.to_owned(),
        command: command.to_owned(),
        kernel: kernel(),
        processor: processor(),
        memory_bytes: memory_bytes(),
        socket_buffers: socket_buffers(),
        load: load(),
        optimised: !cfg!(debug_assertions),
        privilege: privilege().to_owned(),
        seed,
    }
}

/// This program: its version, the profile that it is built by, and what tells it from one of other sources.
pub fn program() -> String {
    format!("{} (build {}, profile {})", env!("CARGO_PKG_VERSION"), build(), env!("ARQ_PROFILE"))
}

/// Tells this program from one that was built of other sources: what is measured is part of it.
fn build() -> &'static str {
    static BUILD: OnceLock<String> = OnceLock::new();
    BUILD.get_or_init(|| {
        let Ok(program) = read("/proc/self/exe") else { return "unknown".to_owned() };
        let mut hasher = std::hash::DefaultHasher::new();
        hasher.write(&program);
        format!("{:016x}", hasher.finish())
    })
}

fn kernel() -> String {
    let part = |name: &str| proc(&format!("sys/kernel/{name}")).trim().to_owned();
    format!("{} {} {}", part("ostype"), part("osrelease"), std::env::consts::ARCH)
}

fn processor() -> String {
    let info = proc("cpuinfo");
    let model = field(&info, "model name").or_else(|| field(&info, "Model"));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{}, {cores} cores", model.unwrap_or("unknown processor"))
}

fn memory_bytes() -> u64 {
    let info = proc("meminfo");
    let kib =
        field(&info, "MemTotal").and_then(|total| total.split_whitespace().next()?.parse().ok());
    kib.map_or(0, |kib: u64| kib * 1024)
}

/// Those of the initial network namespace; older kernels tell them nowhere else, so ask before entering another.
fn socket_buffers() -> Option<SocketBuffers> {
    let bytes = |name: &str| proc(&format!("sys/net/core/{name}")).trim().parse().ok();
    Some(SocketBuffers { receive_bytes: bytes("rmem_max")?, send_bytes: bytes("wmem_max")? })
}

fn load() -> f64 {
    proc("loadavg").split_whitespace().next().and_then(|load| load.parse().ok()).unwrap_or(0.0)
}

/// A user namespace maps fewer than all users.
fn privilege() -> &'static str {
    const ALL_USERS: &str = "4294967295";
    let maps_all = proc("self/uid_map").split_whitespace().last() == Some(ALL_USERS);
    match (Uid::effective().is_root(), maps_all) {
        (true, true) => "root",
        (true, false) => "root of a user namespace",
        (false, _) => "an ordinary user, with a user namespace of its own",
    }
}

/// The value behind `name` and a colon.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let values = text.lines().filter_map(|line| line.split_once(':'));
    values.into_iter().find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
}

/// A file of `/proc`; empty where the kernel does not have it.
fn proc(name: &str) -> String {
    read_to_string(format!("/proc/{name}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_knows_this_machine() {
        let here = environment("1.10.2", "arq-bench run test", 7);
        assert!(here.kernel.starts_with("Linux ") && here.memory_bytes > 1 << 20, "{here:?}");
        assert!(
            here.processor.ends_with("cores") && !here.processor.starts_with("unknown"),
            "{here:?}"
        );
    }
}
