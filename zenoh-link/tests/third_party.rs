// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Can a program bring a link of its own, without a change to zenoh or to this crate?
//!
//! `toy/name` joins two sessions of one process through channels. It is as small as a link can be,
//! so this file is also where to look when writing one.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up has failed")]

mod support;

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex},
};

use async_trait::async_trait;
use support::{carry_put, connect};
use tokio::sync::{mpsc, Mutex as AsyncMutex};
use zenoh_link::{
    commons::LocatorInspector, register, EndPoint, LinkAuthId, LinkDescriptor, LinkKind,
    LinkManagerUnicastTrait, LinkUnicast, LinkUnicastTrait, Locator, NewLinkChannelSender,
};
use zenoh_protocol::{
    core::{Priority, Reliability},
    transport::BatchSize,
};
use zenoh_result::{bail, zerror, ZResult};

#[tokio::test(flavor = "multi_thread")]
async fn a_registered_link_carries_a_session() {
    assert!(LinkKind::try_from(&locator("toy/harbour")).is_err());
    let kind = register(LinkDescriptor::new::<ToyInspector>().unicast(ToyManager)).unwrap();

    assert_eq!(LinkKind::try_from(&locator("toy/harbour")).unwrap(), kind);
    assert!(zenoh_link::ALL_SUPPORTED_LINKS.contains(&kind));
    carry_put("toy/harbour", &[]).await;
    carry_put("toy/pier", &[("transport/link/protocols", "[\"toy\"]")]).await;

    let again = register(LinkDescriptor::new::<ToyInspector>().unicast(ToyManager));
    let error = again.unwrap_err().to_string();
    assert!(error.contains("toy"), "{error}");
}

