// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How does the page reach the browser, and its sliders the radio?
//!
//! | | |
//! |---|---|
//! | `GET /`, `/page.css`, `/page.js` | the page, compiled into the program |
//! | `GET /api/town` | what does not change ([`TownMap`]) |
//! | `GET /api/views` | a [`View`](super::View) ten times a second, as server-sent events |
//! | `POST /api/radio` | what the sliders set ([`Impairment`]) |

use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::thread::JoinHandle;

use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{HeaderValue, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::sync::watch;
use tokio_stream::wrappers::WatchStream;
use tokio_stream::StreamExt;

use super::director::Controls;
use super::stage::OWN;
use super::view::TownMap;
use crate::v2v::radio::Impairment;

/// What requests need.
#[derive(Clone)]
pub(super) struct Shared {
    town: String,
    views: watch::Receiver<String>,
    controls: Controls,
}

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// The most that a request may say, bytes.
const MOST_BYTES: usize = 4_096;
/// Nothing from elsewhere: the page works without any network.
const POLICY: HeaderValue = HeaderValue::from_static("default-src 'self'; img-src 'self' data:");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

impl Shared {
    pub(super) fn new(controls: Controls, views: watch::Receiver<String>) -> io::Result<Self> {
        Ok(Self { town: serde_json::to_string(&TownMap::new(OWN))?, views, controls })
    }
}

/// Serves the page in a thread of its own, until there are no more views.
pub(super) fn start(listener: TcpListener, shared: Shared) -> io::Result<JoinHandle<()>> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let serve = move || {
        runtime.block_on(async move {
            let mut views = shared.views.clone();
            match tokio::net::TcpListener::from_std(listener) {
                Ok(listener) => drop(tokio::spawn(accept(listener, shared))),
                Err(e) => eprintln!("the page cannot be served: {e}"),
            }
            while views.changed().await.is_ok() {}
        });
    };
    std::thread::Builder::new().name("page".to_owned()).spawn(serve)
}

async fn accept(listener: tokio::net::TcpListener, shared: Shared) {
    loop {
        // One that is gone again, or a lack of descriptors: the next one may do better.
        let Ok((stream, _)) = listener.accept().await else {
            tokio::task::yield_now().await;
            continue;
        };
        let shared = shared.clone();
        let answer = service_fn(move |request| answer(request, shared.clone()));
        let connection = hyper::server::conn::http1::Builder::new();
        tokio::spawn(connection.serve_connection(TokioIo::new(stream), answer));
    }
}

async fn answer(request: Request<Incoming>, shared: Shared) -> Result<Response<Body>, Infallible> {
    let path = request.uri().path().to_owned();
    let answer = match (request.method(), path.as_str()) {
        (&Method::GET, "/") => file("text/html; charset=utf-8", include_str!("page/index.html")),
        (&Method::GET, "/page.css") => {
            file("text/css; charset=utf-8", include_str!("page/page.css"))
        }
        (&Method::GET, "/page.js") => {
            file("text/javascript; charset=utf-8", include_str!("page/page.js"))
        }
        (&Method::GET, "/api/town") => json(StatusCode::OK, shared.town),
        (&Method::GET, "/api/views") => views(shared.views),
        (&Method::POST, "/api/radio") => radio(request, &shared.controls).await,
        _ => refuse(StatusCode::NOT_FOUND, "there is nothing here; the page is at /"),
    };
    Ok(answer)
}

fn file(kind: &'static str, text: &'static str) -> Response<Body> {
    let mut answer = Response::new(whole(text));
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(CONTENT_SECURITY_POLICY, POLICY);
    answer
}

/// Views as they are made; a browser that is slow misses some.
fn views(views: watch::Receiver<String>) -> Response<Body> {
    let views = WatchStream::new(views).filter(|view| !view.is_empty());
    let events = views.map(|view| Ok(Frame::data(Bytes::from(format!("data: {view}\n\n")))));
    let mut answer = Response::new(StreamBody::new(events).boxed_unsync());
    let kind = HeaderValue::from_static("text/event-stream");
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}

async fn radio(request: Request<Incoming>, controls: &Controls) -> Response<Body> {
    let Ok(body) = Limited::new(request.into_body(), MOST_BYTES).collect().await else {
        return refuse(StatusCode::PAYLOAD_TOO_LARGE, "too long");
    };
    let body = body.to_bytes();
    let asked = serde_json::from_slice::<Impairment>(&body).map_err(|e| e.to_string());
    match asked.and_then(|asked| asked.check().map_err(|e| e.to_string())) {
        Ok(added) => {
            controls.set(added);
            json(StatusCode::OK, body)
        }
        Err(error) => refuse(StatusCode::BAD_REQUEST, &error),
    }
}

fn refuse(status: StatusCode, error: &str) -> Response<Body> {
    json(status, serde_json::json!({ "error": error }).to_string())
}

fn json(status: StatusCode, body: impl Into<Bytes>) -> Response<Body> {
    let mut answer = Response::new(whole(body));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, JSON);
    answer
}

fn whole(body: impl Into<Bytes>) -> Body {
    Full::new(body.into()).boxed_unsync()
}
