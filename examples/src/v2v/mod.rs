// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How do vehicles warn each other over a lossy radio, and what does it matter which link carries their messages?
//!
//! Three programs. `v2v_vehicle` ([`vehicle`]) drives through a [`world`] and publishes what ETSI's messages say ([`message`]) with
//! the priorities of [`traffic`]. `v2v_monitor` ([`monitor`]) rides in one vehicle and tells what it knows of the others:
//! the age of its information, deadlines missed, warnings. `v2v_demo` ([`demo`]) runs both over two links at once, below
//! which the [`radio`] loses packets with distance, and shows a page.

pub mod clock;
pub mod demo;
pub mod message;
pub mod monitor;
pub mod radio;
pub mod stop;
pub mod traffic;
pub mod vehicle;
pub mod world;
