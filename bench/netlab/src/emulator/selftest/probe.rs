// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What does a stream of numbered packets meet on its way from one host to another?

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::sys::socket::{recvmsg, setsockopt, sockopt, ControlMessageOwned, MsgFlags, RecvMsg};
use nix::sys::time::TimeSpec;

use crate::emulator::{EmulatorError, Network};

const PORT: u16 = 7800;
/// Headers of IPv4 and UDP.
const HEADER_BYTES: usize = 28;
/// Number and time of departure.
const STAMP_BYTES: usize = 12;
/// Packets that may be ahead of the receiver, so that its socket's buffer (some 200 packets) never decides.
const AHEAD: u32 = 64;

/// The receiver's buffer, where that may be chosen.
const BUFFER_BYTES: usize = 64 << 20;

/// Two sockets in two hosts.
pub(super) struct Probe {
    sender: UdpSocket,
    receiver: UdpSocket,
}

/// What to send.
#[derive(Clone, Copy)]
pub(super) struct Load {
    /// How many.
    pub(super) packets: u32,
    /// The length of the IP packets, bytes.
    pub(super) len_bytes: u16,
    /// How fast.
    pub(super) pace: Pace,
    /// How many leave at once, cut apart by the sending kernel (UDP_SEGMENT); 1 for each by itself.
    pub(super) burst: u16,
    /// How long to wait for the last after it was sent.
    pub(super) patience: Duration,
}

/// How fast to send.
#[derive(Clone, Copy)]
pub(super) enum Pace {
    /// One each so long, at fixed times.
    Every(Duration),
    /// As fast as the receiver takes them.
    ReceiverTakes,
}

/// One packet at the receiver.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) number: u32,
    /// When it was sent, since 1970.
    pub(super) sent: Duration,
    /// The kernel's time of its arrival at the receiving host, since 1970.
    pub(super) arrived: Duration,
}

impl Arrival {
    /// One-way latency, milliseconds.
    pub(super) fn latency_ms(&self) -> f64 {
        (self.arrived.as_secs_f64() - self.sent.as_secs_f64()) * 1e3
    }
}

impl Probe {
    pub(super) fn new(network: &Network, from: usize, to: usize) -> Result<Self, EmulatorError> {
        let (here, there) = (network.host(from), network.host(to));
        let sender = here.udp_socket(SocketAddr::from((here.ipv4(), 0)))?;
        let address = SocketAddr::from((there.ipv4(), PORT));
        let receiver = there.udp_socket(address)?;
        let prepare = || {
            sender.connect(address)?;
            receiver.set_read_timeout(Some(Duration::from_millis(20)))?;
            setsockopt(&receiver, sockopt::ReceiveTimestampns, &true)?;
            // Root may have a buffer that never overflows; others get what there is.
            let _ = setsockopt(&receiver, sockopt::RcvBufForce, &BUFFER_BYTES);
            Ok(())
        };
        prepare().map_err(EmulatorError::socket("prepare the self-test's sockets"))?;
        Ok(Self { sender, receiver })
    }

