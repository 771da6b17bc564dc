// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A connection as zenoh sees it: one write is one message is one read, eight priorities at once,
//! and a second, best-effort link over the same connection.
//!
//! zenoh counts its lease on each link by itself, from the last batch that came. A keep-alive every
//! quarter of a lease leaves an idle link, such as the best-effort companion of a busy one, only
//! three quarters of it to outlast an outage. The connection knows more recently that the peer
//! lives: so each link repeats the peer's keep-alive to its reader as long as the connection hears
//! the peer and the peer's session has not itself been silent for [`REPEAT_FOR`].

use std::{
    net::SocketAddr,
    sync::{
        atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering},
        Arc, OnceLock,
    },
    time::{Duration, Instant},
};

use arq_proto::{ConnectionError, LaneId};
use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use zenoh_link_commons::{
    get_ip_interface_names, LinkAuthId, LinkUnicast, LinkUnicastTrait, NewLink,
};
use zenoh_protocol::{
    core::{Locator, Metadata, Priority, Reliability},
    transport::BatchSize,
};
use zenoh_result::{bail, zerror, ZResult};

use crate::{
    batch::{is_goodbye, keep_alive_framed_as, more_or_nothing},
    driver::ArqConnection,
    given_up::GivenUp,
    manager::driver_runtime,
    statistics::{self, AssociationStats},
    terms::Terms,
    ARQ_LOCATOR_PREFIX, ARQ_MTU,
};

/// What the links over one connection share.
pub(crate) struct Association {
    /// Its number in this process.
    id: u64,
    opened_at: Instant,
    connection: ArqConnection,
    src: Locator,
    dst: Locator,
    /// Links that zenoh has not closed.
    open: AtomicUsize,
    /// zenoh's keep-alive in the framing that both sessions agreed on, once a batch has shown it.
    keep_alive: OnceLock<&'static [u8]>,
    /// The session takes its leave, and what it has sent must arrive.
    parting: AtomicBool,
    /// Logs the statistics while the association lives, when that is asked for.
    reporter: OnceLock<AbortOnDropHandle<()>>,
}

impl Association {
    /// How it stands.
    pub(crate) fn snapshot(&self) -> AssociationStats {
        AssociationStats {
            id: self.id,
            src: self.src.clone(),
            dst: self.dst.clone(),
            age: self.opened_at.elapsed(),
            stats: self.connection.stats(),
        }
    }

    fn learn_framing(&self, batch: &[u8]) {
        if self.keep_alive.get().is_none() {
            if let Some(keep_alive) = keep_alive_framed_as(batch) {
                self.keep_alive.get_or_init(|| keep_alive);
            }
        }
    }
}

impl Drop for Association {
    fn drop(&mut self) {
        statistics::on_end(&self.snapshot());
    }
}

/// A peer's session that hangs in a process that lives is told apart from a quiet one by its own
/// batches: so long after the last, its keep-alive is repeated no more. Longer than the stock
/// interval of 2.5 s.
const REPEAT_FOR: Duration = Duration::from_secs(5);

/// One link over a connection.
pub(crate) struct LinkUnicastArq {
    association: Arc<Association>,
    reliability: Reliability,
    priorities: bool,
    /// Control messages are reliable even on a best-effort link: a link that has no reliable one
    /// beside it must open, live and close.
    reliable_control: bool,
    src: Locator,
    dst: Locator,
    src_addr: SocketAddr,
    /// Of several calls to close it the first one counts.
    closing: AtomicBool,
    closed: CancellationToken,
    /// When the last batch of the peer's session came over this link, at first when it was opened.
    session_heard_at: Mutex<Instant>,
    /// Writes that zenoh has cancelled, and whose successors it writes nevertheless.
    given_up: GivenUp,
    /// Priorities, a bit each, whose last batch is of no use without the next one.
    in_parts: AtomicU8,
}

