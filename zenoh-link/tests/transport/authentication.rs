// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Does zenoh's own authentication by user and password guard the link?

use tempfile::TempDir;
use zenoh_config::Config;
use zenoh_transport::TransportManager;

use crate::harness::{exchange, Letter, Node};

async fn router(users: &str) -> Node {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("users");
    std::fs::write(&file, users).unwrap();
    node("dictionary_file", &file.display().to_string(), "").await
}

async fn client(user: &str, password: &str) -> Node {
    node("user", user, password).await
}

/// A node configured as a user would, by `transport/auth/usrpwd`.
async fn node(key: &str, value: &str, password: &str) -> Node {
    let mut config = Config::default();
    let usrpwd = match password {
        "" => format!("{{{key}: {value:?}}}"),
        password => format!("{{{key}: {value:?}, password: {password:?}}}"),
    };
    config.insert_json5("transport/auth/usrpwd", &usrpwd).unwrap();
    let unicast = TransportManager::config_unicast().from_config(&config).await.unwrap();
    Node::build(|manager| manager.unicast(unicast))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_right_password_opens_and_the_wrong_one_does_not() {
    let router = router("alice:door\nbob:gate\n").await;
    let at = router.listen().await;

    let refused = [
        (client("alice", "gate").await, "another's password"),
        (client("carol", "door").await, "an unknown user"),
        (Node::new(), "no credentials"),
    ];
    for (node, why) in &refused {
        node.is_refused(&at, why).await;
    }
    router.alone().await;

    let (alice, bob) = (client("alice", "door").await, client("bob", "gate").await);
    alice.connect(&at).await.unwrap();
    let to_router = bob.connect(&at).await.unwrap();
    exchange(&router, &alice, &Letter::series(20, 1_000)).await;

    to_router.close().await.unwrap();
    bob.alone().await;
    router.without(&bob).await;
    bob.connect(&at).await.unwrap();
}
