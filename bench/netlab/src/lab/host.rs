// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! What can be asked of one host: a command that runs in it, a socket of it, its addresses and its kernel settings.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Command;

use nix::sys::socket::{connect, listen, Backlog, SockaddrStorage};

use super::namespace::{Namespace, SocketKind};
use super::offload::disable_segmentation;
use super::tool::run;
use super::{LabError, PacketCount};

/// The interface that every host has.
pub(super) const FIRST: &str = "eth0";
/// That of a second radio.
pub(super) const SECOND: &str = "eth1";

/// One host of a [`Lab`](super::Lab) or of an emulated network.
pub struct Host {
    pub(super) index: u8,
    /// The port of its second interface.
    pub(super) second: Option<u8>,
    pub(super) namespace: Namespace,
}

impl Host {
    /// The host's IPv4 address.
    pub fn ipv4(&self) -> Ipv4Addr {
        ipv4(self.index)
    }

    /// The host's IPv6 address.
    pub fn ipv6(&self) -> Ipv6Addr {
        ipv6(self.index)
    }

    /// A command that will run in this host. Spawn it from a thread that outlives it: the kernel ends it with
    /// the thread, so that nothing is left behind by a crash.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        self.namespace.command(program)
    }

    /// Runs a program in this host to its end; its output.
    ///
    /// # Errors
    /// When it cannot be started or fails: in its own words, and with the package that has it where it is missing.
    pub fn run(&self, program: &str, arguments: &[&str]) -> Result<String, LabError> {
        run(self.command(program).args(arguments), "")
    }

    /// The process whose namespaces are the host's, for `nsenter -t PID -n` by hand.
    pub fn pid(&self) -> u32 {
        self.namespace.pid()
    }

    /// Drops each packet that enters this host with this probability (0 to 1), from now on; resets the counts. For a
    /// [`Lab`](super::Lab): a network's emulator has a loss of its own.
    ///
    /// # Errors
    /// When it is no probability, or the firewall refuses.
    pub fn set_loss(&self, probability: f64) -> Result<(), LabError> {
        if !(0.0..=1.0).contains(&probability) {
            return Err(LabError::Probability(probability));
        }
        let rules = format!(
            "*raw\n-A PREROUTING -i eth0\n\
             -A PREROUTING -i eth0 -m statistic --mode random --probability {probability:.6} -j DROP\nCOMMIT\n"
        );
        for restore in ["iptables-restore", "ip6tables-restore"] {
            run(self.namespace.command(restore).arg("-w"), &rules)?;
        }
        Ok(())
    }

    /// What the loss rules have seen, IPv4 and IPv6 together.
    ///
    /// # Errors
    /// When the firewall cannot be read.
    pub fn packet_count(&self) -> Result<PacketCount, LabError> {
        let mut count = PacketCount::default();
        for save in ["iptables-save", "ip6tables-save"] {
            let table = run(self.namespace.command(save).args(["-c", "-t", "raw"]), "")?;
            table.lines().for_each(|line| count.read(line));
        }
        Ok(count)
    }

    /// A UDP socket of this host, bound to this address and port, usable from any process.
    ///
    /// # Errors
    /// When it cannot be made or bound.
    pub fn udp_socket(&self, address: SocketAddr) -> Result<UdpSocket, LabError> {
        let socket = self.socket(address, libc::SOCK_DGRAM)?;
        bind(&socket, address)?;
        Ok(UdpSocket::from(socket))
    }

    /// A TCP socket of this host that listens at this address and port, usable from any process.
    ///
    /// # Errors
    /// When it cannot be made or bound.
    pub fn tcp_listener(&self, address: SocketAddr) -> Result<TcpListener, LabError> {
        let socket = self.socket(address, libc::SOCK_STREAM)?;
        bind(&socket, address)?;
        listen(&socket, Backlog::MAXCONN).map_err(|e| LabError::Socket(e.into()))?;
        Ok(TcpListener::from(socket))
    }

    /// A TCP connection from this host, usable from any process.
    ///
    /// # Errors
    /// When it cannot be made, or nobody listens there.
    pub fn tcp_connect(&self, address: SocketAddr) -> Result<TcpStream, LabError> {
        let socket = self.socket(address, libc::SOCK_STREAM)?;
        connect(socket.as_raw_fd(), &SockaddrStorage::from(address))
            .map_err(|e| LabError::Socket(e.into()))?;
        Ok(TcpStream::from(socket))
    }

    /// The port of its second interface, if it has one.
    pub(crate) fn second_port(&self) -> Option<usize> {
        self.second.map(usize::from)
    }

    /// Packets that this interface of the host could not hand over since it exists.
    pub(crate) fn interface_drops(&self, interface: &str) -> u64 {
        let table = self.statistics("dev");
        let of_interface = |line: &'_ str| -> Option<String> {
            Some(line.trim().strip_prefix(interface)?.strip_prefix(':')?.to_owned())
        };
        let line = table.lines().find_map(of_interface);
        let line = line.as_deref();
        let field = |index| line.and_then(|l| l.split_whitespace().nth(index)?.parse::<u64>().ok());
        // Received, then sent: bytes packets errs drop fifo frame compressed multicast.
        field(3).unwrap_or(0) + field(11).unwrap_or(0)
    }

    /// Datagrams that found the buffer of their own socket full since the host exists: dropped by the receiver, not by
    /// the network.
    pub fn udp_overflows(&self) -> u64 {
        let (v4, v6) = (self.statistics("snmp"), self.statistics("snmp6"));
        let mut lines = v4.lines().filter_map(|line| line.strip_prefix("Udp: "));
        let (names, values) = (lines.next().unwrap_or(""), lines.next().unwrap_or(""));
        let v4 = names.split(' ').zip(values.split(' ')).find(|(name, _)| *name == "RcvbufErrors");
        let v6 = v6.lines().find_map(|line| line.strip_prefix("Udp6RcvbufErrors"));
        let number = |text: Option<&str>| text.and_then(|t| t.trim().parse().ok()).unwrap_or(0u64);
        number(v4.map(|(_, value)| value)) + number(v6)
    }

    /// A file of the host's under `/proc/net`.
    fn statistics(&self, name: &str) -> String {
        std::fs::read_to_string(format!("/proc/{}/net/{name}", self.pid())).unwrap_or_default()
    }

    /// Makes the kernel cut every packet to wire size before it leaves this host.
    pub(crate) fn disable_segmentation(&self) -> Result<(), LabError> {
        std::iter::once(FIRST)
            .chain(self.second.map(|_| SECOND))
            .try_for_each(|interface| disable_segmentation(&self.namespace, interface))
            .map_err(LabError::Offload)
    }

    fn socket(&self, address: SocketAddr, kind: libc::c_int) -> Result<OwnedFd, LabError> {
        let domain = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        let kind = SocketKind { domain, kind: kind | libc::SOCK_CLOEXEC, protocol: 0 };
        self.namespace.socket(kind).map_err(LabError::Socket)
    }

    /// Sets a kernel parameter of this host, for example `net.ipv4.tcp_sack`.
    ///
    /// # Errors
    /// When the kernel has none of this name for a namespace, or refuses the value.
    pub fn sysctl(&self, name: &str, value: &str) -> Result<(), LabError> {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        self.run("sh", &["-c", "printf %s \"$2\" > \"$1\"", "sysctl", &path, value]).map(drop)
    }

    /// Chooses the congestion control of the host's TCP connections (`cubic`, `bbr`, `reno`).
    ///
    /// By route, because the sysctl of a namespace refuses what the machine's administrator has not allowed.
    ///
    /// # Errors
    /// When the kernel does not have it; the error names its module.
    pub fn set_tcp_congestion_control(&self, name: &str) -> Result<(), LabError> {
        let (v4, v6) = (self.ipv4(), self.ipv6());
        let batch = format!(
            "route replace 10.77.0.0/24 dev eth0 src {v4} congctl {name}\n\
             route replace fd77::/64 dev eth0 src {v6} metric 1 congctl {name}\n"
        );
        self.batch(&batch).map_err(|error| match error {
            LabError::Command { command, reason } => {
                let hint =
                    format!("is the kernel's module there (`modprobe tcp_{name}`, as root)?");
                LabError::Command { command, reason: format!("{}; {hint}", reason.trim_end()) }
            }
            other => other,
        })
    }

    /// Brings its interfaces up, with fixed addresses and neighbours at all `ports`.
    pub(super) fn configure(&self, ports: usize) -> Result<(), LabError> {
        let mut batch = String::from("link set dev lo up\n");
        self.configure_interface(&mut batch, FIRST, self.index, ports);
        if let Some(second) = self.second {
            self.configure_interface(&mut batch, SECOND, second, ports);
            // Answers come in by the radio that the question left by, and the best route leads out by the first.
            for of in ["all", FIRST, SECOND] {
                self.sysctl(&format!("net.ipv4.conf.{of}.rp_filter"), "0")?;
            }
        }
        self.batch(&batch)
    }

    fn configure_interface(&self, batch: &mut String, interface: &str, port: u8, ports: usize) {
        // The first interface's routes win.
        let metric = if port == self.index { "" } else { "metric 512" };
        let _ = writeln!(batch, "link set dev {interface} addrgenmode none up");
        let _ = writeln!(batch, "addr add {}/24 dev {interface} {metric}", ipv4(port));
        let _ = writeln!(batch, "addr add {}/64 dev {interface} nodad {metric}", ipv6(port));
        let own = [Some(self.index), self.second];
        for peer in (0..=u8::MAX).take(ports).filter(|peer| !own.contains(&Some(*peer))) {
            for address in [ipv4(peer).to_string(), ipv6(peer).to_string()] {
                let lladdr = mac(peer);
                let _ = writeln!(
                    batch,
                    "neigh replace {address} lladdr {lladdr} nud permanent dev {interface}"
                );
            }
        }
    }

    fn batch(&self, batch: &str) -> Result<(), LabError> {
        run(self.namespace.command("ip").args(["-batch", "-"]), batch).map(drop)
    }
}

fn bind(socket: &OwnedFd, address: SocketAddr) -> Result<(), LabError> {
    nix::sys::socket::bind(socket.as_raw_fd(), &SockaddrStorage::from(address))
        .map_err(|e| LabError::Socket(e.into()))
}

fn ipv4(host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, host + 1)
}

fn ipv6(host: u8) -> Ipv6Addr {
    Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, u16::from(host) + 1)
}

pub(super) fn mac(host: u8) -> String {
    format!("02:77:00:00:00:{:02x}", host + 1)
}
