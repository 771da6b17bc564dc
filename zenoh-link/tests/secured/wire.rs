// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What does who listens on the way read?

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use tokio::{net::UdpSocket, task::JoinHandle};

use crate::{
    carry, chosen_port, connect, listen,
    pki::{Fleet, ROUTER, VEHICLE},
    settings::Settings,
};

const KEY_EXPRESSION: &str = "fleet/secret/position";

/// Relays between one client and a server, and keeps each datagram.
struct Tap {
    address: SocketAddr,
    heard: Arc<Mutex<Vec<Vec<u8>>>>,
    task: JoinHandle<()>,
}

impl Tap {
    async fn before(server: SocketAddr) -> Self {
        let front = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let back = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        back.connect(server).await.unwrap();
        let (address, heard) = (front.local_addr().unwrap(), Arc::<Mutex<Vec<_>>>::default());
        let task = tokio::spawn(relay(front, back, heard.clone()));
        Self { address, heard, task }
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn relay(front: UdpSocket, back: UdpSocket, heard: Arc<Mutex<Vec<Vec<u8>>>>) {
    let (mut to_server, mut to_client) = (vec![0; 65_536], vec![0; 65_536]);
    let mut client = None;
    loop {
        tokio::select! {
            received = front.recv_from(&mut to_server) => {
                let Ok((length, from)) = received else { continue };
                client = Some(from);
                heard.lock().unwrap().push(to_server[..length].to_vec());
                let _ = back.send(&to_server[..length]).await;
            }
            received = back.recv(&mut to_client) => {
                let (Ok(length), Some(client)) = (received, client) else { continue };
                heard.lock().unwrap().push(to_client[..length].to_vec());
                let _ = front.send_to(&to_client[..length], client).await;
            }
        }
    }
}

/// What of `words` can be read when sessions talk over a tap.
async fn readable(
    router: &Settings,
    vehicle: &Settings,
    keys: &str,
    words: &[&str],
) -> Vec<String> {
    let at = format!("arq/127.0.0.1:0{keys}");
    let listener = listen(&at, &router.pairs()).await;
    let chosen = chosen_port("arq/127.0.0.1:0", &listener).await;
    let server = chosen.strip_prefix("arq/").unwrap().parse().unwrap();
    let tap = Tap::before(server).await;
    let through = format!("arq/{}{keys}", tap.address);
    let connector = connect(&through, &vehicle.pairs()).await.unwrap();
    carry(&connector, &listener, KEY_EXPRESSION).await;
    let heard = tap.heard.lock().unwrap().concat();
    let is_heard = |word: &&&str| heard.windows(word.len()).any(|part| part == word.as_bytes());
    words.iter().filter(is_heard).map(|word| (*word).to_owned()).collect()
}

/// A run of what [`carry`] publishes.
fn of_payload() -> String {
    (b' '..b'~').map(char::from).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_listens_reads_nothing() {
    let fleet = Fleet::new();
    fleet.psk("psk");
    let payload = of_payload();
    let words = [KEY_EXPRESSION, &payload, ROUTER, VEHICLE, "fleet CA", "localhost"];
    let (router, vehicle) = (Settings::router(&fleet), Settings::vehicle(&fleet));
    assert_eq!(readable(&router, &vehicle, "", &words).await, [""; 0]);
    let psk = format!("#psk_file={}", fleet.path("psk").display());
    let nothing = Settings::default();
    assert_eq!(readable(&nothing, &nothing, &psk, &words).await, [""; 0]);
    // What would be read if it were readable.
    assert_eq!(readable(&nothing, &nothing, "", &words).await, words[..2]);
}
