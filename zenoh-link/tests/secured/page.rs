// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The commands of `docs/secured-links.md` make what `configs/secured-*.json5` want.

use std::{fs, path::Path, process::Command};

use zenoh::{Config, Wait};

use crate::{assert_carries, chosen_port, peer_of};

const MARK: &str = "<!-- run:secured-links -->\n```sh\n";

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The file's configuration with its certificates in `folder`.
fn config(name: &str, folder: &Path) -> Config {
    let text = fs::read_to_string(root().join("configs").join(name)).unwrap();
    assert!(text.contains("\"/etc/zenoh/ca.pem\""), "{name} has an authority");
    let text = text.replace("/etc/zenoh", folder.to_str().unwrap());
    let mut config = Config::from_json5(&text).unwrap();
    config.insert_json5("scouting/multicast/enabled", "false").unwrap();
    config
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_page_make_a_fleet() {
    let page = fs::read_to_string(root().join("docs/secured-links.md")).unwrap();
    let commands = page.split_once(MARK).unwrap().1.split_once("```").unwrap().0;
    let folder = tempfile::tempdir().unwrap();
    let shell = Command::new("sh").args(["-e", "-c", commands]).current_dir(&folder).output();
    let made = shell.unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));

    let mut router = config("secured-router.json5", folder.path());
    router.insert_json5("listen/endpoints", r#"["arq/127.0.0.1:0"]"#).unwrap();
    let router = zenoh::open(router).await.unwrap();
    let mut vehicle = config("secured-vehicle.json5", folder.path());
    let endpoint = vehicle.get_json("connect/endpoints").unwrap();
    let here = chosen_port("arq/127.0.0.1:0", &router).await;
    let endpoint = endpoint.replace("arq/192.0.2.7:7447", &here);
    assert!(endpoint.contains(&here) && endpoint.contains("server_name=router.fleet"));
    vehicle.insert_json5("connect/endpoints", &endpoint).unwrap();
    let vehicle = zenoh::open(vehicle).await.unwrap();

    let sessions = [router, vehicle];
    assert_carries(&sessions).await;
    assert_eq!(peer_of(&sessions[0]).await.as_deref(), Some("vehicle-7"));
    assert_eq!(peer_of(&sessions[1]).await.as_deref(), Some("router.fleet"));
    for session in sessions {
        session.close().wait().unwrap();
    }
}
