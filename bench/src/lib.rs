// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How do zenoh's links behave on networks that delay, lose and limit packets, measured side by side?
//!
//! A [`scenario`] is a file: which links carry which traffic over which network. For each of its cells [`measure`] runs
//! a publisher and a subscriber ([`traffic`]) in two hosts of an emulated network ([`emulator`], over the namespaces of
//! [`lab`]) and makes one [`record`] of what became of the messages ([`delivery`]). The [`oracle`] puts the best that
//! retransmission could do beside it. [`results`] keeps records, [`summary`] sums up repeats, [`mod@report`] draws them,
//! [`many_links`] holds a thousand links at once. [`compare`] holds two result sets against each other and [`check`] the targets. [`cli`] is all that a user sees.

pub mod check;
pub mod cli;
pub mod compare;
pub mod delivery;
pub mod emulator;
pub mod lab;
pub mod many_links;
pub mod measure;
pub mod opponent;
pub mod oracle;
pub mod record;
pub mod report;
pub mod results;
pub mod scenario;
pub mod summary;
pub mod traffic;
