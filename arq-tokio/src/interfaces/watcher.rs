// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The one watcher of the process: a thread, so that it outlives any runtime and blocks none.

use std::{io, sync::Arc, thread, time::Duration};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::{list, system::Changes, Interfaces};

/// Changes come in groups: an interface that comes up has an address a moment later.
const SETTLES_WITHIN: Duration = Duration::from_millis(50);
/// How often the list is read where the kernel does not say that it has changed.
const LOOKS_EACH: Duration = Duration::from_secs(1);
/// How often it is read although the kernel has not said so, and whether anybody is left to be told.
const LOOKS_AT_LEAST_EACH: Duration = Duration::from_secs(10);

static WATCHER: Mutex<Option<Arc<watch::Sender<Arc<Interfaces>>>>> = Mutex::new(None);

/// The interfaces of this host, from now on.
///
/// # Errors
/// What the system answers: they cannot be listed, or there can be no other thread.
pub(crate) fn watch() -> io::Result<watch::Receiver<Arc<Interfaces>>> {
    let mut watcher = WATCHER.lock();
    let now = Arc::new(list()?);
    if let Some(sender) = &*watcher {
        publish(sender, now);
        return Ok(sender.subscribe());
    }
    // Before the list is read again, so that no change is missed.
    let changes = Changes::new();
    if let Err(error) = &changes {
        tracing::info!(%error, "the kernel does not tell of network interfaces: they are listed once a second");
    }
    let (sender, receiver) = watch::channel(now);
    let sender = Arc::new(sender);
    let told = sender.clone();
    let follow = move || follow(&told, changes.ok());
    thread::Builder::new().name("arq-interfaces".to_owned()).spawn(follow)?;
    *watcher = Some(sender);
    Ok(receiver)
}

fn publish(sender: &watch::Sender<Arc<Interfaces>>, now: Arc<Interfaces>) {
    sender.send_if_modified(|known| {
        let is_news = *known != now;
        if is_news {
            *known = now;
        }
        is_news
    });
}

/// Tells of changes until nobody wants to know.
fn follow(sender: &watch::Sender<Arc<Interfaces>>, changes: Option<Changes>) {
    loop {
        // The first of a group is told of at once, as an interface that goes down must be; the others together.
        match list() {
            Ok(interfaces) => publish(sender, Arc::new(interfaces)),
            Err(error) => tracing::debug!(%error, "the network interfaces cannot be listed"),
        }
        thread::sleep(SETTLES_WITHIN);
        let told = changes.as_ref().is_some_and(|changes| {
            let waited = changes.wait(LOOKS_AT_LEAST_EACH);
            changes.drain();
            waited.is_ok()
        });
        if !told {
            thread::sleep(LOOKS_EACH);
        }
        let mut watcher = WATCHER.lock();
        if sender.receiver_count() == 0 {
            *watcher = None;
            return;
        }
    }
}
