// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How does KCP carry the flows, as its users would set it up for latency?
//!
//! The "fast mode" of its documentation: `nodelay(1, 10, 2, 1)`, that is no delayed first time-out, an internal clock
//! of 10 ms, a resend after two later acknowledgements, no congestion control. Writes and acknowledgements are
//! flushed at once. Windows of [`WINDOW`] packets, what kcptun gives the sender of its `fast` modes, because the
//! library's 256 would cap it below the bandwidth-delay products here; packets of 1,400 bytes, the default.
//!
//! KCP is one ordered stream without priorities: all flows of a session share it in the order in which they send. A
//! message is preceded by its length and the number of its flow. Best-effort flows are carried reliably, as `tcp/`
//! does.

use std::net::SocketAddr;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader, ReadHalf, WriteHalf};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Mutex;
use tokio_kcp::{KcpConfig, KcpListener, KcpNoDelayConfig, KcpStream};

use super::clock::now_ns;
use super::patterns::Outlet;
use super::publisher::{CarrierError, FlowLog};
use super::subscriber::Ear;
use super::Link;

/// Packets in flight, both ways.
const WINDOW: u16 = 1024;
/// What is handed to the stream at once: it takes less than 128 packets.
const PIECE_BYTES: usize = 64 << 10;
/// Length and flow.
const HEADER_BYTES: usize = 6;
/// The "flow" of the empty message that opens a session and is answered by its like: KCP has no handshake.
const HELLO: u16 = u16::MAX;
/// A longer message is no message of ours.
const MESSAGE_AT_MOST: usize = 1 << 30;

type Writer = Mutex<WriteHalf<KcpStream>>;

/// Opens a session to the subscriber and an outlet for each of the flows.
pub(super) fn connect(
    link: &Link,
    flows: &[(usize, Arc<FlowLog>)],
    patience: Duration,
) -> Result<Vec<Box<dyn Outlet>>, CarrierError> {
    let runtime = Arc::new(runtime()?);
    let (reader, writer) = runtime.block_on(hello(address(link)?, patience))?;
    let writer = Arc::new(Mutex::new(writer));
    let mut outlets: Vec<Box<dyn Outlet>> = Vec::new();
    let mut ways_back = Vec::new();
    for (flow, log) in flows {
        let (answered, answers) = channel();
        ways_back.push((u16::try_from(*flow)?, Arc::clone(log), answered));
        let (runtime, writer) = (Arc::clone(&runtime), Arc::clone(&writer));
        outlets.push(Box::new(KcpOutlet { runtime, writer, flow: u16::try_from(*flow)?, answers }));
    }
    runtime.spawn(note_answers(reader, ways_back));
    Ok(outlets)
}

/// Listens and notes what comes; ends with the returned runtime.
pub(super) fn listen(link: &Link, ears: Vec<Arc<Ear>>) -> Result<Runtime, CarrierError> {
    let runtime = runtime()?;
    let address = address(link)?;
    let mut listener = runtime
        .block_on(KcpListener::bind(config(), address))
        .map_err(|e| format!("cannot listen on {address}: {e}"))?;
    runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(note_messages(stream, ears.clone()));
        }
    });
    Ok(runtime)
}

fn config() -> KcpConfig {
    KcpConfig {
        nodelay: KcpNoDelayConfig::fastest(),
        wnd_size: (WINDOW, WINDOW),
        // Longer than any measurement: the other links have leases of a minute, and none may end for silence.
        session_expire: Duration::from_secs(3600),
        flush_write: true,
        flush_acks_input: true,
        stream: true,
        ..KcpConfig::default()
    }
}

fn runtime() -> Result<Runtime, CarrierError> {
    Ok(Builder::new_multi_thread().enable_all().build()?)
}

fn address(link: &Link) -> Result<SocketAddr, CarrierError> {
    let address = link.endpoint.rsplit('/').next().unwrap_or_default();
    address.parse().map_err(|e| format!("`{}` is no address for KCP: {e}", link.endpoint).into())
}

