// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The socket of the tests: datagrams arrive at once or never, as a given function decides.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt, io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    task::{Context, Poll, Waker},
};

use arq_proto::{Unreachable, UnreachableReport};
use parking_lot::{Mutex, MutexGuard};

use super::{DatagramSocket, ReceiveBatch, Segments};

/// Bytes that wait at one socket; what exceeds them is dropped, as a kernel would.
const INBOX_BYTES: usize = 4 << 20;
/// Bytes of a datagram that a report quotes, as many as routers do at least that do more than RFC 792 asks.
const QUOTE_BYTES: usize = 64;
/// As many as Linux takes in one call.
const MAX_SEGMENTS: usize = 44;

/// Says of a datagram whether it arrives.
pub type Arrives = dyn FnMut(SocketAddr, SocketAddr, &[u8]) -> bool + Send;

/// The sockets that can reach each other.
#[derive(Clone)]
pub struct MemoryNetwork(Arc<Mutex<Network>>);

struct Network {
    sockets: BTreeMap<SocketAddr, Inbox>,
    arrives: Box<Arrives>,
    blocked: bool,
    /// The longest datagram that a socket takes.
    longest: usize,
    /// Whether hosts say that nobody has a port.
    reports_closed_ports: bool,
    writers: Vec<Waker>,
}

#[derive(Default)]
struct Inbox {
    datagrams: VecDeque<(SocketAddr, Vec<u8>)>,
    bytes: usize,
    reader: Option<Waker>,
    reports: VecDeque<Report>,
    report_reader: Option<Waker>,
}

/// What a report says, and the begin of the datagram that it is about.
struct Report {
    cause: Unreachable,
    destination: SocketAddr,
    reporter: IpAddr,
    quote: Vec<u8>,
}

impl MemoryNetwork {
    /// A network where `arrives` decides of each datagram.
    pub fn new(
        arrives: impl FnMut(SocketAddr, SocketAddr, &[u8]) -> bool + Send + 'static,
    ) -> Self {
        Self(Arc::new(Mutex::new(Network {
            sockets: BTreeMap::new(),
            arrives: Box::new(arrives),
            blocked: false,
            longest: usize::MAX,
            reports_closed_ports: false,
            writers: Vec::new(),
        })))
    }

    /// A network that loses nothing.
    #[must_use]
    pub fn lossless() -> Self {
        Self::new(|_, _, _| true)
    }

    /// A socket at `address`.
    ///
    /// # Errors
    /// `AddrInUse` when there is one already.
    pub fn bind(&self, address: SocketAddr) -> io::Result<MemorySocket> {
        let mut network = self.lock();
        if network.sockets.contains_key(&address) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        network.sockets.insert(address, Inbox::default());
        Ok(MemorySocket { network: self.clone(), address })
    }

    /// Makes every send answer `WouldBlock` until it is called with `false`.
    pub fn block_sends(&self, blocked: bool) {
        let mut network = self.lock();
        network.blocked = blocked;
        if !blocked {
            network.writers.drain(..).for_each(Waker::wake);
        }
    }

    /// Makes every send of a datagram longer than `bytes` fail as an interface's MTU does.
    pub fn limit_sends(&self, bytes: usize) {
        self.lock().longest = bytes;
    }

    /// Makes hosts say of each datagram to a port that nobody has: there is nobody. Otherwise they keep silent.
    pub fn report_closed_ports(&self, report: bool) {
        self.lock().reports_closed_ports = report;
    }

    /// Takes the socket at `address` off the network, as if its process had ended.
    pub fn kill(&self, address: SocketAddr) {
        self.lock().sockets.remove(&address);
    }

    /// Sends a report to the socket at `to`, true or not.
    pub fn report(&self, to: SocketAddr, report: &UnreachableReport<'_>) {
        let UnreachableReport { cause, destination, reporter, quote, .. } = *report;
        let report = Report { cause, destination, reporter, quote: quote.to_vec() };
        self.lock().report(to, report);
    }

    fn lock(&self) -> MutexGuard<'_, Network> {
        self.0.lock()
    }
}

