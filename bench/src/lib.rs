// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How do zenoh's links behave on networks that lose packets, measured side by side?

pub mod lab;
