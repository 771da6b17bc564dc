// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The protocol of [`arq_proto`] on tokio and the kernel's UDP sockets.

#![forbid(unsafe_code)]

pub mod driver;
pub mod socket;
