// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How do two (or more) hosts with a lossy network between them fit on one machine?
//!
//! Each host is a network namespace with one interface, `eth0`, plugged into a switch (a bridge in a namespace
//! of its own). Packets are dropped *below* every link: where they enter a host, before the kernel has looked at
//! them, so tcp, udp, quic and arq meet the same loss. Three details make the loss honest:
//!
//! - The switch cuts segmentation-offload packets to wire size (`gso_max_segs 1` on its ports). A veth would
//!   carry a 64 KB super-packet whole, and one drop would then lose 44 packets.
//! - The rule stands in the `raw` table, so a datagram in IP fragments is dropped fragment by fragment.
//! - Neighbour tables are static: a lost ARP or neighbour solicitation would add seconds that no radio adds.
//!
//! Not possible here: added delay, a rate limit, a seed for the drops (they are the kernel's random numbers).

mod namespace;
mod tool;

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::process::Command;

use namespace::Namespace;
use tool::run;

pub use tool::LabError;

/// Hosts on one switch. Dropping it ends every process inside and takes the network away.
pub struct Lab {
    hosts: Vec<Host>,
    switch: Namespace,
}

/// One host of a [`Lab`].
pub struct Host {
    index: u8,
    namespace: Namespace,
}

/// What the loss rule of a host has seen since it was last set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketCount {
    /// Packets that arrived at the host's interface, dropped ones included.
    pub arrived: u64,
    /// Packets that were thrown away.
    pub dropped: u64,
    /// Bytes of the packets that arrived, IP headers included.
    pub arrived_bytes: u64,
}

impl Lab {
    /// Builds a lab of `hosts` hosts (2 to 200) without loss.
    pub fn new(hosts: u8) -> Result<Self, LabError> {
        if !(2..=200).contains(&hosts) {
            return Err(LabError::HostCount(hosts));
        }
        let switch = Namespace::first()?;
        let hosts = (0..hosts)
            .map(|index| Ok(Host { index, namespace: switch.sibling()? }))
            .collect::<Result<Vec<_>, LabError>>()?;
        let lab = Self { hosts, switch };
        lab.wire()?;
        Ok(lab)
    }

    /// The host number `index`, from 0.
    ///
    /// # Panics
    /// When the lab has no such host.
    pub fn host(&self, index: usize) -> &Host {
        &self.hosts[index]
    }

    /// Drops each packet that enters any host with this probability, from now on; resets the counts.
    pub fn set_loss(&self, probability: f64) -> Result<(), LabError> {
        self.hosts.iter().try_for_each(|host| host.set_loss(probability))
    }

    /// Pulls the cable of a host out of the switch: the host loses its carrier and nothing passes.
    pub fn unplug(&self, index: usize) -> Result<(), LabError> {
        self.switch_batch(&format!("link set dev port{index} down\n"))
    }

    /// Puts the cable back.
    pub fn plug(&self, index: usize) -> Result<(), LabError> {
        self.switch_batch(&format!("link set dev port{index} up\n"))
    }

    fn wire(&self) -> Result<(), LabError> {
        let mut batch = String::from("link add name switch type bridge mcast_snooping 0\n");
        // Without link-local addresses: the switch is no host and must not add packets of its own.
        batch.push_str("link set dev switch addrgenmode none\n");
        batch.push_str("link set dev switch up\n");
        for Host { index, namespace } in &self.hosts {
            let (mac, pid) = (mac(*index), namespace.pid());
            let _ = writeln!(
                batch,
                "link add name port{index} type veth peer name eth0 address {mac} netns {pid}"
            );
            let _ = writeln!(
                batch,
                "link set dev port{index} master switch addrgenmode none gso_max_segs 1 up"
            );
        }
        self.switch_batch(&batch)?;
        self.hosts.iter().try_for_each(|host| host.configure(self.hosts.len()))
    }

    fn switch_batch(&self, batch: &str) -> Result<(), LabError> {
        run(self.switch.command("ip").args(["-batch", "-"]), batch).map(drop)
    }
}

impl Host {
    /// The host's IPv4 address.
    pub fn ipv4(&self) -> Ipv4Addr {
        ipv4(self.index)
    }

    /// The host's IPv6 address.
    pub fn ipv6(&self) -> Ipv6Addr {
        ipv6(self.index)
    }