    /// Sends the load; what arrived, in the order of arrival.
    pub(super) fn run(&self, load: Load) -> Result<Vec<Arrival>, EmulatorError> {
        let (newest, is_sent) = (AtomicU32::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let receiving = scope.spawn(|| self.receive(load, &newest, &is_sent));
            let sent = self.send(load, &newest);
            is_sent.store(true, Ordering::Release);
            let received = receiving.join().unwrap_or_default();
            sent.map_err(EmulatorError::socket("send the self-test's packets"))?;
            Ok(received)
        })
    }

    fn send(&self, load: Load, newest: &AtomicU32) -> io::Result<()> {
        let began = Instant::now();
        let segment = usize::from(load.len_bytes) - HEADER_BYTES;
        let size = segment * usize::from(load.burst);
        if load.burst > 1 {
            setsockopt(&self.sender, sockopt::UdpGsoSegment, &(segment as i32))?;
        }
        let mut payload = vec![0; size];
        for first in (0..load.packets).step_by(usize::from(load.burst)) {
            match load.pace {
                Pace::Every(gap) => wait_until(began + gap * first),
                Pace::ReceiverTakes => wait_for(newest, first),
            }
            let now = since_1970().as_nanos() as u64;
            for (number, stamp) in (first..load.packets).zip(payload.chunks_mut(segment)) {
                stamp[..4].copy_from_slice(&number.to_le_bytes());
                stamp[4..STAMP_BYTES].copy_from_slice(&now.to_le_bytes());
            }
            let left = (load.packets - first) as usize * segment;
            self.sender.send(&payload[..left.min(size)])?;
        }
        Ok(())
    }

    fn receive(&self, load: Load, newest: &AtomicU32, is_sent: &AtomicBool) -> Vec<Arrival> {
        let mut arrivals = Vec::with_capacity(load.packets as usize);
        let mut last = Instant::now();
        loop {
            match self.receive_one() {
                Some(arrival) => {
                    newest.fetch_max(arrival.number, Ordering::Release);
                    arrivals.push(arrival);
                    last = Instant::now();
                }
                // The patience begins anew with each packet, and not before the last was sent.
                None if !is_sent.load(Ordering::Acquire) => last = Instant::now(),
                None if last.elapsed() > load.patience => return arrivals,
                None => {}
            }
        }
    }

    fn receive_one(&self) -> Option<Arrival> {
        let mut payload = [0; STAMP_BYTES];
        let mut parts = [IoSliceMut::new(&mut payload)];
        let mut control = nix::cmsg_space!(TimeSpec);
        let socket = self.receiver.as_raw_fd();
        let flags = MsgFlags::empty();
        let message = recvmsg::<()>(socket, &mut parts, Some(&mut control), flags).ok()?;
        let arrived = time_stamp(&message)?;
        let (number, sent) = payload.split_at(4);
        let number = u32::from_le_bytes(number.try_into().ok()?);
        let sent = Duration::from_nanos(u64::from_le_bytes(sent.try_into().ok()?));
        Some(Arrival { number, sent, arrived })
    }
}

/// Which of the packets never came.
pub(super) fn lost(arrivals: &[Arrival], packets: u32) -> Vec<bool> {
    let mut lost = vec![true; packets as usize];
    arrivals.iter().for_each(|arrival| lost[arrival.number as usize] = false);
    lost
}

fn time_stamp(message: &RecvMsg<()>) -> Option<Duration> {
    message.cmsgs().ok()?.find_map(|part| match part {
        ControlMessageOwned::ScmTimestampns(time) => Some(Duration::from(time)),
        _ => None,
    })
}

/// Sleeps for most of the time and spins for the rest: a sleep alone ends late.
fn wait_until(time: Instant) {
    const SPIN: Duration = Duration::from_micros(100);
    let left = time.saturating_duration_since(Instant::now());
    if left > SPIN {
        std::thread::sleep(left - SPIN);
    }
    while Instant::now() < time {
        std::hint::spin_loop();
    }
}

/// Until the receiver has nearly caught up, or nothing comes any more: the packets ahead of it may all be lost.
fn wait_for(newest: &AtomicU32, number: u32) {
    const STANDSTILL: Duration = Duration::from_millis(2);
    let mut seen = (newest.load(Ordering::Acquire), Instant::now());
    while number.saturating_sub(seen.0) > AHEAD && seen.1.elapsed() < STANDSTILL {
        std::thread::yield_now();
        let now = newest.load(Ordering::Acquire);
        if now != seen.0 {
            seen = (now, Instant::now());
        }
    }
    // After a standstill the receiver counts as having seen everything.
    newest.fetch_max(number.saturating_sub(AHEAD), Ordering::Release);
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
