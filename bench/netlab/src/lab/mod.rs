// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How do two (or more) hosts with a lossy network between them fit on one machine?
//!
//! Each host is a network namespace with one interface, `eth0`, whose cable ends in a namespace in the middle. In a
//! [`Lab`] a switch (a bridge) stands there; the emulator of a [`Network`](crate::Network) puts itself there instead.
//! In the lab packets are dropped *below* every transport: where they enter a host, before the kernel has looked at
//! them, so that all meet the same loss. Three details make the loss honest:
//!
//! - The switch cuts segmentation-offload packets to wire size (`gso_max_segs 1` on its ports). A veth would
//!   carry a 64 KB super-packet whole, and one drop would then lose 44 packets.
//! - The rule stands in the `raw` table, so a datagram in IP fragments is dropped fragment by fragment.
//! - Neighbour tables are static: a lost ARP or neighbour solicitation would add seconds that no radio adds.
//!
//! Not possible with the switch: added delay, a rate limit, a seed for the drops (they are the kernel's random
//! numbers). All that is the emulator's.

mod cabling;
mod host;
mod namespace;
mod offload;
mod pass;
mod tool;

use std::fmt::Write as _;

pub use host::Host;
pub use tool::LabError;

pub(crate) use cabling::Cabling;
pub(crate) use namespace::{Namespace, SocketKind};
pub(crate) use tool::run;

/// Hosts on one switch. Dropping it ends every process inside and takes the network away.
pub struct Lab {
    cabling: Cabling,
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
    ///
    /// # Errors
    /// When the system refuses namespaces or lacks a tool; the error says what to do.
    pub fn new(hosts: u8) -> Result<Self, LabError> {
        let lab = Self { cabling: Cabling::new(hosts, 0..0, 200)? };
        lab.switch()?;
        Ok(lab)
    }

    /// The host number `index`, from 0.
    ///
    /// # Panics
    /// When the lab has no such host.
    pub fn host(&self, index: usize) -> &Host {
        &self.cabling.hosts[index]
    }

    /// Drops each packet that enters any host with this probability (0 to 1), from now on; resets the counts.
    ///
    /// # Errors
    /// When it is no probability, or the firewall refuses.
    pub fn set_loss(&self, probability: f64) -> Result<(), LabError> {
        self.cabling.hosts.iter().try_for_each(|host| host.set_loss(probability))
    }

    /// Pulls the cable of a host out of the switch: the host loses its carrier and nothing passes.
    ///
    /// # Errors
    /// When there is no such host.
    pub fn unplug(&self, index: usize) -> Result<(), LabError> {
        self.switch_batch(&format!("link set dev port{index} down\n"))
    }

    /// Puts the cable back.
    ///
    /// # Errors
    /// When there is no such host.
    pub fn plug(&self, index: usize) -> Result<(), LabError> {
        self.switch_batch(&format!("link set dev port{index} up\n"))
    }

    fn switch(&self) -> Result<(), LabError> {
        let mut batch = String::from("link add name switch type bridge mcast_snooping 0\n");
        // Without link-local addresses: the switch is no host and must not add packets of its own.
        batch.push_str("link set dev switch addrgenmode none\n");
        batch.push_str("link set dev switch up\n");
        for index in 0..self.cabling.hosts.len() {
            let _ = writeln!(batch, "link set dev port{index} master switch gso_max_segs 1");
        }
        self.switch_batch(&batch)?;
        self.set_loss(0.0)
    }

    fn switch_batch(&self, batch: &str) -> Result<(), LabError> {
        run(self.cabling.middle.command("ip").args(["-batch", "-"]), batch).map(drop)
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
