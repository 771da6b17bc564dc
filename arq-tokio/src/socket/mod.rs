// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! How do datagrams reach the kernel? Everything that touches a socket is behind one small trait,
//! so that the driver can be tested over [`memory`] without a network and without real time.
//!
//! Datagrams travel in batches both ways: without segmentation offload (GSO and GRO) a system call
//! per packet costs more than the whole protocol.

mod interface;
pub mod memory;
mod readiness;
mod reports;
pub mod udp;
mod unanswered;

use std::{
    fmt, io,
    io::IoSliceMut,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    task::{Context, Poll},
};

use arq_proto::{Datagram, EcnCodepoint, UnreachableReport};
use quinn_udp::RecvMeta;

pub(crate) use unanswered::why_unanswered;

/// Datagrams of equal size for one destination, the last may be shorter.
#[derive(Debug, Clone, Copy)]
pub struct Segments<'a> {
    /// Where they go.
    pub destination: SocketAddr,
    /// The local address to send from; `None` leaves it to the routing table.
    pub source: Option<IpAddr>,
    /// What their IP headers are to say of congestion. A socket that cannot do so ignores it.
    pub ecn: Option<EcnCodepoint>,
    /// The datagrams, one after another.
    pub contents: &'a [u8],
    /// Bytes of each datagram but the last.
    pub segment_bytes: usize,
}

impl<'a> Segments<'a> {
    /// The datagrams one by one.
    pub fn datagrams(&self) -> impl Iterator<Item = &'a [u8]> {
        self.contents.chunks(self.segment_bytes.max(1))
    }
}

