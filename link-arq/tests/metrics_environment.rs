// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The statistics over HTTP, switched on by the environment. A process of its own: there is one
//! environment for all tests of a process.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::net::{TcpListener, TcpStream};

use tokio::runtime::Runtime;
use zenoh_link_arq::{metrics::VARIABLE, LinkManagerUnicastArq};
use zenoh_link_commons::LinkManagerUnicastTrait;

#[test]
fn the_environment_switches_them_on_and_a_taken_port_costs_no_link() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    std::env::set_var(VARIABLE, address.port().to_string());
    Runtime::new().unwrap().block_on(async {
        let manager = LinkManagerUnicastArq::new(flume::unbounded().0);
        let listen = || "arq/127.0.0.1:0".parse().unwrap();
        manager.new_listener(listen()).await.expect("links work without statistics");
        drop(taken);
        manager.new_listener(listen()).await.unwrap();
        TcpStream::connect(address).expect("the next link tries again");
    });
}
