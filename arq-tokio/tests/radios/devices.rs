// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! `paths=auto`: every device gets a path, whenever it appears, and nothing else does.
//!
//! A cable between namespaces is no device: the kernel alone makes it, so sysfs shows no `device` of it. What shows one is
//! hardware, or a simulator that few kernels have (netdevsim, mac80211_hwsim). So a folder takes the place of
//! `/sys/class/net` in the lab, and says of the cables what sysfs says of a network card. All else is the kernel's.

use std::sync::Arc;

use arq_tls::{Psks, ServerName, Tls};
use arq_tokio::{proto::session::Protection, Connect, Endpoint, EndpointConfig, SocketOptions};
use tokio::runtime::Handle;

use super::{
    config, hear, send,
    support::{answer, skipped, Cables, Role, SERVER},
    Session,
};

#[test]
fn devices_get_a_path_whenever_they_appear_and_nothing_else_does() {
    let Some(cables) = Cables::lay_or_skip("devices_get_a_path") else { return };
    cables.pose_as_devices(&["a", "b"]);
    let mut session = Session::begin(cables, "devices::role_hear", "devices::role_send");
    // The lab's `eth0` is up with an address, too.
    assert_eq!(session.ask("interfaces?"), "a b");
    session.cables.take_down("a");
    session.until("a=paused b=open");
    session.goes_on();
    session.cables.pose_as_device("c");
    session.cables.lay_cable("c");
    session.until("a=paused b=open c=open");
    assert_eq!(session.ask("interfaces?"), "a b c");
    // What comes now comes by the newcomer.
    session.cables.take_down("b");
    session.until("a=paused b=paused c=open");
    session.goes_on();
    session.cables.bring_up("a");
    session.until("a=open b=paused c=open");
    let heard = session.end();
    assert!(heard.is_in_time() && heard.messages > 100, "{heard:?}");
}

#[test]
fn what_the_kernel_alone_makes_is_no_device() {
    const TEST: &str = "what_the_kernel_alone_makes";
    let Some(cables) = Cables::lay_or_skip(TEST) else { return };
    let client = cables.client();
    // Sysfs shows the interfaces of the namespace that it was mounted in.
    if let Err(error) = client.run("mount", &["-t", "sysfs", "sysfs", "/sys"]) {
        return skipped(TEST, error);
    }
    let shown = client.run("ls", &["/sys/class/net"]).unwrap();
    assert_eq!(shown.split_whitespace().collect::<Vec<_>>(), ["a", "b", "eth0", "lo"]);
    let error = Role::in_host(client, "devices::role_find_none").answer();
    assert!(error.contains("no network device is up with an address"), "{error}");
}

/// One key for both sides.
fn psks() -> Psks {
    Psks::parse("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=").unwrap()
}

#[test]
#[ignore = "a role, which other tests start"]
fn role_hear() {
    let psks = psks();
    let tls = Tls::server(psks.server_config().unwrap(), Some(&psks));
    hear(EndpointConfig::new(config()).with_protection(Protection::Sealed(Arc::new(tls))));
}

#[test]
#[ignore = "a role, which other tests start"]
fn role_send() {
    send(async {
        let endpoint = over_all_devices();
        let connection = endpoint.connect(SERVER.parse().unwrap(), sealed()).await.unwrap();
        assert!(connection.peer_identity().is_some(), "it is sealed");
        (endpoint, connection)
    });
}

#[test]
#[ignore = "a role, which other tests start"]
fn role_find_none() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let endpoint = over_all_devices();
        let connected = endpoint.connect(SERVER.parse().unwrap(), sealed()).await;
        answer(connected.map_or_else(|error| error.to_string(), |_| "connected".to_owned()));
    });
}

fn over_all_devices() -> Endpoint {
    let (any, options) = ("0.0.0.0:0".parse().unwrap(), SocketOptions::default());
    let none = EndpointConfig::default();
    Endpoint::over_all_devices(any, &options, none, &Handle::current()).unwrap()
}

fn sealed() -> Connect {
    let psks = psks();
    let tls = Tls::client(psks.client_config().unwrap(), ServerName::Any, Some(&psks));
    Connect::sealed(config(), Arc::new(tls), "server")
}
