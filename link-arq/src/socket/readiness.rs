// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! Who is woken when a socket can be read, or has room again?
//!
//! On Unix a runtime that waits for room to write is woken by each datagram that leaves: a wake-up for
//! each send call, for nothing. So room is asked for only while the socket is full.

#[cfg(not(unix))]
pub(super) use runtime::Watched;
#[cfg(unix)]
pub(super) use unix::Watched;

#[cfg(unix)]
mod unix {
    use std::{
        io,
        net::UdpSocket,
        os::fd::{AsFd, OwnedFd},
        sync::{Mutex, PoisonError},
        task::{ready, Context, Poll},
    };

    use tokio::io::{unix::AsyncFd, Interest};

    /// A socket that the runtime watches.
    #[derive(Debug)]
    pub(in super::super) struct Watched {
        socket: AsyncFd<UdpSocket>,
        /// The same socket once more, while it is full.
        full: Mutex<Option<AsyncFd<OwnedFd>>>,
    }

    #[allow(
        deprecated,
        reason = "the newer constructor is unsafe for types that may swap their descriptor; these do not"
    )]
    impl Watched {
        /// Needs a tokio runtime's context.
        pub(in super::super) fn new(socket: UdpSocket) -> io::Result<Self> {
            let socket = AsyncFd::with_interest(socket, Interest::READABLE)?;
            Ok(Self { socket, full: Mutex::default() })
        }

        pub(in super::super) fn socket(&self) -> &UdpSocket {
            self.socket.get_ref()
        }

        pub(in super::super) fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.socket.poll_read_ready(cx).map_ok(drop)
        }

        pub(in super::super) fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            let mut full = self.full.lock().unwrap_or_else(PoisonError::into_inner);
            let watched = match &mut *full {
                Some(watched) => watched,
                none => {
                    let again = self.socket().as_fd().try_clone_to_owned()?;
                    none.insert(AsyncFd::with_interest(again, Interest::WRITABLE)?)
                }
            };
            let room = ready!(watched.poll_write_ready(cx)).map(drop);
            *full = None;
            Poll::Ready(room)
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
    async fn a_full_socket_is_waited_for_and_watched_no_longer_than_that() {
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
