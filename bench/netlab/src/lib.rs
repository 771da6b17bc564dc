// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
#![cfg_attr(doctest, doc = include_str!("../README.md"))]
//! How does a program get hosts of its own with a lossy network between them, without root and without a second machine?
//!
//! A [`Host`] is a Linux network namespace with one interface, `eth0` (or two: [`Network::with_second_radios`]):
//! programs run in it ([`Host::command`]), and this process opens sockets in it ([`Host::udp_socket`]). Between the
//! hosts of a [`Network`] an emulator takes every packet and lets it pass when its time has come, by the
//! [`wire::Conditions`] that it was given: delay and jitter, five models of loss, fades, recorded radios, bit errors,
//! duplication, reordering, a bottleneck with its queue, a policer, an MTU, and [`wire::Event`]s such as a blackout. A
//! seed decides all chance, to the packet: two transports meet the same losses. Afterwards [`Network::counts`] and
//! [`Network::packet_log`] tell what became of each packet.
//!
//! Where loss is enough, and the kernel may do it, a [`Lab`] is cheaper: the same hosts on a bridge, with loss by the
//! firewall where packets enter a host.
//!
//! Everything ends with the value: processes in the hosts, the namespaces, the interfaces; a killed program leaves
//! nothing behind either. [`selftest`] checks the emulator on the machine where it runs, from outside.
//!
//! # What it needs
//! Linux, `ip` (iproute2), for a [`Lab`] `iptables`, and root or user namespaces that the system allows; the errors say
//! what is missing. A program that is named by [`Host::command`] runs with the rights of its caller.

mod emulator;
mod lab;

pub use emulator::{
    expected_share, selftest, Emulator, EmulatorError, Fate, Network, PacketLog, PacketRecord,
    Scheduling,
};
pub use impairments::{wire, FadeConfig, Fades};
pub use lab::{Host, Lab, LabError, PacketCount};