async fn hello(
    address: SocketAddr,
    patience: Duration,
) -> Result<(BufReader<ReadHalf<KcpStream>>, WriteHalf<KcpStream>), CarrierError> {
    let stream = KcpStream::connect(&config(), address).await?;
    let (reader, mut writer) = tokio::io::split(stream);
    let mut reader = BufReader::with_capacity(PIECE_BYTES, reader);
    write(&mut writer, HELLO, &[]).await?;
    let answer = tokio::time::timeout(patience, read(&mut reader, &mut Vec::new())).await;
    answer.map_err(|_| format!("no session with the subscriber within {patience:?}"))??;
    Ok((reader, writer))
}

async fn note_answers(
    mut reader: BufReader<ReadHalf<KcpStream>>,
    ways_back: Vec<(u16, Arc<FlowLog>, Sender<u64>)>,
) {
    let mut message = Vec::new();
    while let Ok(flow) = read(&mut reader, &mut message).await {
        let arrived_ns = now_ns();
        for (_, log, answered) in ways_back.iter().filter(|(index, ..)| *index == flow) {
            if let Some(sequence) = log.note_answer(std::iter::once(message.as_slice()), arrived_ns)
            {
                // Whoever no longer waits for it needs no answer.
                let _ = answered.send(sequence);
            }
        }
    }
}

async fn note_messages(stream: KcpStream, ears: Vec<Arc<Ear>>) {
    let (reader, mut writer) = tokio::io::split(stream);
    let mut reader = BufReader::with_capacity(PIECE_BYTES, reader);
    let mut message = Vec::new();
    while let Ok(flow) = read(&mut reader, &mut message).await {
        let arrived_ns = now_ns();
        let ear = ears.iter().find(|ear| ear.index == usize::from(flow));
        let noted = ear.and_then(|ear| ear.note(std::iter::once(message.as_slice()), arrived_ns));
        let is_answered = noted.is_some() && ear.is_some_and(|ear| ear.answers());
        if (is_answered || flow == HELLO) && write(&mut writer, flow, &message).await.is_err() {
            break;
        }
    }
}

/// Reads the next message; its flow.
async fn read(
    reader: &mut BufReader<ReadHalf<KcpStream>>,
    message: &mut Vec<u8>,
) -> Result<u16, CarrierError> {
    let length = reader.read_u32().await? as usize;
    let flow = reader.read_u16().await?;
    if length > MESSAGE_AT_MOST {
        return Err(format!("a message of {length} bytes was announced").into());
    }
    message.resize(length, 0);
    reader.read_exact(message).await?;
    Ok(flow)
}

async fn write(
    writer: &mut WriteHalf<KcpStream>,
    flow: u16,
    message: &[u8],
) -> Result<(), CarrierError> {
    // In one buffer, because every write is flushed: a header of its own would be a packet of its own.
    let mut framed = Vec::with_capacity(HEADER_BYTES + message.len());
    framed.extend_from_slice(&u32::try_from(message.len())?.to_be_bytes());
    framed.extend_from_slice(&flow.to_be_bytes());
    framed.extend_from_slice(message);
    for piece in framed.chunks(PIECE_BYTES) {
        writer.write_all(piece).await?;
    }
    Ok(())
}

/// The way of one flow through a session.
struct KcpOutlet {
    runtime: Arc<Runtime>,
    writer: Arc<Writer>,
    flow: u16,
    answers: Receiver<u64>,
}

impl Outlet for KcpOutlet {
    fn send(&mut self, payload: Vec<u8>) -> Result<(), CarrierError> {
        self.runtime.block_on(async {
            let mut writer = self.writer.lock().await;
            write(&mut writer, self.flow, &payload).await
        })
    }

    fn answers(&self) -> Option<&Receiver<u64>> {
        Some(&self.answers)
    }
}
