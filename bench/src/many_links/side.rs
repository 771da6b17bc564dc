// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What does one of the two processes do when it is told?

use std::collections::BTreeMap;
use std::fs::{read_dir, read_to_string};
use std::io::{stdin, stdout, BufRead, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::resource::{getrlimit, setrlimit, Resource};
use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};
use zenoh_link_arq::LinkManagerUnicastArq;
use zenoh_link_commons::{LinkManagerUnicastTrait, LinkUnicast};
use zenoh_protocol::core::Priority;

use super::words::{Count, Order, Role, Word};
use crate::delivery::{after, Ledger};
use crate::traffic::{be_punctual, now_ns, process_cpu_s, sleep_until};

/// Messages over each idle link before it rests, and their length: ten datagrams each.
const CALLS: usize = 5;
const CALL_BYTES: usize = 10_000;
/// Begins each message: none of zenoh's own begins so.
const MAGIC: u8 = 0xaa;
/// Magic, number, and when it was meant to leave.
const STAMP_BYTES: usize = 17;
/// From the order to the first message.
const LEAD_NS: u64 = 50_000_000;
/// Nothing more will come when nothing has come for so long.
const SILENCE: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(20);
const FAILED: &str = "the words of the other process cannot be read";

/// Does what the lines of standard input say, until they end.
pub fn serve(role: Role) {
    let word = match Side::new(role) {
        Ok(mut side) => {
            for line in stdin().lock().lines().map_while(Result::ok) {
                let word = serde_json::from_str(&line).map_err(|e| format!("{FAILED}: {e}"));
                say(&word.and_then(|order| side.obey(order)).unwrap_or_else(Word::Failed));
            }
            return;
        }
        Err(reason) => Word::Failed(reason),
    };
    say(&word);
}

fn say(word: &Word) {
    // Whoever does not listen any more needs no words.
    if let Ok(line) = serde_json::to_string(word) {
        let mut out = stdout().lock();
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    }
}

/// A link manager and its links, in the order in which they were opened.
struct Side {
    runtime: Runtime,
    manager: LinkManagerUnicastArq,
    accepted: flume::Receiver<LinkUnicast>,
    links: Vec<LinkUnicast>,
    heard: Arc<Mutex<Ledger>>,
}

type Answer = Result<Word, String>;

fn words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Side {
    fn new(role: Role) -> Result<Self, String> {
        // The side that connects has a socket and a timer for each link.
        let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).map_err(words)?;
        setrlimit(Resource::RLIMIT_NOFILE, most, most).map_err(words)?;
        let threads = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name(role.name())
            .enable_all()
            .build();
        let (sender, accepted) = flume::unbounded();
        Ok(Self {
            runtime: threads.map_err(words)?,
            manager: LinkManagerUnicastArq::new(sender),
            accepted,
            links: Vec::new(),
            heard: Arc::default(),
        })
    }

    fn obey(&mut self, order: Order) -> Answer {
        match order {
            Order::Listen { keys } => self.listen(&keys),
            Order::Open { endpoint, links } => self.open(&endpoint, links),
            Order::Accept { from } => self.accept(&from),
            Order::Call { first } => self.call(first),
            Order::Answer { first } => self.answer(first),
            Order::Hear { links } => self.hear(links),
            Order::Send { links, messages, rate_hz, bytes } => {
                self.send(links, messages, rate_hz, bytes)
            }
            Order::Heard { messages } => Ok(self.heard(messages)),
            Order::Count => Ok(Word::Counted(count())),
        }
    }

    fn listen(&self, keys: &str) -> Answer {
        let endpoint = format!("arq/127.0.0.1:0{keys}").parse().map_err(words)?;
        let locator = self.runtime.block_on(self.manager.new_listener(endpoint)).map_err(words)?;
        Ok(Word::Endpoint(locator.to_string()))
    }

    fn open(&mut self, endpoint: &str, links: u64) -> Answer {
        let mut opened = Vec::new();
        for _ in 0..links {
            let endpoint = endpoint.parse().map_err(words)?;
            let link = self.runtime.block_on(self.manager.new_link(endpoint)).map_err(words)?;
            opened.push(link.get_src().address().to_string());
            self.links.push(link);
        }
        Ok(Word::Opened(opened))
    }

    /// On a busy machine links are accepted in another order than that in which they were opened.
    fn accept(&mut self, from: &[String]) -> Answer {
        let mut accepted = BTreeMap::new();
        while accepted.len() < from.len() {
            let link = self.accepted.recv_timeout(SILENCE).map_err(words)?;
            accepted.insert(link.get_dst().address().to_string(), link);
        }
        for address in from {
            let link = accepted.remove(address);
            self.links.push(link.ok_or_else(|| format!("no link came from {address}"))?);
        }
        Ok(Word::Done)
    }

    /// The links from `first` on.
    fn from(&self, first: u64) -> impl Iterator<Item = &LinkUnicast> + '_ {
        self.links.iter().skip(first as usize)
    }

    fn call(&self, first: u64) -> Answer {
        let mut message = vec![MAGIC; CALL_BYTES];
        for link in self.from(first) {
            for _ in 0..CALLS {
                self.runtime
                    .block_on(async {
                        link.write_all(&message, Some(Priority::Data)).await?;
                        link.read(&mut message, Some(Priority::Data)).await
                    })
                    .map_err(words)?;
            }
        }
        Ok(Word::Done)
    }

    fn answer(&self, first: u64) -> Answer {
        let mut message = vec![0; CALL_BYTES];
        for link in self.from(first) {
            for _ in 0..CALLS {
                self.runtime
                    .block_on(async {
                        link.read(&mut message, Some(Priority::Data)).await?;
                        link.write_all(&message, Some(Priority::Data)).await
                    })
                    .map_err(words)?;
            }
        }
        Ok(Word::Done)
    }

    /// From now on messages of the first links go into a new ledger.
    fn hear(&mut self, links: u64) -> Answer {
        let is_first = Arc::strong_count(&self.heard) == 1;
        *self.heard.lock() = Ledger::new(now_ns());
        if !is_first {
            return Ok(Word::Done);
        }
        for link in self.links.iter().take(links as usize) {
            let (link, heard) = (link.clone(), self.heard.clone());
            self.runtime.spawn(async move {
                let mut buffer = vec![0; CALL_BYTES];
                while let Ok(read) = link.read(&mut buffer, Some(Priority::Data)).await {
                    note(&heard, &buffer[..read]);
                }
            });
        }
        Ok(Word::Done)
    }

    /// Hands over each message when it is due. A link that does not take it holds up the next, and that counts.
    fn send(&self, links: u64, messages: u64, rate_hz: f64, bytes: usize) -> Answer {
        let links: Vec<_> = self.links.iter().take(links as usize).collect();
        be_punctual();
        let first_ns = now_ns() + LEAD_NS;
        for (number, link) in (0..messages).zip(links.iter().cycle()) {
            let due_ns = first_ns + after(number, rate_hz);
            sleep_until(due_ns);
            let message = stamped(number, due_ns, bytes);
            let written = self.runtime.block_on(link.write_all(&message, Some(Priority::Data)));
            written.map_err(words)?;
        }
        Ok(Word::Sent(first_ns))
    }

    fn heard(&self, messages: u64) -> Word {
        let ledger = || self.heard.lock().clone();
        let (mut last, mut since) = (0, Instant::now());
        while last < messages && since.elapsed() < SILENCE {
            std::thread::sleep(LOOK_AGAIN);
            let delivered = ledger().delivered;
            if delivered > last {
                (last, since) = (delivered, Instant::now());
            }
        }
        Word::Heard(Box::new(ledger()))
    }
}

