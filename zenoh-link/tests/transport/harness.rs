// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What is a node in these scenarios: a transport manager, and a journal of what reached it.

use std::{
    any::Any,
    collections::BTreeMap,
    future::Future,
    sync::{Arc, LazyLock, Mutex},
    time::Duration,
};

use zenoh_buffers::buffer::SplitBuffer;
use zenoh_link::{EndPoint, Link, Locator};
use zenoh_protocol::{
    core::{CongestionControl, Priority, Reliability, ZenohIdProto},
    network::{
        push::ext::QoSType, NetworkBody, NetworkBodyMut, NetworkMessage, NetworkMessageMut, Push,
    },
    zenoh::{PushBody, Put},
};
use zenoh_result::{bail, ZResult};
use zenoh_transport::{
    multicast::TransportMulticast,
    unicast::{TransportManagerBuilderUnicast, TransportUnicast},
    TransportEventHandler, TransportManager, TransportManagerBuilder,
    TransportMulticastEventHandler, TransportPeer, TransportPeerEventHandler,
};

/// Longer than any step takes on a busy machine; a test that needs it has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Protocol and metadata of the link under test.
static LINK: LazyLock<(String, String)> = LazyLock::new(|| {
    let link = std::env::var("LINK_UNDER_TEST").unwrap_or_else(|_| "arq".to_owned());
    match link.split_once('?') {
        Some((protocol, metadata)) => (protocol.to_owned(), format!("?{metadata}")),
        None => (link, String::new()),
    }
});

/// The protocol of the link under test.
pub(crate) fn protocol() -> &'static str {
    &LINK.0
}

/// An endpoint of the link under test.
pub(crate) fn endpoint(address: &str) -> EndPoint {
    endpoint_with(address, "")
}

/// An endpoint of the link under test with local configuration (`key=value;…`).
pub(crate) fn endpoint_with(address: &str, config: &str) -> EndPoint {
    let (protocol, metadata) = &*LINK;
    let hash = if config.is_empty() { "" } else { "#" };
    format!("{protocol}/{address}{metadata}{hash}{config}").parse().unwrap()
}

/// `at`, for these priorities only.
pub(crate) fn for_priorities(at: &EndPoint, range: &str) -> EndPoint {
    let mut at = at.clone();
    at.metadata_mut().insert("prio", range).unwrap();
    at
}

/// The endpoint behind a listener's locator, without the listener's own configuration.
pub(crate) fn reach(locator: &Locator) -> EndPoint {
    if locator.protocol().as_str() == protocol() {
        endpoint(locator.address().as_str())
    } else {
        locator.to_endpoint()
    }
}

/// Fails the test when `step` takes unreasonably long.
pub(crate) async fn soon<T>(what: &str, step: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, step).await {
        Ok(value) => value,
        Err(_) => panic!("{what}: not within {PATIENCE:?}"),
    }
}

/// Looks again and again until `condition` holds.
pub(crate) async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let looking = async {
        while !condition() {
            breather().await;
        }
    };
    soon(what, looking).await;
}

/// The pause between two looks at a condition.
async fn breather() {
    tokio::time::sleep(Duration::from_millis(2)).await;
}

/// What a message of these scenarios says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Letter {
    pub(crate) number: u32,
    pub(crate) priority: Priority,
    pub(crate) reliability: Reliability,
    pub(crate) size: usize,
}

impl Letter {
    pub(crate) fn new(number: u32, size: usize) -> Self {
        Self { number, priority: Priority::DEFAULT, reliability: Reliability::Reliable, size }
    }

    /// `count` letters of one size, numbered from zero.
    pub(crate) fn series(count: u32, size: usize) -> Vec<Self> {
        (0..count).map(|number| Self::new(number, size)).collect()
    }

    /// The number first, then blocks that say where they belong.
    fn payload(self) -> Vec<u8> {
        const FILLING: [u8; 248] = [b'.'; 248];
        let number = self.number.to_le_bytes();
        let mut payload = number.to_vec();
        while payload.len() < self.size {
            payload.extend_from_slice(&(payload.len() as u32).to_le_bytes());
            payload.extend_from_slice(&number);
            payload.extend_from_slice(&FILLING);
        }
        payload.truncate(self.size);
        payload
    }

    /// To be waited with, when there is no room for it.
    pub(crate) fn message(self) -> NetworkMessage {
        self.message_for(CongestionControl::Block)
    }

    /// To be dropped, when there is no room for it.
    pub(crate) fn droppable(self) -> NetworkMessage {
        self.message_for(CongestionControl::Drop)
    }

