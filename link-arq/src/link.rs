// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! A connection as zenoh sees it: one write is one message is one read, eight priorities at once, reliable messages and
//! those of best effort.
//!
//! zenoh has one link for both kinds, as over tcp, and says of each batch which it is: the link gives each kind a lane of
//! its own. (Of two links, zenoh's other way, an application counts two, and a lowlatency session takes none.)
//!
//! What is here only because of how zenoh behaves is in [`zenoh_quirks`](crate::zenoh_quirks).

use std::{
    borrow::Cow,
    net::SocketAddr,
    sync::{
        atomic::{AtomicBool, AtomicU16, AtomicU8, Ordering},
        Arc, OnceLock,
    },
    time::{Duration, Instant, SystemTime},
};

use arq_proto::{ConnectionError, LaneId, Reliability};
use arq_tokio::{Connection, PathInfo};
use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::time::timeout;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use zenoh_link_commons::{
    get_ip_interface_names, LinkAuthId, LinkUnicast, LinkUnicastTrait, NewLink,
};
use zenoh_protocol::{
    core::{Locator, Priority},
    transport::BatchSize,
};
use zenoh_result::{bail, zerror, ZResult};

use crate::{
    config::LinkConfig,
    last_words,
    manager::driver_runtime,
    security::{expire, Identity},
    statistics::{self, AssociationStats, Farewell},
    terms::Terms,
    zenoh_quirks::{
        batch::{begins_with_best_effort, by_kind, is_close, more_or_nothing},
        given_up::{GivenUp, Write, WriteError},
        keep_alive::KeepAlive,
        writes::Writes,
    },
    ARQ_LOCATOR_PREFIX, ARQ_MTU,
};

/// How long after a link is closed the session's last word may come.
const LAST_WORD_WITHIN: Duration = Duration::from_millis(20);

/// Reliable batches that a reader takes in a row while there is one of best effort.
const MOST_PASSED_OVER: u8 = 7;

/// The link over a connection.
pub(crate) struct LinkUnicastArq {
    /// Its number in this process.
    id: u64,
    opened_at: Instant,
    /// The same by the clock of the system.
    opened_time: SystemTime,
    connection: Connection,
    terms: Terms,
    src: Locator,
    dst: Locator,
    src_addr: SocketAddr,
    /// Of several calls to close it the first one counts.
    closing: AtomicBool,
    closed: CancellationToken,
    /// Cancelled once the session takes its leave, and what it has sent must arrive.
    parting: CancellationToken,
    /// The peer's session has taken its leave, or the connection has ended.
    is_over: AtomicBool,
    writes: Writes,
    keep_alive: KeepAlive,
    /// The peer's last word, and the reader who has it: what arrived before it is read first.
    last_word: Mutex<Option<(Priority, Bytes)>>,
    /// Of each priority, a bit, whether best effort was sent: only then is a batch that begins as reliable looked through.
    mixed: AtomicU8,
    /// Of each priority, how often it was read, for its lanes take turns.
    reads: [AtomicU8; Priority::NUM],
    /// Writes that zenoh has cancelled, and whose successors it writes nevertheless.
    given_up: GivenUp,
    /// Lanes, a bit each, whose last batch is of no use without the next one.
    in_parts: AtomicU16,
    /// Who the peer is.
    identity: Identity,
    /// Logs the statistics while the link lives, when that is asked for.
    reporter: OnceLock<AbortOnDropHandle<()>>,
    /// Ends the link with the peer's certificate, when that is asked for.
    expiry: OnceLock<AbortOnDropHandle<()>>,
}

/// The link over a connection from `src` to `dst` on the agreed terms, by the configuration of the endpoint.
pub(crate) fn link(
    connection: Connection,
    terms: Terms,
    src_addr: SocketAddr,
    dst: &Locator,
    config: &LinkConfig,
) -> ZResult<LinkUnicast> {
    let identity = Identity::of(&connection, &config.security);
    let link = Arc::new(LinkUnicastArq {
        id: statistics::next_id(),
        opened_at: Instant::now(),
        opened_time: SystemTime::now(),
        connection,
        terms,
        src: Locator::new(ARQ_LOCATOR_PREFIX, src_addr.to_string(), "")?,
        dst: dst.clone(),
        src_addr,
        closing: AtomicBool::new(false),
        closed: CancellationToken::new(),
        parting: CancellationToken::new(),
        is_over: AtomicBool::new(false),
        writes: Writes::default(),
        keep_alive: KeepAlive::new(Instant::now()),
        last_word: Mutex::default(),
        mixed: AtomicU8::new(0),
        reads: Default::default(),
        given_up: GivenUp::default(),
        in_parts: AtomicU16::new(0),
        identity,
        reporter: OnceLock::new(),
        expiry: OnceLock::new(),
    });
    statistics::register(&link);
    last_words::hear_at_exit();
    let runtime = driver_runtime()?;
    if let Some(period) = config.stats_log {
        link.reporter.get_or_init(|| statistics::log_every(period, &link, &runtime));
    }
    if let Some(at) = link.identity.expires.filter(|_| config.security.close_link_on_expiration) {
        let expire = expire(Arc::downgrade(&link), at);
        link.expiry.get_or_init(|| AbortOnDropHandle::new(runtime.spawn(expire)));
    }
    Ok(LinkUnicast(NewLink::Single(link)))
}