    /// A command that will run in this host. Spawn it from a thread that outlives it: the kernel ends it with
    /// the thread, so that nothing is left behind by a crash.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        self.namespace.command(program)
    }

    /// The process whose namespaces are the host's, for `nsenter -t PID -n` by hand.
    pub fn pid(&self) -> u32 {
        self.namespace.pid()
    }

    /// Drops each packet that enters this host with this probability, from now on; resets the counts.
    pub fn set_loss(&self, probability: f64) -> Result<(), LabError> {
        if !(0.0..=1.0).contains(&probability) {
            return Err(LabError::Probability(probability));
        }
        let rules = format!(
            "*raw\n-A PREROUTING -i eth0\n\
             -A PREROUTING -i eth0 -m statistic --mode random --probability {probability:.6} -j DROP\nCOMMIT\n"
        );
        for restore in ["iptables-restore", "ip6tables-restore"] {
            run(self.namespace.command(restore).arg("-w"), &rules)?;
        }
        Ok(())
    }

    /// What the loss rules have seen, IPv4 and IPv6 together.
    pub fn packet_count(&self) -> Result<PacketCount, LabError> {
        let mut count = PacketCount::default();
        for save in ["iptables-save", "ip6tables-save"] {
            let table = run(self.namespace.command(save).args(["-c", "-t", "raw"]), "")?;
            table.lines().for_each(|line| count.read(line));
        }
        Ok(count)
    }

    /// Sets a kernel parameter of this host, for example `net.ipv4.tcp_sack`.
    pub fn sysctl(&self, name: &str, value: &str) -> Result<(), LabError> {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        run(
            self.command("sh").args(["-c", "printf %s \"$2\" > \"$1\"", "sysctl", &path, value]),
            "",
        )
        .map(drop)
    }

    /// Chooses the congestion control of the host's TCP connections (`cubic`, `bbr`, `reno`).
    ///
    /// By route, because the sysctl of a namespace refuses what the machine's administrator has not allowed.
    pub fn set_tcp_congestion_control(&self, name: &str) -> Result<(), LabError> {
        let (v4, v6) = (self.ipv4(), self.ipv6());
        let batch = format!(
            "route replace 10.77.0.0/24 dev eth0 src {v4} congctl {name}\n\
             route replace fd77::/64 dev eth0 src {v6} metric 1 congctl {name}\n"
        );
        self.batch(&batch)
    }

    fn configure(&self, hosts: usize) -> Result<(), LabError> {
        let mut batch = String::from("link set dev lo up\nlink set dev eth0 addrgenmode none up\n");
        let _ = writeln!(batch, "addr add {}/24 dev eth0", self.ipv4());
        let _ = writeln!(batch, "addr add {}/64 dev eth0 nodad", self.ipv6());
        for peer in (0..=u8::MAX).take(hosts).filter(|peer| *peer != self.index) {
            for address in [ipv4(peer).to_string(), ipv6(peer).to_string()] {
                let _ = writeln!(
                    batch,
                    "neigh replace {address} lladdr {} nud permanent dev eth0",
                    mac(peer)
                );
            }
        }
        self.batch(&batch)?;
        self.set_loss(0.0)
    }

    fn batch(&self, batch: &str) -> Result<(), LabError> {
        run(self.namespace.command("ip").args(["-batch", "-"]), batch).map(drop)
    }
}

impl std::ops::Add for PacketCount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            arrived: self.arrived + other.arrived,
            dropped: self.dropped + other.dropped,
            arrived_bytes: self.arrived_bytes + other.arrived_bytes,
        }
    }
}

impl PacketCount {
    /// The share of arrived packets that was dropped; 0 when nothing arrived.
    pub fn drop_share(&self) -> f64 {
        if self.arrived == 0 {
            return 0.0;
        }
        self.dropped as f64 / self.arrived as f64
    }

    /// Adds one line of `iptables-save -c`: `[packets:bytes] -A PREROUTING …`.
    fn read(&mut self, line: &str) {
        let Some((counters, rule)) =
            line.strip_prefix('[').and_then(|l| l.split_once("] -A PREROUTING"))
        else {
            return;
        };
        let Some((packets, bytes)) = counters.split_once(':') else {
            return;
        };
        let packets = packets.parse::<u64>().unwrap_or(0);
        if rule.contains("DROP") {
            self.dropped += packets;
        } else {
            self.arrived += packets;
            self.arrived_bytes += bytes.parse::<u64>().unwrap_or(0);
        }
    }
}

fn ipv4(host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, host + 1)
}

fn ipv6(host: u8) -> Ipv6Addr {
    Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, u16::from(host) + 1)
}

fn mac(host: u8) -> String {
    format!("02:77:00:00:00:{:02x}", host + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_from_the_saved_rules() {
        let mut count = PacketCount::default();
        let saved = "*raw\n:PREROUTING ACCEPT [7:700]\n[100:5000] -A PREROUTING -i eth0\n\
                     [11:550] -A PREROUTING -i eth0 -m statistic --mode random --probability 0.1 -j DROP\nCOMMIT";
        saved.lines().for_each(|line| count.read(line));
        assert_eq!(count, PacketCount { arrived: 100, dropped: 11, arrived_bytes: 5000 });
        assert!((count.drop_share() - 0.11).abs() < 1e-9);
    }

    #[test]
    fn impossible_labs_are_refused_by_name() {
        let error = Lab::new(1).err().expect("one host is no network");
        assert!(error.to_string().contains("2 to 200"), "{error}");
    }
}
