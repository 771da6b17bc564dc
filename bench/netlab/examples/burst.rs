// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Which of a hundred datagrams are lost in bursts, each way, and how late are the others?

use std::error::Error;
use std::time::Duration;

use netlab::wire::{Conditions, Loss, Wire};
use netlab::{Fate, Network};

fn main() -> Result<(), Box<dyn Error>> {
    let seed = std::env::args().nth(1).map_or(Ok(1), |seed| seed.parse())?;
    let mut network = Network::new(2)?;
    let loss = Loss::Gilbert { percent: 20.0, burst_packets: 4.0 };
    let wire = Wire { delay_ms: 30.0, jitter_ms: 2.0, loss, ..Wire::default() };
    network.begin(
        &Conditions { forward: wire.clone(), backward: wire, ..Conditions::default() },
        seed,
    )?;

    let [near, far] = [0, 1].map(|host| (network.host(host).ipv4(), 7000).into());
    let (here, there) = (network.host(0).udp_socket(near)?, network.host(1).udp_socket(far)?);
    for number in 0..100u8 {
        here.send_to(&[number], far)?;
        there.send_to(&[number], near)?;
    }
    for socket in [&here, &there] {
        socket.set_read_timeout(Some(Duration::from_millis(200)))?;
        while socket.recv(&mut [0]).is_ok() {}
    }
    let log = network.packet_log()?;
    for from in [0, 1] {
        let sent = || log.packets.iter().filter(move |packet| packet.from == from);
        let marks = sent().map(|packet| if packet.fate == Fate::Lost { '.' } else { '|' });
        let on_way = sent().filter_map(|packet| Some(packet.left_ns? - packet.entered_ns));
        println!("from host {from}: {}", marks.collect::<String>());
        let (least, most) = (on_way.clone().min().unwrap_or(0), on_way.max().unwrap_or(0));
        println!("  on their way: {:.1} to {:.1} ms", least as f64 / 1e6, most as f64 / 1e6);
    }
    Ok(())
}