fn stamped(number: u64, due_ns: u64, bytes: usize) -> Vec<u8> {
    let mut message = vec![0; bytes.max(STAMP_BYTES)];
    message[0] = MAGIC;
    message[1..9].copy_from_slice(&number.to_le_bytes());
    message[9..STAMP_BYTES].copy_from_slice(&due_ns.to_le_bytes());
    message
}

fn note(heard: &Mutex<Ledger>, message: &[u8]) {
    let arrived_ns = now_ns();
    let Some([MAGIC, stamp @ ..]) = message.first_chunk::<STAMP_BYTES>() else { return };
    let (number, due_ns) = stamp.split_at(8);
    let value = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).unwrap_or(u64::MAX);
    let mut ledger = heard.lock();
    // A number that cannot be is not counted as delivered.
    let _ = ledger.note(value(number), value(due_ns), arrived_ns, message.len());
}

fn count() -> Count {
    let stats = zenoh_link_arq::statistics();
    let sum = |of: fn(&zenoh_link_arq::AssociationStats) -> u64| stats.iter().map(of).sum();
    let status = read_to_string("/proc/self/status").unwrap_or_default();
    Count {
        resident_bytes: 1_024 * field(&status, "VmRSS:"),
        cpu_s: process_cpu_s(),
        sleeps: threads().map(|status| field(&status, "voluntary_ctxt_switches:")).sum(),
        links: stats.len() as u64,
        packets_sent: sum(|link| link.stats.packets_sent),
        ptos: sum(|link| link.stats.ptos),
        retransmitted: sum(|link| link.stats.chunks_retransmitted + link.stats.packets_lost),
    }
}

/// The status of every thread of this process.
fn threads() -> impl Iterator<Item = String> {
    let threads = read_dir("/proc/self/task").into_iter().flatten().flatten();
    threads.filter_map(|thread| read_to_string(thread.path().join("status")).ok())
}

/// A number of a status; 0 where the kernel does not tell.
fn field(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_noted_by_its_stamp_and_nothing_else_is() {
        let heard = Mutex::new(Ledger::new(0));
        note(&heard, &stamped(3, 7, 100));
        note(&heard, &stamped(3, 7, 0));
        note(&heard, b"something else, that is long enough");
        note(&heard, b"short");
        let ledger = heard.into_inner();
        assert_eq!((ledger.delivered, ledger.duplicates), (1, 1));
    }

    #[test]
    fn a_process_counts_its_memory_and_its_threads_sleep() {
        let before = count();
        std::thread::sleep(Duration::from_millis(1));
        let after = count();
        assert!(before.resident_bytes > 1 << 20, "{before:?}");
        assert!(after.sleeps > before.sleeps, "{before:?}, {after:?}");
        assert_eq!(field("VmRSS:\t  12 kB\nThreads:\t3\n", "Threads:"), 3);
    }
}
