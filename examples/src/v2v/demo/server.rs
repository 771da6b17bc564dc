// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! How does the page reach the browser, and its sliders the radio?
//!
//! | | |
//! |---|---|
//! | `GET /`, `/page.css`, `/page.js` | the page, compiled into the program |
//! | `GET /api/town` | what does not change ([`TownMap`]) |
//! | `GET /api/views` | a [`View`](super::View) ten times a second, as server-sent events |
//! | `POST /api/radio` | what sliders and switches set ([`Impairment`]) |
//!
//! Only the page itself may ask: not a page of another site that is open in the same browser, nor one whose name was
//! made to point here (DNS rebinding), unless the page is served to other machines anyway.

use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::header::{
    HeaderName, HeaderValue, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, ORIGIN,
};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::{watch, Semaphore};
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
    /// Whether the page is for this machine alone.
    is_local: bool,
}

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// The most that a request may say, bytes.
const MOST_BYTES: usize = 4_096;
/// Each open page holds one for its views, and opens a few more for a moment.
const MOST_CONNECTIONS: usize = 64;
/// Nothing from elsewhere: the page works without any network.
const POLICY: HeaderValue = HeaderValue::from_static("default-src 'self'; img-src 'self' data:");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

impl Shared {
    pub(super) fn new(
        controls: Controls,
        views: watch::Receiver<String>,
        radios: u8,
    ) -> io::Result<Self> {
        let town = serde_json::to_string(&TownMap::new(OWN, radios))?;
        Ok(Self { town, views, controls, is_local: true })
    }
}

/// Serves the page in a thread of its own, until there are no more views.
pub(super) fn start(listener: TcpListener, shared: Shared) -> io::Result<JoinHandle<()>> {
    listener.set_nonblocking(true)?;
    let shared = Shared { is_local: listener.local_addr()?.ip().is_loopback(), ..shared };
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
    let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let mut http = hyper::server::conn::http1::Builder::new();
    // With a timer, whoever asks for nothing is sent away after half a minute.
    http.timer(TokioTimer::new());
    // The semaphore is never closed.
    while let Ok(place) = Arc::clone(&room).acquire_owned().await {
        let Ok((stream, _)) = listener.accept().await else {
            // A lack of descriptors, most likely, which lasts.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let shared = shared.clone();
        let answer = service_fn(move |request| answer(request, shared.clone()));
        let connection = http.serve_connection(TokioIo::new(stream), answer);
        tokio::spawn(async move {
            // A browser that goes away is no error.
            let _ = connection.await;
            drop(place);
        });
    }
}

async fn answer(request: Request<Incoming>, shared: Shared) -> Result<Response<Body>, Infallible> {
    if is_foreign(&request, shared.is_local) {
        let error = "only the demo's own page may ask; --page 0.0.0.0:8088 serves other machines";
        return Ok(refuse(StatusCode::FORBIDDEN, error));
    }
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

/// Whether a page of another site asks.
fn is_foreign<B>(request: &Request<B>, is_local: bool) -> bool {
    let header = |name: HeaderName| {
        request.headers().get(name).map(|value| value.to_str().unwrap_or_default())
    };
    let host = header(HOST).unwrap_or_default();
    let is_other_site = header(ORIGIN).is_some_and(|origin| {
        // A front end may speak TLS.
        let site = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        site.is_none_or(|site| !site.eq_ignore_ascii_case(host))
    });
    is_other_site || (is_local && !is_this_machine(host))
}

/// Whether a `Host` names this machine as only its own browsers do.
fn is_this_machine(host: &str) -> bool {
    let uri = host.parse::<hyper::http::uri::Authority>();
    uri.is_ok_and(|authority| {
        let name = authority.host().trim_start_matches('[').trim_end_matches(']');
        let address = name.parse::<std::net::IpAddr>();
        name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|ip| ip.is_loopback())
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_page_itself_may_ask() {
        let is_foreign = |host: &str, origin: Option<&str>, is_local: bool| {
            let mut request = Request::builder().header(HOST, host);
            if let Some(origin) = origin {
                request = request.header(ORIGIN, origin);
            }
            is_foreign(&request.body(()).unwrap(), is_local)
        };
        let here = "127.0.0.1:8088";
        for host in [here, "localhost:8088", "LOCALHOST", "[::1]:8088", "127.0.0.2"] {
            assert!(!is_foreign(host, None, true), "{host}");
            assert!(!is_foreign(host, Some(&format!("http://{host}")), true), "{host}");
        }
        assert!(is_foreign(here, Some("http://evil.example"), true), "another site");
        assert!(is_foreign(here, Some("null"), true), "a page without a site");
        assert!(is_foreign(here, Some("http://127.0.0.1:9000"), true), "another program");
        assert!(is_foreign("evil.example:8088", None, true), "a name made to point here");
        assert!(is_foreign("", None, true));
        assert!(!is_foreign("robot.local:8088", None, false), "served to other machines");
        assert!(!is_foreign("robot.local", Some("https://robot.local"), false), "behind TLS");
        assert!(is_foreign("robot.local:8088", Some("http://evil.example"), false));
    }
}
