// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Does zenoh's transport live on an `arq/` link as it does on the stock ones?
//!
//! The scenarios are those that zenoh's own transport tests hold against its links. They run over
//! any link that the environment names: `LINK_UNDER_TEST=tcp`, or `udp?rel=1` with its metadata;
//! without it, over `arq`. A scenario that fails on `arq` and passes on `tcp` is a bug of ours.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod authentication;
mod endpoints;
mod harness;
mod loss;
mod many;
mod multilink;
mod open_close;
mod payload;
mod relay;
mod silence;