impl fmt::Debug for MemoryNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryNetwork").finish_non_exhaustive()
    }
}

/// One socket of a [`MemoryNetwork`]. Its address is free again once it is dropped.
#[derive(Debug)]
pub struct MemorySocket {
    network: MemoryNetwork,
    address: SocketAddr,
}

impl Drop for MemorySocket {
    fn drop(&mut self) {
        self.network.lock().sockets.remove(&self.address);
    }
}

impl DatagramSocket for MemorySocket {
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut network = self.network.lock();
        let Some(inbox) = network.sockets.get_mut(&self.address) else {
            return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
        };
        if inbox.datagrams.is_empty() {
            inbox.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut network = self.network.lock();
        if network.blocked {
            network.writers.push(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }

    fn try_receive(&self, batch: &mut ReceiveBatch) -> io::Result<()> {
        batch.clear();
        let mut network = self.network.lock();
        let inbox = network.sockets.get_mut(&self.address).ok_or(io::ErrorKind::NotConnected)?;
        while let Some((from, datagram)) = inbox.datagrams.pop_front() {
            if !batch.push(from, self.address.ip(), &datagram) {
                inbox.datagrams.push_front((from, datagram));
                return Ok(());
            }
            inbox.bytes -= datagram.len();
        }
        if batch.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(())
    }

    fn try_send(&self, segments: &Segments<'_>) -> io::Result<()> {
        let mut network = self.network.lock();
        if network.blocked {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if segments.segment_bytes.min(segments.contents.len()) > network.longest {
            return Err(io::Error::from_raw_os_error(super::TOO_LONG));
        }
        for datagram in segments.datagrams() {
            network.deliver(self.address, segments.destination, datagram);
        }
        Ok(())
    }

    fn poll_reports(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut network = self.network.lock();
        let Some(inbox) = network.sockets.get_mut(&self.address) else { return Poll::Pending };
        if inbox.reports.is_empty() {
            inbox.report_reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(())
    }

    fn take_reports(&self, show: &mut dyn FnMut(&UnreachableReport<'_>)) {
        let mut network = self.network.lock();
        let Some(inbox) = network.sockets.get_mut(&self.address) else { return };
        let reports = std::mem::take(&mut inbox.reports);
        drop(network);
        for Report { cause, destination, reporter, quote } in &reports {
            let (cause, destination, reporter) = (*cause, *destination, *reporter);
            show(&UnreachableReport::new(cause, destination, reporter, quote));
        }
    }

    fn at_other_port(&self) -> io::Result<Option<Arc<dyn DatagramSocket>>> {
        let ip = self.address.ip();
        let mut ports = (self.address.port()..u16::MAX).map(|port| SocketAddr::new(ip, port + 1));
        let socket = ports.find_map(|address| self.network.bind(address).ok());
        Ok(socket.map(|socket| Arc::new(socket) as Arc<dyn DatagramSocket>))
    }

    fn local_addr(&self) -> SocketAddr {
        self.address
    }

    fn max_segments(&self) -> usize {
        MAX_SEGMENTS
    }
}

impl Network {
    fn report(&mut self, to: SocketAddr, report: Report) {
        let Some(inbox) = self.sockets.get_mut(&to) else { return };
        inbox.reports.push_back(report);
        if let Some(reader) = inbox.report_reader.take() {
            reader.wake();
        }
    }

    fn deliver(&mut self, from: SocketAddr, to: SocketAddr, datagram: &[u8]) {
        if !(self.arrives)(from, to, datagram) {
            return;
        }
        let Some(inbox) = self.sockets.get_mut(&to) else {
            if self.reports_closed_ports {
                let (cause, reporter) = (Unreachable::Port, to.ip());
                let quote = datagram[..datagram.len().min(QUOTE_BYTES)].to_vec();
                self.report(from, Report { cause, destination: to, reporter, quote });
            }
            return;
        };
        if inbox.bytes + datagram.len() > INBOX_BYTES {
            return;
        }
        inbox.bytes += datagram.len();
        inbox.datagrams.push_back((from, datagram.to_vec()));
        if let Some(reader) = inbox.reader.take() {
            reader.wake();
        }
    }
}
