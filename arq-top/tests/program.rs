// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Does `arq-top` show the links of a process, and say what to do where it cannot?

use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Output};

use zenoh_link_arq::{metrics, LinkManagerUnicastArq};
use zenoh_link_commons::LinkManagerUnicastTrait;

fn arq_top(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_arq-top"));
    command.args(arguments).env_remove(metrics::VARIABLE);
    command.output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The table of `--once`: its heading and its lines, in words.
fn table(arguments: &[&str]) -> Vec<Vec<String>> {
    let once = arq_top(arguments);
    assert!(once.status.success(), "{}", text(&once.stderr));
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect();
    text(&once.stdout).lines().map(words).collect()
}

#[test]
fn help_teaches_how_to_switch_the_statistics_on() {
    let help = text(&arq_top(&["--help"]).stdout);
    for taught in ["#metrics=9464", "ZENOH_ARQ_METRICS=9464", "--once", "q quits", "statistics.md"]
    {
        assert!(help.contains(taught), "{taught} in\n{help}");
    }
}

#[test]
fn an_unreachable_process_is_an_error_that_says_how_to_switch_them_on() {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    let port = free.expect("a free port").port().to_string();
    for arguments in [&[port.as_str()][..], &["--once", &port]] {
        let refused = arq_top(arguments);
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(said.contains(&port) && said.contains("#metrics="), "{said}");
        assert!(said.contains("ZENOH_ARQ_METRICS="), "{said}");
    }
    let nonsense = arq_top(&["--once", "robot"]);
    assert_eq!(nonsense.status.code(), Some(2), "{}", text(&nonsense.stderr));
    assert!(text(&nonsense.stderr).contains("HOST:PORT"), "{}", text(&nonsense.stderr));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_links_of_a_process_are_shown() {
    let served = metrics::serve(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
    let port = served.port().to_string();
    assert_eq!(table(&["--once", &port]).len(), 1, "no links, a heading");

    let (sender, accepted) = flume::unbounded();
    let server = LinkManagerUnicastArq::new(sender);
    let client = LinkManagerUnicastArq::new(flume::unbounded().0);
    let listen = "arq/127.0.0.1:0".parse().expect("a locator");
    let locator = server.new_listener(listen).await.expect("a listener");
    let near = client.new_link(locator.clone().into()).await.expect("a link");
    let _far = accepted.recv_async().await.expect("its other end");
    // What is answered measures the round trip.
    near.write_all(b"batch", None).await.expect("it is taken");

    let rtt = |row: &[String]| row[4].parse::<f64>().expect("a number");
    let looks = std::iter::repeat_with(|| table(&["--once", "--sort", "link", &port]));
    let both = |rows: &Vec<Vec<String>>| rows.len() == 3 && rtt(&rows[1]) > 0.0;
    let rows = looks.take(200).find(both).expect("both ends of the link, and its round trip");
    assert_eq!(rows[0][4], "rtt_ms");
    assert!((0.001..5_000.0).contains(&rtt(&rows[1])), "{} ms on this host", rtt(&rows[1]));
    let column = |name: &str| rows[0].iter().position(|cell| cell == name).expect("a column");
    let ends = |row: &[String]| [row[column("src")].clone(), row[column("dst")].clone()];
    let (mut one, mut other) = (ends(&rows[1]), ends(&rows[2]));
    other.reverse();
    assert_eq!(one, other, "each end is the other's peer");
    one.sort();
    assert!(one.contains(&locator.to_string()), "{one:?} and {locator}");
    let live = arq_top(&[&port]);
    assert!(text(&live.stderr).contains("--once"), "a pipe is no terminal");
}