/// A datagram socket that never blocks.
///
/// The `poll_*` functions belong to one task, the socket's driver; `try_*` may be called by any.
pub trait DatagramSocket: Send + Sync + fmt::Debug + 'static {
    /// Ready when [`Self::try_receive`] may find something.
    fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Ready when [`Self::try_send`] may succeed.
    fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Fills `batch` anew: [`ReceiveBatch::clear`], then [`ReceiveBatch::push`] for each datagram.
    ///
    /// # Errors
    /// `WouldBlock` when there is nothing.
    fn try_receive(&self, batch: &mut ReceiveBatch) -> io::Result<()>;

    /// Sends `segments`, at most [`Self::max_segments`]. If there is room for some only, the others are lost without an error,
    /// as in a full queue further on.
    ///
    /// # Errors
    /// `WouldBlock` when none has been sent as the socket's buffer is full; any other error means that all that were not
    /// sent are lost.
    fn try_send(&self, segments: &Segments<'_>) -> io::Result<()>;

    /// Ready when [`Self::take_reports`] may find something: never where the system reports nothing.
    fn poll_reports(&self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    /// Shows what the network has said of datagrams that were sent: a bounded number of reports at a time.
    fn take_reports(&self, _show: &mut dyn FnMut(&UnreachableReport<'_>)) {}

    /// Another socket like this one, at a port that is free; `None` where that cannot be. Needs a tokio runtime's context.
    ///
    /// # Errors
    /// What the system answers.
    fn at_other_port(&self) -> io::Result<Option<Arc<dyn DatagramSocket>>> {
        Ok(None)
    }

    /// Bytes of UDP payload that the interface on the way to `remote` carries; `None` where the system does not say.
    fn mtu_toward(&self, _remote: SocketAddr) -> Option<u16> {
        None
    }

    /// The address that the socket is bound to.
    fn local_addr(&self) -> SocketAddr;

    /// How many datagrams one [`Self::try_send`] takes.
    fn max_segments(&self) -> usize;
}

/// What a system answers to a datagram that is longer than its interface carries (EMSGSIZE).
const TOO_LONG: i32 = if cfg!(windows) {
    10_040
} else if cfg!(any(target_os = "linux", target_os = "android")) {
    90
} else {
    40
};

/// Whether a send failed because the datagram is longer than what the interface carries.
pub(crate) fn is_too_long(error: &io::Error) -> bool {
    error.raw_os_error() == Some(TOO_LONG)
}

/// Buffers for one receive call. Not zeroed by the kernel until used, so an idle one costs
/// address space only.
pub struct ReceiveBatch {
    bytes: Vec<u8>,
    meta: [RecvMeta; quinn_udp::BATCH_SIZE],
    filled: usize,
}

/// One buffer holds as many coalesced datagrams as GRO may put into it.
const BUFFER_BYTES: usize = 1 << 16;

impl Default for ReceiveBatch {
    fn default() -> Self {
        Self {
            bytes: vec![0; quinn_udp::BATCH_SIZE * BUFFER_BYTES],
            meta: [RecvMeta::default(); quinn_udp::BATCH_SIZE],
            filled: 0,
        }
    }
}

impl fmt::Debug for ReceiveBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReceiveBatch").field("filled", &self.filled).finish_non_exhaustive()
    }
}

impl ReceiveBatch {
    /// The datagrams of the last receive call, in order of arrival.
    pub fn datagrams(&mut self) -> impl Iterator<Item = Datagram<'_>> {
        let buffers = self.bytes.chunks_mut(BUFFER_BYTES);
        self.meta[..self.filled].iter().zip(buffers).flat_map(|(meta, buffer)| {
            let len = meta.len.min(buffer.len());
            let datagrams = buffer[..len].chunks_mut(meta.stride.max(1));
            // The kernel joins only those whose headers are alike.
            let ecn = meta.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8));
            datagrams.map(move |bytes| Datagram::new(meta.addr, meta.dst_ip, bytes).with_ecn(ecn))
        })
    }

    /// Runs `receive` on the empty buffers; it says how many it filled.
    fn fill(
        &mut self,
        receive: impl FnOnce(&mut [IoSliceMut<'_>], &mut [RecvMeta]) -> io::Result<usize>,
    ) -> io::Result<()> {
        self.filled = 0;
        let mut buffers = self.bytes.chunks_mut(BUFFER_BYTES);
        let mut slices: [IoSliceMut<'_>; quinn_udp::BATCH_SIZE] =
            std::array::from_fn(|_| IoSliceMut::new(buffers.next().unwrap_or_default()));
        self.filled = receive(&mut slices, &mut self.meta)?;
        Ok(())
    }

    /// Adds one datagram by copying it; `false` when all buffers are used, or it is longer than one.
    pub fn push(&mut self, from: SocketAddr, to: IpAddr, datagram: &[u8]) -> bool {
        let buffer = self.bytes.chunks_mut(BUFFER_BYTES).nth(self.filled);
        let Some(room) = buffer.and_then(|buffer| buffer.get_mut(..datagram.len())) else {
            return false;
        };
        room.copy_from_slice(datagram);
        self.meta[self.filled] = RecvMeta {
            addr: from,
            len: datagram.len(),
            stride: datagram.len(),
            ecn: None,
            dst_ip: Some(to),
        };
        self.filled += 1;
        true
    }

    /// Whether the last call brought nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Forgets the datagrams of the last call.
    pub fn clear(&mut self) {
        self.filled = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coalesced_buffer_is_split_into_its_datagrams() {
        let mut batch = ReceiveBatch::default();
        let from: SocketAddr = "127.0.0.1:7".parse().unwrap();
        batch
            .fill(|buffers, meta| {
                buffers[0][..5].copy_from_slice(b"aabbc");
                let ecn = quinn_udp::EcnCodepoint::from_bits(0b11);
                meta[0] = RecvMeta { addr: from, len: 5, stride: 2, ecn, dst_ip: None };
                buffers[1][..1].copy_from_slice(b"d");
                meta[1] = RecvMeta { addr: from, len: 1, stride: 1, ecn: None, dst_ip: None };
                Ok(2)
            })
            .unwrap();
        let got: Vec<_> = batch.datagrams().map(|one| (one.bytes.to_vec(), one.ecn)).collect();
        let ce = Some(EcnCodepoint::Ce);
        let expected = [(&b"aa"[..], ce), (b"bb", ce), (b"c", ce), (b"d", None)];
        assert_eq!(got, expected.map(|(bytes, ecn)| (bytes.to_vec(), ecn)));
    }

    #[test]
    fn a_datagram_that_no_buffer_holds_is_refused() {
        let mut batch = ReceiveBatch::default();
        let from: SocketAddr = "127.0.0.1:7".parse().unwrap();
        assert!(!batch.push(from, from.ip(), &[0; BUFFER_BYTES + 1]));
        assert!((0..quinn_udp::BATCH_SIZE).all(|_| batch.push(from, from.ip(), b"a")));
        assert!(!batch.push(from, from.ip(), b"a"), "all are used");
        assert_eq!(batch.datagrams().count(), quinn_udp::BATCH_SIZE);
    }
}
