// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! When can a socket be read, and when does it have room again?
//!
//! On Unix each datagram that leaves wakes a runtime that watches for room: one wake-up in vain for each send call. So room is
//! watched for only while the socket is full. An ICMP report is an error of the socket, which wakes no reader: Linux has a
//! readiness of its own for it.

#[cfg(not(unix))]
pub(super) use runtime::Watched;
#[cfg(unix)]
pub(super) use unix::Watched;

#[cfg(unix)]
mod unix {
    use std::{
        future::Future,
        io,
        net::UdpSocket,
        os::fd::{AsFd, OwnedFd},
        pin::Pin,
        sync::Arc,
        task::{ready, Context, Poll},
        time::Duration,
    };

    use parking_lot::Mutex;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    use tokio::io::Ready;
    use tokio::{
        io::{unix::AsyncFd, Interest},
        time::Sleep,
    };

    /// When to look for room, where the system has no descriptor left to watch it with.
    const LOOK_AGAIN: Duration = Duration::from_millis(1);
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const INTEREST: Interest = Interest::READABLE.add(Interest::ERROR);
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const INTEREST: Interest = Interest::READABLE;

    /// A socket that the runtime watches.
    #[derive(Debug)]
    pub(in super::super) struct Watched {
        socket: Arc<AsyncFd<UdpSocket>>,
        full: Mutex<Option<Full>>,
        #[cfg(any(target_os = "linux", target_os = "android"))]
        error: Mutex<Option<Wait>>,
    }

    /// Ends when the socket has an error.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    struct Wait(Pin<Box<dyn Future<Output = ()> + Send>>);

    #[cfg(any(target_os = "linux", target_os = "android"))]
    impl std::fmt::Debug for Wait {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.debug_struct("Wait").finish_non_exhaustive()
        }
    }

    /// How room in a full socket is waited for.
    #[derive(Debug)]
    enum Full {
        /// The same socket once more.
        Watched(AsyncFd<OwnedFd>),
        Asleep(Pin<Box<Sleep>>),
    }

    #[allow(
        deprecated,
        reason = "the newer constructor is unsafe for types that may swap their descriptor; these do not"
    )]
    impl Watched {
        /// Needs a tokio runtime's context.
        pub(in super::super) fn new(socket: UdpSocket) -> io::Result<Self> {
            let socket = Arc::new(AsyncFd::with_interest(socket, INTEREST)?);
            Ok(Self {
                socket,
                full: Mutex::default(),
                #[cfg(any(target_os = "linux", target_os = "android"))]
                error: Mutex::default(),
            })
        }

        pub(in super::super) fn socket(&self) -> &UdpSocket {
            self.socket.get_ref()
        }

        pub(in super::super) fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.socket.poll_read_ready(cx).map_ok(drop)
        }

        /// Ready when the socket may have an error to tell of. The next one makes it ready again.
        #[cfg(any(target_os = "linux", target_os = "android"))]
        pub(in super::super) fn poll_error(&self, cx: &mut Context<'_>) -> Poll<()> {
            let mut error = self.error.lock();
            let Wait(wait) = error.get_or_insert_with(|| {
                let socket = self.socket.clone();
                Wait(Box::pin(async move {
                    match socket.ready(Interest::ERROR).await {
                        Ok(mut ready) => ready.clear_ready_matching(Ready::ERROR),
                        // The runtime shuts down.
                        Err(_) => std::future::pending().await,
                    }
                }))
            });
            ready!(wait.as_mut().poll(cx));
            *error = None;
            Poll::Ready(())
        }

        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        pub(in super::super) fn poll_error(&self, _cx: &mut Context<'_>) -> Poll<()> {
            Poll::Pending
        }

        pub(in super::super) fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            let mut full = self.full.lock();
            let room = match full.get_or_insert_with(|| self.wait_for_room()) {
                Full::Watched(again) => ready!(again.poll_write_ready(cx)).map(drop),
                Full::Asleep(sleep) => {
                    ready!(sleep.as_mut().poll(cx));
                    Ok(())
                }
            };
            *full = None;
            Poll::Ready(room)
        }

        fn wait_for_room(&self) -> Full {
            let again = self.socket().as_fd().try_clone_to_owned();
            match again.and_then(|again| AsyncFd::with_interest(again, Interest::WRITABLE)) {
                Ok(again) => Full::Watched(again),
                Err(error) => {
                    tracing::debug!(%error, "a full socket cannot be watched");
                    Full::Asleep(Box::pin(tokio::time::sleep(LOOK_AGAIN)))
                }
            }
        }

        /// `WouldBlock` also when the runtime knows of nothing to read.
        pub(in super::super) fn try_read<T>(
            &self,
            read: impl FnOnce(&UdpSocket) -> io::Result<T>,
        ) -> io::Result<T> {
            self.socket.try_io(Interest::READABLE, read)
        }

        pub(in super::super) fn try_write<T>(
            &self,
            write: impl FnOnce(&UdpSocket) -> io::Result<T>,
        ) -> io::Result<T> {
            write(self.socket())
        }
    }
}

#[cfg(not(unix))]
mod runtime {
    use std::{
        io,
        task::{Context, Poll},
    };

    use tokio::{io::Interest, net::UdpSocket};

    /// A socket that the runtime watches.
    #[derive(Debug)]
    pub(in super::super) struct Watched(UdpSocket);

    impl Watched {
        /// Needs a tokio runtime's context.
        pub(in super::super) fn new(socket: std::net::UdpSocket) -> io::Result<Self> {
            UdpSocket::from_std(socket).map(Self)
        }

        pub(in super::super) fn socket(&self) -> &UdpSocket {
            &self.0
        }

        pub(in super::super) fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.0.poll_recv_ready(cx)
        }

        pub(in super::super) fn poll_error(&self, _cx: &mut Context<'_>) -> Poll<()> {
            Poll::Pending
        }

        pub(in super::super) fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.0.poll_send_ready(cx)
        }

        pub(in super::super) fn try_read<T>(
            &self,
            read: impl FnOnce(&UdpSocket) -> io::Result<T>,
        ) -> io::Result<T> {
            self.0.try_io(Interest::READABLE, || read(&self.0))
        }

        pub(in super::super) fn try_write<T>(
            &self,
            write: impl FnOnce(&UdpSocket) -> io::Result<T>,
        ) -> io::Result<T> {
            self.0.try_io(Interest::WRITABLE, || write(&self.0))
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::{future::poll_fn, io, net::UdpSocket};

    use super::*;

    #[tokio::test]
    async fn a_socket_with_room_is_ready_each_time_and_one_with_news_once_it_has_some() {
        let (socket, peer) =
            (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        socket.set_nonblocking(true).unwrap();
        peer.set_nonblocking(true).unwrap();
        socket.connect(peer.local_addr().unwrap()).unwrap();
        peer.connect(socket.local_addr().unwrap()).unwrap();
        let watched = Watched::new(socket).unwrap();
        for _ in 0..2 {
            poll_fn(|cx| watched.poll_writable(cx)).await.unwrap();
        }
        watched.try_write(|socket| socket.send(b"out")).unwrap();
        let nothing = watched.try_read(|socket| socket.recv(&mut [0; 8])).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        peer.send(b"in").unwrap();
        poll_fn(|cx| watched.poll_readable(cx)).await.unwrap();
        let mut buffer = [0; 8];
        assert_eq!(watched.try_read(|socket| socket.recv(&mut buffer)).unwrap(), 2);
    }
}