/// The lanes of a priority, the reliable one first.
fn lanes(priority: Priority) -> ZResult<[LaneId; 2]> {
    let lane = |reliability| LaneId::new(priority as u8, reliability);
    match (lane(Reliability::Reliable), lane(Reliability::BestEffort)) {
        (Some(reliable), Some(best_effort)) => Ok([reliable, best_effort]),
        _ => bail!("no lane for priority {priority:?}"),
    }
}

impl LinkUnicastArq {
    /// Whether something that was written has not arrived, after waiting for so long; without waiting for a lock.
    pub(crate) fn is_undelivered(&self, waited: Duration) -> bool {
        waited < self.connection.linger() && self.connection.try_is_delivered() != Some(true)
    }

    /// How it stands.
    pub(crate) fn snapshot(&self) -> AssociationStats {
        AssociationStats {
            id: self.id,
            src: self.src.clone(),
            dst: self.dst.clone(),
            age: self.opened_at.elapsed(),
            opened_at: self.opened_time,
            security: self.identity.security,
            peer: self.identity.common_name().map(str::to_owned),
            certificate_expires: self.identity.expires,
            stats: self.connection.stats(),
            paths: self.paths(),
        }
    }

    /// A certificate of the peer's chain has expired.
    pub(crate) fn end_with_certificate(&self) {
        let name = self.identity.common_name().unwrap_or("the peer");
        tracing::warn!(
            "closing {self}: the certificate of {name}, or of who vouches for it, has expired"
        );
        self.connection.close("the certificate has expired");
    }

    /// How its paths stand. What a single one does are the figures of the link.
    fn paths(&self) -> Vec<PathInfo> {
        let paths = self.connection.paths();
        if paths.len() < 2 && paths.iter().all(|path| path.interface.is_none()) {
            return Vec::new();
        }
        paths
    }

    fn farewell(&self) -> Farewell {
        match self.parting.is_cancelled() {
            true => Farewell::Ours,
            false if self.is_over.load(Ordering::Relaxed) => Farewell::Theirs,
            false => Farewell::Neither,
        }
    }

    /// zenoh names no priority for control messages, and none at all on a link without priorities.
    fn priority(&self, named: Option<Priority>) -> Priority {
        named.filter(|_| self.terms.priorities).unwrap_or(Priority::Control)
    }