/// The links of a connection from `src` to `dst` on the agreed terms. Their statistics are logged
/// each `stats_log`.
pub(crate) fn links(
    connection: ArqConnection,
    terms: Terms,
    src_addr: SocketAddr,
    dst: &Locator,
    stats_log: Option<Duration>,
) -> ZResult<LinkUnicast> {
    let open = if terms.mixed_reliability { 2 } else { 1 };
    let association = Arc::new(Association {
        id: statistics::next_id(),
        opened_at: Instant::now(),
        connection,
        src: Locator::new(ARQ_LOCATOR_PREFIX, src_addr.to_string(), "")?,
        dst: dst.clone(),
        open: AtomicUsize::new(open),
        keep_alive: OnceLock::new(),
        parting: AtomicBool::new(false),
        reporter: OnceLock::new(),
    });
    statistics::register(&association);
    if let Some(period) = stats_log {
        let runtime = driver_runtime()?;
        association.reporter.get_or_init(|| statistics::log_every(period, &association, &runtime));
    }
    let link = |reliability: Reliability, metadata: &str| -> ZResult<Arc<LinkUnicastArq>> {
        Ok(Arc::new(LinkUnicastArq {
            association: association.clone(),
            reliability,
            priorities: terms.priorities,
            reliable_control: !terms.mixed_reliability,
            src: Locator::new(ARQ_LOCATOR_PREFIX, src_addr.to_string(), metadata)?,
            dst: dst.clone(),
            src_addr,
            closing: AtomicBool::new(false),
            closed: CancellationToken::new(),
            session_heard_at: Mutex::new(Instant::now()),
            given_up: GivenUp::default(),
            in_parts: AtomicU8::new(0),
        }))
    };
    if terms.mixed_reliability {
        // zenoh tells links apart by their locators.
        let companion = format!("{}={}", Metadata::RELIABILITY, Reliability::BestEffort);
        return Ok(LinkUnicast(NewLink::MixedReliability {
            reliable: link(Reliability::Reliable, "")?,
            best_effort: link(Reliability::BestEffort, &companion)?,
        }));
    }
    Ok(LinkUnicast(NewLink::Single(link(Reliability::from(!terms.best_effort), "")?)))
}

impl LinkUnicastArq {
    /// zenoh names no priority for control messages, and none at all on a link without priorities.
    fn lane(&self, priority: Option<Priority>) -> ZResult<LaneId> {
        let priority = match priority {
            Some(priority) if self.priorities => priority,
            Some(_) | None => Priority::Control,
        };
        let reliability = match self.reliability {
            Reliability::BestEffort if priority == Priority::Control && self.reliable_control => {
                arq_proto::Reliability::Reliable
            }
            Reliability::Reliable => arq_proto::Reliability::Reliable,
            Reliability::BestEffort => arq_proto::Reliability::BestEffort,
        };
        let lane = LaneId::new(priority as u8, reliability);
        lane.ok_or_else(|| zerror!("no lane for priority {priority:?}").into())
    }

    /// Whether the batch is of no use without the lane's next one. zenoh writes those of a lane one by one.
    fn is_more_to_come(&self, lane: LaneId, batch: &[u8]) -> bool {
        let bit = 1 << lane.priority();
        let begun = self.in_parts.load(Ordering::Relaxed) & bit != 0;
        let more = more_or_nothing(batch, begun);
        if more != begun {
            self.in_parts.fetch_xor(bit, Ordering::Relaxed);
        }
        more
    }

    async fn send(&self, message: &[u8], priority: Option<Priority>) -> ZResult<()> {
        let connection = &self.association.connection;
        let lane = self.lane(priority)?;
        let sent = async {
            let write = self.given_up.write(lane, message, self.is_more_to_come(lane, message));
            if is_goodbye(message) {
                self.association.parting.store(true, Ordering::Release);
                connection.delivered().await;
            }
            self.association.learn_framing(message);
            write.send(connection).await
        };
        let closed = || zerror!("cannot write on {self}: the link is closed").into();
        if self.closed.is_cancelled() {
            return Err(closed());
        }
        // Nearly always there is room, and nobody has to wait for the link to be closed.
        tokio::select! {
            biased;
            sent = sent => sent.map_err(|error| zerror!("cannot write on {self}: {error}").into()),
            () = self.closed.cancelled() => Err(closed()),
        }
    }

    /// The next batch of the peer's session, or its keep-alive once more for a reader that
    /// `counts_lease`.
    async fn next_batch(&self, lane: LaneId, counts_lease: bool) -> Result<Bytes, ConnectionError> {
        let connection = &self.association.connection;
        // Only here may a keep-alive come first: a batch that was taken must not be dropped.
        let received = tokio::select! {
            biased;
            received = connection.recv(lane) => received,
            keep_alive = self.repeated_keep_alive(), if counts_lease => return Ok(keep_alive),
        };
        if received.as_ref().map_or(true, |batch| is_goodbye(batch)) {
            connection.consumed_beside(lane).await;
        }
        let batch = received?;
        self.association.learn_framing(&batch);
        *self.session_heard_at.lock() = Instant::now();
        Ok(batch)
    }