    fn message_for(self, congestion: CongestionControl) -> NetworkMessage {
        let put = Put { payload: self.payload().into(), ..Put::default() };
        let mut push = Push::from(PushBody::from(put));
        push.wire_expr = "scenario".into();
        push.ext_qos = QoSType::new(self.priority, congestion, false);
        NetworkMessage { body: NetworkBody::Push(push), reliability: self.reliability }
    }

    /// The letter in `message`, unless it is not as it was written.
    fn read(message: NetworkMessageMut) -> ZResult<Self> {
        let NetworkBodyMut::Push(push) = message.body else {
            bail!("not a push: {:?}", message.body);
        };
        let PushBody::Put(put) = &push.payload else {
            bail!("not a put: {:?}", push.payload);
        };
        let payload = put.payload.contiguous();
        let mut number = [0; 4];
        for (to, from) in number.iter_mut().zip(payload.iter()) {
            *to = *from;
        }
        let letter = Self {
            number: u32::from_le_bytes(number),
            priority: push.ext_qos.get_priority(),
            reliability: message.reliability,
            size: payload.len(),
        };
        if *payload != letter.payload() {
            bail!("{letter:?} is damaged");
        }
        Ok(letter)
    }
}

/// What reached a node.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    pub(crate) letters: Vec<Letter>,
    /// Anything that should not have come, or not like this.
    pub(crate) damage: Vec<String>,
    /// Transports opened, and those of them that closed.
    pub(crate) opened: usize,
    pub(crate) closed: usize,
}

#[derive(Clone, Default)]
struct Scribe(Arc<Mutex<Journal>>);

impl TransportEventHandler for Scribe {
    fn new_unicast(
        &self,
        _peer: TransportPeer,
        _transport: TransportUnicast,
    ) -> ZResult<Arc<dyn TransportPeerEventHandler>> {
        self.0.lock().unwrap().opened += 1;
        Ok(Arc::new(self.clone()))
    }

    fn new_multicast(
        &self,
        _transport: TransportMulticast,
    ) -> ZResult<Arc<dyn TransportMulticastEventHandler>> {
        bail!("no scenario has groups")
    }
}

