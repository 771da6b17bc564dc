// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Do messages of all sizes and priorities arrive whole, in every mode of the transport?

use zenoh_protocol::core::{Priority, Reliability};

use crate::harness::{exchange, pair, Letter, Node};

const PRIORITIES: [Priority; 8] = [
    Priority::Control,
    Priority::RealTime,
    Priority::InteractiveHigh,
    Priority::InteractiveLow,
    Priority::DataHigh,
    Priority::Data,
    Priority::DataLow,
    Priority::Background,
];

fn universal() -> Node {
    Node::new()
}

fn without_qos() -> Node {
    Node::with(|unicast| unicast.qos(false))
}

fn compressing() -> Node {
    Node::with(|unicast| unicast.compression(true))
}

/// Made by a program, and not from a file: no link hears of it beforehand.
fn low_latency() -> Node {
    Node::with(|unicast| unicast.lowlatency(true).qos(false))
}

fn low_latency_compressing() -> Node {
    Node::with(|unicast| unicast.lowlatency(true).qos(false).compression(true))
}

async fn sizes(node: impl Fn() -> Node, sizes: &[usize]) {
    let (listener, connector, _) = pair(node).await;
    let letters = sizes.iter().enumerate().map(|(i, size)| Letter::new(i as u32, *size));
    exchange(&listener, &connector, &letters.collect::<Vec<_>>()).await;
}

/// Around every border: nothing, a byte, a packet, a batch, and back to small.
const SMALL: [usize; 12] =
    [4, 5, 100, 1_400, 1_500, 9_000, 32_768, 65_000, 65_535, 65_536, 131_072, 4];

#[tokio::test(flavor = "multi_thread")]
async fn small_sizes() {
    sizes(universal, &SMALL).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn small_sizes_without_qos() {
    sizes(without_qos, &SMALL).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_megabyte() {
    sizes(universal, &[1_000_000; 10]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_megabytes() {
    sizes(universal, &[10_000_000, 10_000_000]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn compression() {
    sizes(compressing, &SMALL).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_megabyte_with_compression() {
    sizes(compressing, &[1_000_000; 5]).await;
}

/// The low-latency transport does not cut messages: what fits a batch is its limit.
const ONE_BATCH: [usize; 6] = [4, 100, 1_400, 9_000, 32_768, 40_000];

#[tokio::test(flavor = "multi_thread")]
async fn lowlatency() {
    sizes(low_latency, &ONE_BATCH).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lowlatency_with_compression() {
    sizes(low_latency_compressing, &ONE_BATCH).await;
}

/// Many small messages: batching on and off the link must not lose or double any.
#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_small_ones() {
    let (listener, connector, _) = pair(universal).await;
    exchange(&listener, &connector, &Letter::series(10_000, 64)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_eight_priorities() {
    all_priorities(universal, 1_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_eight_priorities_in_pieces() {
    all_priorities(universal, 200_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_eight_priorities_compressed() {
    all_priorities(compressing, 1_000).await;
}

async fn all_priorities(node: impl Fn() -> Node, size: usize) {
    let (listener, connector, _) = pair(node).await;
    let letters: Vec<_> = (0..20)
        .map(|number| Letter::new(number, size))
        .flat_map(|letter| PRIORITIES.map(|priority| Letter { priority, ..letter }))
        .collect();
    exchange(&listener, &connector, &letters).await;
}

/// On a link without loss and with few letters in flight, best effort is good enough for all.
#[tokio::test(flavor = "multi_thread")]
async fn best_effort_beside_reliable() {
    both_reliabilities(universal, 1_000, 20).await;
}

/// So many small ones that batches hold letters of both kinds.
#[tokio::test(flavor = "multi_thread")]
async fn best_effort_beside_reliable_in_one_batch() {
    both_reliabilities(universal, 64, 1_000).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn best_effort_beside_reliable_without_qos() {
    both_reliabilities(without_qos, 1_000, 100).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn best_effort_beside_reliable_compressed() {
    both_reliabilities(compressing, 1_000, 100).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn best_effort_beside_reliable_in_pieces() {
    both_reliabilities(universal, 100_000, 10).await;
}

async fn both_reliabilities(node: impl Fn() -> Node, size: usize, count: u32) {
    let (listener, connector, _) = pair(node).await;
    let of_both = |letter| {
        [Reliability::Reliable, Reliability::BestEffort]
            .map(|reliability| Letter { reliability, ..letter })
    };
    let letters: Vec<_> = Letter::series(count, size).into_iter().flat_map(of_both).collect();
    exchange(&listener, &connector, &letters).await;
}
