// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How do zenoh's links behave on networks that delay, lose and limit packets, measured side by side?
//!
//! A scenario ([`arq_report::scenario`]) is a file: which links carry which traffic over which network. For each of its
//! cells [`measure`] runs a publisher and a subscriber ([`traffic`]) in two hosts of an emulated network ([`netlab`]) and
//! makes one record ([`arq_report::record`]) of what became of the messages ([`delivery`]). [`many_links`] holds a
//! thousand links at once, [`links`] asks zenoh whether a link can be opened. [`cli`] is all that a user sees; what is
//! made of results is [`arq_report`]'s.

pub mod cli;
pub mod delivery;
pub mod environment;
pub mod links;
pub mod many_links;
pub mod measure;
pub mod traffic;
