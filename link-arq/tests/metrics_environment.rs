// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The statistics over HTTP, switched on by the environment. A process of its own: there is one
//! environment for all tests of a process.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::{
    io,
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
};

use tokio::runtime::Runtime;
use tracing_subscriber::fmt::MakeWriter;
use zenoh_link_arq::{metrics::VARIABLE, LinkManagerUnicastArq};
use zenoh_link_commons::LinkManagerUnicastTrait;

/// What was logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().push_str(&String::from_utf8_lossy(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[test]
fn the_environment_switches_them_on_and_a_taken_port_costs_no_link() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    std::env::set_var(VARIABLE, address.port().to_string());
    let log = Log::default();
    tracing_subscriber::fmt().with_ansi(false).with_writer(log.clone()).init();
    Runtime::new().unwrap().block_on(async {
        let manager = LinkManagerUnicastArq::new(flume::unbounded().0);
        let listen = || "arq/127.0.0.1:0".parse().unwrap();
        for _ in 0..3 {
            manager.new_listener(listen()).await.expect("links work without statistics");
        }
        let warnings = log.0.lock().unwrap().matches(&format!("`{VARIABLE}=")).count();
        assert_eq!(warnings, 1, "{}", log.0.lock().unwrap());
        drop(taken);
        manager.new_listener(listen()).await.unwrap();
        TcpStream::connect(address).expect("the next link tries again");
    });
}