#[test]
fn a_stock_links_place_is_taken() {
    let best_effort_tcp = LinkDescriptor::new::<zenoh_link::tcp::TcpLocatorInspector>()
        .only(Reliability::BestEffort)
        .unicast(ToyManager);
    let error = register(best_effort_tcp).unwrap_err().to_string();
    assert!(error.contains("tcp is taken"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_protocol_is_named_beside_the_known_ones() {
    let error = LinkKind::try_from(&locator("pigeon/loft")).unwrap_err().to_string();
    assert!(error.contains("pigeon") && error.contains("arq") && error.contains("tcp"), "{error}");
    let error = LinkKind::try_from(&locator("vsock/1:2")).unwrap_err().to_string();
    assert!(error.contains("transport_vsock"), "{error}");
    assert!(connect("pigeon/loft", &[]).await.is_err());
}

fn locator(text: &str) -> Locator {
    text.parse().unwrap()
}

/// Who listens where: the whole "network" of the toy link.
static LISTENERS: LazyLock<Mutex<HashMap<String, NewLinkChannelSender>>> =
    LazyLock::new(Mutex::default);

#[derive(Default)]
struct ToyInspector;

#[async_trait]
impl LocatorInspector for ToyInspector {
    fn protocol(&self) -> &str {
        "toy"
    }
    async fn is_multicast(&self, _locator: &Locator) -> ZResult<bool> {
        Ok(false)
    }
    fn is_reliable(&self, _locator: &Locator) -> ZResult<bool> {
        Ok(true)
    }
}

struct ToyManager(NewLinkChannelSender);

#[async_trait]
impl LinkManagerUnicastTrait for ToyManager {
    async fn new_link(&self, endpoint: EndPoint) -> ZResult<LinkUnicast> {
        let address = endpoint.address().to_string();
        let Some(listener) = LISTENERS.lock().unwrap().get(&address).cloned() else {
            bail!("Nobody listens on {endpoint}");
        };
        let (ours, theirs) = ToyLink::pair(endpoint.to_locator());
        listener.send(theirs)?;
        Ok(ours)
    }
    async fn new_listener(&self, endpoint: EndPoint) -> ZResult<Locator> {
        let address = endpoint.address().to_string();
        LISTENERS.lock().unwrap().insert(address, self.0.clone());
        Ok(endpoint.to_locator())
    }
    async fn del_listener(&self, endpoint: &EndPoint) -> ZResult<()> {
        LISTENERS.lock().unwrap().remove(endpoint.address().as_str());
        Ok(())
    }
    async fn get_listeners(&self) -> Vec<EndPoint> {
        self.get_locators().await.into_iter().map(EndPoint::from).collect()
    }
    async fn get_locators(&self) -> Vec<Locator> {
        let listeners = LISTENERS.lock().unwrap();
        let ours = listeners.iter().filter(|(_, sender)| sender.same_channel(&self.0));
        ours.map(|(address, _)| locator(&format!("toy/{address}"))).collect()
    }
    async fn get_locators_noloopback(&self) -> Vec<Locator> {
        self.get_locators().await
    }
}

/// One end of a pair of channels; one message is one batch of zenoh.
struct ToyLink {
    src: Locator,
    dst: Locator,
    outgoing: Mutex<Option<mpsc::Sender<Vec<u8>>>>,
    incoming: AsyncMutex<mpsc::Receiver<Vec<u8>>>,
}

impl ToyLink {
    fn pair(listener: Locator) -> (LinkUnicast, LinkUnicast) {
        let caller = locator("toy/caller");
        let (to_listener, from_caller) = mpsc::channel(16);
        let (to_caller, from_listener) = mpsc::channel(16);
        (
            Self::link(&caller, &listener, to_listener, from_listener),
            Self::link(&listener, &caller, to_caller, from_caller),
        )
    }

    fn link(
        src: &Locator,
        dst: &Locator,
        outgoing: mpsc::Sender<Vec<u8>>,
        incoming: mpsc::Receiver<Vec<u8>>,
    ) -> LinkUnicast {
        let link: Arc<dyn LinkUnicastTrait> = Arc::new(Self {
            src: src.clone(),
            dst: dst.clone(),
            outgoing: Mutex::new(Some(outgoing)),
            incoming: AsyncMutex::new(incoming),
        });
        LinkUnicast::from(link)
    }
}

#[async_trait]
impl LinkUnicastTrait for ToyLink {
    fn get_mtu(&self) -> BatchSize {
        BatchSize::MAX
    }
    fn get_src(&self) -> &Locator {
        &self.src
    }
    fn get_dst(&self) -> &Locator {
        &self.dst
    }
    fn is_reliable(&self) -> bool {
        true
    }
    fn is_streamed(&self) -> bool {
        false
    }
    fn get_interface_names(&self) -> Vec<String> {
        Vec::new()
    }
    fn get_auth_id(&self) -> &LinkAuthId {
        // The list is closed: a link without credentials borrows the name of one that has none.
        &LinkAuthId::Udp
    }
    async fn write(&self, buffer: &[u8], priority: Option<Priority>) -> ZResult<usize> {
        self.write_all(buffer, priority).await.map(|()| buffer.len())
    }
    async fn write_all(&self, buffer: &[u8], _priority: Option<Priority>) -> ZResult<()> {
        let outgoing = self.outgoing.lock().unwrap().clone();
        let outgoing = outgoing.ok_or_else(|| zerror!("{} is closed", self.dst))?;
        Ok(outgoing.send(buffer.to_vec()).await?)
    }
    async fn read(&self, buffer: &mut [u8], _priority: Option<Priority>) -> ZResult<usize> {
        let message = self.incoming.lock().await.recv().await;
        let message = message.ok_or_else(|| zerror!("{} has closed", self.dst))?;
        buffer[..message.len()].copy_from_slice(&message);
        Ok(message.len())
    }
    async fn read_exact(&self, buffer: &mut [u8], priority: Option<Priority>) -> ZResult<()> {
        self.read(buffer, priority).await.map(|_| ())
    }
    async fn close(&self) -> ZResult<()> {
        self.outgoing.lock().unwrap().take();
        Ok(())
    }
}
