// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Do the tools that everybody trusts see the same network?

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::Value;

use super::row::{Near, Row};
use crate::emulator::{EmulatorError, Network};
use crate::wire::{Conditions, Loss, Wire};

const DELAY_MS: f64 = 10.0;

/// `ping` and `iperf3`, where they are installed.
pub(super) fn rows(network: &mut Network, seed: u64) -> Result<Vec<Row>, EmulatorError> {
    let mut rows = ping(network, seed)?;
    rows.extend(iperf3(network, seed)?);
    Ok(rows)
}

fn lossy(percent: f64) -> Conditions {
    let loss = Loss::Random { percent };
    let wire = Wire { delay_ms: DELAY_MS, loss, ..Wire::default() };
    Conditions { forward: wire.clone(), backward: wire, ..Conditions::default() }
}

fn ping(network: &mut Network, seed: u64) -> Result<Vec<Row>, EmulatorError> {
    network.begin(&lossy(10.0), seed)?;
    let target = network.host(1).ipv4().to_string();
    let output = network
        .host(0)
        .command("ping")
        .args(["-q", "-i", "0.01", "-c", "400", "-W", "1", &target])
        .output();
    let Ok(output) = output else {
        return Ok(vec![not_installed("ping", "iputils-ping")]);
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (Some(received), Some(least_ms)) =
        (number_before(&text, " received"), number_after(&text, "mdev = "))
    else {
        let why = String::from_utf8_lossy(&output.stderr);
        return Ok(vec![Row::skipped("ping", format!("could not run: {}", why.trim()))]);
    };
    let answers = network.counts(1, 0)?.left_packets;
    // Two ways, and the shortest of all shows the least of this machine's other work.
    let near = Near { asked: 2.0 * DELAY_MS, measured: least_ms, allowed: 0.3 };
    Ok(vec![
        Row::exact("answers that ping has, of those that left", answers, received as u64),
        Row::near("shortest round trip that ping has", "ms", near),
    ])
}

fn iperf3(network: &mut Network, seed: u64) -> Result<Vec<Row>, EmulatorError> {
    network.begin(&lossy(2.0), seed)?;
    let overflows_before = network.host(1).udp_overflows();
    let server = network
        .host(1)
        .command("iperf3")
        .args(["--server", "--one-off", "--forceflush"])
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut server) = server else {
        return Ok(vec![not_installed("iperf3", "iperf3")]);
    };
    let mut lines = server.stdout.take().map(BufReader::new).into_iter().flat_map(BufRead::lines);
    let is_listening =
        |line: &Result<String, _>| line.as_ref().is_ok_and(|line| line.contains("listening"));
    let listens = lines.any(|line| is_listening(&line));
    let target = network.host(1).ipv4().to_string();
    let arguments = [
        "--client",
        &target,
        "--udp",
        "--bitrate",
        "20M",
        "--length",
        "1372",
        "--time",
        "3",
        "--json",
    ];
    let output = network.host(0).command("iperf3").args(arguments).output();
    let _ = server.kill();
    let _ = server.wait();
    let report = output.ok().and_then(|o| serde_json::from_slice::<Value>(&o.stdout).ok());
    let figure = |name| report.as_ref()?.pointer(&format!("/end/sum/{name}"))?.as_f64();
    let (Some(lost), Some(packets), true) = (figure("lost_packets"), figure("packets"), listens)
    else {
        return Ok(vec![Row::skipped("iperf3", "could not run")]);
    };
    let log = network.packet_log()?;
    // Its data packets are the only ones of this length.
    let ours = log.packets.iter().filter(|p| p.from == 0 && p.len_bytes == 1_400);
    let (sent, arrived) =
        ours.fold((0u64, 0u64), |(all, left), p| (all + 1, left + u64::from(p.left_ns.is_some())));
    // A server that was not scheduled in time loses packets in its own socket, and counts them.
    let overflows = network.host(1).udp_overflows() - overflows_before;
    let explained = (sent - arrived + overflows) as f64;
    // What iperf3 never heard of after the last packet that came is no loss to it.
    let unheard = Near { asked: sent as f64, measured: packets, allowed: 5.0 };
    let near = Near { asked: explained, measured: lost, allowed: 5.0 };
    Ok(vec![
        Row::near("packets that iperf3 sent", "", unheard),
        Row::near(
            format!("packets that iperf3 lost ({overflows} of them in its own socket)"),
            "",
            near,
        ),
    ])
}

fn not_installed(program: &str, package: &str) -> Row {
    Row::skipped(program, format!("not installed: `apt-get install {package}`"))
}

fn number_before(text: &str, mark: &str) -> Option<f64> {
    let (before, _) = text.split_once(mark)?;
    before.rsplit([' ', '\n']).next()?.parse().ok()
}

fn number_after(text: &str, mark: &str) -> Option<f64> {
    let (_, after) = text.split_once(mark)?;
    after.split('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_of_ping_are_found() {
        let text = "400 packets transmitted, 368 received, 8% packet loss, time 4094ms\n\
                    rtt min/avg/max/mdev = 20.030/20.302/43.154/1.952 ms, pipe 3";
        assert_eq!(number_before(text, " received"), Some(368.0));
        assert_eq!(number_after(text, "mdev = "), Some(20.03));
    }
}