impl TransportPeerEventHandler for Scribe {
    fn handle_message(&self, message: NetworkMessageMut) -> ZResult<()> {
        let read = Letter::read(message);
        let mut journal = self.0.lock().unwrap();
        match read {
            Ok(letter) => journal.letters.push(letter),
            Err(damage) => journal.damage.push(damage.to_string()),
        }
        Ok(())
    }
    fn new_link(&self, _link: Link) {}
    fn del_link(&self, _link: Link) {}
    fn closed(&self) {
        self.0.lock().unwrap().closed += 1;
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// One zenoh node, down to its transports.
pub(crate) struct Node {
    pub(crate) manager: TransportManager,
    scribe: Scribe,
}

impl Node {
    /// A node with zenoh's defaults, but up to four links and any number of peers.
    pub(crate) fn new() -> Self {
        Self::with(|unicast| unicast.max_links(4))
    }

    pub(crate) fn with(
        unicast: impl FnOnce(TransportManagerBuilderUnicast) -> TransportManagerBuilderUnicast,
    ) -> Self {
        let unicast = unicast(TransportManager::config_unicast());
        Self::build(|manager| manager.unicast(unicast))
    }

    pub(crate) fn build(
        manager: impl FnOnce(TransportManagerBuilder) -> TransportManagerBuilder,
    ) -> Self {
        // `RUST_LOG=zenoh_link_arq=debug,arq_tokio=debug` tells why a scenario fails.
        zenoh::init_log_from_env_or("error");
        let scribe = Scribe::default();
        let builder = manager(TransportManager::builder().zid(ZenohIdProto::rand()));
        Self { manager: builder.build(Arc::new(scribe.clone())).unwrap(), scribe }
    }

    /// Listens on a free port of the loopback interface; returns where to connect to.
    pub(crate) async fn listen(&self) -> EndPoint {
        self.listen_on(endpoint("127.0.0.1:0")).await.unwrap()
    }

    pub(crate) async fn listen_on(&self, endpoint: EndPoint) -> ZResult<EndPoint> {
        let locator = soon("listen", self.manager.add_listener(endpoint)).await?;
        Ok(reach(&locator))
    }

    pub(crate) async fn connect(&self, to: &EndPoint) -> ZResult<TransportUnicast> {
        soon("connect", self.manager.open_transport_unicast(to.clone())).await
    }

    /// Fails the test unless the peer at `to` refuses, and says so instead of keeping silent.
    pub(crate) async fn is_refused(&self, to: &EndPoint, why: &str) {
        let opening = self.manager.open_transport_unicast(to.clone());
        match tokio::time::timeout(Duration::from_secs(5), opening).await {
            Ok(opened) => assert!(opened.is_err(), "{why}: accepted"),
            Err(_) => panic!("{why}: not refused, only not answered"),
        }
    }

    /// The transport to `peer`, as soon as it stands on this side.
    pub(crate) async fn transport_to(&self, peer: &Self) -> TransportUnicast {
        soon("the transport opens", async {
            loop {
                let zid = &peer.manager.config.zid;
                if let Some(transport) = self.manager.get_transport_unicast(zid).await {
                    return transport;
                }
                breather().await;
            }
        })
        .await
    }

    /// Waits until this node has no transport to `peer`.
    pub(crate) async fn without(&self, peer: &Self) {
        let zid = &peer.manager.config.zid;
        soon("the transport closes", async {
            while self.manager.get_transport_unicast(zid).await.is_some() {
                breather().await;
            }
        })
        .await;
    }

    /// Waits until this node has no transport left.
    pub(crate) async fn alone(&self) {
        soon("all transports close", async {
            while !self.manager.get_transports_unicast().await.is_empty() {
                breather().await;
            }
        })
        .await;
    }

    pub(crate) fn journal<T>(&self, read: impl FnOnce(&Journal) -> T) -> T {
        read(&self.scribe.0.lock().unwrap())
    }

    /// Waits for exactly `letters`: none missing, none twice, none damaged, in order per lane.
    pub(crate) async fn receives(&self, letters: &[Letter]) {
        let complete = |journal: &Journal| {
            journal.letters.len() >= letters.len() || !journal.damage.is_empty()
        };
        let arriving = async {
            while !self.journal(complete) {
                breather().await;
            }
        };
        if tokio::time::timeout(PATIENCE, arriving).await.is_err() {
            let arrived = self.journal(|journal| journal.letters.clone());
            let missing = letters.iter().find(|letter| !arrived.contains(letter));
            let (arrived, all) = (arrived.len(), letters.len());
            panic!(
                "{arrived} of {all} within {PATIENCE:?}; the first that is missing: {missing:?}"
            );
        }
        self.journal(|journal| {
            assert_eq!(journal.damage, [""; 0], "nothing else arrived");
            assert_eq!(by_lane(&journal.letters), by_lane(letters));
        });
    }

    pub(crate) async fn close(self) {
        soon("the manager closes", self.manager.close()).await;
    }
}

/// zenoh promises an order within one priority and reliability, and none across.
fn by_lane(letters: &[Letter]) -> BTreeMap<(u8, bool), Vec<(u32, usize)>> {
    let mut lanes = BTreeMap::<_, Vec<_>>::new();
    for letter in letters {
        let key = (letter.priority as u8, letter.reliability.into());
        lanes.entry(key).or_default().push((letter.number, letter.size));
    }
    lanes
}

/// Two nodes with a transport between them: the listener, the connector, and where it connected.
pub(crate) async fn pair(node: impl Fn() -> Node) -> (Node, Node, EndPoint) {
    let (listener, connector) = (node(), node());
    let at = listener.listen().await;
    connector.connect(&at).await.unwrap();
    listener.transport_to(&connector).await;
    (listener, connector, at)
}

/// Sends `letters` in this order, waiting where the link is full, as a Block publisher does. Best effort, which zenoh
/// drops instead, is sent again then, for a second at most.
pub(crate) async fn send(transport: &TransportUnicast, letters: &[Letter]) {
    let (transport, letters) = (transport.clone(), letters.to_vec());
    let sending = tokio::task::spawn_blocking(move || {
        for letter in letters {
            let mut sent = transport.schedule(letter.message().as_mut());
            let is_droppable = letter.reliability == Reliability::BestEffort;
            for _ in 0..100 {
                if !is_droppable || !matches!(sent, Ok(false)) {
                    break;
                }
                std::thread::sleep(Duration::from_millis(10));
                sent = transport.schedule(letter.message().as_mut());
            }
            assert!(matches!(sent, Ok(true)), "{letter:?}: {sent:?}");
        }
    });
    soon("send", sending).await.unwrap();
}

/// Both nodes send `letters` to each other at once and receive all of them.
pub(crate) async fn exchange(a: &Node, b: &Node, letters: &[Letter]) {
    let (to_b, to_a) = (a.transport_to(b).await, b.transport_to(a).await);
    tokio::join!(
        send(&to_b, letters),
        send(&to_a, letters),
        a.receives(letters),
        b.receives(letters)
    );
}

/// How many links `transport` has, as applications count them.
pub(crate) fn joints(transport: &TransportUnicast) -> usize {
    transport.get_links().unwrap_or_default().len()
}
