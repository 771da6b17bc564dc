// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Shows who this session is, whom it sees, over which links, and how the `arq/` links stand.

use std::process::ExitCode;
use std::time::Duration;

use arq_examples::{run, say, teach, CommonArgs};
use clap::Parser;
use zenoh::session::{Session, ZenohId};
use zenoh::Wait;

/// Shows who this session is, whom it sees, over which links, and how the arq/ links stand.
#[derive(Parser)]
#[command(version, after_help = teach!("  zenohd -l arq/0.0.0.0:7447\n  z_info -m client -e arq/127.0.0.1:7447"))]
struct Arguments {
    #[command(flatten)]
    common: CommonArgs,
}

/// A peer connects in the background: what it has reached after this time is shown.
const SETTLE: Duration = Duration::from_millis(500);

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    run(|| show(&arguments.common.open()?))
}

fn show(session: &Session) -> zenoh::Result<()> {
    std::thread::sleep(SETTLE);
    let info = session.info();
    say!("zid: {}", info.zid().wait());
    say!("routers zid: {:?}", info.routers_zid().wait().collect::<Vec<ZenohId>>());
    say!("peers zid: {:?}", info.peers_zid().wait().collect::<Vec<ZenohId>>());
    say!("locators:");
    for locator in info.locators().wait() {
        say!("  {locator}");
    }
    say!("links:");
    for link in info.links().wait() {
        let (zid, src, dst) = (link.zid(), link.src(), link.dst());
        say!("  to {zid}: {src} -> {dst}, at most {} bytes a batch", link.mtu());
    }
    show_arq_links();
    session.close().wait()
}

/// How the `arq/` links stand; docs/statistics.md explains each figure.
fn show_arq_links() {
    let links = zenoh_link_arq::statistics();
    if !links.is_empty() {
        say!("arq links:");
    }
    for link in links {
        for line in format!("{link:#}").lines() {
            say!("  {line}");
        }
    }
}
