// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How do cables run from several hosts to one place in the middle?

use std::fmt::Write as _;

use super::host::mac;
use super::namespace::Namespace;
use super::tool::run;
use super::{Host, LabError};

/// Hosts and, in the middle, a namespace where `port0`, `port1`, … are the other ends of their interfaces.
pub(crate) struct Cabling {
    pub(crate) hosts: Vec<Host>,
    pub(crate) middle: Namespace,
}

impl Cabling {
    /// Makes 2 to `most` hosts, with addresses, up and running; the ports are up and joined to nothing.
    pub(crate) fn new(hosts: u8, most: u8) -> Result<Self, LabError> {
        if !(2..=most).contains(&hosts) {
            return Err(LabError::HostCount { asked: hosts, most });
        }
        let middle = Namespace::first()?;
        let hosts = (0..hosts)
            .map(|index| Ok(Host { index, namespace: middle.sibling()? }))
            .collect::<Result<Vec<_>, LabError>>()?;
        let cabling = Self { hosts, middle };
        cabling.lay()?;
        Ok(cabling)
    }

    fn lay(&self) -> Result<(), LabError> {
        let mut batch = String::new();
        for Host { index, namespace } in &self.hosts {
            let (mac, pid) = (mac(*index), namespace.pid());
            let _ = writeln!(
                batch,
                "link add name port{index} type veth peer name eth0 address {mac} netns {pid}"
            );
            let _ = writeln!(batch, "link set dev port{index} addrgenmode none up");
        }
        run(self.middle.command("ip").args(["-batch", "-"]), &batch)?;
        self.hosts.iter().try_for_each(|host| host.configure(self.hosts.len()))
    }
}
