// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The statistics over HTTP, switched on by the environment. A process of its own: there is one
//! environment for all tests of a process.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod log;

use std::{
    net::{TcpListener, TcpStream},
    sync::mpsc::channel,
};

use log::Lines;
use tokio::runtime::Runtime;
use zenoh_link_arq::{metrics::VARIABLE, LinkManagerUnicastArq};
use zenoh_link_commons::LinkManagerUnicastTrait;

#[test]
fn the_environment_switches_them_on_and_a_taken_port_costs_no_link() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    std::env::set_var(VARIABLE, address.port().to_string());
    let (sender, lines) = channel();
    tracing_subscriber::fmt().with_ansi(false).with_writer(Lines(sender)).init();
    Runtime::new().unwrap().block_on(async {
        let manager = LinkManagerUnicastArq::new(flume::unbounded().0);
        let listen = || "arq/127.0.0.1:0".parse().unwrap();
        for _ in 0..3 {
            manager.new_listener(listen()).await.expect("links work without statistics");
        }
        let log: String = lines.try_iter().collect();
        assert_eq!(log.matches(&format!("`{VARIABLE}=")).count(), 1, "{log}");
        drop(taken);
        manager.new_listener(listen()).await.unwrap();
        TcpStream::connect(address).expect("the next link tries again");
    });
}
