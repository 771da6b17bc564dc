// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The handle of a lane, in virtual time: what it takes, what it gives, and that it keeps its connection open.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::{future::poll_fn, net::SocketAddr, pin::Pin, time::Duration};

use arq_tokio::{
    socket::memory::MemoryNetwork, Config, Connection, ConnectionError, Endpoint, EndpointConfig,
    Lane, LaneId, Reliability, SendError, ValidConfig,
};
use bytes::Bytes;
use futures_core::Stream;
use futures_sink::Sink;
use tokio::{runtime::Handle, time::timeout};

const SERVER: ([u8; 4], u16) = ([10, 0, 0, 1], 7447);
const CLIENT: ([u8; 4], u16) = ([10, 0, 0, 2], 1);
const SECOND: Duration = Duration::from_secs(1);
const LONG: usize = 60_000;
const LANE: LaneId = LaneId::new(5, Reliability::Reliable).unwrap();

async fn pair() -> (Connection, Connection) {
    let network = MemoryNetwork::lossless();
    // Virtual time runs on the runtime's timer.
    let config = Config { timer_granularity: Duration::from_millis(1), ..Config::default() };
    let config = config.validate().unwrap();
    let endpoint = |address: ([u8; 4], u16), accept: Option<ValidConfig>| {
        let socket = network.bind(SocketAddr::from(address)).unwrap();
        let config = EndpointConfig::new(accept);
        Endpoint::over(Box::new(socket), config, &Handle::current()).unwrap()
    };
    let server = endpoint(SERVER, Some(config.clone()));
    let client = endpoint(CLIENT, None);
    let near = client.connect(SERVER.into(), config).await.unwrap();
    (near, server.accept().await.unwrap())
}

async fn lanes() -> (Lane, Lane) {
    let (near, far) = pair().await;
    (near.lane(LANE), far.lane(LANE))
}

async fn next(lane: &mut Lane) -> Option<Result<Bytes, ConnectionError>> {
    poll_fn(|cx| Pin::new(&mut *lane).poll_next(cx)).await
}

async fn ready(lane: &mut Lane) -> Result<(), SendError> {
    poll_fn(|cx| Pin::new(&mut *lane).poll_ready(cx)).await
}

async fn flush(lane: &mut Lane) -> Result<(), SendError> {
    poll_fn(|cx| Pin::new(&mut *lane).poll_flush(cx)).await
}

#[tokio::test(start_paused = true)]
async fn a_connection_stays_open_while_there_is_a_handle_of_it() {
    let (near, far) = lanes().await;
    let connection = near.connection().clone();
    let another = near.clone();
    drop((near, connection));
    assert!(timeout(60 * SECOND, far.connection().closed()).await.is_err(), "one is left");
    another.send("last words").await.unwrap();
    drop(another);
    assert_eq!(far.recv().await.unwrap(), "last words");
    let end = timeout(SECOND, far.recv()).await.unwrap().unwrap_err();
    assert!(matches!(end, ConnectionError::PeerClosed(_)), "{end}");
}

#[tokio::test(start_paused = true)]
async fn a_full_lane_gives_the_message_back_and_takes_it_once_it_was_read() {
    let (near, far) = lanes().await;
    assert_eq!(far.try_recv(), None);
    let message = Bytes::from(vec![7; LONG]);
    let mut taken = 0;
    let full = loop {
        match near.try_send(message.clone()) {
            Ok(()) => taken += 1,
            Err(error) => break error,
        }
        assert!(taken < 1_000, "it takes and takes");
        near.connection().delivered().await;
    };
    assert_eq!(full, SendError::Full(message.clone()));
    let waiting = near.send(message.clone());
    let reading = async {
        for _ in 0..=taken {
            assert_eq!(far.recv().await.unwrap(), message);
        }
    };
    let (sent, ()) = timeout(60 * SECOND, async { tokio::join!(waiting, reading) }).await.unwrap();
    sent.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_no_lane_takes_is_told() {
    let (near, _far) = lanes().await;
    assert_eq!(near.try_send(Bytes::new()), Err(SendError::Empty));
    let max = arq_tokio::MAX_MESSAGE_BYTES;
    let too_large = SendError::TooLarge { len: max + 1, max };
    assert_eq!(near.send(vec![0; max + 1]).await, Err(too_large));
    near.connection().close("enough");
    let closed = SendError::Closed(ConnectionError::LocallyClosed);
    assert_eq!(near.try_send("late"), Err(closed.clone()));
    assert_eq!(near.send("late").await, Err(closed));
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_after_it_has_said_why() {
    let (near, mut far) = lanes().await;
    for message in ["one", "two"] {
        near.send(message).await.unwrap();
    }
    near.connection().finish().await;
    assert_eq!(next(&mut far).await.unwrap().unwrap(), "one");
    assert_eq!(next(&mut far).await.unwrap().unwrap(), "two");
    let end = next(&mut far).await.unwrap().unwrap_err();
    assert!(matches!(end, ConnectionError::PeerClosed(_)), "{end}");
    assert_eq!(next(&mut far).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_sink_waits_where_the_lane_is_full_and_loses_nothing() {
    const COUNT: u8 = 100;
    let (mut near, mut far) = lanes().await;
    let message = |number| Bytes::from(vec![number; LONG]);
    let writer = tokio::spawn(async move {
        for number in 0..COUNT {
            ready(&mut near).await.unwrap();
            Pin::new(&mut near).start_send(message(number)).unwrap();
        }
        flush(&mut near).await.unwrap();
        near
    });
    tokio::time::sleep(SECOND).await;
    assert!(!writer.is_finished(), "nobody reads");
    for number in 0..COUNT {
        assert_eq!(next(&mut far).await.unwrap().unwrap(), message(number));
    }
    let mut near = timeout(SECOND, writer).await.unwrap().unwrap();
    near.connection().close("enough");
    Pin::new(&mut near).start_send(message(0)).unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_is_not_ready_takes_nothing() {
    let (mut near, _far) = lanes().await;
    let mut refused = None;
    for number in 0..=u8::MAX {
        let message = Bytes::from(vec![number; LONG]);
        if let Err(error) = Pin::new(&mut near).start_send(message.clone()) {
            refused = Some((error, message));
            break;
        }
    }
    let (error, message) = refused.expect("nobody reads");
    assert_eq!(error, SendError::Full(message));
}
