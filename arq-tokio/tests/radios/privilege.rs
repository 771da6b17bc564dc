// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Who may bind a socket to an interface: everybody since Linux 5.7, the privileged before.

use std::{env, error::Error, io, os::unix::process::CommandExt as _, process::Command};

use arq_tokio::{
    socket::{udp::UdpDatagramSocket, DatagramSocket},
    Endpoint, EndpointConfig, PathInterface, SocketOptions,
};
use nix::libc::{SYS_setsockopt, EPERM, SOL_SOCKET, SO_BINDTODEVICE};
use seccompiler::{
    apply_filter, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule,
};
use tokio::runtime::Handle;

use super::support::{answer, skipped, Role};

/// What a role says that cannot be an old kernel.
const NO_FILTER: &str = "no filter";

#[test]
fn who_has_no_privilege_may_bind_to_an_interface() {
    const NOBODY: u32 = 65_534;
    let mut command = Command::new(env::current_exe().unwrap());
    // Whoever runs this without being root is one who has none.
    if nix::unistd::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    match Role::start(command, "privilege::role_bind") {
        Ok(mut role) => assert_eq!(role.answer(), "bound"),
        Err(error) => skipped("who_has_no_privilege", error),
    }
}

#[test]
fn an_old_kernel_that_refuses_is_told_of_with_the_interface_and_the_capability() {
    let command = Command::new(env::current_exe().unwrap());
    let mut role = Role::start(command, "privilege::role_bind_on_an_old_kernel").unwrap();
    // The socket alone, and what a link over several interfaces opens.
    for _ in 0..2 {
        let said = role.answer();
        if said.starts_with(NO_FILTER) {
            return skipped("an_old_kernel_that_refuses", said);
        }
        for word in ["PermissionDenied", "interface lo:", "Linux 5.7", "CAP_NET_RAW", "setcap"] {
            assert!(said.contains(word), "{word} is expected: {said}");
        }
    }
    assert_eq!(role.answer(), "bound", "where no interface is named");
}

#[test]
#[ignore = "a role, which other tests start"]
fn role_bind() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async { answer(bind(Some("lo"))) });
}

#[test]
#[ignore = "a role, which other tests start"]
fn role_bind_on_an_old_kernel() {
    // Before the runtime, whose threads inherit it.
    if let Err(error) = refuse_to_bind() {
        return answer(format!("{NO_FILTER}: {error}"));
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        answer(bind(Some("lo")));
        let (any, options) = ("0.0.0.0:0".parse().unwrap(), SocketOptions::default());
        let (lo, none) = ([PathInterface::new("lo")], EndpointConfig::default());
        let over_lo = Endpoint::over_interfaces(lo, any, &options, none, &Handle::current());
        answer(over_lo.map_or_else(|error| tell(&error), |_| "bound".to_owned()));
        answer(bind(None));
    });
}

fn bind(interface: Option<&str>) -> String {
    let mut options = SocketOptions::default();
    options.interface = interface.map(str::to_owned);
    let bound = UdpDatagramSocket::bind("127.0.0.1:0".parse().unwrap(), &options);
    bound.map_or_else(
        |error| tell(&error),
        |socket| if socket.local_addr().port() > 0 { "bound" } else { "unbound" }.to_owned(),
    )
}

fn tell(error: &io::Error) -> String {
    format!("{:?}: {error}", error.kind())
}

/// Makes the kernel answer as one before 5.7 does to who has no privilege: to this thread, and those that it starts.
fn refuse_to_bind() -> Result<(), Box<dyn Error>> {
    let is = |argument, value: i32| {
        let (length, equal) = (SeccompCmpArgLen::Dword, SeccompCmpOp::Eq);
        SeccompCondition::new(argument, length, equal, value as u64)
    };
    let rule = SeccompRule::new(vec![is(1, SOL_SOCKET)?, is(2, SO_BINDTODEVICE)?])?;
    let filter = SeccompFilter::new(
        [(SYS_setsockopt as _, vec![rule])].into(),
        SeccompAction::Allow,
        SeccompAction::Errno(EPERM as u32),
        env::consts::ARCH.try_into()?,
    )?;
    Ok(apply_filter(&BpfProgram::try_from(filter)?)?)
}