    /// What of a batch takes the best-effort lane of its priority, and what the reliable one.
    fn by_lane<'a>(&self, batch: &'a [u8], priority: Priority) -> [Option<Cow<'a, [u8]>>; 2] {
        let whole = Some(Cow::Borrowed(batch));
        // Control messages are reliable whatever the link is: the session must open, live and close.
        if self.terms.best_effort && priority != Priority::Control {
            return [whole, None];
        }
        if self.terms.mixed_reliability {
            let bit = 1 << priority as u8;
            let is_mixed = self.mixed.load(Ordering::Relaxed) & bit != 0;
            if is_mixed || begins_with_best_effort(batch) {
                self.mixed.fetch_or(bit, Ordering::Relaxed);
                return by_kind(batch);
            }
        }
        [None, whole]
    }

    fn begin_write(&self, lane: LaneId, batch: &[u8]) -> Write<'_> {
        self.given_up.write(lane, batch, self.is_more_to_come(lane, batch))
    }

    /// Whether the batch is of no use without the lane's next one. zenoh writes those of a lane one by one.
    fn is_more_to_come(&self, lane: LaneId, batch: &[u8]) -> bool {
        let bit = 1 << lane.index();
        let begun = self.in_parts.load(Ordering::Relaxed) & bit != 0;
        let more = more_or_nothing(batch, begun);
        if more != begun {
            self.in_parts.fetch_xor(bit, Ordering::Relaxed);
        }
        more
    }

    /// zenoh has dropped the rest of a message that came in parts.
    fn drop_rest(&self, priority: Priority) -> ZResult<()> {
        for lane in lanes(priority)? {
            self.in_parts.fetch_and(!(1 << lane.index()), Ordering::Relaxed);
            self.connection.drop_rest(lane);
        }
        Ok(())
    }

    async fn send(&self, batch: &[u8], priority: Option<Priority>) -> ZResult<()> {
        let priority = self.priority(priority);
        if batch.is_empty() {
            return self.drop_rest(priority);
        }
        let [reliable, best_effort] = lanes(priority)?;
        let [lossy, sure] = self.by_lane(batch, priority);
        let _write = self.writes.begin();
        let sent = async {
            // Both are begun before either waits: what is reliable leaves, even when zenoh gives this up.
            let writes = [(best_effort, lossy), (reliable, sure)]
                .map(|(lane, part)| part.map(|part| self.begin_write(lane, &part)));
            if is_close(batch) {
                self.parting.cancel();
                let _ = timeout(self.connection.linger(), self.writes.others_done()).await;
                self.connection.delivered().await;
            }
            self.keep_alive.learn_framing(batch);
            for write in writes.into_iter().flatten() {
                write.send(&self.connection).await?;
            }
            Ok::<_, WriteError>(())
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

    /// The next batch of the peer's session, or its keep-alive once more. The session's last word comes after everything
    /// that arrived before it.
    async fn next_batch(&self, priority: Priority) -> ZResult<Bytes> {
        let lanes = lanes(priority)?;
        let kept = self.last_word.lock().take_if(|(reader, _)| *reader == priority);
        let mut received = match kept {
            Some((_, last_word)) => Ok(last_word),
            // Only here may a keep-alive come first: a batch that was taken must not be dropped.
            None => tokio::select! {
                biased;
                received = self.recv_in_turns(priority, lanes) => received,
                // zenoh's lease runs in the reader of control messages.
                keep_alive = self.keep_alive.repeated(&self.connection), if priority == Priority::Control => {
                    return Ok(keep_alive);
                }
            },
        };
        if received.as_ref().map_or(true, |batch| is_close(batch)) {
            self.is_over.store(true, Ordering::Relaxed);
            let [_, best_effort] = lanes;
            match self.connection.try_recv(best_effort) {
                Some(earlier) => {
                    let last_word = std::mem::replace(&mut received, Ok(earlier));
                    *self.last_word.lock() = last_word.ok().map(|word| (priority, word));
                }
                None => self.connection.consumed_beside(&lanes).await,
            }
        }
        let batch = received.map_err(|error| zerror!("cannot read from {self}: {error}"))?;
        self.keep_alive.on_batch(&batch, Instant::now());
        Ok(batch)
    }

    /// The next batch of a priority. As they are sent, reliable ones come before those of best effort, which are kept
    /// waiting for [`MOST_PASSED_OVER`] of them at most.
    async fn recv_in_turns(
        &self,
        priority: Priority,
        [reliable, best_effort]: [LaneId; 2],
    ) -> Result<Bytes, ConnectionError> {
        let read = self.reads[priority as usize].fetch_add(1, Ordering::Relaxed);
        let lanes = match read % (MOST_PASSED_OVER + 1) {
            MOST_PASSED_OVER => [best_effort, reliable],
            _ => [reliable, best_effort],
        };
        self.connection.recv_any(&lanes).await
    }

    /// Waits for what a session that closes still writes, and says whether that is its CLOSE and all before it. zenoh closes the link as soon as the first of its eight
    /// writers has nothing left, while the others write the end of their queues, and the session's last word.
    async fn last_word_is_written(&self) -> bool {
        let may_come = !self.is_over.load(Ordering::Relaxed) && self.keep_alive.is_session_heard();
        if may_come {
            let _ = timeout(LAST_WORD_WITHIN, self.parting.cancelled()).await;
        }
        let written = timeout(self.connection.linger(), self.writes.done());
        self.parting.is_cancelled() && written.await.is_ok()
    }

    async fn receive(&self, buffer: &mut [u8], priority: Option<Priority>) -> ZResult<usize> {
        let message = tokio::select! {
            biased;
            batch = self.next_batch(self.priority(priority)) => batch?,
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
        self.connection.recycle(message);
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
        !self.terms.best_effort
    }

    fn is_streamed(&self) -> bool {
        false
    }

    /// Access control by interface sees each that the link uses.
    fn get_interface_names(&self) -> Vec<String> {
        let mut names = self.connection.interfaces();
        let of_address = get_ip_interface_names(&self.src_addr);
        let others: Vec<_> = of_address.into_iter().filter(|name| !names.contains(name)).collect();
        names.extend(others);
        names
    }

    fn get_auth_id(&self) -> &LinkAuthId {
        &self.identity.auth_id
    }

    fn supports_priorities(&self) -> bool {
        self.terms.priorities
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

    /// What was written is delivered, for the linger time at most. A session that closes waits for that, since the process
    /// may end next. A session that gives the link up does not wait, or for [`LAST_WORD_WITHIN`] at most where its CLOSE may
    /// still come: while zenoh waits for such a link it may already open the next, and ends that one too.
    async fn close(&self) -> ZResult<()> {
        if self.closing.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        tracing::trace!("closing {self}");
        let is_written = self.last_word_is_written().await;
        self.closed.cancel();
        self.given_up.forget();
        match is_written {
            true => self.connection.finish().await,
            false => self.connection.start_finish(),
        }
        Ok(())
    }

    #[cfg(all(feature = "uring", target_os = "linux"))]
    fn get_fd(&self) -> ZResult<std::os::fd::RawFd> {
        bail!("{self} shares its socket with other links")
    }
}

impl Drop for LinkUnicastArq {
    fn drop(&mut self) {
        let reason = self.connection.close_reason();
        statistics::on_end(&self.snapshot(), reason.as_ref(), self.farewell());
    }
}

impl std::fmt::Display for LinkUnicastArq {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} => {}", self.src, self.dst)
    }
}
