// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What was to be measured, what was measured, and what does it say?
//!
//! The language of the bench: a [`scenario`] is a file that says which links ([`opponent`]) carry which traffic over
//! which network, a [`record`] is what one run of it gave, [`results`] keeps records in a folder. What measures is
//! another crate (`arq-bench`); it writes what this one reads, and this one needs no zenoh, no network and no clock.
//!
//! Of results are made: a [`summary`] of the repeats of each cell, the bounds of the [`oracle`] beside them, a
//! [`mod@report`] with figures, a verdict on two sets ([`compare`]) and on the project's targets ([`check`]).

pub mod check;
pub mod compare;
pub mod many_links;
pub mod opponent;
pub mod oracle;
pub mod record;
pub mod report;
pub mod results;
pub mod scenario;
pub mod summary;
