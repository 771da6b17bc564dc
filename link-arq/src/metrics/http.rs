// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The web server behind the endpoint: a few readers at once, a moment for each, one request each.

use std::{
    convert::Infallible,
    io,
    net::TcpListener as StdListener,
    sync::Arc,
    time::{Duration, Instant},
};

use http_body_util::Full;
use hyper::{
    body::{Bytes, Incoming},
    header::{HeaderValue, ACCEPT, ALLOW, CONTENT_TYPE},
    server::conn::http1,
    service::service_fn,
    Method, Request, Response, StatusCode,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::{
    net::{TcpListener, TcpStream},
    runtime::Handle,
    sync::Semaphore,
    time::timeout,
};

use super::text::{openmetrics, plain};

/// Where the figures are.
pub(super) const PATH: &str = "/metrics";
/// Readers that are served at once; the next ones wait in the kernel's queue.
const MAX_READERS: usize = 8;
/// How long a reader may take for its request.
const REQUEST_TIME: Duration = Duration::from_secs(5);
/// How long it may take for everything.
const CONNECTION_TIME: Duration = Duration::from_secs(10);
/// The longest request's head, in bytes.
const MAX_HEAD_BYTES: usize = 16 << 10;
/// The figures are taken anew at most this often, however many ask.
const MAX_AGE: Duration = Duration::from_millis(200);
/// How long to wait when no connection can be accepted, for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

const OPENMETRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
/// Prometheus' own format, for who asks for it.
const PROMETHEUS: HeaderValue =
    HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
const PLAIN: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// Serves on `listener`, which does not block, for ever.
pub(super) fn start(listener: StdListener, runtime: &Handle) -> io::Result<()> {
    let _context = runtime.enter();
    let listener = TcpListener::from_std(listener)?;
    runtime.spawn(accept(listener));
    Ok(())
}

async fn accept(listener: TcpListener) {
    let readers = Arc::new(Semaphore::new(MAX_READERS));
    let page = Arc::new(Page::default());
    loop {
        let Ok(place) = readers.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let page = page.clone();
                tokio::spawn(async move {
                    serve(stream, &page).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::debug!(%error, "cannot accept a reader of the statistics");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, page: &Page) {
    let service = service_fn(|request: Request<Incoming>| async move {
        Ok::<_, Infallible>(answer(&request, page))
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIME)
        .max_buf_size(MAX_HEAD_BYTES)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    if let Ok(Err(error)) = timeout(CONNECTION_TIME, connection).await {
        tracing::debug!(%error, "a reader of the statistics");
    }
}

fn answer(request: &Request<Incoming>, page: &Page) -> Response<Full<Bytes>> {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let (status, kind, text) = match request.uri().path() {
        _ if !is_read => {
            (StatusCode::METHOD_NOT_ALLOWED, PLAIN, Bytes::from_static(b"GET or HEAD\n"))
        }
        PATH if wants_plain(request) => {
            (StatusCode::OK, PROMETHEUS, Bytes::from(plain(&page.text())))
        }
        PATH => (StatusCode::OK, OPENMETRICS, Bytes::from(page.text())),
        _ => {
            (StatusCode::NOT_FOUND, PLAIN, Bytes::from_static(b"the statistics are at /metrics\n"))
        }
    };
    let mut response = Response::new(Full::new(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, kind);
    if !is_read {
        headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    response
}

/// Whether the reader names plain text, and not OpenMetrics. Weights are not looked at: who names both can read both.
fn wants_plain(request: &Request<Incoming>) -> bool {
    let accepts = |kind: &str| {
        let values =
            request.headers().get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|range| {
            range.split(';').next().is_some_and(|name| name.trim().eq_ignore_ascii_case(kind))
        })
    };
    accepts("text/plain") && !accepts("application/openmetrics-text")
}

/// The figures as last taken.
#[derive(Debug, Default)]
struct Page(Mutex<Option<(Instant, String)>>);

impl Page {
    fn text(&self) -> String {
        let mut taken = self.0.lock();
        match &*taken {
            Some((at, text)) if at.elapsed() < MAX_AGE => text.clone(),
            Some(_) | None => {
                let text = openmetrics();
                *taken = Some((Instant::now(), text.clone()));
                text
            }
        }
    }
}
