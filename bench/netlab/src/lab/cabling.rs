// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How do cables run from several hosts to one place in the middle?

use std::fmt::Write as _;
use std::ops::Range;

use super::host::{mac, FIRST, SECOND};
use super::namespace::Namespace;
use super::tool::run;
use super::{Host, LabError};

/// Hosts and, in the middle, a namespace where `port0`, `port1`, … are the other ends of their interfaces: first the
/// `eth0` of each host, then the `eth1` of those that have one.
pub(crate) struct Cabling {
    pub(crate) hosts: Vec<Host>,
    pub(crate) middle: Namespace,
}

impl Cabling {
    /// Makes 2 to `most` hosts, with addresses, up and running, and a second interface for those in `second`; the ports
    /// are up and joined to nothing.
    pub(crate) fn new(hosts: u8, second: Range<u8>, most: u8) -> Result<Self, LabError> {
        if !(2..=most).contains(&hosts) {
            return Err(LabError::HostCount { asked: hosts, most });
        }
        if hosts.saturating_add(second.len() as u8) > most || second.end > hosts {
            return Err(LabError::PortCount { hosts, second: second.len(), most });
        }
        let middle = Namespace::first()?;
        let hosts = (0..hosts)
            .map(|index| {
                let extra = second.contains(&index).then(|| hosts + index - second.start);
                Ok(Host { index, second: extra, namespace: middle.sibling()? })
            })
            .collect::<Result<Vec<_>, LabError>>()?;
        let cabling = Self { hosts, middle };
        cabling.lay()?;
        Ok(cabling)
    }

    /// How many ports there are.
    pub(crate) fn ports(&self) -> usize {
        self.hosts.len() + self.hosts.iter().filter(|host| host.second.is_some()).count()
    }

    fn lay(&self) -> Result<(), LabError> {
        let mut batch = String::new();
        for (host, port, interface) in self.interfaces() {
            let (mac, pid) = (mac(port), host.pid());
            let _ = writeln!(
                batch,
                "link add name port{port} type veth peer name {interface} address {mac} netns {pid}"
            );
            let _ = writeln!(batch, "link set dev port{port} addrgenmode none up");
        }
        run(self.middle.command("ip").args(["-batch", "-"]), &batch)?;
        self.hosts.iter().try_for_each(|host| host.configure(self.ports()))
    }

    /// Each interface of each host, with its port, in the order of the ports.
    pub(crate) fn interfaces(&self) -> impl Iterator<Item = (&Host, u8, &'static str)> {
        let first = self.hosts.iter().map(|host| (host, host.index, FIRST));
        first.chain(self.hosts.iter().filter_map(|host| Some((host, host.second?, SECOND))))
    }
}