    /// The peer's keep-alive once more, when the connection has just heard the peer. Pending for
    /// ever once the connection has ended.
    async fn repeated_keep_alive(&self) -> Bytes {
        let Association { connection, keep_alive, .. } = &*self.association;
        loop {
            connection.life_sign().await;
            let is_session_heard = self.session_heard_at.lock().elapsed() < REPEAT_FOR;
            if let Some(keep_alive) = keep_alive.get().filter(|_| is_session_heard) {
                return Bytes::from_static(keep_alive);
            }
        }
    }

    async fn receive(&self, buffer: &mut [u8], priority: Option<Priority>) -> ZResult<usize> {
        let lane = self.lane(priority)?;
        // zenoh's lease runs in the reader of control messages.
        let counts_lease = priority.unwrap_or(Priority::Control) == Priority::Control;
        let message = tokio::select! {
            biased;
            batch = self.next_batch(lane, counts_lease) => {
                batch.map_err(|error| zerror!("cannot read from {self}: {error}"))?
            }
            () = self.closed.cancelled() => bail!("cannot read from {self}: the link is closed"),
        };
        let Some(target) = buffer.get_mut(..message.len()) else {
            bail!(
                "cannot read from {self}: a message of {} bytes, a buffer of {}",
                message.len(),
                buffer.len()
            );
        };
        target.copy_from_slice(&message);
        let bytes = message.len();
        self.association.connection.recycle(message);
        Ok(bytes)
    }
}

#[async_trait]
impl LinkUnicastTrait for LinkUnicastArq {
    fn get_mtu(&self) -> BatchSize {
        ARQ_MTU
    }

    fn get_src(&self) -> &Locator {
        &self.src
    }

    fn get_dst(&self) -> &Locator {
        &self.dst
    }

    fn is_reliable(&self) -> bool {
        self.reliability == Reliability::Reliable
    }

    fn is_streamed(&self) -> bool {
        false
    }

    fn get_interface_names(&self) -> Vec<String> {
        get_ip_interface_names(&self.src_addr)
    }

    /// zenoh's list of link kinds is closed: this is the nearest one.
    fn get_auth_id(&self) -> &LinkAuthId {
        &LinkAuthId::Udp
    }

    fn supports_priorities(&self) -> bool {
        self.priorities
    }

    async fn write(&self, buffer: &[u8], priority: Option<Priority>) -> ZResult<usize> {
        self.send(buffer, priority).await.map(|()| buffer.len())
    }

    async fn write_all(&self, buffer: &[u8], priority: Option<Priority>) -> ZResult<()> {
        self.send(buffer, priority).await
    }

    async fn read(&self, buffer: &mut [u8], priority: Option<Priority>) -> ZResult<usize> {
        self.receive(buffer, priority).await
    }

    async fn read_exact(&self, buffer: &mut [u8], priority: Option<Priority>) -> ZResult<()> {
        let read = self.receive(buffer, priority).await?;
        if read != buffer.len() {
            bail!("cannot read from {self}: a message of {read} bytes, not {}", buffer.len());
        }
        Ok(())
    }

    /// The connection ends with its last link: zenoh closes the links of a pair one after another,
    /// and the second may still have something to send.
    ///
    /// What was written is delivered, for the linger time at most. A session that takes its leave waits
    /// for that, for the process may end next. One that gives the link up, because its lease is over or
    /// the peer has closed, does not: while zenoh waits for such a link it may already open the next, and
    /// ends that one too. (Nor does one whose last words are still behind a write that waits: zenoh does
    /// not wait for them either.)
    async fn close(&self) -> ZResult<()> {
        if self.closing.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        tracing::trace!("closing {self}");
        self.closed.cancel();
        self.given_up.forget();
        if self.association.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            let Association { connection, parting, .. } = &*self.association;
            match parting.load(Ordering::Acquire) {
                true => connection.finish().await,
                false => connection.start_finish(),
            }
        }
        Ok(())
    }

    #[cfg(all(feature = "uring", target_os = "linux"))]
    fn get_fd(&self) -> ZResult<std::os::fd::RawFd> {
        bail!("{self} shares its socket with other links")
    }
}

impl std::fmt::Display for LinkUnicastArq {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} => {}", self.src, self.dst)
    }
}
